//! The transport against peers on real loopback sockets.
//!
//! The peers are our own and are scripted by each test down to the single frame, so that a test can
//! show the transport what no well-behaved server would do. They share no code with the transport.
//!
//! A module of tests takes its clients from `super::factory`, so that the same tests are held against
//! several kinds of client: a kind is a module here with that function, the modules of tests it is held
//! to, and the macro `own_client_only`, which keeps or drops the tests that only our own client can pass.

#![allow(clippy::duplicate_mod, reason = "several kinds of client are held to the same tests")]

/// The driver's own client.
#[path = "."]
mod net {
    use std::sync::Arc;

    use sidereal_driver::transport::{HttpClientFactory, HttpProtocol, NetHttpClientFactory};

    macro_rules! own_client_only {
        ($why:literal; $($test:item)*) => { $($test)* };
    }

    fn factory() -> Arc<dyn HttpClientFactory> {
        Arc::new(NetHttpClientFactory::new())
    }

    /// The protocol as the diagnostics report it.
    fn told(protocol: HttpProtocol) -> Option<HttpProtocol> {
        Some(protocol)
    }

    mod adaptive;
    mod answers;
    mod deadlines;
    mod emulator;
    mod goaway;
    mod growth;
    mod health;
    mod proxy;
    mod retries;
    mod secrets;
    mod sharding;
    mod stress;
    mod tls;
}

/// Clients of the Azure SDK.
///
/// Three modules are not held against them. Such a client follows the versions of HTTP by itself and does
/// not say what it speaks (`adaptive`), has proxies of its own (`proxy`), and has its own trust, with
/// errors that do not tell a certificate from a connection (`tls`). `sdk_specific` has what holds
/// instead of these and of the single tests that are dropped.
#[cfg(feature = "azure-core")]
#[allow(
    dead_code,
    unused_imports,
    reason = "the tests that are dropped leave their helpers behind"
)]
#[path = "."]
mod azure_core {
    use std::sync::Arc;

    use sidereal_driver::transport::{HttpClientFactory, HttpProtocol};

    use sidereal_testing::sdk::SdkClients;

    macro_rules! own_client_only {
        ($why:literal; $($test:item)*) => {};
    }

    fn factory() -> Arc<dyn HttpClientFactory> {
        Arc::new(SdkClients)
    }

    /// The protocol as the diagnostics report it.
    fn told(_: HttpProtocol) -> Option<HttpProtocol> {
        None
    }

    mod answers;
    mod deadlines;
    mod emulator;
    mod goaway;
    mod growth;
    mod health;
    mod retries;
    mod sdk_specific;
    mod secrets;
    mod sharding;
    mod stress;
}

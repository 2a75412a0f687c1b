//! The transport against peers on real loopback sockets.
//!
//! The peers are our own and are scripted by each test down to the single frame, so that a test can
//! show the transport what no well-behaved server would do. They share no code with the transport.
//!
//! A module of tests takes its clients from `super::factory`, so that the same tests can be held
//! against another factory by including the modules once more beside another function of that name.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::disallowed_types, reason = "what a test shares may be locked")]

mod fixture;
mod support;
#[path = "support/tests/mod.rs"]
mod support_tests;

/// The driver's own client.
#[path = "."]
mod net {
    use std::sync::Arc;

    use sidereal_driver::transport::{HttpClientFactory, NetHttpClientFactory};

    fn factory() -> Arc<dyn HttpClientFactory> {
        Arc::new(NetHttpClientFactory::new())
    }

    mod adaptive;
    mod answers;
    mod deadlines;
    mod emulator;
    mod goaway;
    mod health;
    mod proxy;
    mod retries;
    mod secrets;
    mod sharding;
    mod storms;
    mod tls;
}

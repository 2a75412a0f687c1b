//! Secrets: an account key, its signatures, tokens and a proxy's password appear in no output.
//!
//! Output is everything that is logged at any level by anybody in the process, every error with its
//! causes, and the diagnostics in all their forms. The subscriber is the thread's own, so each test runs
//! on one thread.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sidereal_driver::transport::internals::TransportOutcome;
use sidereal_driver::transport::{
    AccessToken, AccessTokenFuture, AccessTokenSource, Credential, HttpVersions, ProxyConfig,
    TokenRequest,
};
use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

use super::factory;
use sidereal_testing::fixture::{Client, KEY, Setup};
use sidereal_testing::peers::{
    Answer, Certificates, ConnectProxy, Peer, Reply, ServedPeer, Speaks,
};

const TOKEN: &str = "entra-token-hunter2";
const PASSWORD: &str = "proxy-password-hunter2";

/// Everything that was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn listen() -> (Self, DefaultGuard) {
        let log = Self::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::TRACE)
            .with_writer(log.clone())
            .finish();
        (log, tracing::subscriber::set_default(subscriber))
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// Notes the `authorization` of every request and answers by its path.
fn noting_peer(peer: Peer) -> (ServedPeer, Arc<Mutex<Vec<String>>>) {
    let noted = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&noted);
    let peer = peer.serve(move |request| {
        notes.lock().unwrap().extend(request.header("authorization").map(str::to_owned));
        match request.path.as_str() {
            "/ok" => Reply::ok("{}"),
            "/forbidden" => Answer::new(403, r#"{"message":"no"}"#).into(),
            "/throttled" => Answer::new(429, "").header("x-ms-retry-after-ms", "1").into(),
            "/lost" => Reply::Abort,
            _ => Reply::Hang,
        }
    });
    (peer, noted)
}

/// Takes requests to every kind of end, and returns whatever they and the client show.
async fn all_outputs(client: &Client, url: &str) -> String {
    let mut shown = format!("{:?} {:?}", client.transport, client.pipeline);
    for path in ["/ok", "/forbidden", "/throttled", "/lost", "/never"] {
        let mut request = client.read(url, path);
        request.deadline = Some(std::time::Instant::now() + Duration::from_millis(300));
        shown += &format!("{request:?}");
        let executed = client.execute(request).await;
        shown += &format!("{:?}", executed.outcome);
        if let TransportOutcome::TransportError { error, .. } = &executed.outcome {
            shown += &format!("{error} {error:?} {}", error.chain());
        }
        let diagnostics = &executed.diagnostics;
        shown += &format!("{diagnostics} {diagnostics:?} {}", diagnostics.to_json());
        shown += &format!("{:?} {:?}", client.transport, client.transport.snapshots());
    }
    shown
}

/// Asserts that no secret is in a text, neither plain nor as it is written in a header.
fn assert_silent_about(secrets: &[String], shown: &str) {
    for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
        let found = shown.find(secret.as_str());
        let around = found.map(|at| shown[at.saturating_sub(200)..].chars().take(400));
        assert!(found.is_none(), "a secret is shown: {}", around.unwrap().collect::<String>());
    }
}

/// The signature of an authorization header, as it is sent and as it was before.
fn signature_of(header: &str) -> [String; 2] {
    let encoded = header.rsplit_once("sig%3D").or_else(|| header.rsplit_once("sig%3d"));
    let encoded = encoded.map_or(header, |(_, signature)| signature).to_owned();
    let plain = encoded.replace("%2B", "+").replace("%2F", "/").replace("%3D", "=");
    let plain = plain.replace("%2b", "+").replace("%2f", "/").replace("%3d", "=");
    [encoded, plain]
}

#[tokio::test]
async fn neither_key_nor_signature_is_shown() {
    let (log, _listening) = Log::listen();
    for (speaks, versions) in [
        (Speaks::Http2, HttpVersions::Http2PriorKnowledge),
        (Speaks::Http1, HttpVersions::Negotiate),
    ] {
        let (peer, noted) = noting_peer(Peer::cleartext(speaks));
        let client = Setup::over(factory()).versions(versions).start();
        let shown = all_outputs(&client, &peer.url()).await + &log.text();
        let mut secrets = vec![KEY.to_owned()];
        secrets.extend(noted.lock().unwrap().iter().flat_map(|header| signature_of(header)));
        assert!(secrets.len() > 8, "the peer got signatures");
        assert_silent_about(&secrets, &shown);
    }
    assert!(log.text().contains("h2"), "the log of the libraries is listened to");
}

struct OneToken;

impl AccessTokenSource for OneToken {
    fn fetch<'a>(&'a self, _: &'a TokenRequest) -> AccessTokenFuture<'a> {
        Box::pin(async {
            let expires_on = SystemTime::now() + Duration::from_secs(3600);
            Ok(AccessToken { secret: TOKEN.into(), expires_on })
        })
    }
}

#[tokio::test]
async fn no_token_is_shown() {
    let (log, _listening) = Log::listen();
    let (peer, noted) = noting_peer(Peer::cleartext(Speaks::Http2));
    for credential in [
        Credential::Entra(Arc::new(OneToken)),
        Credential::resource_token(&format!("type=resource&ver=1&sig={TOKEN}")).unwrap(),
    ] {
        let client = Setup::over(factory()).with(|setup| setup.credential = credential).start();
        let shown = all_outputs(&client, &peer.url()).await + &log.text();
        assert!(noted.lock().unwrap().iter().all(|header| header.contains(TOKEN)));
        assert_silent_about(&[TOKEN.to_owned()], &shown);
    }
}

own_client_only! {
    "how the client of an SDK connects is settled where it is made";

    #[tokio::test]
    async fn no_password_of_a_proxy_is_shown() {
        let (log, _listening) = Log::listen();
        let certificates = Certificates::new();
        let (peer, _) = noting_peer(Peer::tls(Speaks::Both, &certificates.loopback()));
        for expected in [PASSWORD, "another"] {
            let proxy = ConnectProxy::with_credentials("me", expected).await;
            let address = format!("http://me:{PASSWORD}@{}", proxy.address());
            let setup = Setup::over(factory()).trusting(&certificates).with(|setup| {
                setup.client.proxy = Some(ProxyConfig::parse(&address).unwrap());
            });
            let config = format!("{:?}", setup.client);
            let client = setup.start();
            let shown = all_outputs(&client, &peer.url()).await + &config + &log.text();
            let encoded = STANDARD.encode(format!("me:{PASSWORD}"));
            assert_silent_about(&[PASSWORD.to_owned(), encoded], &shown);
            assert!(!proxy.seen().requests.is_empty());
        }
    }
}

//! Certificates: who is trusted, and what is said of who is not.

use std::time::Duration;

use sidereal_driver::options::CosmosEnvironmentOptions;
use sidereal_driver::transport::{Credential, HttpErrorKind, RequestSentStatus};
use sidereal_driver::{CosmosDriver, CosmosDriverRuntime, CosmosOperation, ErrorKind};
use sidereal_protocol::{AccountKey, OperationType, PartitionKey, RequestPath, ResourceLink};

use super::factory;
use sidereal_testing::fixture::{Executed, KEY, Setup, joined, numbered};
use sidereal_testing::peers::{Certificates, Identity, Peer, Reply, ServedPeer, Speaks};

fn peer_as(identity: &Identity) -> ServedPeer {
    Peer::tls(Speaks::Both, identity).serve(|_| Reply::ok("answered"))
}

/// Every cause in one line, and that the request was not sent.
fn refusal(executed: &Executed) -> String {
    let error = executed.error();
    assert_eq!(error.kind(), HttpErrorKind::Tls);
    assert_eq!(error.request_sent(), RequestSentStatus::NotSent);
    assert_eq!(executed.diagnostics.attempts().len(), 1, "another handshake would not help");
    error.chain()
}

#[tokio::test]
async fn a_root_that_was_given_is_trusted() {
    let (one, other) = (Certificates::new(), Certificates::new());
    let client = Setup::over(factory()).trusting(&one).trusting(&other).start();
    for certificates in [one, other] {
        let peer = peer_as(&certificates.loopback());
        assert_eq!(client.execute(client.read(&peer.url(), "/")).await.body(), "answered");
    }
}

#[tokio::test]
async fn a_certificate_of_an_unknown_root_is_refused() {
    let certificates = Certificates::new();
    let peer = peer_as(&certificates.loopback_of_another_root());
    let client = Setup::over(factory()).trusting(&certificates).start();
    let text = refusal(&client.execute(client.read(&peer.url(), "/")).await);
    assert!(text.contains("was refused") && text.contains("trust its root"), "{text}");
    let seen = peer.until(|seen| seen.failed_handshakes == 1).await;
    assert_eq!((seen.accepted(), seen.arrivals.len()), (1, 0));
}

/// The advice was to trust the root, which would have changed nothing.
#[tokio::test]
async fn a_certificate_for_another_name_is_refused() {
    let certificates = Certificates::new();
    let peer = peer_as(&certificates.identity_for(&["contoso.example"]));
    let client = Setup::over(factory()).trusting(&certificates).start();
    let text = refusal(&client.execute(client.read(&peer.url(), "/")).await);
    assert!(text.contains("for another name") && text.contains("localhost"), "{text}");
    let seen = peer.until(|seen| seen.failed_handshakes == 1).await;
    assert_eq!((seen.accepted(), seen.arrivals.len()), (1, 0));
}

#[tokio::test]
async fn many_requests_to_a_peer_that_is_not_trusted_make_few_handshakes() {
    let certificates = Certificates::new();
    let peer = peer_as(&certificates.loopback_of_another_root());
    let client = Setup::over(factory()).trusting(&certificates).shards(4, 20).start();
    let reads = numbered(80).map(|path| client.read(&peer.url(), &path));
    let tasks: Vec<_> = reads.map(|read| tokio::spawn(client.execute(read))).collect();
    for task in tasks {
        refusal(&joined(task).await);
    }
    client.until(&peer.url(), |pool| pool.shards.is_empty()).await;
    assert!(peer.seen().accepted() <= 4, "{}", peer.seen().accepted());
}

/// A load balancer that was replaced cut handshakes off, and the request failed for good.
#[tokio::test]
async fn a_handshake_that_is_cut_off_is_tried_again() {
    let certificates = Certificates::new();
    let peer = peer_as(&certificates.loopback());
    let front = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}", front.local_addr().unwrap().port());
    let behind = peer.address();
    tokio::spawn(async move {
        drop(front.accept().await.unwrap());
        let (mut client, _) = front.accept().await.unwrap();
        let mut server = tokio::net::TcpStream::connect(behind).await.unwrap();
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    });
    let client = Setup::over(factory()).trusting(&certificates).start();
    let executed = client.execute(client.read(&url, "/")).await;
    assert_eq!(executed.body(), "answered");
    assert_eq!(executed.diagnostics.attempts().len(), 2);
}

/// The operation was tried in one region after another, each was marked as down, and the error said "no answer
/// came".
#[tokio::test]
async fn a_refused_certificate_is_told_at_once_with_what_to_do() {
    let certificates = Certificates::new();
    let peer = peer_as(&certificates.loopback_of_another_root());
    let runtime = CosmosDriverRuntime::builder()
        .environment(CosmosEnvironmentOptions::default())
        .http_client_factory(factory())
        .trust_root(certificates.root_der())
        .build()
        .unwrap();
    let credential = Credential::Key(AccountKey::from_base64(KEY).unwrap());
    let endpoint = peer.url().parse().unwrap();
    let driver = CosmosDriver::new(runtime, endpoint, credential, Default::default()).unwrap();
    let item = ResourceLink::container("store", "orders").unwrap().item("1").unwrap();
    let read = CosmosOperation::new(OperationType::Read, RequestPath::of(item))
        .with_partition_key(PartitionKey::from("contoso"));
    let error = driver.execute_operation(&read, &Default::default()).await.unwrap_err();
    let attempts = error.diagnostics().unwrap().attempts();
    assert_eq!((error.kind(), attempts.len()), (ErrorKind::Unavailable, 1), "{error:?}");
    assert!(error.to_string().contains("trust its root"), "{error}");
}

#[tokio::test]
async fn any_certificate_is_accepted_if_the_user_says_so() {
    let certificates = Certificates::new();
    let setup = Setup::over(factory()).trusting(&certificates);
    let client = setup.with(|setup| setup.client.accept_invalid_certs = true).start();
    let wrong_name = peer_as(&certificates.identity_for(&["contoso.example"]));
    let unknown_root = peer_as(&certificates.loopback_of_another_root());
    for peer in [wrong_name, unknown_root] {
        assert_eq!(client.execute(client.read(&peer.url(), "/")).await.body(), "answered");
    }
}

#[tokio::test]
async fn a_peer_that_speaks_no_tls_is_no_connection() {
    let peer = Peer::cleartext(Speaks::Http1).serve(|_| Reply::ok(""));
    let url = peer.url().replace("http:", "https:");
    let setup = Setup::over(factory()).trusting(&Certificates::new());
    let client = setup.with(|it| it.client.connect_timeout = Duration::from_secs(1)).start();
    let executed = client.execute(client.read(&url, "/")).await;
    assert_eq!(executed.error().request_sent(), RequestSentStatus::NotSent);
}

//! Tests of clients of the Azure SDK alone, in place of those that only our own client can pass.

use std::net::{Ipv4Addr, TcpListener};

use sidereal_driver::transport::internals::{PoolKind, PoolSnapshot};
use sidereal_driver::transport::{HttpErrorKind, HttpVersions, RequestSentStatus};

use super::factory;
use sidereal_testing::fixture::{Client, Executed, Setup, inflight, joined, numbered};
use sidereal_testing::peers::{
    Certificates, Identity, Peer, PeerSettings, Protocol, Reply, ServedPeer, Speaks,
};

/// The kind of a failure after which the request may have been sent.
fn maybe_sent(executed: &Executed) -> HttpErrorKind {
    assert_eq!(executed.error().request_sent(), RequestSentStatus::MaybeSent);
    executed.error().kind()
}

async fn read(client: &Client, peer: &ServedPeer) -> Executed {
    client.execute(client.read(&peer.url(), "/")).await
}

async fn write(client: &Client, url: &str) -> Executed {
    client.execute(client.write(url, "/", "{}")).await
}

/// Has a write answered, and says what the peer heard it in.
async fn spoken(client: &Client, peer: &ServedPeer) -> Protocol {
    assert_eq!(write(client, &peer.url()).await.body(), "answered");
    peer.seen().connections[0].protocol.unwrap()
}

#[tokio::test]
async fn alpn_decides_the_version_for_each_peer() {
    let certificates = Certificates::new();
    for (speaks, protocol) in [
        (Speaks::Both, Protocol::Http2),
        (Speaks::Http2, Protocol::Http2),
        (Speaks::Http1, Protocol::Http1),
        (Speaks::Http1Unannounced, Protocol::Http1),
    ] {
        let peer = Peer::tls(speaks, &certificates.loopback()).serve(|_| Reply::ok("answered"));
        let client = Setup::over(factory()).trusting(&certificates).start();
        assert_eq!(spoken(&client, &peer).await, protocol, "{speaks:?}");
        assert_eq!(client.snapshot(&peer.url()).kind, PoolKind::Sharded);
        assert_eq!((peer.seen().accepted(), peer.seen().arrivals.len()), (1, 1), "{speaks:?}");
    }
}

#[tokio::test]
async fn cleartext_uses_the_version_that_the_client_was_made_for() {
    for (versions, protocol) in [
        (HttpVersions::Negotiate, Protocol::Http1),
        (HttpVersions::Http1Only, Protocol::Http1),
        (HttpVersions::Http2PriorKnowledge, Protocol::Http2),
    ] {
        let peer = Peer::cleartext(Speaks::Both).serve(|_| Reply::ok("answered"));
        let client = Setup::over(factory()).versions(versions).start();
        assert_eq!(spoken(&client, &peer).await, protocol, "{versions:?}");
    }
}

#[tokio::test]
async fn an_http_1_peer_gets_as_many_requests_as_shards_have_streams() {
    let peer = Peer::cleartext(Speaks::Http1).serve(|_| Reply::hold());
    let setup = Setup::over(factory()).shards(2, 4).versions(HttpVersions::Negotiate);
    let client = setup.start();
    let tasks = client.begin(&peer.url(), numbered(20));
    peer.until(|seen| seen.held == 8).await;
    let full = |pool: &PoolSnapshot| inflight(pool) == 8 && pool.queued == 12;
    client.until(&peer.url(), full).await;
    peer.release_all();
    for task in tasks {
        assert_eq!(joined(task).await.outcome.unwrap().status(), 200);
    }
    assert_eq!((peer.seen().most_streams, peer.seen().arrivals.len()), (8, 20));
    client.until_idle(&peer.url()).await;
}

/// The shards do not know the limit. The client does, and lets what is above it wait inside.
#[tokio::test]
async fn the_stream_limit_of_a_peer_is_kept_below_the_shards() {
    let settings = PeerSettings::new().max_concurrent_streams(5);
    let peer = Peer::cleartext(Speaks::Http2).with_settings(settings);
    let peer = peer.serve(|request| match request.path.as_str() {
        "/ready" => Reply::ok(""),
        _ => Reply::hold(),
    });
    let client = Setup::over(factory()).shards(1, 20).start();
    client.get_ok(&peer.url(), "/ready").await;
    let tasks = client.begin(&peer.url(), numbered(20));
    client.until_inflight(&peer.url(), 20).await;
    peer.until(|seen| seen.held == 5).await;
    peer.release_all();
    for task in tasks {
        assert_eq!(joined(task).await.outcome.unwrap().status(), 200);
    }
    assert_eq!((peer.seen().most_streams, peer.seen().accepted()), (5, 1));
}

#[tokio::test]
async fn a_certificate_that_is_not_trusted_lets_nothing_through() {
    let certificates = Certificates::new();
    let wrong_name = certificates.identity_for(&["contoso.example"]);
    let identities: [Identity; 2] = [wrong_name, certificates.loopback_of_another_root()];
    for identity in identities {
        let peer = Peer::tls(Speaks::Both, &identity).serve(|_| Reply::ok("answered"));
        let client = Setup::over(factory()).trusting(&certificates).start();
        let (read, write) = (read(&client, &peer).await, write(&client, &peer.url()).await);
        assert_eq!(maybe_sent(&read), HttpErrorKind::Connect);
        assert_eq!(maybe_sent(&write), HttpErrorKind::Connect);
        assert!(write.error().chain().contains("invalid peer certificate"), "{:?}", write.error());
        let seen = peer.until(|seen| seen.failed_handshakes > 0).await;
        assert!(seen.arrivals.is_empty());
    }
}

#[tokio::test]
async fn a_write_to_a_closed_port_is_not_repeated_as_maybe_sent() {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let client = Setup::over(factory()).start();
    let executed = write(&client, &format!("http://127.0.0.1:{port}")).await;
    assert_eq!(maybe_sent(&executed), HttpErrorKind::Connect);
    assert_eq!(executed.diagnostics.attempts().len(), 1);
}

#[tokio::test]
async fn a_write_is_lost_with_its_connection_and_its_shard_makes_another() {
    for (speaks, versions) in [
        (Speaks::Http2, HttpVersions::Http2PriorKnowledge),
        (Speaks::Http1, HttpVersions::Negotiate),
    ] {
        let peer = Peer::cleartext(speaks).serve(|request| match request.ordinal {
            0 => Reply::Abort,
            _ => Reply::ok("answered"),
        });
        let client = Setup::over(factory()).versions(versions).start();
        let executed = write(&client, &peer.url()).await;
        assert_eq!(maybe_sent(&executed), HttpErrorKind::ConnectionLost);
        assert_eq!((executed.diagnostics.attempts().len(), peer.seen().arrivals.len()), (1, 1));
        assert_eq!(read(&client, &peer).await.body(), "answered");
        let pool = client.snapshot(&peer.url());
        assert_eq!((pool.shards.len(), pool.shards[0].id, peer.seen().accepted()), (1, 0, 2));
    }
}

//! Connections that are added: who waits for them, and who does not have to.

use std::time::{Duration, Instant};

use sidereal_driver::diagnostics::Phase;
use sidereal_driver::transport::internals::{PoolSnapshot, TransportOutcome};
use sidereal_driver::transport::{HttpErrorKind, RequestSentStatus};

use super::factory;
use sidereal_testing::fixture::{Setup, joined};
use sidereal_testing::peers::{Certificates, Peer, PeerSettings, Reply, Speaks};

/// Longer than the timeout of any test.
const HARDLY_EVER: Duration = Duration::from_secs(300);

own_client_only! {
    "the client of an SDK connects with its first request, and tells nothing of it";

    /// A request that asked for another connection waited for it while streams of others were free.
    #[tokio::test]
    async fn a_request_waiting_for_a_connection_takes_a_freed_stream() {
        let certificates = Certificates::new();
        let peer = Peer::tls(Speaks::Http2, &certificates.loopback());
        let setup = Setup::over(factory()).trusting(&certificates).shards(2, 1);
        let client = setup.with(|setup| setup.client.connect_timeout = HARDLY_EVER).start();
        let url = peer.url();
        let first = tokio::spawn(client.send(&url, "/first"));
        let mut connection = peer.accept().await;
        let request = connection.next_request().await;
        // Nobody takes up the second connection, so its TLS does not get on.
        let second = tokio::spawn(client.send(&url, "/second"));
        client.until(&url, |pool| pool.shards.len() == 2).await;
        connection.respond(request.stream, 200).await;
        joined(first).await.outcome.unwrap();
        let request = connection.next_request().await;
        assert_eq!(request.path, "/second");
        connection.respond(request.stream, 200).await;
        let sent = joined(second).await;
        assert_eq!(sent.outcome.unwrap().status(), 200);
        assert_eq!(sent.diagnostics.shard, Some(0));
    }
}

own_client_only! {
    "the client of an SDK connects with its first request, and tells nothing of it";

    /// Where new connections were refused and old ones worked, a busy moment failed requests.
    #[tokio::test]
    async fn a_failed_extra_connection_fails_no_request() {
        let peer = Peer::cleartext(Speaks::Http2).serve(|_| Reply::hold());
        let client = Setup::over(factory()).shards(4, 1).start();
        let url = peer.url();
        let first = tokio::spawn(client.send(&url, "/first"));
        peer.until(|seen| seen.held == 1).await;
        peer.stop_accepting().await;
        let others = client.begin(&url, ["/second".to_owned(), "/third".to_owned()]);
        client.until(&url, |pool| pool.queued == 2 && pool.shards.len() == 1).await;
        peer.release_all();
        joined(first).await.outcome.unwrap();
        for other in others {
            joined(other).await.outcome.unwrap();
        }
        assert_eq!(peer.seen().accepted(), 1);
    }
}

#[tokio::test]
async fn without_any_connection_a_refusal_is_the_request_s() {
    let peer = Peer::cleartext(Speaks::Http2).serve(|_| Reply::ok(""));
    peer.stop_accepting().await;
    let client = Setup::over(factory()).start();
    let executed = client.execute(client.read(&peer.url(), "/")).await;
    assert_eq!(executed.error().kind(), HttpErrorKind::Connect);
    assert_eq!(executed.diagnostics.attempts().len(), 2, "{}", executed.diagnostics);
}

own_client_only! {
    "the client of an SDK tells no stream limit";

    #[tokio::test]
    async fn a_peer_that_allows_no_stream_for_a_while_keeps_its_connection() {
        let peer = Peer::cleartext(Speaks::Http2).serve(|_| Reply::ok(""));
        let client = Setup::over(factory()).shards(1, 20).start();
        client.get_ok(&peer.url(), "/before").await;
        peer.send_settings(0, PeerSettings::new().max_concurrent_streams(0));
        let waiting = loop {
            // The word of the peer may still be on its way.
            let request = tokio::spawn(client.send(&peer.url(), "/between"));
            let settled = |pool: &PoolSnapshot| pool.queued == 1 || request.is_finished();
            if client.until(&peer.url(), settled).await.queued == 1 {
                break request;
            }
            joined(request).await.outcome.unwrap();
        };
        peer.send_settings(0, PeerSettings::new().max_concurrent_streams(20));
        client
            .until(&peer.url(), |pool| {
                client.transport.sweep(Instant::now(), None);
                pool.queued == 0
            })
            .await;
        joined(waiting).await.outcome.unwrap();
        assert_eq!(peer.seen().accepted(), 1);
    }
}

#[tokio::test]
async fn a_deadline_that_has_passed_already_sends_nothing() {
    let peer = Peer::cleartext(Speaks::Http2).serve(|_| Reply::ok(""));
    let client = Setup::over(factory()).start();
    client.get_ok(&peer.url(), "/ready").await;
    let mut late = client.read(&peer.url(), "/late");
    late.deadline = Some(Instant::now());
    match client.execute(late).await.outcome {
        TransportOutcome::DeadlineExceeded { phase, request_sent } => {
            assert_eq!((phase, request_sent), (Phase::Preparing, RequestSentStatus::NotSent));
        }
        other => panic!("expected the deadline to pass, got {other:?}"),
    }
    assert_eq!(peer.seen().paths(), ["/ready"]);
}

/// Requests after a shutdown were tried five times with waits between.
#[tokio::test]
async fn a_closed_transport_is_not_retried() {
    let peer = Peer::cleartext(Speaks::Http2).serve(|_| Reply::ok(""));
    let client = Setup::over(factory()).start();
    let executing = client.execute(client.read(&peer.url(), "/"));
    drop(client.tasks);
    let executed = executing.await;
    assert_eq!(executed.error().kind(), HttpErrorKind::Closed);
    assert_eq!(executed.diagnostics.attempts().len(), 1, "{}", executed.diagnostics);
}

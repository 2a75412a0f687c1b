//! HTTP/2 and HTTP/1.1, as each endpoint has it at the moment.

use std::time::{Duration, Instant};

use h2::Reason;
use sidereal_driver::diagnostics::{ExecutionContext, RequestDiagnostics};
use sidereal_driver::transport::internals::{PoolKind, SendTerms};
use sidereal_driver::transport::{
    HttpErrorKind, HttpProtocol, HttpRequest, HttpVersions, RequestSentStatus,
};

use super::factory;
use sidereal_testing::fixture::{Client, Executed, Setup, endpoint, joined, numbered};
use sidereal_testing::peers::{Answer, Certificates, Peer, Protocol, Reply, ServedPeer, Speaks};

/// A peer with TLS that answers everything, and a client that trusts it.
fn secure(speaks: Speaks) -> (ServedPeer, Setup) {
    let certificates = Certificates::new();
    let peer = Peer::tls(speaks, &certificates.loopback()).serve(|_| Reply::ok("answered"));
    (peer, Setup::over(factory()).trusting(&certificates))
}

/// Sends one request that must be answered; says what it was answered over.
async fn protocol_of(client: &Client, peer: &ServedPeer) -> HttpProtocol {
    let executed = client.execute(client.write(&peer.url(), "/", "{}")).await;
    assert_eq!(executed.body(), "answered");
    executed.diagnostics.attempts().last().unwrap().protocol.unwrap()
}

async fn all_answered(tasks: Vec<tokio::task::JoinHandle<Executed>>) {
    for task in tasks {
        joined(task).await.body();
    }
}

fn begin_writes(
    client: &Client,
    peer: &ServedPeer,
    count: usize,
) -> Vec<tokio::task::JoinHandle<Executed>> {
    let writes = numbered(count).map(|path| client.write(&peer.url(), &path, "{}"));
    writes.map(|write| tokio::spawn(client.execute(write))).collect()
}

/// HTTP/1.1 in cleartext, with at most this many connections.
fn http1(connections: usize) -> Setup {
    let setup = Setup::over(factory()).versions(HttpVersions::Negotiate);
    setup.with(|setup| setup.client.pool_max_idle_per_host = connections)
}

#[tokio::test]
async fn a_peer_that_offers_both_versions_negotiates_http_2() {
    let (peer, setup) = secure(Speaks::Both);
    let client = setup.start();
    assert_eq!(protocol_of(&client, &peer).await, HttpProtocol::Http2);
    assert_eq!(peer.seen().connections[0].protocol, Some(Protocol::Http2));
    assert_eq!(client.snapshot(&peer.url()).kind, PoolKind::Sharded);
}

#[tokio::test]
async fn a_peer_with_http_1_alone_is_served_over_its_first_connection() {
    for speaks in [Speaks::Http1, Speaks::Http1Unannounced] {
        let (peer, setup) = secure(speaks);
        let client = setup.start();
        assert_eq!(protocol_of(&client, &peer).await, HttpProtocol::Http1);
        assert_eq!(client.snapshot(&peer.url()).kind, PoolKind::Plain);
        assert_eq!((peer.seen().accepted(), peer.seen().arrivals.len()), (1, 1), "{speaks:?}");
    }
}

#[tokio::test]
async fn cleartext_is_http_1_unless_told_otherwise() {
    let peer = Peer::cleartext(Speaks::Both).serve(|_| Reply::ok("answered"));
    let client = http1(10).start();
    assert_eq!(protocol_of(&client, &peer).await, HttpProtocol::Http1);
    let client = http1(10).start();
    client.transport.expect_http2(&endpoint(&peer.url()));
    assert_eq!(protocol_of(&client, &peer).await, HttpProtocol::Http2);
    let client = Setup::over(factory()).versions(HttpVersions::Http2PriorKnowledge).start();
    assert_eq!(protocol_of(&client, &peer).await, HttpProtocol::Http2);
}

#[tokio::test]
async fn prior_knowledge_needs_no_alpn() {
    let (peer, setup) = secure(Speaks::Http2Unannounced);
    let client = setup.clone().start();
    client.transport.expect_http2(&endpoint(&peer.url()));
    assert_eq!(protocol_of(&client, &peer).await, HttpProtocol::Http2);
    let client = setup.versions(HttpVersions::Http2PriorKnowledge).start();
    assert_eq!(protocol_of(&client, &peer).await, HttpProtocol::Http2);
}

#[tokio::test]
async fn a_client_told_to_speak_http_1_offers_nothing_else() {
    let (peer, setup) = secure(Speaks::Both);
    let client = setup.versions(HttpVersions::Http1Only).start();
    assert_eq!(protocol_of(&client, &peer).await, HttpProtocol::Http1);
    assert_eq!(peer.seen().accepted(), 1);
}

#[tokio::test]
async fn http_1_1_required_switches_the_version_without_failing_a_request() {
    let certificates = Certificates::new();
    let refusing = Reply::Hold(Box::new(Reply::Reset(Reason::HTTP_1_1_REQUIRED)));
    let peer = Peer::tls(Speaks::Both, &certificates.loopback()).serve(move |request| {
        if request.connection == 0 { refusing.clone() } else { Reply::ok("answered") }
    });
    let client = Setup::over(factory()).trusting(&certificates).shards(4, 20).start();
    let tasks = begin_writes(&client, &peer, 20);
    peer.until(|seen| seen.held == 20).await;
    peer.release_all();
    all_answered(tasks).await;
    let seen = peer.seen();
    assert_eq!((seen.arrivals.len(), client.snapshot(&peer.url()).kind), (40, PoolKind::Plain));
    let later = seen.connections.iter().skip(1);
    assert!(later.into_iter().all(|connection| connection.protocol == Some(Protocol::Http1)));
    // It is not asked again before some time has passed, and then it is.
    client.transport.sweep(Instant::now(), None);
    assert_eq!(protocol_of(&client, &peer).await, HttpProtocol::Http1);
    client.transport.sweep(Instant::now() + Duration::from_secs(301), None);
    assert_eq!(protocol_of(&client, &peer).await, HttpProtocol::Http2);
}

#[tokio::test]
async fn a_goaway_with_http_1_1_required_switches_the_version_too() {
    let certificates = Certificates::new();
    let peer = Peer::tls(Speaks::Both, &certificates.loopback()).serve(|request| {
        if request.connection == 0 { Reply::hold() } else { Reply::ok("answered") }
    });
    let client = Setup::over(factory()).trusting(&certificates).shards(4, 20).start();
    let tasks = begin_writes(&client, &peer, 20);
    peer.until(|seen| seen.held == 20).await;
    peer.go_away(0, 0, Reason::HTTP_1_1_REQUIRED);
    all_answered(tasks).await;
    assert_eq!(protocol_of(&client, &peer).await, HttpProtocol::Http1);
}

#[tokio::test]
async fn the_version_switches_with_the_endpoint_in_both_directions() {
    let (peer, setup) = secure(Speaks::Http1);
    let client = setup.start();
    for (speaks, protocol) in [
        (Speaks::Http1, HttpProtocol::Http1),
        (Speaks::Http2, HttpProtocol::Http2),
        (Speaks::Http1, HttpProtocol::Http1),
        (Speaks::Both, HttpProtocol::Http2),
    ] {
        peer.speak(speaks);
        let made = peer.seen().accepted();
        (0..made).for_each(|connection| peer.close(connection));
        peer.until(|seen| seen.open_connections() == 0).await;
        // The client learns of the end by itself, at the latest with a request that may be repeated.
        client.execute(client.read(&peer.url(), "/")).await.body();
        assert_eq!(protocol_of(&client, &peer).await, protocol);
    }
}

/// A pool of HTTP/1.1 that met HTTP/2 with its first connection went on with one connection for all.
#[tokio::test]
async fn an_http_1_pool_that_meets_http_2_reports_a_changed_protocol() {
    let (peer, setup) = secure(Speaks::Http2);
    let client = setup.clone().start();
    let pool = setup.pool(&peer.url(), PoolKind::Plain, &client.tasks);
    let endpoint = endpoint(&peer.url());
    let mut request = HttpRequest::default();
    *request.uri_mut() = endpoint.uri("/".parse().unwrap());
    let started = Instant::now();
    let mut diagnostics =
        RequestDiagnostics::new(ExecutionContext::Initial, None, endpoint, started);
    let sending = pool.send(&mut request, &mut diagnostics, SendTerms::default());
    let error = sending.await.unwrap_err();
    assert_eq!(error.kind(), HttpErrorKind::ProtocolChanged);
    assert_eq!(error.request_sent(), RequestSentStatus::NotSent);
    assert!(pool.snapshot().shards.is_empty());
}

#[tokio::test]
async fn an_http_1_connection_that_its_peer_ended_is_not_reused() {
    let peer = Peer::cleartext(Speaks::Http1)
        .serve(|_| Answer::new(200, "answered").header("connection", "close").into());
    let client = http1(10).start();
    for _ in 0..5 {
        assert_eq!(protocol_of(&client, &peer).await, HttpProtocol::Http1);
    }
    let seen = peer.until(|seen| seen.open_connections() == 0).await;
    assert_eq!((seen.accepted(), seen.arrivals.len()), (5, 5));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cold_start_detects_http_1_without_failing_requests() {
    let peer = Peer::cleartext(Speaks::Http1).serve(|_| Reply::ok(""));
    let client = http1(10).with(|setup| setup.sharding.max_clients_per_endpoint = 4).start();
    all_answered(begin_writes(&client, &peer, 300)).await;
    let seen = peer.until(|seen| seen.open_connections() <= 10).await;
    assert_eq!(seen.arrivals.len(), 300);
}

/// A connection that had just given its answer was not ready yet, and was thrown away for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn requests_one_after_another_use_one_connection_of_http_1() {
    let peer = Peer::cleartext(Speaks::Http1).serve(|_| Reply::ok("answered"));
    let client = http1(10).start();
    for _ in 0..300 {
        assert_eq!(protocol_of(&client, &peer).await, HttpProtocol::Http1);
    }
    assert_eq!((peer.seen().accepted(), peer.seen().arrivals.len()), (1, 300));
}

#[tokio::test]
async fn a_pool_of_http_1_keeps_to_its_most_connections() {
    let peer = Peer::cleartext(Speaks::Http1).serve(|_| Reply::hold());
    let client = http1(4).start();
    let mut tasks = begin_writes(&client, &peer, 1);
    peer.until(|seen| seen.held == 1).await;
    tasks.extend(begin_writes(&client, &peer, 39));
    let seen = peer.until(|seen| seen.held == 4).await;
    assert_eq!(seen.open_connections(), 4);
    client.until(&peer.url(), |pool| pool.queued == 36).await;
    peer.release_all();
    all_answered(tasks).await;
    let seen = peer.seen();
    assert_eq!((seen.accepted(), seen.most_streams, seen.arrivals.len()), (4, 4, 40));
}

#[tokio::test]
async fn an_http_1_connection_that_was_closed_while_idle_is_replaced() {
    let peer = Peer::cleartext(Speaks::Http1).serve(|_| Reply::ok("answered"));
    let client = http1(10).start();
    for round in 0..5 {
        client.execute(client.read(&peer.url(), "/")).await.body();
        assert_eq!(peer.seen().open_connections(), 1);
        peer.close(round);
        peer.until(|seen| seen.open_connections() == 0).await;
    }
    assert_eq!(peer.seen().accepted(), 5);
}

#[tokio::test]
async fn http_1_connections_past_the_idle_timeout_are_closed_at_a_sweep() {
    let peer = Peer::cleartext(Speaks::Http1).serve(|_| Reply::hold());
    let client = http1(4).with(|it| it.client.pool_idle_timeout = Duration::from_millis(1)).start();
    let tasks = begin_writes(&client, &peer, 4);
    peer.until(|seen| seen.held == 4).await;
    peer.release_all();
    all_answered(tasks).await;
    client
        .until(&peer.url(), |_| {
            client.transport.sweep(Instant::now(), None);
            peer.seen().open_connections() == 0
        })
        .await;
}

#[tokio::test]
async fn http_1_connections_past_their_age_get_no_more_requests() {
    let peer = Peer::cleartext(Speaks::Http1).serve(|_| Reply::ok(""));
    let age = Duration::from_millis(1);
    let client = http1(4).with(|it| it.client.max_connection_age = age).start();
    for _ in 0..3 {
        let before = peer.seen().accepted();
        client.execute(client.read(&peer.url(), "/")).await.body();
        assert!(peer.seen().accepted() > before);
        // The age, and as much again for its random part.
        tokio::time::sleep(3 * age).await;
    }
}

/// Every sweep turned the order of the idle connections around, so that two of them were kept
/// alive by what one could have carried.
#[tokio::test]
async fn a_trickle_stays_on_one_connection_of_http_1_through_sweeps() {
    let peer = Peer::cleartext(Speaks::Http1).serve(|request| match request.path.as_str() {
        "/trickle" => Reply::ok(""),
        _ => Reply::hold(),
    });
    let client = http1(4).start();
    let tasks = begin_writes(&client, &peer, 3);
    peer.until(|seen| seen.held == 3).await;
    peer.release_all();
    all_answered(tasks).await;
    for _ in 0..6 {
        client.transport.sweep(Instant::now(), None);
        client.get_ok(&peer.url(), "/trickle").await;
    }
    let seen = peer.seen();
    let trickle = &seen.arrivals[3..];
    assert!(trickle.iter().all(|it| it.connection == trickle[0].connection), "{trickle:?}");
}

#[tokio::test]
async fn data_and_metadata_have_timeouts_and_connections_of_their_own() {
    let peer = Peer::cleartext(Speaks::Http2).serve(|_| Reply::hold());
    let timeout = |timeout: Duration| {
        Setup::over(factory()).with(|setup| setup.client.request_timeout = timeout).start()
    };
    let data = timeout(Duration::from_millis(100));
    let metadata = timeout(Duration::from_secs(65));
    let metadata_read = tokio::spawn(metadata.execute(metadata.read(&peer.url(), "/metadata")));
    peer.until(|seen| seen.held == 1).await;
    let data_write = data.execute(data.write(&peer.url(), "/data", "{}")).await;
    assert_eq!(data_write.error().kind(), HttpErrorKind::Timeout);
    peer.release_all();
    joined(metadata_read).await.body();
    assert!(peer.seen().accepted() >= 2);
}

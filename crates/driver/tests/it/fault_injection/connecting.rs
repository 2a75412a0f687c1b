//! Connections that cannot be made: the waiters fail, and the pool recovers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sidereal_driver::diagnostics::{Phase, RequestEventKind};
use sidereal_driver::fault_injection::{ConnectFault, FaultInjectionResult, FaultInjectionRule};
use sidereal_driver::transport::internals::{PoolSnapshot, SendTerms, TransportOutcome};
use sidereal_driver::transport::{HttpErrorKind, HttpVersions, RequestSentStatus};

use super::fixture::{AFTER_A_HANG, FaultFixture, all_succeed, faultless};
use sidereal_testing::fixture::{Setup, joined, numbered};
use sidereal_testing::peers::{Peer, Reply, Speaks};

const REFUSED: FaultInjectionResult =
    FaultInjectionResult::Connect(ConnectFault::Fail(HttpErrorKind::Connect));

#[tokio::test]
async fn every_waiter_fails_when_no_connection_can_be_made() {
    let fixture = FaultFixture::new(2, 3, |_| {});
    let fault = fixture.inject(REFUSED);
    for task in fixture.client.begin(&fixture.url(), numbered(40)) {
        let error = joined(task).await.outcome.unwrap_err();
        assert_eq!(error.kind(), HttpErrorKind::Connect);
        assert_eq!(error.request_sent(), RequestSentStatus::NotSent);
    }
    assert!(fault.hits() >= 14, "three requests at most share a failure: {}", fault.hits());
    let pool = fixture.client.until_idle(&fixture.url()).await;
    assert!(pool.shards.is_empty());
    assert_eq!(fixture.peer.seen().accepted(), 0);

    fixture.faults.clear();
    fixture.reads_succeed(10).await;
    assert_eq!(fixture.peer.seen().accepted(), 1);
}

#[tokio::test]
async fn a_request_is_retried_over_one_more_connection_and_then_fails() {
    let fixture = FaultFixture::new(4, 20, |_| {});
    fixture.inject(REFUSED);
    let executed = fixture.write().await;
    assert_eq!(executed.error().kind(), HttpErrorKind::Connect);
    assert_eq!(executed.error().request_sent(), RequestSentStatus::NotSent);
    let why: Vec<&str> =
        executed.diagnostics.attempts().iter().map(|it| it.decision.unwrap().reason()).collect();
    assert_eq!(
        why,
        ["the connection failed: another one is tried", "another connection failed too"]
    );
}

#[tokio::test]
async fn a_connection_that_fails_once_costs_no_request() {
    let fixture = FaultFixture::new(4, 20, |_| {});
    let fault = fixture.inject_into_first(REFUSED);
    let reads = fixture.begin_reads(10);
    all_succeed(reads).await;
    assert_eq!(fault.hits(), 1);
    fixture.until_shards(&[1]).await;
    assert_eq!(fixture.peer.seen().arrivals.len(), 10);
}

#[tokio::test]
async fn connected_shards_serve_while_no_more_can_be_added() {
    let fixture = FaultFixture::new(4, 20, |setup| setup.sharding.min_clients_per_endpoint = 3);
    fixture.reads_succeed(1).await;
    let fault = fixture.inject(REFUSED);
    for round in 1..=5 {
        fixture.sweep(Duration::ZERO, None);
        fixture.until_shards(&[0]).await;
        assert_eq!(fault.hits(), 2 * round, "a sweep tries each missing shard once");
        assert_eq!(fixture.reads_succeed(5).await, [0; 5]);
    }
    fixture.faults.clear();
    fixture.sweep(Duration::ZERO, None);
    fixture.until_shards(&[0, 11, 12]).await;
}

#[tokio::test]
async fn a_connection_that_never_comes_about_holds_a_request_until_its_deadline() {
    let fixture = FaultFixture::new(4, 20, |_| {});
    fixture.inject(FaultInjectionResult::Connect(ConnectFault::Hang));
    let mut write = fixture.client.write(&fixture.url(), "/", "{}");
    write.deadline = Some(Instant::now() + Duration::from_millis(5));
    match fixture.client.execute(write).await.outcome {
        TransportOutcome::DeadlineExceeded { phase, request_sent } => {
            assert_eq!((phase, request_sent), (Phase::Connecting, RequestSentStatus::NotSent));
        }
        other => panic!("expected the deadline to pass, got {other:?}"),
    }
    assert_eq!(fixture.client.until_idle(&fixture.url()).await.shards.len(), 1);
}

#[tokio::test]
async fn requests_for_a_connection_that_never_comes_about_are_sent_over_another() {
    let fixture = FaultFixture::new(1, 4, |_| {});
    let hang = FaultInjectionResult::Connect(ConnectFault::Hang);
    let fault = fixture.inject_into_first(hang);
    let writes: Vec<_> = numbered(6)
        .map(|path| fixture.client.write(&fixture.url(), &path, "{}"))
        .map(|write| tokio::spawn(fixture.client.execute(write)))
        .collect();
    let full = |pool: &PoolSnapshot| pool.queued == 2;
    fixture.client.until(&fixture.url(), full).await;
    fixture.sweep(AFTER_A_HANG, None);
    all_succeed(writes).await;
    assert_eq!((fault.hits(), fixture.shards()), (1, vec![1]));
    assert_eq!(fixture.peer.seen().arrivals.len(), 6);
}

#[tokio::test]
async fn a_slow_connection_is_waited_for_and_the_wait_is_in_the_diagnostics() {
    let fixture = FaultFixture::new(4, 20, |_| {});
    let slow = ConnectFault::Delay(Duration::from_millis(5));
    fixture.inject(FaultInjectionResult::Connect(slow));
    let executed = fixture.read().await;
    assert_eq!(executed.body(), "found");
    let [attempt] = executed.diagnostics.attempts() else { panic!("one attempt") };
    assert!(attempt.time_of(RequestEventKind::Connecting).is_some());
    assert!(attempt.connecting() > Duration::ZERO);
}

/// A rule about connections reached the first connection of an HTTP/1.1 pool and none of those after it.
#[tokio::test]
async fn a_later_connection_of_an_http_1_1_pool_meets_the_rule_too() {
    let faults = Arc::new(faultless());
    let setup = Setup::over(Arc::clone(&faults) as _).versions(HttpVersions::Http1Only);
    let client = setup.start();
    let peer = Peer::cleartext(Speaks::Http1).serve(|request| match request.path.as_str() {
        "/held" => Reply::hold(),
        _ => Reply::ok("found"),
    });
    let held = tokio::spawn(client.send(&peer.url(), "/held"));
    peer.until(|seen| seen.held == 1).await;
    let rule = faults.add(FaultInjectionRule::new("next", REFUSED).with_hit_limit(1));
    let error = client.send(&peer.url(), "/").await.outcome.unwrap_err();
    assert_eq!((error.kind(), rule.hits()), (HttpErrorKind::Connect, 1));
    assert_eq!(error.request_sent(), RequestSentStatus::NotSent);
    assert_eq!(peer.seen().accepted(), 1);

    client.get_ok(&peer.url(), "/").await;
    peer.release_all();
    joined(held).await.outcome.unwrap();
    assert_eq!((rule.hits(), peer.seen().accepted()), (1, 2));
}

/// It waited in the queue and was given the next stream, that of the connection it had failed on.
#[tokio::test]
async fn a_queued_retry_keeps_the_shard_that_it_avoids() {
    let faults = Arc::new(faultless());
    let client = Setup::over(Arc::clone(&faults) as _).shards(2, 1).start();
    let peer = Peer::cleartext(Speaks::Http2).serve(|request| match request.path.as_str() {
        "/held" => Reply::hold(),
        _ => Reply::ok("found"),
    });
    let held = tokio::spawn(client.send(&peer.url(), "/held"));
    peer.until(|seen| seen.held == 1).await;
    // The only stream is taken and the next connection fails: the retry waits, and growth pauses.
    faults.add(FaultInjectionRule::new("next", REFUSED).with_hit_limit(1));
    let terms = SendTerms { avoided_shard: Some(0), ..SendTerms::default() };
    let retry = tokio::spawn(client.send_on(&peer.url(), "/", terms));
    client.until(&peer.url(), |pool| pool.queued == 1).await;
    // Growth may go on when the pause is over; nothing looks at the queue until a stream is released.
    tokio::time::sleep(GROWTH_PAUSE).await;
    peer.release_all();
    let retry = joined(retry).await;
    retry.outcome.unwrap();
    assert!(retry.diagnostics.time_of(RequestEventKind::Queued).is_some());
    assert_ne!(retry.diagnostics.shard, Some(0));
    assert_eq!(joined(held).await.diagnostics.shard, Some(0));
}

/// A little longer than the pause in growth after a connection that could not be made.
const GROWTH_PAUSE: Duration = Duration::from_millis(1_100);

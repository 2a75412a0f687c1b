//! One bad shard among good ones: it is left, given up and replaced, and the requests succeed.

use std::time::{Duration, Instant};

use sidereal_driver::fault_injection::FaultInjectionResult;
use sidereal_driver::transport::internals::TransportOutcome;
use sidereal_driver::transport::{HttpErrorKind, RequestSentStatus};

use super::scene::{AFTER_A_HANG, AFTER_GRACE, Scene, all_succeed};
use sidereal_testing::fixture::joined;

/// Longer than any test.
const FOREVER: Duration = Duration::from_secs(3600);

#[tokio::test]
async fn a_failing_shard_is_given_up_at_the_threshold_and_not_before() {
    for threshold in [1, 3, 5] {
        let scene = Scene::new(4, 20, |setup| {
            setup.sharding.consecutive_failure_threshold = threshold;
            setup.sharding.min_clients_per_endpoint = 2;
        });
        scene.reads_succeed(1).await;
        scene.sweep(Duration::ZERO, None);
        scene.until_shards(&[0, 1]).await;
        let fault = scene.inject_into_first(FaultInjectionResult::request_lost());
        scene.reads_succeed(threshold as usize - 1).await;
        scene.sweep(AFTER_GRACE, None);
        assert_eq!(scene.shards(), [0, 1], "{threshold}");

        scene.reads_succeed(1).await;
        scene.sweep(AFTER_GRACE, None);
        scene.until_shards(&[1, 2]).await;
        let seen = scene.peer.until(|seen| seen.open_connections() == 2).await;
        assert!(!seen.connections[0].open);
        assert!(!scene.reads_succeed(20).await.contains(&0));
        assert_eq!(fault.hits(), u64::from(threshold));
    }
}

#[tokio::test]
async fn a_success_in_between_starts_the_count_again() {
    let scene = Scene::new(4, 20, |_| {});
    let fault = scene.inject_into_first(FaultInjectionResult::request_lost());
    scene.reads_succeed(4).await;
    fault.disable();
    assert_eq!(scene.reads_succeed(1).await, [0]);
    fault.enable();
    scene.reads_succeed(4).await;
    assert_eq!(fault.hits(), 8);
    scene.sweep(AFTER_GRACE, None);
    assert_eq!(scene.shards(), [0, 1]);
}

#[tokio::test]
async fn a_shard_whose_requests_fail_is_left_at_the_threshold_and_given_up_by_the_sweep() {
    let scene = Scene::new(4, 20, |_| {});
    let fault = scene.inject_into_first(FaultInjectionResult::connection_error());
    scene.fail(5).await;
    assert_eq!(scene.reads_succeed(10).await, [1; 10]);
    assert_eq!(scene.shards(), [0, 1]);
    scene.sweep(AFTER_GRACE, None);
    assert_eq!(scene.shards(), [1]);
    assert_eq!((fault.hits(), scene.clients_created()), (5, 2));
}

#[tokio::test]
async fn requests_on_a_shard_that_hangs_are_sent_over_another_once_it_is_given_up() {
    let scene = Scene::new(4, 2, |_| {});
    scene.reads_succeed(1).await;
    let fault = scene.inject_into_first(FaultInjectionResult::Hang);
    let hanging = scene.begin_reads(2);
    scene.until_hits(&fault, 2).await;
    assert_eq!(scene.reads_succeed(5).await, [1; 5]);
    scene.sweep(AFTER_A_HANG, None);
    assert_eq!(scene.shards(), [1]);
    for read in hanging {
        let executed = joined(read).await;
        assert_eq!(executed.body(), "found");
        let [first, second] = executed.diagnostics.attempts() else { panic!("two attempts") };
        assert_eq!((first.shard, second.shard), (Some(0), Some(1)));
        assert_eq!(first.request_sent, RequestSentStatus::MaybeSent);
    }
}

#[tokio::test]
async fn a_write_on_a_shard_that_hangs_is_not_sent_twice() {
    let scene = Scene::new(4, 1, |_| {});
    scene.reads_succeed(1).await;
    let fault = scene.inject_into_first(FaultInjectionResult::Hang);
    let write = scene.client.write(&scene.url(), "/written", "{}");
    let write = tokio::spawn(scene.client.execute(write));
    scene.until_hits(&fault, 1).await;
    scene.reads_succeed(1).await;
    scene.sweep(AFTER_A_HANG, None);
    let executed = joined(write).await;
    let error = executed.error();
    assert_eq!(error.kind(), HttpErrorKind::Evicted);
    assert_eq!(error.request_sent(), RequestSentStatus::MaybeSent);
    assert_eq!(executed.diagnostics.attempts().len(), 1);
    assert!(!scene.peer.seen().paths().contains(&"/written"));
}

#[tokio::test]
async fn a_write_that_a_slow_shard_has_not_sent_yet_is_sent_over_another_once() {
    let scene = Scene::new(4, 1, |_| {});
    scene.reads_succeed(1).await;
    let fault = scene.inject_into_first(FaultInjectionResult::Delay(FOREVER));
    let write = scene.client.write(&scene.url(), "/written", "{}");
    let write = tokio::spawn(scene.client.execute(write));
    scene.until_hits(&fault, 1).await;
    assert_eq!(scene.reads_succeed(3).await, [1; 3]);
    scene.sweep(AFTER_A_HANG, None);
    assert_eq!(scene.shards(), [1]);
    let executed = joined(write).await;
    executed.body();
    assert_eq!(executed.diagnostics.attempts()[0].request_sent, RequestSentStatus::NotSent);
    let seen = scene.peer.seen();
    assert_eq!(seen.paths().iter().filter(|&&path| path == "/written").count(), 1);
}

#[tokio::test]
async fn requests_that_run_out_of_time_count_against_their_shard() {
    let scene = Scene::new(4, 20, |_| {});
    scene.reads_succeed(1).await;
    let fault = scene.inject_into_first(FaultInjectionResult::Hang);
    for _ in 0..5 {
        let mut read = scene.client.read(&scene.url(), "/");
        read.deadline = Some(Instant::now() + Duration::from_millis(5));
        let outcome = scene.client.execute(read).await.outcome;
        assert!(matches!(outcome, TransportOutcome::DeadlineExceeded { .. }), "{outcome:?}");
    }
    assert_eq!(fault.hits(), 5);
    assert_eq!(scene.reads_succeed(5).await, [1; 5]);
    scene.sweep(AFTER_GRACE, None);
    assert_eq!(scene.shards(), [1]);
}

#[tokio::test]
async fn nothing_is_given_up_while_the_processors_are_busier_than_the_limit() {
    let scene = Scene::new(4, 1, |_| {});
    scene.inject_into_first(FaultInjectionResult::request_lost());
    scene.fail(5).await;
    scene.reads_succeed(1).await;
    for busy in [0.91, 1.0] {
        scene.sweep(AFTER_GRACE, Some(busy));
        assert_eq!(scene.shards(), [0, 1], "{busy}");
    }
    scene.sweep(AFTER_GRACE, Some(0.9));
    assert_eq!(scene.shards(), [1]);
}

#[tokio::test]
async fn a_shard_that_hangs_is_kept_as_long_as_the_processors_are_busy() {
    for (calm, stays) in [(Some(0.95), true), (Some(0.2), false), (None, false)] {
        let scene = Scene::new(4, 1, |_| {});
        scene.reads_succeed(1).await;
        let fault = scene.inject_into_first(FaultInjectionResult::Hang);
        let hanging = scene.begin_reads(1);
        scene.until_hits(&fault, 1).await;
        scene.reads_succeed(1).await;
        scene.sweep(AFTER_A_HANG, calm);
        assert_eq!(scene.shards().contains(&0), stays, "{calm:?}");
        fault.disable();
        scene.sweep(AFTER_A_HANG, None);
        all_succeed(hanging).await;
    }
}

//! Pools that grow because shards fail or hang, never beyond their most, and shrink when it is over.

use sidereal_driver::fault_injection::FaultInjectionResult;
use sidereal_driver::transport::internals::PoolSnapshot;

use super::scene::{AFTER_A_HANG, AFTER_GRACE, AFTER_IDLENESS, Scene, all_succeed};
use sidereal_testing::fixture::inflight;

#[tokio::test]
async fn a_pool_whose_shards_all_fail_grows_to_its_most_and_not_beyond() {
    let scene = Scene::new(4, 20, |_| {});
    scene.inject(FaultInjectionResult::request_lost());
    for (failures, shards) in [(5, 1), (1, 2), (4, 2), (1, 3), (5, 4), (50, 4)] {
        scene.fail(failures).await;
        assert_eq!(scene.shards().len(), shards);
    }
    // None is better than the others, so none is to blame.
    scene.sweep(AFTER_GRACE, None);
    assert_eq!(scene.shards(), [0, 1, 2, 3]);
    assert_eq!((scene.clients_created(), scene.peer.seen().accepted()), (4, 4));
}

#[tokio::test]
async fn requests_that_are_repeated_grow_a_failing_pool_to_its_most_and_not_beyond() {
    let scene = Scene::new(3, 20, |_| {});
    scene.inject(FaultInjectionResult::connection_error());
    for _ in 0..30 {
        let executed = scene.read().await;
        let [first, second] = executed.diagnostics.attempts() else { panic!("two attempts") };
        assert_ne!(first.shard, second.shard);
    }
    assert_eq!((scene.shards(), scene.clients_created()), (vec![0, 1, 2], 3));
    assert!(scene.peer.seen().arrivals.is_empty());
}

#[tokio::test]
async fn a_pool_whose_requests_hang_grows_to_its_most_and_lets_the_others_wait() {
    let scene = Scene::new(4, 5, |_| {});
    let fault = scene.inject(FaultInjectionResult::Hang);
    let hanging = scene.begin_reads(20);
    scene.until_hits(&fault, 20).await;
    let waiting = scene.begin_reads(3);
    let full = |pool: &PoolSnapshot| inflight(pool) == 20 && pool.queued == 3;
    let pool = scene.client.until(&scene.url(), full).await;
    assert_eq!((pool.shards.len(), scene.clients_created()), (4, 4));
    assert!(pool.shards.iter().all(|shard| shard.stats.inflight == 5));

    // Whoever leaves makes room for those who wait.
    fault.disable();
    hanging.iter().for_each(tokio::task::JoinHandle::abort);
    all_succeed(waiting).await;
    let pool = scene.client.until_idle(&scene.url()).await;
    assert!(pool.shards.iter().all(|shard| shard.stats.total_failures == 0));
}

#[tokio::test]
async fn a_sweep_over_a_pool_that_hangs_keeps_to_the_most() {
    let scene = Scene::new(3, 4, |_| {});
    scene.reads_succeed(1).await;
    let fault = scene.inject(FaultInjectionResult::Hang);
    let hanging = scene.begin_reads(12);
    scene.until_hits(&fault, 12).await;
    fault.disable();
    scene.sweep(AFTER_A_HANG, None);
    all_succeed(hanging).await;
    let seen = scene.peer.seen();
    assert!(scene.shards().len() <= 3, "{:?}", scene.shards());
    assert!(scene.clients_created() <= 6, "each hanging shard is replaced once at most");
    assert_eq!(seen.arrivals.len(), 13);
}

#[tokio::test]
async fn after_failures_the_shard_that_recovers_takes_over_and_the_pool_returns_to_its_least() {
    let scene = Scene::new(4, 20, |_| {});
    scene.inject(FaultInjectionResult::request_lost());
    scene.fail(20).await;
    assert_eq!(scene.shards(), [0, 1, 2, 3]);
    scene.faults.clear();
    assert_eq!(scene.reads_succeed(10).await, [0; 10]);
    scene.sweep(AFTER_GRACE, None);
    assert_eq!(scene.shards(), [0]);
    let seen = scene.peer.until(|seen| seen.open_connections() == 1).await;
    assert!(seen.connections[0].open);
    assert_eq!(scene.reads_succeed(10).await, [0; 10]);
}

#[tokio::test]
async fn after_hangs_the_idle_shards_are_closed_while_a_trickle_goes_on() {
    let scene = Scene::new(8, 2, |setup| setup.sharding.min_clients_per_endpoint = 2);
    let fault = scene.inject(FaultInjectionResult::Hang);
    let hanging = scene.begin_reads(16);
    scene.until_hits(&fault, 16).await;
    fault.disable();
    hanging.iter().for_each(tokio::task::JoinHandle::abort);
    let pool = scene.client.until_idle(&scene.url()).await;
    assert_eq!(pool.shards.len(), 8);

    assert_eq!(scene.reads_succeed(20).await, [0; 20]);
    scene.sweep(AFTER_GRACE, None);
    assert_eq!(scene.shards().len(), 8, "nothing is idle yet");
    scene.sweep(AFTER_IDLENESS, None);
    assert_eq!(scene.shards(), [0, 1]);
    scene.peer.until(|seen| seen.open_connections() == 2).await;
    assert_eq!(scene.reads_succeed(20).await, [0; 20]);
    assert_eq!(scene.clients_created(), 8);
}

#[tokio::test]
async fn shards_that_are_given_up_are_replaced_up_to_the_least() {
    let scene = Scene::new(4, 20, |setup| setup.sharding.min_clients_per_endpoint = 3);
    scene.inject(FaultInjectionResult::request_lost());
    scene.fail(20).await;
    scene.faults.clear();
    scene.reads_succeed(1).await;
    scene.sweep(AFTER_GRACE, None);
    scene.until_shards(&[0, 4, 5]).await;
    scene.peer.until(|seen| seen.open_connections() == 3).await;
    assert_eq!(scene.reads_succeed(10).await, [0; 10]);
}

//! Pools that grow because shards fail or hang, never beyond their most, and shrink when it is over.

use sidereal_driver::fault_injection::FaultInjectionResult;
use sidereal_driver::transport::internals::PoolSnapshot;

use super::fixture::{AFTER_A_HANG, AFTER_GRACE, AFTER_IDLENESS, FaultFixture, all_succeed};
use sidereal_testing::fixture::inflight;

#[tokio::test]
async fn a_pool_whose_shards_all_fail_grows_to_its_maximum_and_not_beyond() {
    let fixture = FaultFixture::new(4, 20, |_| {});
    fixture.inject(FaultInjectionResult::request_lost());
    for (failures, shards) in [(5, 1), (1, 2), (4, 2), (1, 3), (5, 4), (50, 4)] {
        fixture.fail(failures).await;
        assert_eq!(fixture.shards().len(), shards);
    }
    // None is better than the others, so none is to blame.
    fixture.sweep(AFTER_GRACE, None);
    assert_eq!(fixture.shards(), [0, 1, 2, 3]);
    assert_eq!((fixture.clients_created(), fixture.peer.seen().accepted()), (4, 4));
}

#[tokio::test]
async fn retries_grow_a_failing_pool_to_its_maximum_and_not_beyond() {
    let fixture = FaultFixture::new(3, 20, |_| {});
    fixture.inject(FaultInjectionResult::connection_error());
    for _ in 0..30 {
        let executed = fixture.read().await;
        let [first, second] = executed.diagnostics.attempts() else { panic!("two attempts") };
        assert_ne!(first.shard, second.shard);
    }
    assert_eq!((fixture.shards(), fixture.clients_created()), (vec![0, 1, 2], 3));
    assert!(fixture.peer.seen().arrivals.is_empty());
}

#[tokio::test]
async fn a_pool_whose_requests_hang_grows_to_its_maximum_and_queues_the_others() {
    let fixture = FaultFixture::new(4, 5, |_| {});
    let fault = fixture.inject(FaultInjectionResult::Hang);
    let hanging = fixture.begin_reads(20);
    fixture.until_hits(&fault, 20).await;
    let waiting = fixture.begin_reads(3);
    let full = |pool: &PoolSnapshot| inflight(pool) == 20 && pool.queued == 3;
    let pool = fixture.client.until(&fixture.url(), full).await;
    assert_eq!((pool.shards.len(), fixture.clients_created()), (4, 4));
    assert!(pool.shards.iter().all(|shard| shard.stats.inflight == 5));

    // A request that ends frees its stream for a waiter.
    fault.disable();
    hanging.iter().for_each(tokio::task::JoinHandle::abort);
    all_succeed(waiting).await;
    let pool = fixture.client.until_idle(&fixture.url()).await;
    assert!(pool.shards.iter().all(|shard| shard.stats.total_failures == 0));
}

#[tokio::test]
async fn a_sweep_over_a_pool_that_hangs_keeps_to_the_maximum() {
    let fixture = FaultFixture::new(3, 4, |_| {});
    fixture.reads_succeed(1).await;
    let fault = fixture.inject(FaultInjectionResult::Hang);
    let hanging = fixture.begin_reads(12);
    fixture.until_hits(&fault, 12).await;
    fault.disable();
    fixture.sweep(AFTER_A_HANG, None);
    all_succeed(hanging).await;
    let seen = fixture.peer.seen();
    assert!(fixture.shards().len() <= 3, "{:?}", fixture.shards());
    assert!(fixture.clients_created() <= 6, "each hanging shard is replaced once at most");
    assert_eq!(seen.arrivals.len(), 13);
}

#[tokio::test]
async fn a_pool_returns_to_its_minimum_after_failures() {
    let fixture = FaultFixture::new(4, 20, |_| {});
    fixture.inject(FaultInjectionResult::request_lost());
    fixture.fail(20).await;
    assert_eq!(fixture.shards(), [0, 1, 2, 3]);
    fixture.faults.clear();
    assert_eq!(fixture.reads_succeed(10).await, [0; 10]);
    fixture.sweep(AFTER_GRACE, None);
    assert_eq!(fixture.shards(), [0]);
    let seen = fixture.peer.until(|seen| seen.open_connections() == 1).await;
    assert!(seen.connections[0].open);
    assert_eq!(fixture.reads_succeed(10).await, [0; 10]);
}

#[tokio::test]
async fn after_hangs_the_idle_shards_are_closed_while_a_trickle_goes_on() {
    let fixture = FaultFixture::new(8, 2, |setup| setup.sharding.min_clients_per_endpoint = 2);
    let fault = fixture.inject(FaultInjectionResult::Hang);
    let hanging = fixture.begin_reads(16);
    fixture.until_hits(&fault, 16).await;
    fault.disable();
    hanging.iter().for_each(tokio::task::JoinHandle::abort);
    let pool = fixture.client.until_idle(&fixture.url()).await;
    assert_eq!(pool.shards.len(), 8);

    assert_eq!(fixture.reads_succeed(20).await, [0; 20]);
    fixture.sweep(AFTER_GRACE, None);
    assert_eq!(fixture.shards().len(), 8, "nothing is idle yet");
    fixture.sweep(AFTER_IDLENESS, None);
    assert_eq!(fixture.shards(), [0, 1]);
    fixture.peer.until(|seen| seen.open_connections() == 2).await;
    assert_eq!(fixture.reads_succeed(20).await, [0; 20]);
    assert_eq!(fixture.clients_created(), 8);
}

#[tokio::test]
async fn evicted_shards_are_replaced_up_to_the_minimum() {
    let fixture = FaultFixture::new(4, 20, |setup| setup.sharding.min_clients_per_endpoint = 3);
    fixture.inject(FaultInjectionResult::request_lost());
    fixture.fail(20).await;
    fixture.faults.clear();
    fixture.reads_succeed(1).await;
    fixture.sweep(AFTER_GRACE, None);
    fixture.until_shards(&[0, 4, 5]).await;
    fixture.peer.until(|seen| seen.open_connections() == 3).await;
    assert_eq!(fixture.reads_succeed(10).await, [0; 10]);
}

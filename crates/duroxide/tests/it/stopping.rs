//! A runtime that stops drops its fetches wherever they are, and then its provider is shut down: what a fetch was about to
//! lock is another process's at once, not after the end of a lock that nobody works with.

use std::collections::BTreeMap;
use std::time::Duration;

use duroxide::providers::{Provider, TagFilter};
use serde_json::Value;
use sidereal_duroxide::CosmosDBProvider;
use sidereal_testing::in_process::NetworkFaults;

use crate::turns::{activity, enqueue, start};
use crate::world::World;

/// Far longer than it takes another process to find what was given back.
const LOCK: Duration = Duration::from_secs(60);
const SOON: Duration = Duration::from_secs(2);

const LATENCY: Duration = Duration::from_millis(20);

/// Polls, and how long each goes on before it is dropped: at any time of the requests that it takes.
fn polls() -> impl Iterator<Item = (Duration, Duration)> {
    let times = (0..130).step_by(4).map(Duration::from_millis);
    times.flat_map(|after| [Duration::ZERO, LOCK].map(|poll| (poll, after)))
}

/// Drops a fetch after a while, and shuts its provider down. Says whether it was dropped before it was done.
async fn stop_in_the_middle(
    world: &World,
    provider: &CosmosDBProvider,
    after: Duration,
    fetch: impl Future,
) -> bool {
    let faults = NetworkFaults { latency: LATENCY, ..NetworkFaults::NONE };
    world.account.network().set_faults(faults);
    let is_dropped = tokio::time::timeout(after, fetch).await.is_err();
    world.account.network().set_faults(NetworkFaults::NONE);
    provider.shutdown().await;
    is_dropped
}

/// How many processes look after slots.
async fn members(world: &World) -> usize {
    let container = world.container();
    let query = container.query("SELECT VALUE c.members FROM c").with_partition_key("__leases__");
    let members: Vec<BTreeMap<String, Value>> = query.items().collect().await.unwrap();
    members.iter().map(BTreeMap::len).sum()
}

#[tokio::test(start_paused = true)]
async fn a_turn_locked_by_a_dropped_fetch_is_free_for_another_process() {
    let mut stopped = 0;
    for (poll, after) in polls() {
        let world = World::new();
        enqueue(&world.provider().await, start("i")).await;
        let stopping = world.settled().await;
        let fetch = stopping.fetch_orchestration_item(LOCK, poll, None);
        if !stop_in_the_middle(&world, &stopping, after, fetch).await {
            continue;
        }
        stopped += 1;
        assert_eq!(
            members(&world).await,
            0,
            "{poll:?}, {after:?}: slots are kept for a process that is gone"
        );
        let found = world.provider().await.fetch_orchestration_item(LOCK, SOON, None).await;
        let (turn, _, attempts) = found.unwrap().unwrap_or_else(|| panic!("{poll:?}, {after:?}"));
        assert_eq!((turn.messages.len(), attempts), (1, 1), "{poll:?}, {after:?}");
    }
    assert!(stopped > 20, "{stopped}");
}

#[tokio::test(start_paused = true)]
async fn an_activity_locked_by_a_dropped_fetch_is_free_for_another_process() {
    let (mut stopped, tags) = (0, TagFilter::DefaultOnly);
    for (poll, after) in polls() {
        let world = World::new();
        let client = world.provider().await;
        client.enqueue_for_worker(activity("i", 2, None)).await.unwrap();
        let stopping = world.settled().await;
        let fetch = stopping.fetch_work_item(LOCK, poll, None, &tags);
        if !stop_in_the_middle(&world, &stopping, after, fetch).await {
            continue;
        }
        stopped += 1;
        let found = world.provider().await.fetch_work_item(LOCK, SOON, None, &tags).await;
        let (item, _, attempts) = found.unwrap().unwrap_or_else(|| panic!("{poll:?}, {after:?}"));
        assert_eq!((item, attempts), (activity("i", 2, None), 1), "{poll:?}, {after:?}");
    }
    assert!(stopped > 20, "{stopped}");
}

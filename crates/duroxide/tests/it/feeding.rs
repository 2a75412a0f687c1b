//! What the container is asked for, and what that must not depend on: a question that takes long delays no timer.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::Provider;
use sidereal_testing::in_process::NetworkFaults;
use tokio::time::Instant;

use crate::turns::{Done, LOCK, begin, fetch, raised};
use crate::world::World;

const LONGEST_FEED_INTERVAL: Duration = Duration::from_millis(1_250);

/// How long a process waits beside something.
const BESIDE: Duration = Duration::from_secs(30);

/// While the container is asked for work, which may take long where it is throttled or far away, timers of this process
/// were not looked at.
#[tokio::test(start_paused = true)]
async fn a_timer_fires_in_time_while_the_container_is_being_asked() {
    const SLOW: Duration = Duration::from_secs(4);
    const DUE: Duration = Duration::from_secs(3);
    let world = World::new();
    let provider = Arc::new(world.settled().await);
    begin(&provider, "i", Done::first("i")).await;
    let waiting = Arc::clone(&provider);
    let fetching = tokio::spawn(async move {
        waiting.fetch_orchestration_item(LOCK, BESIDE, None).await.unwrap().unwrap()
    });
    tokio::time::sleep(Duration::from_secs(5)).await;
    let began = Instant::now();
    provider.enqueue_for_orchestrator(raised("i", "1"), Some(DUE)).await.unwrap();
    world.account.network().set_faults(NetworkFaults { latency: SLOW, ..NetworkFaults::NONE });
    tokio::time::sleep(2 * LONGEST_FEED_INTERVAL).await;
    world.account.network().set_faults(NetworkFaults::NONE);
    let (turn, _, _) = fetching.await.unwrap();
    assert_eq!(turn.messages, [raised("i", "1")]);
    let late = began.elapsed().saturating_sub(DUE);
    assert!(late <= Duration::from_millis(50), "{late:?}");
    assert!(fetch(&provider).await.is_none());
}

//! Messages to other instances, many of them.

use std::time::Duration;

use sidereal_testing::in_process::{Interruption, NetworkFaults};
use tokio::time::Instant;

use crate::turns::{Done, ack, enqueue, fetch, start};
use crate::world::World;

/// A turn that starts so many orchestrations.
fn with_children(count: usize) -> Done {
    let children = (0..count).map(|number| start(&format!("child-{number}")));
    Done { messages: children.collect(), ..Done::first("parent") }
}

const ROUND_TRIP: Duration = Duration::from_millis(50);

fn far_away(world: &World) {
    let faults = NetworkFaults { latency: ROUND_TRIP, ..NetworkFaults::NONE };
    world.account.network().set_faults(faults);
}

#[tokio::test(start_paused = true)]
async fn the_messages_of_a_turn_are_delivered_32_at_a_time() {
    const CHILDREN: usize = 640;
    let world = World::new();
    let provider = world.settled().await;
    enqueue(&provider, start("parent")).await;
    let (_, token, _) = fetch(&provider).await.unwrap();
    far_away(&world);
    let began = Instant::now();
    ack(&provider, &token, with_children(CHILDREN)).await.unwrap();
    let all = CHILDREN as u32 / 32 * ROUND_TRIP;
    assert!(began.elapsed() < all, "deliveries go on beside the dispatcher: {:?}", began.elapsed());
    while world.count("orch_queue").await < CHILDREN {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(began.elapsed() >= all, "{:?}", began.elapsed());
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(world.count("orch_queue").await, CHILDREN);
    assert_eq!(world.count("outbox_intent").await, 0);
}

#[tokio::test(start_paused = true)]
async fn what_a_process_left_undelivered_is_not_delivered_one_after_the_other() {
    const CHILDREN: usize = 200;
    let world = World::new();
    let first = world.settled().await;
    enqueue(&first, start("parent")).await;
    drop(first);
    // It commits in some batches, and stops at one of its first deliveries.
    let stopped = world.interrupt(12, Interruption::StopBefore, async |provider| {
        let (_, token, _) = fetch(provider).await.unwrap();
        ack(provider, &token, with_children(CHILDREN)).await.unwrap();
    });
    stopped.await;
    let left = world.count("outbox_intent").await;
    assert!(left > CHILDREN / 2, "{left}");
    far_away(&world);
    let began = Instant::now();
    let _next = world.provider().await;
    while world.count("outbox_intent").await > 0 {
        tokio::time::sleep(ROUND_TRIP).await;
    }
    println!("{left} messages are delivered within {:?}", began.elapsed());
    assert!(began.elapsed() < left as u32 * ROUND_TRIP, "{:?}", began.elapsed());
    assert_eq!(world.count("orch_queue").await, CHILDREN);
}

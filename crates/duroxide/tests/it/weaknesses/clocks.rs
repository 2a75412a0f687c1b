//! 19: processes whose clocks differ. Locks may be taken early or late; nothing happens twice, nothing is lost.

use std::time::Duration;

use duroxide::providers::Provider;
use sidereal::driver::system::Clock;
use sidereal_duroxide::CosmosDBProvider;

use crate::turns::{Done, ack, begin, completed, enqueue, fetch, fetch_activity, raised};
use crate::world::World;

const SKEW: Duration = Duration::from_secs(45);

async fn ahead(world: &World, seed: u64) -> CosmosDBProvider {
    let wall = world.account.driver_clock().wall() + SKEW;
    world.provider_on(Clock::simulated(seed, wall)).await
}

async fn behind(world: &World, seed: u64) -> CosmosDBProvider {
    let wall = world.account.driver_clock().wall() - SKEW;
    world.provider_on(Clock::simulated(seed, wall)).await
}

#[tokio::test(start_paused = true)]
async fn two_processes_whose_clocks_differ_handle_every_message_once() {
    let world = World::new();
    let processes = [ahead(&world, 7).await, behind(&world, 8).await];
    begin(&processes[0], "i", Done::first("i")).await;
    let mut handled = Vec::new();
    for number in 0..12_usize {
        let (sender, one, other) =
            (&processes[number / 2 % 2], &processes[number % 2], &processes[(number + 1) % 2]);
        enqueue(sender, raised("i", &number.to_string())).await;
        // What one clock holds to be in the future becomes visible in the end.
        tokio::time::sleep(2 * SKEW + Duration::from_secs(1)).await;
        let mut tokens = Vec::new();
        for process in [one, other] {
            if let Some((item, token, _)) = fetch(process).await {
                tokens.push((process, token, item.messages));
            }
        }
        let mut committed = 0;
        for (process, token, messages) in tokens {
            if ack(process, &token, Done::default()).await.is_ok() {
                committed += 1;
                handled.extend(messages);
            }
        }
        assert_eq!(committed, 1, "of message {number}");
    }
    let sent: Vec<_> = (0..12).map(|number| raised("i", &number.to_string())).collect();
    assert_eq!(handled, sent);
    assert_eq!(world.count("orch_queue").await, 0);
}

#[tokio::test(start_paused = true)]
async fn an_activity_is_ended_by_one_of_two_processes_whose_clocks_differ() {
    let world = World::new();
    let (slow, hasty) = (behind(&world, 8).await, ahead(&world, 7).await);
    begin(&slow, "i", Done::first("i").with_activities("i", 2..3)).await;
    let (_, early, _) = fetch_activity(&slow).await.unwrap();
    // To the other one the lock has expired, or it has not.
    let taken = fetch_activity(&hasty).await;
    let end = || Some(completed("i", 2, String::new()));
    let ended = slow.ack_work_item(&early, end()).await;
    match taken {
        Some((_, token, _)) => {
            assert!(ended.is_err());
            hasty.ack_work_item(&token, end()).await.unwrap();
        }
        None => ended.unwrap(),
    }
    assert_eq!((world.count("worker_queue").await, world.count("orch_queue").await), (0, 1));
}

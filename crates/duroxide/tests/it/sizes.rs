//! Large: backlogs that cannot be fetched, results larger than a document, turns larger than a batch; and instances that
//! are deleted and come again.

use std::collections::BTreeSet;
use std::time::Duration;

use duroxide::providers::{
    DispatcherCapabilityFilter, InstanceFilter, Provider, ProviderAdmin, PruneOptions,
    ScheduledActivityIdentifier, SemverRange, WorkItem,
};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Event, EventKind, OrchestrationContext, OrchestrationRegistry};
use semver::Version;
use serde_json::Value;
use sidereal::prelude::*;
use sidereal_duroxide::CosmosDBProvider;
use sidereal_testing::in_process::{Interruption, NetworkFaults};

use crate::process::{Process, ok, with_process};
use crate::turns::{
    Done, LOCK, ack, activity, begin, completed, enqueue, fetch, fetch_activity, raised, start,
};
use crate::world::World;

/// How many instances are in front of the one that is ready.
const CROWD: usize = 1_000;

/// Makes a crowd of an instance: its documents once more for each of the others. Fetching each of them to lock it would
/// take the test longer than what it is about.
async fn multiply(world: &World, instance: &str) {
    let container = world.container();
    let query = container.query("SELECT * FROM c").with_partition_key(instance);
    let documents: Vec<Value> = query.items().collect().await.unwrap();
    for number in 1..CROWD {
        let name = format!("{instance}{number}");
        let batch = documents.iter().fold(TransactionalBatch::new(&name), |batch, document| {
            let copy: Value =
                serde_json::from_str(&document.to_string().replace(instance, &name)).unwrap();
            batch.create_item(copy)
        });
        container.execute_batch(batch, None).await.unwrap();
    }
}

/// How many requests a fetch takes at most that finds the instance behind a crowd: for each hundred of the crowd a page
/// of candidates, the few that are tried unseen, and the states of the rest.
const BEHIND_A_CROWD: usize = 6 * CROWD / 100;

#[tokio::test(start_paused = true)]
async fn a_thousand_locked_instances_do_not_hide_the_one_that_is_ready() {
    let world = World::new();
    let provider = world.settled().await;
    enqueue(&provider, start("crowd")).await;
    assert!(fetch(&provider).await.is_some());
    enqueue(&provider, raised("crowd", "1")).await;
    multiply(&world, "crowd").await;
    tokio::time::sleep(LOCK / 2).await;
    enqueue(&provider, start("ready")).await;
    let (fetched, requests) = world.requests(fetch(&provider)).await;
    assert_eq!(fetched.unwrap().0.instance, "ready");
    assert!(requests <= BEHIND_A_CROWD, "{requests}");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_instances_of_another_version_do_not_hide_a_ready_one() {
    let world = World::new();
    let provider = world.settled().await;
    let mut done = Done::first("crowd");
    done.metadata.pinned_duroxide_version = Some(Version::new(9, 0, 0));
    begin(&provider, "crowd", done).await;
    enqueue(&provider, raised("crowd", "1")).await;
    multiply(&world, "crowd").await;
    tokio::time::sleep(LOCK / 2).await;
    enqueue(&provider, start("ready")).await;
    let range = SemverRange::new(Version::new(0, 0, 0), Version::new(1, 0, 0));
    let filter = DispatcherCapabilityFilter { supported_duroxide_versions: vec![range] };
    let fetching = provider.fetch_orchestration_item(LOCK, Duration::ZERO, Some(&filter));
    let (fetched, requests) = world.requests(fetching).await;
    assert_eq!(fetched.unwrap().unwrap().0.instance, "ready");
    assert!(requests <= BEHIND_A_CROWD, "{requests}");
    // A dispatcher that can replay them finds them.
    assert!(fetch(&provider).await.is_some());
}

/// All instances were listed before the first few were taken.
#[tokio::test(start_paused = true)]
async fn pruning_one_of_a_thousand_instances_does_not_list_the_others() {
    let world = World::new();
    let provider = world.settled().await;
    begin(&provider, "crowd", Done::first("crowd")).await;
    multiply(&world, "crowd").await;
    let filter = InstanceFilter { limit: Some(1), ..InstanceFilter::default() };
    let pruning = provider.prune_executions_bulk(filter, PruneOptions::default());
    let (pruned, requests) = world.requests(pruning).await;
    assert_eq!(pruned.unwrap().instances_processed, 1);
    assert!(requests <= 5, "{requests}");
}

/// Everything that an instance leaves behind is of its first life: tombstones of messages, of activities that were
/// cancelled, keys, messages to others.
#[tokio::test(start_paused = true)]
async fn an_instance_that_comes_again_does_not_meet_its_past() {
    let world = World::new();
    let provider = world.settled().await;
    let mut tokens = Vec::new();
    for life in 0..3 {
        let mut done = Done::first("i").with_activities("i", 2..5);
        let (key, value) = (format!("of life {life}"), "v".to_owned());
        let set = EventKind::KeyValueSet { key: key.clone(), value, last_updated_at_ms: 1 };
        done.events.push(Event::with_event_id(2, "i", 1, None, set));
        done.messages.push(raised("other", "first"));
        begin(&provider, "i", done).await;
        enqueue(&provider, raised("i", "1")).await;
        let (item, token, _) = fetch(&provider).await.unwrap();
        assert_eq!((item.messages.len(), item.history.len()), (1, 2), "in life {life}");
        let cancelled = [2, 3].map(|activity_id| ScheduledActivityIdentifier {
            instance: "i".to_owned(),
            execution_id: 1,
            activity_id,
        });
        let messages = vec![raised("other", "second")];
        let done = Done { cancelled: cancelled.to_vec(), messages, ..Done::default() };
        ack(&provider, &token, done).await.unwrap();
        let (left, token, attempts) = fetch_activity(&provider).await.unwrap();
        assert_eq!((left, attempts), (activity("i", 4, None), 1), "in life {life}");
        assert_eq!(fetch_activity(&provider).await, None, "in life {life}");
        let keys = provider.get_kv_all_values("i").await.unwrap();
        assert_eq!(keys.into_keys().collect::<Vec<_>>(), [key]);
        tokens.push(token);
        provider.delete_instances_atomic(&["i".to_owned()], true).await.unwrap();
        assert!(provider.read("i").await.unwrap().is_empty());
    }
    for token in tokens {
        let late = Some(completed("i", 4, String::new()));
        assert!(!provider.ack_work_item(&token, late).await.unwrap_err().is_retryable());
    }
    assert_eq!(world.count("orch_queue").await, 2 * 3, "messages to the other instance");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_larger_than_a_document_arrives_whole() {
    const BYTES: usize = 2_500_000;
    let activities = ActivityRegistry::builder()
        .register("Large", async |_: ActivityContext, letter: String| Ok(letter.repeat(BYTES)))
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Large", async |ctx: OrchestrationContext, letter: String| {
            let large = ctx.schedule_activity("Large", letter.clone()).await?;
            // Replayed once more, from the history.
            ctx.schedule_timer(Duration::from_millis(1)).await;
            match large == letter.repeat(BYTES) {
                true => Ok(large),
                false => Err(format!("{} bytes came", large.len())),
            }
        })
        .build();
    with_process(activities, orchestrations, async |process: &Process| {
        let output = process.run("i", "Large", "x").await.unwrap();
        assert!(output.len() == BYTES && output.bytes().all(|byte| byte == b'x'));
        let info = process.provider.get_instance_info("i").await.unwrap();
        assert_eq!(info.output.map(|output| output.len()), Some(BYTES));
    })
    .await;
}

/// The first turn of an instance that schedules activities, with their events.
fn fan_out(activities: u64) -> Done {
    let ids = 2..2 + activities;
    let mut done = Done::first("i").with_activities("i", ids.clone());
    done.events.extend(ids.map(|id| {
        let (name, input) = ("work".to_owned(), String::new());
        let kind = EventKind::ActivityScheduled { name, input, session_id: None, tag: None };
        Event::with_event_id(id, "i", 1, None, kind)
    }));
    done
}

#[tokio::test(start_paused = true)]
async fn a_turn_cancels_more_activities_than_a_batch_holds() {
    const ACTIVITIES: u64 = 1_500;
    let world = World::new();
    let provider = world.settled().await;
    begin(&provider, "i", fan_out(ACTIVITIES)).await;
    assert_eq!(world.count("worker_queue").await as u64, ACTIVITIES);
    assert_eq!(provider.read("i").await.unwrap().len() as u64, 1 + ACTIVITIES);
    let (first, token, _) = fetch_activity(&provider).await.unwrap();
    assert_eq!(first, activity("i", 2, None));
    provider.ack_work_item(&token, Some(completed("i", 2, String::new()))).await.unwrap();
    let (_, taken, _) = fetch_activity(&provider).await.unwrap();

    let (_, token, _) = fetch(&provider).await.unwrap();
    let cancelled = |activity_id| ScheduledActivityIdentifier {
        instance: "i".to_owned(),
        execution_id: 1,
        activity_id,
    };
    let cancelled = (2..2 + ACTIVITIES).map(cancelled).collect();
    ack(&provider, &token, Done { cancelled, ..Done::default() }).await.unwrap();
    // The worker that has one is told, and nobody is given another.
    let refused = provider.renew_work_item_lock(&taken, LOCK).await;
    assert!(!refused.unwrap_err().is_retryable());
    // What the commit had no room for has gone right after it.
    enqueue(&provider, raised("i", "1")).await;
    let (_, token, _) = fetch(&provider).await.unwrap();
    ack(&provider, &token, Done::default()).await.unwrap();
    assert_eq!(fetch_activity(&provider).await, None);
    assert_eq!(world.count("worker_queue").await, 0);
}

/// Its holder lost the lock every five seconds, since nothing extended it, and the turn counted as poison after ten attempts.
#[tokio::test(start_paused = true)]
async fn the_sweep_of_an_interrupted_turn_keeps_its_lock() {
    const ACTIVITIES: u64 = 1_500;
    const ROUND_TRIP: Duration = Duration::from_millis(500);
    let world = World::new();
    let run = async |provider: &CosmosDBProvider| {
        enqueue(provider, start("i")).await;
        let (_, token, _) = fetch(provider).await.unwrap();
        let _ = ack(provider, &token, fan_out(ACTIVITIES)).await;
    };
    world.interrupt(30, Interruption::StopBefore, run).await;
    let staged = world.count("worker_queue").await;
    assert!(staged > 500, "{staged} were written before the process stopped");
    let (holder, other) = (world.settled().await, world.settled().await);
    let faults = NetworkFaults { latency: ROUND_TRIP, ..NetworkFaults::NONE };
    world.account.network().set_faults(faults);
    let (_, token, attempts) = fetch(&holder).await.unwrap();
    assert_eq!(attempts, 2);
    let began = tokio::time::Instant::now();
    let acking = async { ack(&holder, &token, fan_out(ACTIVITIES)).await.unwrap() };
    let renewing = async {
        loop {
            tokio::time::sleep(Duration::from_secs(3)).await;
            let waited = tokio::time::Instant::now();
            holder.renew_orchestration_item_lock(&token, LOCK).await.unwrap();
            assert!(waited.elapsed() < ROUND_TRIP, "a renewal does not wait for the commit");
        }
    };
    let stealing = async {
        loop {
            let stolen = fetch(&other).await;
            assert!(stolen.is_none(), "{stolen:?} after {:?}", began.elapsed());
        }
    };
    tokio::select! {
        () = acking => {}
        () = renewing => {}
        () = stealing => {}
    }
    assert!(began.elapsed() > 4 * LOCK, "{:?}", began.elapsed());
    world.account.network().set_faults(NetworkFaults::NONE);
    assert_eq!(world.count("worker_queue").await as u64, ACTIVITIES);
    assert_eq!(other.read("i").await.unwrap().len() as u64, 1 + ACTIVITIES);
}

/// Removals that a commit had no room for were left to the next turn. An orchestration that has ended has none: activities that
/// it had cancelled were run, and a worker that had one was not told.
#[tokio::test(start_paused = true)]
async fn an_ended_orchestration_leaves_no_activities_to_be_run() {
    const ACTIVITIES: u64 = 500;
    let world = World::new();
    let provider = world.settled().await;
    begin(&provider, "i", fan_out(ACTIVITIES)).await;
    let mut taken = Vec::new();
    for _ in 0..150 {
        taken.push(fetch_activity(&provider).await.unwrap().1);
    }
    enqueue(&provider, raised("i", "1")).await;
    let (_, token, _) = fetch(&provider).await.unwrap();
    let cancelled = |activity_id| ScheduledActivityIdentifier {
        instance: "i".to_owned(),
        execution_id: 1,
        activity_id,
    };
    let cancelled = (2..2 + ACTIVITIES).map(cancelled).collect();
    let mut done = Done { cancelled, ..Done::default() };
    done.metadata.status = Some("Completed".to_owned());
    ack(&provider, &token, done).await.unwrap();
    assert_eq!((fetch_activity(&provider).await, world.count("worker_queue").await), (None, 0));
    for token in taken {
        assert!(provider.renew_work_item_lock(&token, LOCK).await.is_err(), "its worker is told");
    }
    // Nothing is left for a next turn.
    enqueue(&provider, raised("i", "2")).await;
    let (fetched, requests) = world.requests(fetch(&provider)).await;
    assert!(fetched.is_some());
    assert!(requests <= 4, "candidates, the instance, its lock, its history: {requests}");
}

/// How many activities come together: 1,500 if `SIDEREAL_EXHAUSTIVE` is set, else fewer, which take seconds less.
fn gathered() -> u64 {
    if std::env::var_os("SIDEREAL_EXHAUSTIVE").is_some() { 1_500 } else { 220 }
}

/// Their results are more than one turn holds, too.
#[tokio::test(start_paused = true)]
async fn a_fan_out_of_many_activities_in_one_turn_comes_together() {
    let activities = gathered();
    let world = World::new();
    let provider = world.settled().await;
    begin(&provider, "i", fan_out(activities)).await;
    while let Some((item, token, attempts)) = fetch_activity(&provider).await {
        let WorkItem::ActivityExecute { id, .. } = item else { panic!("{item:?}") };
        assert_eq!(attempts, 1);
        provider.ack_work_item(&token, Some(completed("i", id, id.to_string()))).await.unwrap();
    }
    let mut ids = 2 + activities..;
    while let Some((item, token, _)) = fetch(&provider).await {
        let take = |message: &WorkItem| {
            let WorkItem::ActivityCompleted { id, result, .. } = message else {
                panic!("{message:?}");
            };
            let kind = EventKind::ActivityCompleted { result: result.clone() };
            Event::with_event_id(ids.next().unwrap(), "i", 1, Some(*id), kind)
        };
        let events = item.messages.iter().map(take).collect();
        ack(&provider, &token, Done { events, ..Done::default() }).await.unwrap();
    }
    let history = provider.read("i").await.unwrap();
    let sources: BTreeSet<u64> = history.iter().filter_map(|event| event.source_event_id).collect();
    assert_eq!(sources, (2..2 + activities).collect());
    assert_eq!(history.len() as u64, 1 + 2 * activities);
    for kind in ["worker_queue", "orch_queue"] {
        assert_eq!(world.count(kind).await, 0, "{kind}");
    }
}

/// Large texts through duroxide's runtime.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runtime_joins_more_activities_than_a_batch_holds() {
    let count = gathered();
    let activities = ActivityRegistry::builder()
        .register("Square", async |_: ActivityContext, number: String| {
            Ok(number.parse::<u64>().unwrap().pow(2).to_string())
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("FanOut", async |ctx: OrchestrationContext, count: String| {
            let count: u64 = count.parse().unwrap();
            let calls = (0..count).map(|it| ctx.schedule_activity("Square", it.to_string()));
            let squares = ctx.join(calls.collect()).await;
            let sum: u64 = squares.into_iter().map(|it| it.unwrap().parse::<u64>().unwrap()).sum();
            Ok(sum.to_string())
        })
        .build();
    with_process(activities, orchestrations, async |process: &Process| {
        let sum: u64 = (0..count).map(|number| number.pow(2)).sum();
        assert_eq!(process.run("i", "FanOut", &count.to_string()).await, ok(sum.to_string()));
        let depths = process.provider.get_queue_depths().await.unwrap();
        assert_eq!((depths.worker_queue, depths.orchestrator_queue), (0, 0));
    })
    .await;
}

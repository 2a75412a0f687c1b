//! 13, 14, 16: what administrators ask for is exact, all or none; what a crash must not lose; whom the provider trusts.

use std::time::Duration;

use duroxide::providers::{
    ExecutionMetadata, InstanceFilter, Provider, ProviderAdmin, PruneOptions,
    ScheduledActivityIdentifier,
};
use duroxide::{Event, EventKind};
use sidereal_duroxide::{CosmosDBProvider, CosmosDBProviderConfig};
use sidereal_emulator::Emulator;
use sidereal_testing::in_process::Interruption;
use sidereal_testing::in_process::scripting::{header, refusal};

use crate::turns::{
    Done, ack, activity, begin, continue_as_new, enqueue, fetch, fetch_activity, raised, start,
};
use crate::world::World;

/// An instance with ended executions, a minute apart, and one that runs; the milliseconds of their ends.
async fn with_executions(provider: &CosmosDBProvider, instance: &str, ended: u64) -> Vec<u64> {
    enqueue(provider, start(instance)).await;
    for execution in 1..=ended + 1 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let (_, token, _) = fetch(provider).await.unwrap();
        let is_last = execution > ended;
        let metadata = ExecutionMetadata {
            status: (!is_last).then(|| "ContinuedAsNew".to_owned()),
            output: (!is_last).then(|| format!("output {execution}")),
            ..Done::first(instance).metadata
        };
        let kind = EventKind::ExternalEvent { name: "e".to_owned(), data: String::new() };
        let events: Vec<Event> = (1..=execution)
            .map(|id| Event::with_event_id(id, instance, execution, None, kind.clone()))
            .collect();
        let next = if is_last { vec![] } else { vec![continue_as_new(instance)] };
        provider
            .ack_orchestration_item(&token, execution, events, vec![], next, metadata, vec![])
            .await
            .unwrap();
    }
    let mut ends = Vec::new();
    for execution in 1..=ended {
        let info = provider.get_execution_info(instance, execution).await.unwrap();
        ends.extend(info.completed_at);
    }
    ends
}

// 13
#[tokio::test(start_paused = true)]
async fn an_execution_is_described_exactly() {
    let world = World::new();
    let provider = world.settled().await;
    let ends = with_executions(&provider, "i", 2).await;
    let first = provider.get_execution_info("i", 1).await.unwrap();
    assert_eq!((first.status.as_str(), first.event_count), ("ContinuedAsNew", 1));
    assert_eq!(first.output.as_deref(), Some("output 1"));
    let second = provider.get_execution_info("i", 2).await.unwrap();
    assert_eq!(second.event_count, 2);
    assert_eq!(ends[1] - ends[0], 60_000);
    assert!(second.started_at >= ends[0] && second.started_at <= ends[1]);
    let last = provider.get_execution_info("i", 3).await.unwrap();
    assert_eq!((last.status.as_str(), last.completed_at), ("Running", None));
    assert!(provider.get_execution_info("i", 4).await.is_err());
    let metrics = provider.get_system_metrics().await.unwrap();
    assert_eq!((metrics.total_instances, metrics.running_instances), (1, 1));
    assert_eq!((metrics.total_executions, metrics.total_events), (3, 1 + 2 + 3));
}

// 13
#[tokio::test(start_paused = true)]
async fn pruning_obeys_every_option() {
    let world = World::new();
    let provider = world.settled().await;
    let ends = with_executions(&provider, "i", 4).await;
    let prune = async |keep_last, completed_before| {
        let options = PruneOptions { keep_last, completed_before };
        let pruned = provider.prune_executions("i", options).await.unwrap();
        (pruned.executions_deleted, pruned.events_deleted)
    };
    assert_eq!(prune(Some(5), None).await, (0, 0), "there are five");
    assert_eq!(prune(None, Some(ends[0])).await, (0, 0), "it ended then, not before");
    assert_eq!(prune(None, Some(ends[0] + 1)).await, (1, 1));
    assert_eq!(prune(Some(3), Some(ends[3] + 1)).await, (1, 2), "both options let it go");
    assert_eq!(provider.list_executions("i").await.unwrap(), [3, 4, 5]);
    assert_eq!(prune(None, None).await, (2, 3 + 4), "all but the one that runs");
    assert_eq!(provider.list_executions("i").await.unwrap(), [5]);
}

// 13
#[tokio::test(start_paused = true)]
async fn pruning_and_deleting_many_stop_at_their_limit() {
    let world = World::new();
    let provider = world.settled().await;
    for instance in ["a", "b", "c"] {
        with_executions(&provider, instance, 1).await;
    }
    let filter = InstanceFilter { limit: Some(2), ..InstanceFilter::default() };
    let options = PruneOptions { keep_last: Some(1), ..PruneOptions::default() };
    let pruned = provider.prune_executions_bulk(filter.clone(), options).await.unwrap();
    assert_eq!((pruned.instances_processed, pruned.executions_deleted), (2, 2));
    assert_eq!(provider.get_system_metrics().await.unwrap().total_executions, 3 + 1);

    for instance in ["x", "y", "z"] {
        let mut done = Done::first(instance);
        done.metadata.status = Some("Completed".to_owned());
        begin(&provider, instance, done).await;
    }
    let deleted = provider.delete_instance_bulk(filter).await.unwrap();
    assert_eq!(deleted.instances_deleted, 2);
    assert_eq!(provider.list_instances().await.unwrap().len(), 3 + 1, "none that runs is deleted");
}

// 13
#[tokio::test(start_paused = true)]
async fn one_instance_that_runs_keeps_the_others_from_being_deleted() {
    let world = World::new();
    let provider = world.settled().await;
    for instance in ["ended", "' OR '1'='1", "runs"] {
        let mut done = Done::first(instance);
        done.metadata.status = (instance != "runs").then(|| "Completed".to_owned());
        begin(&provider, instance, done).await;
    }
    let all = ["ended", "' OR '1'='1", "runs"].map(str::to_owned);
    assert!(provider.delete_instances_atomic(&all, false).await.is_err());
    assert_eq!(provider.list_instances().await.unwrap(), all);
    assert_eq!(provider.list_children("' OR '1'='1").await.unwrap(), [""; 0]);
    let deleted = provider.delete_instances_atomic(&all[1..2], false).await.unwrap();
    assert_eq!(deleted.instances_deleted, 1);
    assert_eq!(provider.list_instances().await.unwrap(), ["ended", "runs"]);
}

// 13
#[tokio::test(start_paused = true)]
async fn a_token_that_names_nothing_is_refused_for_good() {
    let world = World::new();
    let provider = world.settled().await;
    begin(&provider, "i", Done::first("i").with_activities("i", 2..3)).await;
    let (_, token, _) = fetch_activity(&provider).await.unwrap();
    let nonce = token.rsplit_once('.').unwrap().0;
    for token in ["", "nothing", "w1.aQ.aQ.1", &format!("{nonce}.forged")] {
        let abandoned = provider.abandon_work_item(token, None, false).await;
        assert!(!abandoned.unwrap_err().is_retryable(), "{token}");
        assert!(!provider.ack_work_item(token, None).await.unwrap_err().is_retryable(), "{token}");
        let renewed = provider.renew_work_item_lock(token, Duration::from_secs(1)).await;
        assert!(!renewed.unwrap_err().is_retryable(), "{token}");
    }
    provider.ack_work_item(&token, None).await.unwrap();
}

// 14
#[tokio::test(start_paused = true)]
async fn a_cancellation_whose_commit_does_not_arrive_has_not_happened() {
    let world = World::new();
    let provider = world.settled().await;
    begin(&provider, "i", Done::first("i").with_activities("i", 2..3)).await;
    enqueue(&provider, raised("i", "1")).await;
    let (_, token, _) = fetch(&provider).await.unwrap();
    let cancelled =
        ScheduledActivityIdentifier { instance: "i".to_owned(), execution_id: 1, activity_id: 2 };
    world.network.arm(0, Interruption::StopBefore);
    tokio::select! {
        _ = ack(&provider, &token, Done { cancelled: vec![cancelled.clone()], ..Done::default() }) => panic!("it stops"),
        () = world.network.stopped() => {}
    }
    world.network.disarm();
    drop(provider);
    super::expire().await;
    let next = world.provider().await;
    let (item, held, _) = fetch_activity(&next).await.unwrap();
    assert_eq!(item, activity("i", 2, None));
    let (item, token, _) = fetch(&next).await.unwrap();
    assert_eq!(item.messages, [raised("i", "1")]);
    ack(&next, &token, Done { cancelled: vec![cancelled], ..Done::default() }).await.unwrap();
    assert!(!next.ack_work_item(&held, None).await.unwrap_err().is_retryable());
}

// 16
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_account_whose_certificate_nobody_vouches_for_is_not_talked_to() {
    let emulator = Emulator::builder().start().await.unwrap();
    assert!(emulator.endpoint().starts_with("https:"));
    let config = CosmosDBProviderConfig::new(emulator.endpoint(), emulator.key().clone());
    let refused = CosmosDBProvider::new(config).await.unwrap_err();
    let account = emulator.account().counters();
    assert!(account.is_empty(), "nothing was asked of it: {refused}");
}

/// Refused for good by the service: what the message is, and why, can be read by the operator of the container.
#[tokio::test(start_paused = true)]
async fn a_message_that_can_never_be_delivered_is_told_and_stays() {
    let world = World::scripted(|request| {
        let key = header(request, "x-ms-documentdb-partitionkey")?;
        key.contains("target").then(|| refusal(413, 0))
    });
    let provider = world.settled().await;
    enqueue(&provider, start("source")).await;
    let (_, token, _) = fetch(&provider).await.unwrap();
    let done = Done { messages: vec![raised("target", "1")], ..Done::first("source") };
    ack(&provider, &token, done).await.unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    let metrics = provider.outbox_metrics().await.unwrap();
    assert_eq!((metrics.pending, metrics.undeliverable), (0, 1));
    let message = &metrics.examples[0];
    assert_eq!((message.source.as_str(), message.target.as_str()), ("source", "target"));
    assert_eq!(message.attempt_count, 1, "it is not tried again");
    assert!(message.last_error.as_ref().unwrap().contains("413"), "{message:?}");
}

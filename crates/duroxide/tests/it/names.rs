//! Instances, activities, keys, sessions, tags and events may have any text for a name.

use std::time::Duration;

use duroxide::providers::{Provider, ProviderAdmin, SessionFetchConfig, TagFilter, WorkItem};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Event, EventKind, OrchestrationContext, OrchestrationRegistry};
use sidereal_duroxide::CosmosDBProvider;

use crate::process::{Process, ok, with_process};
use crate::turns::{Done, LOCK, ack, activity, begin, completed, enqueue, fetch, raised, start};
use crate::world::World;

/// Texts that something between an application and the service may take for something else.
fn awkward() -> Vec<String> {
    let characters = ["/", "\\", "?", "#", "\"", "'", "%", "+", "&", " ", ":", ";", "=", "<", ">"];
    let mut texts: Vec<String> = characters.iter().map(|it| format!("a{it}b{it}")).collect();
    texts.extend(characters.map(str::to_owned));
    texts.extend(
        [
            "a/b\\c?d#e\"f'g%h+i&j k",
            "%2F%25%sha256-",
            "'; DROP TABLE c; --",
            "\0\u{1}\t\r\n\u{7f}\u{85}",
            "🦀👩‍👩‍👧 🇩🇪",
            "שלום \u{202e}abc\u{202c} مرحبا",
            "e\u{301} é",
            "\u{feff}\u{200b}\u{2028}\u{ffff}",
            " leading and trailing ",
            "..",
            ".",
            "null",
            "{\"a\":[1]}",
            " session:__leases__:instance",
        ]
        .map(str::to_owned),
    );
    texts.push("x".repeat(1_000));
    texts.push("é".repeat(500));
    texts.push(format!("{}{}", "p".repeat(900), "::sub::1".repeat(12)));
    texts
}

/// One life of an instance whose every name is the same text.
async fn live(provider: &CosmosDBProvider, text: &str) {
    let set = EventKind::KeyValueSet {
        key: text.to_owned(),
        value: text.to_owned(),
        last_updated_at_ms: 1,
    };
    let mut done = Done::first(text);
    done.metadata.orchestration_name = Some(text.to_owned());
    done.events.push(Event::with_event_id(2, text, 1, None, set));
    let work = WorkItem::ActivityExecute {
        instance: text.to_owned(),
        execution_id: 1,
        id: 3,
        name: text.to_owned(),
        input: text.to_owned(),
        session_id: Some(text.to_owned()),
        tag: Some(text.to_owned()),
    };
    done.activities.push(work.clone());
    begin(provider, text, done).await;

    let owner = SessionFetchConfig { owner_id: text.to_owned(), lock_timeout: LOCK };
    let tags = TagFilter::tags([text.to_owned()]);
    let fetched = provider.fetch_work_item(LOCK, Duration::ZERO, Some(&owner), &tags).await;
    let (item, token, _) = fetched.unwrap().unwrap();
    assert_eq!(item, work);
    assert_eq!(provider.renew_session_lock(&[text], LOCK, LOCK).await.unwrap(), 1);
    provider.renew_work_item_lock(&token, LOCK).await.unwrap();
    provider.ack_work_item(&token, Some(completed(text, 3, text.to_owned()))).await.unwrap();

    let (item, token, _) = fetch(provider).await.unwrap();
    assert_eq!((item.instance.as_str(), item.orchestration_name.as_str()), (text, text));
    assert_eq!(item.messages, [completed(text, 3, text.to_owned())]);
    provider.renew_orchestration_item_lock(&token, LOCK).await.unwrap();
    let to_itself = raised(text, text);
    let to_another = raised(&format!("to {text}"), text);
    let messages = vec![to_itself.clone(), to_another];
    ack(provider, &token, Done { messages, ..Done::default() }).await.unwrap();
    let (item, token, _) = fetch(provider).await.unwrap();
    assert_eq!(item.messages, [to_itself]);
    provider.abandon_orchestration_item(&token, None, false).await.unwrap();

    assert_eq!(provider.get_kv_value(text, text).await.unwrap().as_deref(), Some(text));
    assert_eq!(provider.list_instances().await.unwrap(), [text]);
    assert_eq!(provider.get_instance_info(text).await.unwrap().instance_id, text);
    assert_eq!(provider.read(text).await.unwrap().len(), 2);
    provider.delete_instances_atomic(&[text.to_owned()], true).await.unwrap();
    assert_eq!(provider.list_instances().await.unwrap(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn every_name_may_be_any_text() {
    let world = World::new();
    let provider = world.settled().await;
    for text in awkward() {
        live(&provider, &text).await;
    }
}

/// An instance of such a name shared a partition with the container's own documents, and its deletion removed them.
#[tokio::test(start_paused = true)]
async fn an_instance_named_like_a_partition_of_the_container_is_refused() {
    let world = World::new();
    let provider = world.settled().await;
    begin(&provider, "i", Done::first("i")).await;
    // A process that waits for work has a lease.
    let poll = Duration::from_secs(1);
    assert!(provider.fetch_orchestration_item(LOCK, poll, None).await.unwrap().is_none());
    for name in ["__sidereal__", "__leases__", "session:1"] {
        let event = Done::first(name).events;
        let mut refused = vec![
            provider.enqueue_for_orchestrator(start(name), None).await,
            provider.enqueue_for_orchestrator(raised(name, "1"), None).await,
            provider.enqueue_for_worker(activity(name, 2, None)).await,
            provider.append_with_execution(name, 1, event).await,
            provider.delete_instances_atomic(&[name.to_owned()], true).await.map(drop),
        ];
        enqueue(&provider, raised("i", "1")).await;
        let (_, token, _) = fetch(&provider).await.unwrap();
        let messages = vec![start(name)];
        refused.push(ack(&provider, &token, Done { messages, ..Done::default() }).await);
        for error in refused.into_iter().map(Result::unwrap_err) {
            assert!(!error.is_retryable() && error.message.contains("reserved"), "{error}");
        }
        ack(&provider, &token, Done::default()).await.unwrap();
    }
    assert!(provider.delete_instance("__sidereal__", true).await.is_err());
    assert_eq!((world.count("schema").await, world.count("leases").await), (1, 1));
    assert_eq!((world.count("orch_queue").await, world.count("worker_queue").await), (0, 0));
}

/// The service takes partition keys of up to 2 KB.
#[tokio::test(start_paused = true)]
async fn an_instance_whose_id_is_too_long_for_the_service_is_refused_for_good() {
    let world = World::new();
    let provider = world.settled().await;
    let refused = provider.enqueue_for_orchestrator(start(&"🦀".repeat(1_000)), None).await;
    assert!(!refused.unwrap_err().is_retryable());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_of_awkward_text_pass_through_a_runtime() {
    const TEXT: &str = "a/b\\c?d#e\"f'g%h+i&j k\u{1} 🦀 שלום";
    let activities = ActivityRegistry::builder()
        .register(TEXT, async |ctx: ActivityContext, input: String| {
            Ok(format!("{}, {input}", ctx.session_id().unwrap_or_default()))
        })
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Child", async |_: OrchestrationContext, input: String| ok(input))
        .register(TEXT, async |ctx: OrchestrationContext, input: String| {
            let worked = ctx.schedule_activity_on_session(TEXT, input, TEXT).await?;
            ctx.set_kv_value(TEXT, &worked);
            let event = ctx.schedule_wait(TEXT).await;
            let child = ctx.schedule_sub_orchestration("Child", event).await?;
            Ok(format!("{worked}, {child}"))
        })
        .build();
    with_process(activities, orchestrations, async |process: &Process| {
        process.client.start_orchestration(TEXT, TEXT, TEXT).await.unwrap();
        process.until_waiting(TEXT, TEXT).await;
        process.client.raise_event(TEXT, TEXT, TEXT).await.unwrap();
        assert_eq!(process.outcome(TEXT).await, ok(format!("{TEXT}, {TEXT}, {TEXT}")));
        let value = process.client.get_kv_value(TEXT, TEXT).await.unwrap();
        assert_eq!(value, Some(format!("{TEXT}, {TEXT}")));
    })
    .await;
}

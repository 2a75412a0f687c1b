//! Sessions within one process.

use std::sync::{Arc, Mutex};

use duroxide::runtime::RuntimeOptions;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    ActivityContext, BackoffStrategy, OrchestrationContext, OrchestrationRegistry, RetryPolicy,
};
use serde::{Deserialize, Serialize};

use super::work::{Shared, node, orchestrations};
use crate::process::{PATIENCE, Process, ok, with_process, with_process_like};

/// Runs one orchestration in one process, and says what it came to.
async fn run(options: RuntimeOptions, orchestration: &str, plan: &str) -> (String, Shared) {
    let shared = Shared::new();
    let mut output = String::new();
    let activities = shared.activities("node");
    with_process_like(options, activities, orchestrations(), async |process: &Process| {
        output = process.run("i", orchestration, plan).await.unwrap();
    })
    .await;
    (output, shared)
}

fn sessions(shared: &Shared) -> Vec<Option<String>> {
    let mut sessions: Vec<_> = shared.ran().into_iter().map(|ran| ran.session).collect();
    sessions.sort();
    sessions
}

fn named(names: &[&str]) -> Vec<Option<String>> {
    names.iter().map(|name| (*name != "-").then(|| (*name).to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_of_a_session_runs_and_sees_its_session() {
    let (output, shared) = run(node(None, 2), "InTurn", "Work a s").await;
    assert_eq!(output, "A");
    assert_eq!(sessions(&shared), named(&["s"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_named_process_does_not_show_its_name_as_the_session() {
    let (_, shared) = run(node(Some("pod-7"), 2), "InTurn", "Work a s, Work b -").await;
    assert_eq!(sessions(&shared), named(&["-", "s"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn activities_with_and_without_a_session_follow_each_other() {
    let (output, shared) = run(node(None, 2), "InTurn", "Work a s, Work b -, Work c s").await;
    assert_eq!(output, "ABC");
    assert_eq!(sessions(&shared), named(&["-", "s", "s"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_orchestration_has_several_sessions() {
    let (output, shared) = run(node(None, 2), "InTurn", "Work a s, Work b t, Work c u").await;
    assert_eq!(output, "ABC");
    assert_eq!(sessions(&shared), named(&["s", "t", "u"]));
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Order {
    total: u32,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_of_a_session_has_types() {
    let double = async |_: ActivityContext, order: Order| Ok(Order { total: order.total * 2 });
    let activities =
        ActivityRegistry::builder().register_typed::<Order, Order, _, _>("Double", double).build();
    let orchestrations = OrchestrationRegistry::builder()
        .register_typed::<Order, Order, _, _>(
            "Typed",
            async |ctx: OrchestrationContext, order: Order| {
                ctx.schedule_activity_on_session_typed::<Order, Order>("Double", &order, "s").await
            },
        )
        .build();
    with_process(activities, orchestrations, async |process: &Process| {
        let client = &process.client;
        client.start_orchestration_typed("i", "Typed", Order { total: 21 }).await.unwrap();
        let doubled = client.wait_for_orchestration_typed::<Order>("i", PATIENCE).await.unwrap();
        assert_eq!(doubled, Ok(Order { total: 42 }));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_activities_of_one_session_pass_through_many_workers() {
    let plan = ["Work a s"; 12].join(", ");
    let (output, shared) = run(node(Some("node"), 4), "Together", &plan).await;
    assert_eq!((output.len(), shared.ran().len()), (12, 12));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_workers_of_a_named_process_serve_two_sessions_at_a_time() {
    let (output, shared) = run(node(Some("node"), 2), "Together", "Meet a s, Meet b t").await;
    assert_eq!(output, "AB");
    assert_eq!(sessions(&shared), named(&["s", "t"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_workers_of_a_named_process_serve_one_session_at_a_time() {
    let (output, shared) = run(node(Some("node"), 2), "Together", "Meet a s, Meet b s").await;
    assert_eq!((output.as_str(), shared.peak()), ("AB", 2));
}

/// Without a name each worker is an owner of its own, and a session has one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_activities_of_a_session_of_an_unnamed_process_run_one_by_one() {
    let (output, shared) = run(node(None, 2), "Together", "Slow a s, Slow b s, Slow c s").await;
    assert_eq!((output.as_str(), shared.peak()), ("ABC", 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_worker_without_a_name_serves_one_session_after_the_other() {
    let plan = "Work a s, Work b t, Work c s, Work d t";
    let (output, _) = run(node(None, 1), "Together", plan).await;
    assert_eq!(output, "ABCD");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_fan_out_and_come_together() {
    let plan = "Work a s, Work b t, Work c u, Work d v, Work e w";
    let (output, shared) = run(node(Some("node"), 3), "Together", plan).await;
    assert_eq!(output, "ABCDE");
    assert_eq!(sessions(&shared), named(&["s", "t", "u", "v", "w"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_and_plain_activities_fan_out_and_come_together() {
    let plan = "Work a s, Work b -, Work c t, Work d -, Work e s, Work f t";
    let (output, shared) = run(node(Some("node"), 3), "Together", plan).await;
    assert_eq!(output, "ABCDEF");
    assert_eq!(sessions(&shared), named(&["-", "-", "s", "s", "t", "t"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_goes_on_when_its_orchestration_begins_anew() {
    let (output, shared) =
        run(node(None, 2), "ContinueAsNew", ": Work a s, Work b s, Work c s").await;
    assert_eq!(output, "ABC");
    assert_eq!(sessions(&shared), named(&["s", "s", "s"]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_goes_on_in_the_next_version_of_its_orchestration() {
    let shared = Shared::new();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Upgraded", async |ctx: OrchestrationContext, input: String| {
            let done = ctx.schedule_activity_on_session("Work", input, "s").await?;
            ctx.continue_as_new_versioned("2.0.0", format!("{done}b")).await
        })
        .register_versioned(
            "Upgraded",
            "2.0.0",
            async |ctx: OrchestrationContext, input: String| {
                ctx.schedule_activity_on_session("Work", input, "s").await
            },
        )
        .build();
    with_process(shared.activities("node"), orchestrations, async |process: &Process| {
        let client = &process.client;
        client.start_orchestration_versioned("i", "Upgraded", "1.0.0", "a").await.unwrap();
        assert_eq!(process.outcome("i").await, ok("AB"));
    })
    .await;
    assert_eq!(sessions(&shared), named(&["s", "s"]));
}

fn with_room_for_one_session() -> RuntimeOptions {
    RuntimeOptions { max_sessions_per_runtime: 1, ..node(Some("node"), 2) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_with_room_for_one_session_takes_one_after_the_other() {
    let (output, shared) = run(with_room_for_one_session(), "Together", "Slow a s, Slow b t").await;
    assert_eq!((output.as_str(), shared.peak()), ("AB", 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn activities_of_one_session_take_the_room_of_one() {
    let (output, shared) = run(with_room_for_one_session(), "Together", "Meet a s, Meet b s").await;
    assert_eq!((output.as_str(), shared.peak()), ("AB", 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_whose_room_is_taken_still_takes_what_has_no_session() {
    let shared = Shared::new();
    let (options, activities) = (with_room_for_one_session(), shared.activities("node"));
    with_process_like(options, activities, orchestrations(), async |process: &Process| {
        process.client.start_orchestration("held", "InTurn", "Hold a s").await.unwrap();
        shared.held.notified().await;
        process.client.start_orchestration("waits", "InTurn", "Work b t").await.unwrap();
        assert_eq!(process.run("plain", "InTurn", "Work c -").await, ok("C"));
        assert_eq!(shared.nodes_of("t"), [""; 0], "there is no room for it");
        shared.release.notify_one();
        assert_eq!(process.outcome("held").await, ok("A"));
        assert_eq!(process.outcome("waits").await, ok("B"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_activity_that_fails_is_tried_again_in_its_session() {
    let sessions = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&sessions);
    let fragile = move |ctx: ActivityContext, _: String| {
        let mut seen = seen.lock().unwrap();
        seen.push(ctx.session_id().map(str::to_owned));
        let attempt = seen.len();
        let done = if attempt < 3 { Err("not yet".to_owned()) } else { ok(attempt.to_string()) };
        async move { done }
    };
    let activities = ActivityRegistry::builder().register("Fragile", fragile).build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Retried", async |ctx: OrchestrationContext, _: String| {
            let policy = RetryPolicy::new(5).with_backoff(BackoffStrategy::None);
            ctx.schedule_activity_with_retry_on_session("Fragile", "", policy, "s").await
        })
        .build();
    with_process(activities, orchestrations, async |process: &Process| {
        assert_eq!(process.run("i", "Retried", "").await, ok("3"));
    })
    .await;
    assert_eq!(*sessions.lock().unwrap(), named(&["s", "s", "s"]));
}

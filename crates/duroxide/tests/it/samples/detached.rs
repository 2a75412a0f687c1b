//! Orchestrations that start others and do not wait for them.

use std::time::Duration;

use duroxide::providers::ProviderAdmin;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};

use crate::process::{Process, ok, with_process};

fn echo() -> ActivityRegistry {
    let echo = async |_: ActivityContext, text: String| ok(text);
    ActivityRegistry::builder().register("Echo", echo).build()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn detached_orchestration_scheduling() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Worker", async |ctx: OrchestrationContext, text: String| {
            ctx.schedule_timer(Duration::from_millis(5)).await;
            ctx.schedule_activity("Echo", text).await
        })
        .register("Coordinator", async |ctx: OrchestrationContext, _: String| {
            ctx.schedule_orchestration("Worker", "w1", "a");
            ctx.schedule_orchestration("Worker", "w2", "b");
            ok("scheduled")
        })
        .build();
    with_process(echo(), orchestrations, async |process: &Process| {
        assert_eq!(process.run("c", "Coordinator", "").await, ok("scheduled"));
        assert_eq!(process.outcome("w1").await, ok("a"));
        assert_eq!(process.outcome("w2").await, ok("b"));
        assert_eq!(process.provider.get_parent_id("w1").await.unwrap(), None);
    })
    .await;
}

/// The start is in the history, so that the turn after it finds it there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn detached_then_activity() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Worker", async |_: OrchestrationContext, text: String| ok(text))
        .register("Coordinator", async |ctx: OrchestrationContext, _: String| {
            ctx.schedule_orchestration("Worker", "w", "work");
            ctx.schedule_activity("Echo", "echoed").await
        })
        .build();
    with_process(echo(), orchestrations, async |process: &Process| {
        assert_eq!(process.run("c", "Coordinator", "").await, ok("echoed"));
        assert_eq!(process.outcome("w").await, ok("work"));
    })
    .await;
}

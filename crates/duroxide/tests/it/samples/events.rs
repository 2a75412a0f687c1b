//! Events that are queued until the orchestration takes them.

use std::time::Duration;

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Either2, EventKind, OrchestrationContext, OrchestrationRegistry};

use crate::process::{Process, ok, with_process};

/// Takes what is queued, until nothing has come for a while.
async fn drain(ctx: &OrchestrationContext, log: &mut Vec<String>) -> Result<(), String> {
    loop {
        let update = ctx.dequeue_event("Update");
        let pause = ctx.schedule_timer(Duration::from_millis(100));
        match ctx.select2(update, pause).await {
            Either2::First(update) => log.push(ctx.schedule_activity("Apply", update).await?),
            Either2::Second(()) => return Ok(()),
        }
    }
}

/// Updates arrive while the orchestration is busy; none is lost, and they come in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn config_hot_reload_persistent_events() {
    let apply = async |_: ActivityContext, update: String| Ok(update);
    let activities = ActivityRegistry::builder().register("Apply", apply).build();
    let reload = async |ctx: OrchestrationContext, _: String| {
        let mut log = Vec::new();
        drain(&ctx, &mut log).await?;
        log.push(ctx.schedule_activity("Apply", "cycle").await?);
        // The sender of updates waits for this one before the next update.
        ctx.schedule_wait("Sent").await;
        drain(&ctx, &mut log).await?;
        Ok(log.join(" "))
    };
    let orchestrations = OrchestrationRegistry::builder().register("Reload", reload).build();
    with_process(activities, orchestrations, async |process: &Process| {
        let client = &process.client;
        client.start_orchestration("i", "Reload", "").await.unwrap();
        client.enqueue_event("i", "Update", "v1").await.unwrap();
        client.enqueue_event("i", "Update", "v2").await.unwrap();
        let is_cycle = |kind: &EventKind| matches!(kind, EventKind::ActivityScheduled { input, .. } if input == "cycle");
        process.until("i", is_cycle).await;
        client.enqueue_event("i", "Update", "v3").await.unwrap();
        process.until_waiting("i", "Sent").await;
        client.raise_event("i", "Sent", "").await.unwrap();
        assert_eq!(process.outcome("i").await, ok("v1 v2 cycle v3"));
    })
    .await;
}

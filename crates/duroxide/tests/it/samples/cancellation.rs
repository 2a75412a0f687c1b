//! Cancelling a parent cancels its children.

use duroxide::providers::ProviderAdmin;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{
    AppErrorKind, ErrorDetails, EventKind, OrchestrationContext, OrchestrationRegistry,
};

use crate::process::{Process, ok, with_process};

/// Whether an orchestration ended because it was cancelled for a reason.
fn is_cancelled(kind: &EventKind, why: &str) -> bool {
    let EventKind::OrchestrationFailed { details } = kind else { return false };
    let ErrorDetails::Application { kind: AppErrorKind::Cancelled { reason }, .. } = details else {
        return false;
    };
    reason == why
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancellation_parent_cascades_to_children() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Child", async |ctx: OrchestrationContext, _: String| {
            ctx.schedule_wait("Never").await;
            ok("not reached")
        })
        .register("Parent", async |ctx: OrchestrationContext, _: String| {
            ctx.schedule_sub_orchestration("Child", "").await
        })
        .build();
    with_process(ActivityRegistry::builder().build(), orchestrations, async |process: &Process| {
        process.client.start_orchestration("p", "Parent", "").await.unwrap();
        let is_scheduled =
            |kind: &EventKind| matches!(kind, EventKind::SubOrchestrationScheduled { .. });
        process.until("p", is_scheduled).await;
        process.until_waiting("p::sub::2", "Never").await;
        process.client.cancel_instance("p", "enough").await.unwrap();
        process.until("p", |kind| is_cancelled(kind, "enough")).await;
        let end = process.history("p").await.pop().unwrap();
        assert_eq!((end.instance_id.as_str(), end.execution_id), ("p", 1));
        for child in process.provider.list_children("p").await.unwrap() {
            process.until(&child, |kind| is_cancelled(kind, "parent canceled")).await;
        }
    })
    .await;
}

//! Inputs, results and events with types, alone and beside texts.

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use serde::{Deserialize, Serialize};

use crate::process::{PATIENCE, Process, ok, with_process};

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Terms {
    one: i32,
    other: i32,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Sum {
    sum: i32,
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Approval {
    by: String,
}

fn activities() -> ActivityRegistry {
    let add = async |_: ActivityContext, terms: Terms| Ok(Sum { sum: terms.one + terms.other });
    let upper = async |_: ActivityContext, text: String| ok(text.to_uppercase());
    ActivityRegistry::builder()
        .register_typed::<Terms, Sum, _, _>("Add", add)
        .register("Upper", upper)
        .build()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn typed_activity_and_orchestration() {
    let add = async |ctx: OrchestrationContext, terms: Terms| {
        ctx.schedule_activity_typed::<Terms, Sum>("Add", &terms).await
    };
    let orchestrations =
        OrchestrationRegistry::builder().register_typed::<Terms, Sum, _, _>("Adder", add).build();
    with_process(activities(), orchestrations, async |process: &Process| {
        let terms = Terms { one: 2, other: 3 };
        process.client.start_orchestration_typed("i", "Adder", terms).await.unwrap();
        let sum = process.client.wait_for_orchestration_typed::<Sum>("i", PATIENCE).await.unwrap();
        assert_eq!(sum, Ok(Sum { sum: 5 }));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn typed_event() {
    let wait = async |ctx: OrchestrationContext, (): ()| {
        Ok(ctx.schedule_wait_typed::<Approval>("Approved").await.by)
    };
    let orchestrations =
        OrchestrationRegistry::builder().register_typed::<(), String, _, _>("Wait", wait).build();
    with_process(activities(), orchestrations, async |process: &Process| {
        process.client.start_orchestration_typed("i", "Wait", ()).await.unwrap();
        process.until_waiting("i", "Approved").await;
        let approval = Approval { by: "Ada".to_owned() };
        process.client.raise_event_typed("i", "Approved", &approval).await.unwrap();
        let by = process.client.wait_for_orchestration_typed::<String>("i", PATIENCE).await;
        assert_eq!(by.unwrap(), ok("Ada"));
    })
    .await;
}

/// A typed activity races against one of text; either may win.
async fn race(ctx: &OrchestrationContext, terms: &Terms) -> Result<String, String> {
    let typed = async {
        let sum = ctx.schedule_activity_typed::<Terms, Sum>("Add", terms).await?;
        Ok(sum.sum.to_string())
    };
    let text = ctx.schedule_activity("Upper", "text");
    ctx.select2(typed, text).await.into_tuple().1
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mixed_string_and_typed_typed_orch() {
    let mixed = async |ctx: OrchestrationContext, terms: Terms| race(&ctx, &terms).await;
    let orchestrations = OrchestrationRegistry::builder()
        .register_typed::<Terms, String, _, _>("Mixed", mixed)
        .build();
    with_process(activities(), orchestrations, async |process: &Process| {
        let terms = Terms { one: 1, other: 2 };
        process.client.start_orchestration_typed("i", "Mixed", terms).await.unwrap();
        let won = process.client.wait_for_orchestration_typed::<String>("i", PATIENCE).await;
        let won = won.unwrap().unwrap();
        assert!(["3", "TEXT"].contains(&won.as_str()), "{won}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mixed_string_and_typed_string_orch() {
    let mixed =
        async |ctx: OrchestrationContext, _: String| race(&ctx, &Terms { one: 5, other: 7 }).await;
    let orchestrations = OrchestrationRegistry::builder().register("Mixed", mixed).build();
    with_process(activities(), orchestrations, async |process: &Process| {
        let won = process.run("i", "Mixed", "").await.unwrap();
        assert!(["12", "TEXT"].contains(&won.as_str()), "{won}");
    })
    .await;
}

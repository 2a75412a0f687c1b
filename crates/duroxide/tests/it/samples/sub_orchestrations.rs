//! Parents that wait for children.

use duroxide::providers::ProviderAdmin;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};

use crate::process::{Process, ok, with_process};

fn upper() -> ActivityRegistry {
    let upper = async |_: ActivityContext, text: String| ok(text.to_uppercase());
    ActivityRegistry::builder().register("Upper", upper).build()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sub_orchestration_basic() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Child", async |ctx: OrchestrationContext, text: String| {
            ctx.schedule_activity("Upper", text).await
        })
        .register("Parent", async |ctx: OrchestrationContext, text: String| {
            let answer = ctx.schedule_sub_orchestration("Child", text).await?;
            Ok(format!("the child says {answer}"))
        })
        .build();
    with_process(upper(), orchestrations, async |process: &Process| {
        assert_eq!(process.run("p", "Parent", "hi").await, ok("the child says HI"));
        let children = process.provider.list_children("p").await.unwrap();
        assert_eq!(children.len(), 1);
        let parent = process.provider.get_parent_id(&children[0]).await.unwrap();
        assert_eq!(parent.as_deref(), Some("p"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sub_orchestration_continue_as_new() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Counter", async |ctx: OrchestrationContext, count: String| {
            match count.parse::<u32>().unwrap() {
                3 => ok("counted to 3"),
                count => ctx.continue_as_new((count + 1).to_string()).await,
            }
        })
        .register("Parent", async |ctx: OrchestrationContext, count: String| {
            ctx.schedule_sub_orchestration("Counter", count).await
        })
        .build();
    with_process(upper(), orchestrations, async |process: &Process| {
        assert_eq!(process.run("p", "Parent", "0").await, ok("counted to 3"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sub_orchestration_fanout() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Child", async |ctx: OrchestrationContext, text: String| {
            ctx.schedule_activity("Upper", text).await
        })
        .register("Parent", async |ctx: OrchestrationContext, _: String| {
            let children = ["a", "b"].map(|text| ctx.schedule_sub_orchestration("Child", text));
            let answers: Result<Vec<String>, String> =
                ctx.join(children.into()).await.into_iter().collect();
            Ok(answers?.concat())
        })
        .build();
    with_process(upper(), orchestrations, async |process: &Process| {
        assert_eq!(process.run("p", "Parent", "").await, ok("AB"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sub_orchestration_chained() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Leaf", async |ctx: OrchestrationContext, text: String| {
            ctx.schedule_activity("Upper", text).await
        })
        .register("Middle", async |ctx: OrchestrationContext, text: String| {
            Ok(format!("middle({})", ctx.schedule_sub_orchestration("Leaf", text).await?))
        })
        .register("Root", async |ctx: OrchestrationContext, text: String| {
            Ok(format!("root({})", ctx.schedule_sub_orchestration("Middle", text).await?))
        })
        .build();
    with_process(upper(), orchestrations, async |process: &Process| {
        assert_eq!(process.run("r", "Root", "a").await, ok("root(middle(A))"));
        assert_eq!(process.provider.get_instance_tree("r").await.unwrap().all_ids.len(), 3);
    })
    .await;
}

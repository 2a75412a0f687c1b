//! Activities that only some workers take.

use std::time::Duration;

use duroxide::providers::TagFilter;
use duroxide::runtime::RuntimeOptions;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Either2, EventKind, OrchestrationContext, OrchestrationRegistry};

use crate::process::{Process, ok, quick, with_account, with_process, with_process_like};

fn render_and_store() -> ActivityRegistry {
    ActivityRegistry::builder()
        .register("Render", async |ctx: ActivityContext, input: String| {
            Ok(format!("{input} rendered by {}", ctx.tag().unwrap_or("anyone")))
        })
        .register("Store", async |_: ActivityContext, input: String| Ok(format!("{input}, stored")))
        .build()
}

fn pipeline() -> OrchestrationRegistry {
    let pipeline = async |ctx: OrchestrationContext, input: String| {
        let input = ctx.schedule_activity("Store", input).await?;
        let rendered = ctx.schedule_activity("Render", input).with_tag("gpu").await?;
        ctx.schedule_activity("Store", rendered).await
    };
    OrchestrationRegistry::builder().register("Pipeline", pipeline).build()
}

/// The tags of an instance's activities, in the order of their calls.
async fn tags(process: &Process, instance: &str) -> Vec<Option<String>> {
    let history = process.history(instance).await;
    let tags = history.into_iter().filter_map(|event| match event.kind {
        EventKind::ActivityScheduled { tag, .. } => Some(tag),
        _ => None,
    });
    tags.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn heterogeneous_workers_with_tags() {
    let options = RuntimeOptions { worker_tag_filter: TagFilter::default_and(["gpu"]), ..quick() };
    with_process_like(options, render_and_store(), pipeline(), async |process: &Process| {
        let done = process.run("i", "Pipeline", "frame").await;
        assert_eq!(done, ok("frame, stored rendered by gpu, stored"));
        assert_eq!(tags(process, "i").await, [None, Some("gpu".to_owned()), None]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn starvation_safe_tagged_activity() {
    let fall_back = async |ctx: OrchestrationContext, input: String| {
        let tagged = ctx.schedule_activity("Render", input.clone()).with_tag("gpu");
        let timeout = ctx.schedule_timer(Duration::from_millis(50));
        match ctx.select2(tagged, timeout).await {
            Either2::First(result) => result,
            Either2::Second(()) => ctx.schedule_activity("Render", input).await,
        }
    };
    let orchestrations = OrchestrationRegistry::builder().register("FallBack", fall_back).build();
    with_process(render_and_store(), orchestrations, async |process: &Process| {
        assert_eq!(process.run("i", "FallBack", "it").await, ok("it rendered by anyone"));
    })
    .await;
}

/// One process decides and does what anyone can do; the other one has only workers, for what is tagged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dual_runtime_tag_cooperation() {
    with_account(async |account| {
        let (activities, orchestrations) = (render_and_store(), pipeline());
        let one = Process::start(account.config(), quick(), activities, orchestrations).await;
        let only_tagged = RuntimeOptions {
            orchestration_concurrency: 0,
            worker_tag_filter: TagFilter::tags(["gpu"]),
            ..quick()
        };
        let (activities, orchestrations) = (render_and_store(), pipeline());
        let other = Process::start(account.config(), only_tagged, activities, orchestrations).await;
        let done = one.run("i", "Pipeline", "frame").await;
        assert_eq!(done, ok("frame, stored rendered by gpu, stored"));
        assert_eq!(tags(&other, "i").await, [None, Some("gpu".to_owned()), None]);
        one.stop().await;
        other.stop().await;
    })
    .await;
}

//! Orchestrations that continue as new.

use duroxide::providers::{ProviderAdmin, PruneOptions};
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};

use crate::process::{Process, ok, with_process};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn continue_as_new() {
    let count = async |ctx: OrchestrationContext, count: String| match count.parse::<u32>() {
        Ok(count @ 0..3) => ctx.continue_as_new((count + 1).to_string()).await,
        _ => ok(format!("counted to {count}")),
    };
    let orchestrations = OrchestrationRegistry::builder().register("Count", count).build();
    with_process(ActivityRegistry::builder().build(), orchestrations, async |process: &Process| {
        assert_eq!(process.run("i", "Count", "0").await, ok("counted to 3"));
        assert_eq!(process.provider.list_executions("i").await.unwrap(), [1, 2, 3, 4]);
    })
    .await;
}

/// One that prunes its own executions never has more than its present one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn self_pruning_eternal_orchestration() {
    let prune = async |ctx: ActivityContext, _: String| {
        let options = PruneOptions { keep_last: Some(1), ..PruneOptions::default() };
        let pruned = ctx.get_client().prune_executions(ctx.instance_id(), options).await;
        Ok(pruned.map_err(|error| error.to_string())?.executions_deleted.to_string())
    };
    let activities = ActivityRegistry::builder().register("Prune", prune).build();
    let eternal = async |ctx: OrchestrationContext, input: String| {
        let (batch, pruned) = input.split_once(' ').unwrap();
        let (batch, mut pruned): (u32, u32) = (batch.parse().unwrap(), pruned.parse().unwrap());
        pruned += ctx.schedule_activity("Prune", "").await?.parse::<u32>().unwrap();
        if batch == 5 {
            return Ok(format!("{batch} batches, {pruned} pruned"));
        }
        ctx.continue_as_new(format!("{} {pruned}", batch + 1)).await
    };
    let orchestrations = OrchestrationRegistry::builder().register("Eternal", eternal).build();
    with_process(activities, orchestrations, async |process: &Process| {
        assert_eq!(process.run("i", "Eternal", "1 0").await, ok("5 batches, 4 pruned"));
        assert_eq!(process.provider.list_executions("i").await.unwrap(), [5]);
    })
    .await;
}

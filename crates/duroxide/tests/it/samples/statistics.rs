//! The size of an instance.

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};

use crate::process::{Process, ok, with_process};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orchestration_stats() {
    let load = async |_: ActivityContext, from: String| Ok(format!("what {from} has"));
    let activities = ActivityRegistry::builder().register("Load", load).build();
    let pipeline = async |ctx: OrchestrationContext, from: String| {
        let loaded = ctx.schedule_activity("Load", from).await?;
        ctx.set_kv_value("loaded", &loaded);
        ctx.set_kv_value("state", "over");
        Ok(loaded)
    };
    let orchestrations = OrchestrationRegistry::builder().register("Pipeline", pipeline).build();
    with_process(activities, orchestrations, async |process: &Process| {
        let client = &process.client;
        assert_eq!(client.get_orchestration_stats("nobody").await.unwrap(), None);
        assert_eq!(process.run("i", "Pipeline", "it").await, ok("what it has"));
        let stats = client.get_orchestration_stats("i").await.unwrap().unwrap();
        let history = process.history("i").await;
        assert_eq!(stats.history_event_count, history.len() as u64);
        assert!(stats.history_size_bytes > 0);
        assert_eq!(stats.kv_user_key_count, 2);
        assert_eq!(stats.kv_total_value_bytes, ("what it has".len() + "over".len()) as u64);
        assert_eq!(stats.queue_pending_count, 0);
    })
    .await;
}

//! Values that an orchestration keeps, read by clients and by other orchestrations.

use std::time::Duration;

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};

use crate::process::{PATIENCE, Process, ok, with_process};

fn reverse() -> ActivityRegistry {
    let reverse = async |_: ActivityContext, text: String| Ok(text.chars().rev().collect());
    ActivityRegistry::builder().register("Reverse", reverse).build()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kv_request_response() {
    let server = async |ctx: OrchestrationContext, _: String| {
        ctx.set_kv_value("state", "ready");
        for _ in 0..3 {
            let request = ctx.schedule_wait("request").await;
            let (id, command) = request.split_once(' ').unwrap();
            let response = ctx.schedule_activity("Reverse", command).await?;
            ctx.set_kv_value(format!("response/{id}"), response);
        }
        ctx.set_kv_value("state", "over");
        ok("served")
    };
    let orchestrations = OrchestrationRegistry::builder().register("Server", server).build();
    with_process(reverse(), orchestrations, async |process: &Process| {
        let client = &process.client;
        client.start_orchestration("s", "Server", "").await.unwrap();
        assert_eq!(client.wait_for_kv_value("s", "state", PATIENCE).await.unwrap(), "ready");
        let requests = [("1", "abc", "cba"), ("2", "durable", "elbarud"), ("3", "é", "é")];
        for (id, command, response) in requests {
            client.raise_event("s", "request", format!("{id} {command}")).await.unwrap();
            let key = format!("response/{id}");
            assert_eq!(client.wait_for_kv_value("s", &key, PATIENCE).await.unwrap(), response);
        }
        assert_eq!(process.outcome("s").await, ok("served"));
        let state = client.get_kv_value("s", "state").await.unwrap();
        assert_eq!(state.as_deref(), Some("over"));
        assert_eq!(client.get_kv_all_values("s").await.unwrap().len(), 4);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kv_cross_orchestration_read() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Producer", async |ctx: OrchestrationContext, input: String| {
            let result = ctx.schedule_activity("Reverse", input).await?;
            ctx.set_kv_value("result", result);
            Ok(ctx.schedule_wait("consumed").await)
        })
        .register("Consumer", async |ctx: OrchestrationContext, producer: String| {
            for _ in 0..100 {
                if let Some(result) = ctx.get_kv_value_from_instance(&producer, "result").await? {
                    return Ok(format!("consumed {result}"));
                }
                ctx.schedule_timer(Duration::from_millis(20)).await;
            }
            Err("nothing was produced".to_owned())
        })
        .build();
    with_process(reverse(), orchestrations, async |process: &Process| {
        let client = &process.client;
        client.start_orchestration("p", "Producer", "abc").await.unwrap();
        assert_eq!(process.run("c", "Consumer", "p").await, ok("consumed cba"));
        process.until_waiting("p", "consumed").await;
        client.raise_event("p", "consumed", "by c").await.unwrap();
        assert_eq!(process.outcome("p").await, ok("by c"));
        let result = client.get_kv_value("p", "result").await.unwrap();
        assert_eq!(result.as_deref(), Some("cba"));
    })
    .await;
}

/// A value that is read, changed and written in each turn is replayed as it was, not as it is.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kv_read_modify_write_counter() {
    let count = async |ctx: OrchestrationContext, _: String| {
        for text in ["one", "two", "three"] {
            let count = ctx.get_kv_value("count").map_or(0, |it| it.parse::<u32>().unwrap());
            let last = ctx.schedule_activity("Reverse", text).await?;
            ctx.set_kv_value("count", (count + 1).to_string());
            ctx.set_kv_value("last", last);
        }
        Ok(ctx.get_kv_value("count").unwrap())
    };
    let orchestrations = OrchestrationRegistry::builder().register("Count", count).build();
    with_process(reverse(), orchestrations, async |process: &Process| {
        assert_eq!(process.run("i", "Count", "").await, ok("3"));
        let count = process.client.get_kv_value("i", "count").await.unwrap();
        assert_eq!(count.as_deref(), Some("3"));
        let last = process.client.get_kv_value("i", "last").await.unwrap();
        assert_eq!(last.as_deref(), Some("eerht"));
    })
    .await;
}

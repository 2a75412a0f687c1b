//! Executions that continue as new, quickly and while events come.

use duroxide::providers::ProviderAdmin;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{EventKind, OrchestrationContext, OrchestrationRegistry};

use crate::process::{Process, ok, with_process};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_executions_follow_each_other_quickly() {
    const EXECUTIONS: u64 = 60;
    let count = async |ctx: OrchestrationContext, input: String| {
        let number: u64 = input.parse().unwrap();
        ctx.set_kv_value("number", &input);
        match number {
            EXECUTIONS => ok(format!("{number} executions")),
            _ => ctx.continue_as_new((number + 1).to_string()).await,
        }
    };
    let orchestrations = OrchestrationRegistry::builder().register("Count", count).build();
    with_process(ActivityRegistry::builder().build(), orchestrations, async |process: &Process| {
        let output = process.run("i", "Count", "1").await;
        assert_eq!(output, ok(format!("{EXECUTIONS} executions")));
        let provider = &process.provider;
        let executions = provider.list_executions("i").await.unwrap();
        assert_eq!(executions, (1..=EXECUTIONS).collect::<Vec<_>>());
        for execution in [1, 2, EXECUTIONS / 2, EXECUTIONS] {
            let history = provider.read_history_with_execution_id("i", execution).await.unwrap();
            let EventKind::OrchestrationStarted { input, .. } = &history[0].kind else {
                panic!("{history:?}");
            };
            assert_eq!(*input, execution.to_string());
        }
        let number = process.client.get_kv_value("i", "number").await.unwrap();
        assert_eq!(number, Some(EXECUTIONS.to_string()));
    })
    .await;
}

/// Each execution takes one event and continues as new; those that came meanwhile are carried over, in order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_carried_over_from_one_execution_to_the_next() {
    const EVENTS: usize = 20;
    let take = async |ctx: OrchestrationContext, taken: String| {
        let taken = format!("{taken}{} ", ctx.dequeue_event("Events").await);
        match taken.split_whitespace().count() {
            EVENTS => Ok(taken),
            _ => ctx.continue_as_new(taken).await,
        }
    };
    let orchestrations = OrchestrationRegistry::builder().register("Take", take).build();
    with_process(ActivityRegistry::builder().build(), orchestrations, async |process: &Process| {
        process.client.start_orchestration("i", "Take", "").await.unwrap();
        let mut sent = String::new();
        for number in 0..EVENTS {
            process.client.enqueue_event("i", "Events", number.to_string()).await.unwrap();
            sent.push_str(&format!("{number} "));
        }
        assert_eq!(process.outcome("i").await, ok(sent));
        let executions = process.provider.list_executions("i").await.unwrap();
        assert_eq!(executions.len(), EVENTS);
        assert_eq!(process.provider.get_queue_depths().await.unwrap().orchestrator_queue, 0);
    })
    .await;
}

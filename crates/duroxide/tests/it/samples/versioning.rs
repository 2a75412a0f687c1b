//! Two versions of an orchestration beside each other.

use duroxide::providers::ProviderAdmin;
use duroxide::runtime::VersionPolicy;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{EventKind, OrchestrationContext, OrchestrationRegistry};
use semver::Version;

use crate::process::{Process, ok, with_process};

fn no_activities() -> ActivityRegistry {
    ActivityRegistry::builder().build()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versioning_start_latest_vs_exact() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Versioned", async |_: OrchestrationContext, _: String| ok("first"))
        .register_versioned("Versioned", "2.0.0", async |_: OrchestrationContext, _: String| {
            ok("second")
        })
        .build();
    let registry = orchestrations.clone();
    with_process(no_activities(), orchestrations, async |process: &Process| {
        assert_eq!(process.run("latest", "Versioned", "").await, ok("second"));
        registry.set_version_policy("Versioned", VersionPolicy::Exact(Version::new(1, 0, 0)));
        assert_eq!(process.run("exact", "Versioned", "").await, ok("first"));
        let info = process.provider.get_instance_info("exact").await.unwrap();
        assert_eq!(info.orchestration_version, "1.0.0");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versioning_sub_orchestration_explicit_vs_policy() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Child", async |_: OrchestrationContext, _: String| ok("first"))
        .register_versioned("Child", "2.0.0", async |_: OrchestrationContext, _: String| {
            ok("second")
        })
        .register("Parent", async |ctx: OrchestrationContext, _: String| {
            let version = Some("1.0.0".to_owned());
            let explicit = ctx.schedule_sub_orchestration_versioned("Child", version, "").await?;
            let by_policy = ctx.schedule_sub_orchestration("Child", "").await?;
            Ok(format!("{explicit}, {by_policy}"))
        })
        .build();
    with_process(no_activities(), orchestrations, async |process: &Process| {
        assert_eq!(process.run("p", "Parent", "").await, ok("first, second"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn versioning_continue_as_new_upgrade() {
    let orchestrations = OrchestrationRegistry::builder()
        .register("Eternal", async |ctx: OrchestrationContext, state: String| {
            ctx.continue_as_new(format!("{state}, by the first")).await
        })
        .register_versioned("Eternal", "2.0.0", async |_: OrchestrationContext, state: String| {
            Ok(format!("{state}, by the second"))
        })
        .build();
    with_process(no_activities(), orchestrations, async |process: &Process| {
        let client = &process.client;
        client.start_orchestration_versioned("i", "Eternal", "1.0.0", "state").await.unwrap();
        assert_eq!(process.outcome("i").await, ok("state, by the first, by the second"));
        let provider = &process.provider;
        assert_eq!(provider.list_executions("i").await.unwrap(), [1, 2]);
        let first = provider.read_history_with_execution_id("i", 1).await.unwrap();
        let is_end =
            |kind: &EventKind| matches!(kind, EventKind::OrchestrationContinuedAsNew { .. });
        assert!(is_end(&first.last().unwrap().kind));
        let second = provider.read_history_with_execution_id("i", 2).await.unwrap();
        let EventKind::OrchestrationStarted { input, version, .. } = &second[0].kind else {
            panic!("{second:?}");
        };
        assert_eq!((input.as_str(), version.as_str()), ("state, by the first", "2.0.0"));
    })
    .await;
}

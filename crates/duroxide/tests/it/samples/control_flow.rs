//! Activities in a row, in branches, in loops, beside each other, against timers and events.

use std::time::Duration;

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus};

use crate::process::{Process, ok, with_process};

fn greetings() -> ActivityRegistry {
    let greet = async |_: ActivityContext, name: String| ok(format!("Hello, {name}!"));
    ActivityRegistry::builder().register("Greet", greet).build()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hello_world() {
    let twice = async |ctx: OrchestrationContext, name: String| {
        ctx.schedule_activity("Greet", "Rust").await?;
        ctx.schedule_activity("Greet", name).await
    };
    let orchestrations = OrchestrationRegistry::builder().register("HelloWorld", twice).build();
    with_process(greetings(), orchestrations, async |process: &Process| {
        assert_eq!(process.run("i", "HelloWorld", "World").await, ok("Hello, World!"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn basic_control_flow() {
    let activities = ActivityRegistry::builder()
        .register("Decide", async |_: ActivityContext, number: String| {
            Ok(if number.ends_with('2') { "even" } else { "odd" }.to_owned())
        })
        .register("Even", async |_: ActivityContext, _: String| ok("took the even branch"))
        .register("Odd", async |_: ActivityContext, _: String| ok("took the odd branch"))
        .build();
    let branch = async |ctx: OrchestrationContext, number: String| {
        if ctx.schedule_activity("Decide", number).await? == "even" {
            ctx.schedule_activity("Even", "").await
        } else {
            ctx.schedule_activity("Odd", "").await
        }
    };
    let orchestrations = OrchestrationRegistry::builder().register("Branch", branch).build();
    with_process(activities, orchestrations, async |process: &Process| {
        assert_eq!(process.run("even", "Branch", "12").await, ok("took the even branch"));
        assert_eq!(process.run("odd", "Branch", "13").await, ok("took the odd branch"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r#loop() {
    let append = async |_: ActivityContext, text: String| ok(format!("{text}x"));
    let activities = ActivityRegistry::builder().register("Append", append).build();
    let repeat = async |ctx: OrchestrationContext, mut text: String| {
        for _ in 0..3 {
            text = ctx.schedule_activity("Append", text).await?;
        }
        Ok(text)
    };
    let orchestrations = OrchestrationRegistry::builder().register("Loop", repeat).build();
    with_process(activities, orchestrations, async |process: &Process| {
        assert_eq!(process.run("i", "Loop", "start").await, ok("startxxx"));
    })
    .await;
}

/// An activity that ends only if it is cancelled, so that whatever it races against wins.
fn endless() -> ActivityRegistry {
    let endless = async |ctx: ActivityContext, _: String| {
        ctx.cancelled().await;
        ok("cancelled")
    };
    ActivityRegistry::builder().register("Endless", endless).build()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timeout_with_timer_race() {
    let race = async |ctx: OrchestrationContext, _: String| {
        let work = ctx.schedule_activity("Endless", "");
        let timeout = async {
            ctx.schedule_timer(Duration::from_millis(50)).await;
            Err("timed out".to_owned())
        };
        ctx.select2(work, timeout).await.into_tuple().1
    };
    let orchestrations = OrchestrationRegistry::builder().register("Timeout", race).build();
    with_process(endless(), orchestrations, async |process: &Process| {
        assert_eq!(process.run("i", "Timeout", "").await, Err("timed out".to_owned()));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn select2_activity_vs_external() {
    let race = async |ctx: OrchestrationContext, _: String| {
        let work = ctx.schedule_activity("Endless", "");
        let event = async { Ok(ctx.schedule_wait("Go").await) };
        let (winner, result) = ctx.select2(work, event).await.into_tuple();
        result.map(|text: String| format!("{winner}: {text}"))
    };
    let orchestrations = OrchestrationRegistry::builder().register("Race", race).build();
    with_process(endless(), orchestrations, async |process: &Process| {
        process.client.start_orchestration("i", "Race", "").await.unwrap();
        process.until_waiting("i", "Go").await;
        process.client.raise_event("i", "Go", "now").await.unwrap();
        assert_eq!(process.outcome("i").await, ok("1: now"));
    })
    .await;
}

/// Two activities beside each other, whose results come in the order of the calls.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dtf_legacy_gabbar_greetings() {
    let both = async |ctx: OrchestrationContext, _: String| {
        let calls = ["Gabbar", "Samba"].map(|name| ctx.schedule_activity("Greet", name));
        let greeted: Result<Vec<String>, String> =
            ctx.join(calls.into()).await.into_iter().collect();
        Ok(greeted?.join(" "))
    };
    let orchestrations = OrchestrationRegistry::builder().register("Greetings", both).build();
    with_process(greetings(), orchestrations, async |process: &Process| {
        let greeted = process.run("i", "Greetings", "").await;
        assert_eq!(greeted, ok("Hello, Gabbar! Hello, Samba!"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn system_activities() {
    let draw = async |ctx: OrchestrationContext, _: String| {
        let now = ctx.utc_now().await?;
        let since_epoch = now.duration_since(std::time::UNIX_EPOCH).map_err(|it| it.to_string())?;
        let id = ctx.new_guid().await?;
        Ok(format!("{} {id}", since_epoch.as_millis()))
    };
    let orchestrations = OrchestrationRegistry::builder().register("Draw", draw).build();
    with_process(ActivityRegistry::builder().build(), orchestrations, async |process: &Process| {
        let drawn = process.run("i", "Draw", "").await.unwrap();
        let (now, id) = drawn.split_once(' ').unwrap();
        assert!(now.parse::<u64>().unwrap() > 0);
        assert_eq!(id.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12]);
        assert!(id.chars().all(|digit| digit == '-' || digit.is_ascii_hexdigit()));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn status_polling() {
    let gated = async |ctx: OrchestrationContext, _: String| Ok(ctx.schedule_wait("Go").await);
    let orchestrations = OrchestrationRegistry::builder().register("Gated", gated).build();
    with_process(ActivityRegistry::builder().build(), orchestrations, async |process: &Process| {
        let status = async || process.client.get_orchestration_status("i").await.unwrap();
        assert!(matches!(status().await, OrchestrationStatus::NotFound));
        process.client.start_orchestration("i", "Gated", "").await.unwrap();
        process.until_waiting("i", "Go").await;
        assert!(matches!(status().await, OrchestrationStatus::Running { .. }));
        process.client.raise_event("i", "Go", "done").await.unwrap();
        assert_eq!(process.outcome("i").await, ok("done"));
        assert!(
            matches!(status().await, OrchestrationStatus::Completed { output, .. } if output == "done")
        );
    })
    .await;
}

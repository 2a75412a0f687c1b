//! Activities that fail: the failure is handled, passed on, or made up for.

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};

use crate::process::{Process, ok, with_process};

/// Activities of which one fails if it is told to, and one that makes up for it.
fn fragile() -> ActivityRegistry {
    let fragile = async |_: ActivityContext, input: String| match input.as_str() {
        "bad" | "" => Err(format!("'{input}' is not processed")),
        _ => ok(format!("processed {input}")),
    };
    ActivityRegistry::builder()
        .register("Process", fragile)
        .register("Format", async |_: ActivityContext, text: String| ok(format!("<{text}>")))
        .register("Note", async |_: ActivityContext, error: String| ok(format!("noted: {error}")))
        .build()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn error_handling() {
    let compensate = async |ctx: OrchestrationContext, input: String| match ctx
        .schedule_activity("Process", input)
        .await
    {
        Ok(result) => Ok(result),
        Err(error) => ctx.schedule_activity("Note", error).await,
    };
    let orchestrations =
        OrchestrationRegistry::builder().register("Compensate", compensate).build();
    with_process(fragile(), orchestrations, async |process: &Process| {
        let noted = process.run("bad", "Compensate", "bad").await;
        assert_eq!(noted, ok("noted: 'bad' is not processed"));
        assert_eq!(process.run("good", "Compensate", "good").await, ok("processed good"));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn basic_error_handling() {
    let pass_on = async |ctx: OrchestrationContext, input: String| {
        ctx.schedule_activity("Process", input).await
    };
    let orchestrations = OrchestrationRegistry::builder().register("PassOn", pass_on).build();
    with_process(fragile(), orchestrations, async |process: &Process| {
        assert_eq!(process.run("good", "PassOn", "it").await, ok("processed it"));
        let failed = process.run("empty", "PassOn", "").await.unwrap_err();
        assert!(failed.contains("'' is not processed"), "{failed}");
    })
    .await;
}

async fn process_and_format(ctx: &OrchestrationContext, input: &str) -> Result<String, String> {
    let processed = ctx.schedule_activity("Process", input).await?;
    ctx.schedule_activity("Format", processed).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nested_function_error_handling() {
    let nested = async |ctx: OrchestrationContext, input: String| {
        let formatted = process_and_format(&ctx, &input).await?;
        Ok(format!("{formatted}!"))
    };
    let orchestrations = OrchestrationRegistry::builder().register("Nested", nested).build();
    with_process(fragile(), orchestrations, async |process: &Process| {
        assert_eq!(process.run("good", "Nested", "it").await, ok("<processed it>!"));
        let failed = process.run("bad", "Nested", "bad").await.unwrap_err();
        assert!(failed.contains("'bad' is not processed"), "{failed}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn error_recovery() {
    let note_and_fail = async |ctx: OrchestrationContext, input: String| match ctx
        .schedule_activity("Process", input.clone())
        .await
    {
        Ok(result) => Ok(result),
        Err(error) => {
            let noted = ctx.schedule_activity("Note", error).await?;
            Err(format!("{input} failed; {noted}"))
        }
    };
    let orchestrations =
        OrchestrationRegistry::builder().register("NoteAndFail", note_and_fail).build();
    with_process(fragile(), orchestrations, async |process: &Process| {
        assert_eq!(process.run("good", "NoteAndFail", "it").await, ok("processed it"));
        let failed = process.run("bad", "NoteAndFail", "bad").await.unwrap_err();
        assert!(failed.contains("bad failed; noted: 'bad' is not processed"), "{failed}");
    })
    .await;
}

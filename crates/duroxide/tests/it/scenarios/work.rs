//! An activity that notes who ran it, and orchestrations made of it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use duroxide::runtime::RuntimeOptions;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};
use tokio::sync::{Barrier, Notify};

use crate::process::quick;

/// One run of the activity.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ran {
    pub(super) node: String,
    pub(super) session: Option<String>,
    pub(super) input: String,
}

/// The state that the activities of all processes of a test share.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    ran: Arc<Mutex<Vec<Ran>>>,
    running: Arc<Mutex<(usize, usize)>>,
    /// `Meet` goes on when two are there.
    meeting: Arc<Barrier>,
    /// `Hold` tells that it has begun, and ends when it is released.
    pub(super) held: Arc<Notify>,
    pub(super) release: Arc<Notify>,
}

impl Shared {
    pub(super) fn new() -> Self {
        Self {
            ran: Arc::default(),
            running: Arc::default(),
            meeting: Arc::new(Barrier::new(2)),
            held: Arc::default(),
            release: Arc::default(),
        }
    }

    /// Everything that ran, in the order of its beginning.
    pub(super) fn ran(&self) -> Vec<Ran> {
        self.ran.lock().unwrap().clone()
    }

    /// The nodes that ran activities of a session.
    pub(super) fn nodes_of(&self, session: &str) -> Vec<String> {
        let of_session =
            self.ran().into_iter().filter(|ran| ran.session.as_deref() == Some(session));
        of_session.map(|ran| ran.node).collect()
    }

    /// The most that ran at a time.
    pub(super) fn peak(&self) -> usize {
        self.running.lock().unwrap().1
    }

    fn begin(&self, node: &str, ctx: &ActivityContext, input: &str) {
        let session = ctx.session_id().map(str::to_owned);
        let ran = Ran { node: node.to_owned(), session, input: input.to_owned() };
        self.ran.lock().unwrap().push(ran);
        let mut running = self.running.lock().unwrap();
        running.0 += 1;
        running.1 = running.1.max(running.0);
    }

    fn end(&self) {
        self.running.lock().unwrap().0 -= 1;
    }

    /// The activities of a process.
    pub(super) fn activities(&self, node: &'static str) -> ActivityRegistry {
        let (work, slow, meet, hold) = (self.clone(), self.clone(), self.clone(), self.clone());
        ActivityRegistry::builder()
            .register("Work", move |ctx: ActivityContext, input: String| {
                let shared = work.clone();
                async move {
                    shared.begin(node, &ctx, &input);
                    shared.end();
                    Ok(input.to_uppercase())
                }
            })
            // Long enough for another to run beside it, if one could.
            .register("Slow", move |ctx: ActivityContext, input: String| {
                let shared = slow.clone();
                async move {
                    shared.begin(node, &ctx, &input);
                    tokio::time::sleep(Duration::from_millis(60)).await;
                    shared.end();
                    Ok(input.to_uppercase())
                }
            })
            // Ends only if another one runs beside it.
            .register("Meet", move |ctx: ActivityContext, input: String| {
                let shared = meet.clone();
                async move {
                    shared.begin(node, &ctx, &input);
                    shared.meeting.wait().await;
                    shared.end();
                    Ok(input.to_uppercase())
                }
            })
            .register("Hold", move |ctx: ActivityContext, input: String| {
                let shared = hold.clone();
                async move {
                    shared.begin(node, &ctx, &input);
                    shared.held.notify_one();
                    shared.release.notified().await;
                    shared.end();
                    Ok(input.to_uppercase())
                }
            })
            .build()
    }
}

/// Orchestrations whose input says what to do: words of `activity input session`, the session `-` for none.
///
/// `Together` does all at once, `InTurn` one after the other, `ContinueAsNew` one in each of its executions.
pub(super) fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder()
        .register("Together", async |ctx: OrchestrationContext, plan: String| {
            let calls = plan.split(", ").map(|words| call(&ctx, words)).collect();
            let done: Result<Vec<String>, String> = ctx.join(calls).await.into_iter().collect();
            Ok(done?.concat())
        })
        .register("InTurn", async |ctx: OrchestrationContext, plan: String| {
            let mut done = String::new();
            for words in plan.split(", ") {
                done.push_str(&call(&ctx, words).await?);
            }
            Ok(done)
        })
        .register("ContinueAsNew", async |ctx: OrchestrationContext, plan: String| {
            let (done, plan) = plan.split_once(": ").unwrap();
            let (words, rest) =
                plan.split_once(", ").map_or((plan, None), |(it, rest)| (it, Some(rest)));
            let done = format!("{done}{}", call(&ctx, words).await?);
            match rest {
                Some(rest) => ctx.continue_as_new(format!("{done}: {rest}")).await,
                None => Ok(done),
            }
        })
        .build()
}

fn call(
    ctx: &OrchestrationContext,
    words: &str,
) -> duroxide::DurableFuture<Result<String, String>> {
    let [activity, input, session] = *words.split(' ').collect::<Vec<_>>() else {
        panic!("{words}")
    };
    match session {
        "-" => ctx.schedule_activity(activity, input),
        session => ctx.schedule_activity_on_session(activity, input, session),
    }
}

/// A process with so many workers; without a name each of them owns its sessions by itself.
pub(super) fn node(name: Option<&str>, workers: usize) -> RuntimeOptions {
    RuntimeOptions {
        worker_node_id: name.map(str::to_owned),
        worker_concurrency: workers,
        ..quick()
    }
}

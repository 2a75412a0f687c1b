//! Sessions among processes: one owner at a time, until it is gone or has nothing to do.

use std::collections::BTreeSet;
use std::time::Duration;

use duroxide::providers::Provider;
use duroxide::runtime::RuntimeOptions;
use sidereal_duroxide::CosmosDBProvider;

use super::work::{Shared, node, orchestrations};
use crate::account::Account;
use crate::process::{Process, ok, with_account};

/// Locks that end soon after their owner; the runtime renews what lasts less than 15 s every second at most.
fn brief(name: &str, workers: usize) -> RuntimeOptions {
    RuntimeOptions {
        worker_lock_timeout: Duration::from_secs(2),
        session_lock_timeout: Duration::from_secs(2),
        session_idle_timeout: Duration::from_secs(2),
        ..node(Some(name), workers)
    }
}

async fn start(
    account: &Account,
    shared: &Shared,
    name: &'static str,
    options: RuntimeOptions,
) -> Process {
    let activities = shared.activities(name);
    Process::start(account.config(), options, activities, orchestrations()).await
}

/// The process with the first activity of a session has the others, in this execution and the next ones.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_activity_of_a_session_goes_to_one_process() {
    let shared = Shared::new();
    with_account(async |account| {
        let one = start(account, &shared, "one", node(Some("one"), 2)).await;
        let other = start(account, &shared, "other", node(Some("other"), 2)).await;
        let plan = "Work a s, Work b t, Work c s, Work d t, Work e s, Work f t";
        assert_eq!(one.run("together", "Together", plan).await, ok("ABCDEF"));
        let next = format!(": {plan}");
        assert_eq!(other.run("next", "ContinueAsNew", &next).await, ok("ABCDEF"));
        one.stop().await;
        other.stop().await;
    })
    .await;
    for session in ["s", "t"] {
        let nodes = shared.nodes_of(session);
        assert_eq!(nodes.len(), 6);
        assert_eq!(nodes.iter().collect::<BTreeSet<_>>().len(), 1, "{session}: {nodes:?}");
    }
}

/// One process has room for one session; what it cannot take, the other does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_that_one_process_has_no_room_for_go_to_the_other() {
    let shared = Shared::new();
    with_account(async |account| {
        let small = RuntimeOptions { max_sessions_per_runtime: 1, ..node(Some("small"), 2) };
        let small = start(account, &shared, "small", small).await;
        small.client.start_orchestration("held", "InTurn", "Hold a s").await.unwrap();
        shared.held.notified().await;
        // Its other worker may have begun to wait when there was room; from the next time on it waits for no session.
        assert_eq!(small.run("plain", "InTurn", "Work z -").await, ok("Z"));
        let large = start(account, &shared, "large", node(Some("large"), 2)).await;
        let plan = "Work b t, Work c u, Work d v";
        assert_eq!(large.run("more", "Together", plan).await, ok("BCD"));
        shared.release.notify_one();
        assert_eq!(small.outcome("held").await, ok("A"));
        small.stop().await;
        large.stop().await;
    })
    .await;
    assert_eq!(shared.nodes_of("s"), ["small"]);
    for session in ["t", "u", "v"] {
        assert_eq!(shared.nodes_of(session), ["large"]);
    }
}

/// The activity that was running runs again elsewhere, and so does what follows in its session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_whose_process_is_gone_goes_on_in_another() {
    let shared = Shared::new();
    with_account(async |account| {
        let gone = start(account, &shared, "gone", brief("gone", 2)).await;
        gone.client.start_orchestration("i", "InTurn", "Hold a s, Work b s").await.unwrap();
        shared.held.notified().await;
        gone.crash().await;
        let next = start(account, &shared, "next", brief("next", 2)).await;
        shared.held.notified().await;
        shared.release.notify_one();
        assert_eq!(next.outcome("i").await, ok("AB"));
        next.stop().await;
    })
    .await;
    assert_eq!(shared.nodes_of("s"), ["gone", "next", "next"]);
}

/// A session that its process has not used for a while is free, although the process is there and holds it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_idles_goes_to_whoever_has_time() {
    let shared = Shared::new();
    with_account(async |account| {
        let busy = start(account, &shared, "busy", brief("busy", 1)).await;
        // Its only worker stays with what has no session.
        busy.client.start_orchestration("i", "InTurn", "Work a s, Hold b -").await.unwrap();
        shared.held.notified().await;
        let idle = start(account, &shared, "idle", brief("idle", 1)).await;
        assert_eq!(idle.run("j", "InTurn", "Work c s").await, ok("C"));
        shared.release.notify_one();
        assert_eq!(busy.outcome("i").await, ok("AB"));
        busy.stop().await;
        idle.stop().await;
    })
    .await;
    assert_eq!(shared.nodes_of("s"), ["busy", "idle"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_nobody_holds_is_removed() {
    let shared = Shared::new();
    with_account(async |account| {
        let process = start(account, &shared, "one", brief("one", 1)).await;
        assert_eq!(process.run("i", "InTurn", "Work a s, Work b t").await, ok("AB"));
        process.stop().await;
        let next = CosmosDBProvider::new(account.config()).await.unwrap();
        assert_eq!(next.cleanup_orphaned_sessions(Duration::ZERO).await.unwrap(), 0, "held");
        let mut removed = 0;
        while removed < 2 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            removed += next.cleanup_orphaned_sessions(Duration::ZERO).await.unwrap();
        }
        next.shutdown().await;
    })
    .await;
}

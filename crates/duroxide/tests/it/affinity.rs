//! Tags and sessions: activities that are for other workers cost nothing, and hide none that is ready.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{Provider, SessionFetchConfig, TagFilter, WorkItem};
use sidereal_duroxide::CosmosDBProvider;
use sidereal_testing::in_process::NetworkFaults;
use tokio::time::Instant;

use crate::turns::{Done, LOCK, activity, begin, completed};
use crate::world::World;

const SESSION_LOCK: Duration = Duration::from_secs(30);

/// More than the container is asked for at once.
const CROWD: u64 = 250;

fn tagged(instance: &str, tag: &str) -> WorkItem {
    let mut item = activity(instance, 2, None);
    if let WorkItem::ActivityExecute { tag: its, .. } = &mut item {
        *its = Some(tag.to_owned());
    }
    item
}

fn owner(name: &str) -> SessionFetchConfig {
    SessionFetchConfig { owner_id: name.to_owned(), lock_timeout: SESSION_LOCK }
}

/// The activity that a worker without tags is given within a time, and its token.
async fn fetched(
    provider: &CosmosDBProvider,
    session: Option<&SessionFetchConfig>,
    poll: Duration,
) -> Option<(WorkItem, String)> {
    let fetched = provider.fetch_work_item(LOCK, poll, session, &TagFilter::DefaultOnly).await;
    fetched.unwrap().map(|(item, token, _)| (item, token))
}

#[tokio::test(start_paused = true)]
async fn activities_of_tags_that_nobody_here_takes_are_not_read_through() {
    let mut counts = Vec::new();
    for others in [0, CROWD] {
        let world = World::new();
        let client = world.provider().await;
        for number in 0..others {
            client.enqueue_for_worker(tagged(&format!("g{number}"), "gpu")).await.unwrap();
        }
        client.enqueue_for_worker(activity("plain", 2, None)).await.unwrap();
        drop(client);
        let provider = world.settled().await;
        let fetching = fetched(&provider, None, Duration::from_secs(5));
        let (found, requests) = world.requests(fetching).await;
        assert_eq!(found.unwrap().0, activity("plain", 2, None));
        counts.push(requests);
        // A worker that takes them is given them at once, though the container was not asked for them before.
        if others > 0 {
            let (poll, gpu) = (Duration::from_secs(5), TagFilter::tags(["gpu"]));
            let found = provider.fetch_work_item(LOCK, poll, None, &gpu).await.unwrap();
            assert_eq!(found.unwrap().0, tagged("g0", "gpu"));
        }
    }
    assert_eq!(counts[0], counts[1]);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_another_process_has_is_looked_at_when_its_lock_ends() {
    let world = World::new();
    let gone = world.settled().await;
    for number in 0..CROWD {
        gone.enqueue_for_worker(activity("i", 2 + number, Some("s"))).await.unwrap();
    }
    let first = fetched(&gone, Some(&owner("gone")), Duration::from_secs(5)).await;
    assert_eq!(first.unwrap().0, activity("i", 2, Some("s")));
    drop(gone);
    let provider = world.settled().await;
    let session = owner("here");

    let waiting = fetched(&provider, Some(&session), Duration::from_secs(20));
    let (found, requests) = world.requests(waiting).await;
    assert!(found.is_none(), "{found:?}");
    // A look takes two requests at first, for the second page, then one. Twenty seconds of them, with the leases.
    println!("20 s of waiting beside a session of another process: {requests} requests");
    assert!(requests <= 40, "{requests}");

    let client = world.provider().await;
    client.enqueue_for_worker(activity("plain", 2, None)).await.unwrap();
    let (plain, token) = fetched(&provider, Some(&session), Duration::from_secs(5)).await.unwrap();
    assert_eq!(plain, activity("plain", 2, None), "not hidden by those of the session");
    provider.ack_work_item(&token, None).await.unwrap();

    let (start, mut taken) = (Instant::now(), Vec::new());
    while taken.len() < CROWD as usize {
        let (item, token) = fetched(&provider, Some(&session), SESSION_LOCK).await.unwrap();
        let WorkItem::ActivityExecute { id, .. } = item else { panic!("{item:?}") };
        let completion = completed("i", id, String::new());
        provider.ack_work_item(&token, Some(completion)).await.unwrap();
        taken.push(id);
    }
    assert!(
        start.elapsed() < SESSION_LOCK,
        "taken over when the lock ended: {:?}",
        start.elapsed()
    );
    taken.sort_unstable();
    assert_eq!(taken, (2..2 + CROWD).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn activities_of_a_session_go_to_its_worker_at_once_whoever_else_waits() {
    let world = World::new();
    let provider = Arc::new(world.settled().await);
    for number in 0..20 {
        provider.enqueue_for_worker(activity("i", 2 + number, Some("s"))).await.unwrap();
    }
    let (one, other) = (owner("one"), owner("other"));
    let poll = Duration::from_secs(10);
    let (_, mut token) = fetched(&provider, Some(&one), poll).await.unwrap();
    let waiting = Arc::clone(&provider);
    let idle = tokio::spawn(async move { fetched(&waiting, Some(&other), poll).await });
    let start = Instant::now();
    for id in 2..21 {
        tokio::time::sleep(Duration::from_millis(1)).await;
        let completion = completed("i", id, String::new());
        provider.ack_work_item(&token, Some(completion)).await.unwrap();
        let (item, next) = fetched(&provider, Some(&one), poll).await.unwrap();
        assert_eq!(item, activity("i", id + 1, Some("s")));
        token = next;
    }
    assert!(start.elapsed() < Duration::from_millis(100), "{:?}", start.elapsed());
    assert!(idle.await.unwrap().is_none());
}

#[tokio::test(start_paused = true)]
async fn a_session_that_a_worker_has_is_not_read_again() {
    let world = World::new();
    let provider = world.settled().await;
    let mut done = Done::first("i");
    done.activities.extend((2..5).map(|id| activity("i", id, Some("s"))));
    begin(&provider, "i", done).await;
    let session = owner("one");
    let mut counts = Vec::new();
    for id in 2..5 {
        let fetching = fetched(&provider, Some(&session), Duration::from_secs(1));
        let (found, to_fetch) = world.requests(fetching).await;
        let (_, token) = found.unwrap();
        let completion = completed("i", id, String::new());
        let ending = provider.ack_work_item(&token, Some(completion));
        let (acked, to_end) = world.requests(ending).await;
        acked.unwrap();
        counts.push((to_fetch, to_end));
    }
    // The session is read and claimed, then claimed only; the activity is locked. It is ended, and the session used.
    assert_eq!(counts, [(3, 2), (2, 2), (2, 2)]);
}

#[tokio::test(start_paused = true)]
async fn workers_of_one_name_take_activities_of_their_session_at_the_same_time() {
    const WORKERS: u64 = 4;
    let world = World::new();
    let provider = Arc::new(world.settled().await);
    for number in 0..WORKERS {
        provider.enqueue_for_worker(activity("i", 2 + number, Some("s"))).await.unwrap();
    }
    let start = Instant::now();
    let worker = |provider: Arc<CosmosDBProvider>| async move {
        fetched(&provider, Some(&owner("node")), Duration::from_secs(5)).await.is_some()
    };
    let workers: Vec<_> =
        (0..WORKERS).map(|_| tokio::spawn(worker(Arc::clone(&provider)))).collect();
    for worker in workers {
        assert!(worker.await.unwrap());
    }
    assert!(start.elapsed() < Duration::from_millis(100), "{:?}", start.elapsed());
}

/// Each session was read and then written, one after the other: at some hundred sessions that took longer than their lock,
/// and the last ones were lost to other workers although they were in use.
#[tokio::test(start_paused = true)]
async fn many_sessions_are_extended_before_their_locks_end() {
    const SESSIONS: u64 = 500;
    let world = World::new();
    let provider = world.settled().await;
    let session = owner("one");
    for id in 0..SESSIONS {
        let item = activity("i", 2 + id, Some(&format!("s{id}")));
        provider.enqueue_for_worker(item).await.unwrap();
        let (_, token) = fetched(&provider, Some(&session), Duration::from_secs(5)).await.unwrap();
        provider.ack_work_item(&token, None).await.unwrap();
    }
    let idle = Duration::from_secs(300);
    for round in 0..2 {
        let latency = Duration::from_millis(50);
        world.account.network().set_faults(NetworkFaults { latency, ..NetworkFaults::NONE });
        let began = Instant::now();
        let renewed = provider.renew_session_lock(&["one"], SESSION_LOCK, idle).await.unwrap();
        let took = began.elapsed();
        world.account.network().set_faults(NetworkFaults::NONE);
        println!("round {round}: {renewed} sessions extended within {took:?}");
        assert_eq!(renewed, SESSIONS as usize);
        assert!(took < SESSION_LOCK / 6, "round {round}: {took:?}");
        tokio::time::sleep(SESSION_LOCK - took - SESSION_LOCK / 6).await;
    }
}

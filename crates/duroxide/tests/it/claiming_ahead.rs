//! Workers that wait for one request per activity: the next one is claimed while the last one's end is written, and the
//! history that the runtime reads before it runs an activity is known from the claim.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::{Provider, SessionFetchConfig, TagFilter, WorkItem};
use sidereal_duroxide::CosmosDBProvider;
use sidereal_testing::in_process::{InProcessAccount, Interruption, NetworkFaults};

use crate::crashes::INTERRUPTIONS;
use crate::turns::{
    Done, LOCK, ack, activity, begin, completed, enqueue, fetch, fetch_activity, raised,
};
use crate::world::World;

/// Activities that an instance has.
const IDS: std::ops::Range<u64> = 2..7;

/// A worker as the runtime has them: a task that fetches, reads, and ends what it has fetched.
async fn work(provider: Arc<CosmosDBProvider>, times: usize) -> Vec<(u64, u32)> {
    let worker = async move {
        let mut done = Vec::new();
        for _ in 0..times {
            let poll = Duration::from_secs(1);
            let fetched = provider.fetch_work_item(LOCK, poll, None, &TagFilter::DefaultOnly).await;
            let Ok(Some((item, token, attempts))) = fetched else { continue };
            let WorkItem::ActivityExecute { instance, id, .. } = item else { panic!("{item:?}") };
            let history = provider.read(&instance).await;
            assert!(history.is_err() || history.unwrap().len() == 1);
            let completion = completed(&instance, id, String::new());
            if provider.ack_work_item(&token, Some(completion)).await.is_ok() {
                done.push((id, attempts));
            }
        }
        done
    };
    tokio::spawn(worker).await.unwrap()
}

async fn begun(world: &World) -> Arc<CosmosDBProvider> {
    let provider = Arc::new(world.settled().await);
    begin(&provider, "i", Done::first("i").with_activities("i", IDS)).await;
    provider
}

#[tokio::test(start_paused = true)]
async fn the_activities_of_an_instance_take_a_claim_and_then_a_request_each() {
    let world = World::new();
    let provider = begun(&world).await;
    let (done, requests) = world.requests(work(Arc::clone(&provider), 5)).await;
    let ids: Vec<u64> = done.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, IDS.collect::<Vec<_>>(), "in the order in which they were scheduled");
    assert!(done.iter().all(|(_, attempts)| *attempts == 1), "{done:?}");
    // The first claim, and five ends, of which four claim the next one too.
    assert_eq!(requests, 6);
}

#[tokio::test(start_paused = true)]
async fn an_activity_prefetched_for_an_ended_worker_counts_no_attempt() {
    for is_shut_down in [false, true] {
        let world = World::new();
        let provider = begun(&world).await;
        assert_eq!(work(Arc::clone(&provider), 1).await, [(2, 1)]);
        match is_shut_down {
            true => provider.shutdown().await,
            // Sooner than its lock ends.
            false => tokio::time::sleep(LOCK / 2).await,
        }
        let another = world.settled().await;
        for id in 3..7 {
            let (item, _, attempts) = fetch_activity(&another).await.unwrap();
            assert!(matches!(item, WorkItem::ActivityExecute { id: it, .. } if it == id));
            assert_eq!(attempts, 1);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_prefetched_activity_goes_to_the_next_worker_on_the_same_terms() {
    let world = World::new();
    let provider = begun(&world).await;
    assert_eq!(work(Arc::clone(&provider), 1).await, [(2, 1)]);
    let (done, requests) = world.requests(work(Arc::clone(&provider), 1)).await;
    assert_eq!(done, [(3, 1)]);
    // Its end, which claims the next one.
    assert_eq!(requests, 1);
}

#[tokio::test(start_paused = true)]
async fn a_worker_reads_the_history_as_of_its_claim_once_and_then_as_it_is() {
    let world = World::new();
    let provider = begun(&world).await;
    let another = Arc::new(world.settled().await);
    let worker = async move {
        let poll = Duration::from_secs(1);
        let fetched = provider.fetch_work_item(LOCK, poll, None, &TagFilter::DefaultOnly).await;
        assert!(fetched.unwrap().is_some());
        enqueue(&another, raised("i", "x")).await;
        let (_, token, _) = fetch(&another).await.unwrap();
        ack(&another, &token, Done::default().with_event("i", 2)).await.unwrap();
        let lengths = [provider.read("i").await, provider.read("i").await];
        assert_eq!(lengths.map(|history| history.unwrap().len()), [1, 2]);
    };
    tokio::spawn(worker).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_worker_reads_what_its_own_process_has_committed_since() {
    let world = World::new();
    let provider = begun(&world).await;
    let worker = async move {
        let poll = Duration::from_secs(1);
        let fetched = provider.fetch_work_item(LOCK, poll, None, &TagFilter::DefaultOnly).await;
        assert!(fetched.unwrap().is_some());
        enqueue(&provider, raised("i", "x")).await;
        let (_, token, _) = fetch(&provider).await.unwrap();
        ack(&provider, &token, Done::default().with_event("i", 2)).await.unwrap();
        assert_eq!(provider.read("i").await.unwrap().len(), 2);
    };
    tokio::spawn(worker).await.unwrap();
}

/// A worker ends the activities of two instances, one after the other, and is interrupted at a request.
async fn interrupted(interruption: Interruption, at: usize) {
    let world = World::new();
    let provider = Arc::new(world.settled().await);
    for instance in ["i", "j"] {
        begin(&provider, instance, Done::first(instance).with_activities(instance, IDS)).await;
    }
    world.network.arm(at, interruption);
    tokio::select! {
        _ = work(Arc::clone(&provider), 14) => {}
        () = world.network.stopped() => {}
    }
    world.network.disarm();
    drop(provider);
    tokio::time::sleep(LOCK * 2).await;
    let what = format!("{interruption:?} at request {at}");
    let another = world.settled().await;
    while let Some((item, token, _)) = fetch_activity(&another).await {
        let WorkItem::ActivityExecute { instance, id, .. } = item else { panic!("{item:?}") };
        let completion = completed(&instance, id, String::new());
        another.ack_work_item(&token, Some(completion)).await.unwrap();
    }
    for _ in ["i", "j"] {
        let (turn, _, _) = fetch(&another).await.unwrap();
        let ids = turn.messages.iter().map(|message| match message {
            WorkItem::ActivityCompleted { id, .. } => *id,
            _ => panic!("{message:?}, {what}"),
        });
        assert_eq!(turn.messages.len(), IDS.count(), "{what}");
        assert_eq!(ids.collect::<BTreeSet<u64>>(), IDS.collect(), "{what}");
    }
    assert_eq!(world.count("worker_queue").await, 0, "{what}");
}

#[tokio::test(start_paused = true)]
async fn an_interruption_at_every_request_loses_no_activity_and_ends_none_twice() {
    // A claim for each instance, and ten ends; then the feeder asks for more.
    for interruption in INTERRUPTIONS {
        for at in 0..14 {
            interrupted(interruption, at).await;
        }
    }
}

/// A runtime renews a lock by the time at which it was given it.
#[tokio::test(start_paused = true)]
async fn an_activity_whose_claim_took_half_of_its_lock_is_given_back() {
    let latency = LOCK * 3 / 5;
    let network = NetworkFaults { latency, ..NetworkFaults::NONE };
    let world = World::of(InProcessAccount::with_regions(&["West US"], 1, network));
    let provider = begun(&world).await;
    assert_eq!(work(Arc::clone(&provider), 1).await, [(2, 1)]);
    tokio::time::sleep(latency * 2).await;
    // Its own lock would not have ended yet, nor has anybody else tried it.
    let container = world.container();
    let query = container.query(
        "SELECT VALUE c.attemptCount FROM c WHERE c.type = 'worker_queue' AND IS_NULL(c.lockToken)",
    );
    let attempts: Vec<u32> = query.items::<u32>().collect().await.unwrap();
    assert_eq!(attempts, [0; 4]);
}

#[tokio::test(start_paused = true)]
async fn an_activity_of_a_session_is_not_passed_over_for_a_younger_one() {
    let world = World::new();
    let provider = Arc::new(world.settled().await);
    let mut done = Done::first("i");
    for (id, session) in [(2, None), (3, Some("s")), (4, None)] {
        done.activities.push(activity("i", id, session));
    }
    begin(&provider, "i", done).await;
    let worker = async move {
        let session = SessionFetchConfig { owner_id: "w".to_owned(), lock_timeout: LOCK };
        let mut order = Vec::new();
        for _ in 0..3 {
            let (poll, tags) = (Duration::from_secs(1), TagFilter::DefaultOnly);
            let fetched = provider.fetch_work_item(LOCK, poll, Some(&session), &tags).await;
            let (item, token, _) = fetched.unwrap().unwrap();
            let WorkItem::ActivityExecute { id, .. } = item else { panic!("{item:?}") };
            let completion = completed("i", id, String::new());
            provider.ack_work_item(&token, Some(completion)).await.unwrap();
            order.push(id);
        }
        assert_eq!(order, [2, 3, 4]);
    };
    tokio::spawn(worker).await.unwrap();
}

/// Workers at the same time, which run each activity of two instances for a while.
async fn work_together(takes: Duration) {
    const WORKERS: usize = 3;
    let world = World::new();
    let provider = Arc::new(world.settled().await);
    for instance in ["i", "j"] {
        begin(&provider, instance, Done::first(instance).with_activities(instance, IDS)).await;
    }
    let worker = |provider: Arc<CosmosDBProvider>| async move {
        let (poll, tags) = (Duration::from_secs(1), TagFilter::DefaultOnly);
        let mut done = Vec::new();
        while let Some((item, token, attempts)) =
            provider.fetch_work_item(LOCK, poll, None, &tags).await.unwrap()
        {
            let WorkItem::ActivityExecute { instance, id, .. } = item else { panic!("{item:?}") };
            assert_eq!(attempts, 1);
            tokio::time::sleep(takes).await;
            let completion = completed(&instance, id, String::new());
            provider.ack_work_item(&token, Some(completion)).await.unwrap();
            done.push((instance, id));
        }
        done
    };
    let workers: Vec<_> =
        (0..WORKERS).map(|_| tokio::spawn(worker(Arc::clone(&provider)))).collect();
    let mut done = Vec::new();
    for worker in workers {
        done.extend(worker.await.unwrap());
    }
    done.sort();
    let all = ["i", "j"].into_iter().flat_map(|instance| IDS.map(|id| (instance.to_owned(), id)));
    assert_eq!(done, all.collect::<Vec<_>>(), "{takes:?}");
    assert_eq!(world.count("worker_queue").await, 0, "{takes:?}");
}

#[tokio::test(start_paused = true)]
async fn prefetched_activities_of_several_workers_are_each_done_once() {
    // The long ones outlast what is claimed ahead: it is given back, and claimed again.
    for takes in [Duration::ZERO, Duration::from_millis(10), LOCK * 3 / 5] {
        work_together(takes).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_activity_that_has_changed_is_not_claimed_and_the_other_one_ends() {
    let world = World::new();
    let provider = begun(&world).await;
    let another = Arc::new(world.settled().await);
    let worker = async move {
        let poll = Duration::from_secs(1);
        let fetch = || provider.fetch_work_item(LOCK, poll, None, &TagFilter::DefaultOnly);
        let (_, token, _) = fetch().await.unwrap().unwrap();
        // Another process has taken the next one meanwhile.
        let (item, _, _) = fetch_activity(&another).await.unwrap();
        assert!(matches!(item, WorkItem::ActivityExecute { id: 3, .. }));
        let completion = completed("i", 2, String::new());
        provider.ack_work_item(&token, Some(completion)).await.unwrap();
        let (item, _, attempts) = fetch().await.unwrap().unwrap();
        assert!(matches!(item, WorkItem::ActivityExecute { id: 4, .. }), "{item:?}");
        assert_eq!(attempts, 1);
    };
    tokio::spawn(worker).await.unwrap();
}

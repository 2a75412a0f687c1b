//! Every request of every transition is interrupted, in each way a request can be: lost before it arrives, its
//! answer lost, once or until the driver gives up, the process gone before or after it. Afterwards nothing is lost,
//! nothing happened twice, nothing is stuck, and the history has no gap.

mod cancelling;
mod deletion;
mod delivery;
mod fetching;
mod pruning;

use duroxide::EventKind;
use duroxide::providers::{Provider, ProviderAdmin};
use sidereal_duroxide::CosmosDBProvider;
use sidereal_testing::in_process::Interruption;

use crate::dispatcher::{CHILD, PARENT, raise, start, work};
use crate::world::World;

/// More than the driver tries.
const ALL: usize = 40;

/// So many bytes are stored in documents of their own, beside the one that they belong to.
const IN_PARTS: usize = 1_100_000;

pub(crate) const INTERRUPTIONS: [Interruption; 6] = [
    Interruption::LoseRequests(1),
    Interruption::LoseRequests(ALL),
    Interruption::LoseAnswers(1),
    Interruption::LoseAnswers(ALL),
    Interruption::StopBefore,
    Interruption::StopAfter,
];

impl World {
    /// Everything has happened once.
    pub(crate) async fn check(&self, activities: usize, what: &str) {
        let provider = self.provider().await;
        for instance in [PARENT, CHILD] {
            let info = provider.get_instance_info(instance).await.unwrap();
            assert_eq!(info.status, "Completed", "{instance}, {what}");
            let history = provider.read(instance).await.unwrap();
            let ids: Vec<u64> = history.iter().map(duroxide::Event::event_id).collect();
            assert_eq!(ids, (1..=ids.len() as u64).collect::<Vec<_>>(), "{instance}, {what}");
        }
        let history = provider.read(PARENT).await.unwrap();
        let count =
            |is: fn(&EventKind) -> bool| history.iter().filter(|event| is(&event.kind)).count();
        assert_eq!(count(|it| matches!(it, EventKind::ActivityScheduled { .. })), activities);
        let completed = count(|it| matches!(it, EventKind::ActivityCompleted { .. }));
        assert_eq!(completed, activities, "{what}");
        let children = count(|it| matches!(it, EventKind::SubOrchestrationCompleted { .. }));
        assert_eq!(children, 1, "{what}");
        assert_eq!(count(|it| matches!(it, EventKind::ExternalEvent { .. })), 1, "{what}");
        for kind in ["orch_queue", "worker_queue", "outbox_intent"] {
            assert_eq!(self.count(kind).await, 0, "{kind}, {what}");
        }
    }
}

/// Everything from the start to the end of a parent and its child.
async fn whole(provider: &CosmosDBProvider, activities: u64) {
    // What could not be enqueued is enqueued again by `settle`.
    let _ = start(provider).await;
    let _ = raise(provider).await;
    work(provider, activities).await;
}

/// A process without interruptions ends what was begun.
async fn settle(world: &World, activities: u64) {
    let provider = world.provider().await;
    let is_missing = |found: usize| found == 0;
    if is_missing(world.count("instance").await) && is_missing(world.count("orch_queue").await) {
        start(&provider).await.unwrap();
    }
    work(&provider, activities).await;
    let history = provider.read(PARENT).await.unwrap();
    let is_raised =
        history.iter().any(|event| matches!(event.kind, EventKind::ExternalEvent { .. }));
    if !is_raised {
        raise(&provider).await.unwrap();
        work(&provider, activities).await;
    }
    provider.shutdown().await;
}

/// Which requests of so many are interrupted, and how.
type Points = fn(usize) -> Vec<(Interruption, usize)>;

/// Each request that is interrupted, in each way: all of them if `SIDEREAL_EXHAUSTIVE` is set, else every seventh,
/// another seventh for each way.
fn points(requests: usize) -> Vec<(Interruption, usize)> {
    let step = if std::env::var_os("SIDEREAL_EXHAUSTIVE").is_some() { 1 } else { 7 };
    let points = INTERRUPTIONS.into_iter().enumerate().flat_map(move |(way, interruption)| {
        (way % step..requests).step_by(step).map(move |at| (interruption, at))
    });
    points.collect()
}

/// Each request of something small, in each way.
fn every_point(requests: usize) -> Vec<(Interruption, usize)> {
    let ways = |at| INTERRUPTIONS.map(|interruption| (interruption, at));
    (0..requests).flat_map(ways).collect()
}

async fn interrupt_each(activities: u64, requests: usize) -> usize {
    let mut tried = 0;
    for (interruption, at) in points(requests) {
        let world = World::new();
        let run = async |provider: &CosmosDBProvider| whole(provider, activities).await;
        world.interrupt(at, interruption, run).await;
        settle(&world, activities).await;
        let what = format!("{interruption:?} at request {at} of {requests}");
        world.check(activities as usize, &what).await;
        tried += 1;
    }
    tried
}

/// How many requests there are if nothing is interrupted.
async fn requests(activities: u64) -> usize {
    let world = World::new();
    let run = async |provider: &CosmosDBProvider| whole(provider, activities).await;
    let requests = world.interrupt(usize::MAX, Interruption::StopBefore, run).await;
    world.check(activities as usize, "nothing was interrupted").await;
    requests
}

#[tokio::test(start_paused = true)]
async fn a_small_turn_survives_an_interruption_at_every_request() {
    let tried = interrupt_each(2, requests(2).await).await;
    println!("{tried} interruptions");
}

#[tokio::test(start_paused = true)]
async fn a_turn_of_many_batches_survives_an_interruption_at_every_request() {
    let activities = 60;
    requests(activities).await;
    // Until the first turn is committed; what follows is like the small one's.
    let tried = interrupt_each(activities, 14).await;
    println!("{tried} interruptions");
}

//! The metrics of a provider, as an exporter sees them.

use std::sync::Arc;
use std::time::Duration;

use duroxide::providers::Provider;
use sidereal_duroxide::{CosmosDBProvider, CosmosDBProviderConfig};
use sidereal_protocol::ResourceType;
use sidereal_testing::metrics::{Exported, Point, SdkMeterProvider};

use crate::loops::{Loops, start};
use crate::turns::{Done, begin, enqueue, fetch, raised};
use crate::world::World;

const OPERATION: &str = "sidereal.duroxide.operation";
const QUEUE: &str = "sidereal.duroxide.queue";

/// The sum of an instrument over the points that have a value of an attribute.
fn sum(points: &[Point], instrument: &str, attribute: Option<(&str, &str)>) -> f64 {
    let is_meant = |point: &&Point| {
        point.instrument == instrument
            && attribute.is_none_or(|(key, value)| point.attribute(key) == Some(value))
    };
    points.iter().filter(is_meant).map(|point| point.sum).sum()
}

async fn measured(world: &World, exported: &Exported) -> (Arc<CosmosDBProvider>, SdkMeterProvider) {
    let meters = exported.provider();
    let config = CosmosDBProviderConfig::with_client(world.client()).with_clock(world.clock());
    let provider = CosmosDBProvider::new(config.with_meter_provider(&meters)).await.unwrap();
    (Arc::new(provider), meters)
}

#[tokio::test(start_paused = true)]
async fn requests_and_charges_by_operation_add_up_to_those_of_the_account() {
    let (world, exported) = (World::new(), Exported::default());
    let (provider, meters) = measured(&world, &exported).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = exported.collect(&meters);
    world.account.account().reset_counters();
    let mut loops = Loops::start(&provider, 2);
    for run in 0..10 {
        let instance = format!("i-{run}");
        let child = format!("{instance}::sub::1");
        enqueue(&provider, start(&instance, 5, Some(&child))).await;
        loops.completed(&instance).await;
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    loops.kill().await;
    let (mut requests, mut charge) = (0.0, 0.0);
    for row in world.account.account().counters() {
        if row.container.is_some() && row.resource == Some(ResourceType::Document) {
            requests += row.requests as f64;
            charge += row.charge;
        }
    }
    let after = exported.collect(&meters);
    let grown =
        |name: &str, attribute| sum(&after, name, attribute) - sum(&before, name, attribute);
    assert_eq!(grown("sidereal.duroxide.requests", None), requests);
    let counted = grown("sidereal.duroxide.request_charge", None);
    assert!((counted - charge).abs() < 0.01 * requests, "{counted} of {charge}");
    for operation in ["enqueue_for_orchestrator", "ack_orchestration_item", "ack_work_item"] {
        let of = Some((OPERATION, operation));
        assert!(grown("sidereal.duroxide.request_charge", of) > 10.0, "{operation}");
        println!(
            "{operation}: {} requests, {:.1} RU",
            grown("sidereal.duroxide.requests", of),
            grown("sidereal.duroxide.request_charge", of)
        );
    }
    // Each child runs one turn, each parent two at the least.
    assert!(grown("sidereal.duroxide.turns", None) >= 30.0);
    let claims = |queue: &str| {
        let points = after.iter().filter(|it| it.instrument == "sidereal.duroxide.claim.latency");
        points.filter(|it| it.attribute(QUEUE) == Some(queue)).map(|it| it.count).sum::<u64>()
    };
    assert_eq!(claims("worker"), 50);
    assert!(claims("orchestrator") >= 30);
    let has_instance =
        |point: &Point| point.attributes.iter().any(|(_, value)| value.contains("i-"));
    assert!(!after.iter().any(has_instance), "no attribute holds an id");
}

#[tokio::test(start_paused = true)]
async fn what_is_ready_and_what_is_done_again_is_counted() {
    let (world, exported) = (World::new(), Exported::default());
    let (provider, meters) = measured(&world, &exported).await;
    begin(&provider, "i", Done::first("i").with_activities("i", 2..5)).await;
    enqueue(&provider, raised("i", "x")).await;
    let depth = |queue: &str| {
        let points = exported.collect(&meters);
        sum(&points, "sidereal.duroxide.queue.depth", Some((QUEUE, queue)))
    };
    assert_eq!((depth("orchestrator"), depth("worker")), (1.0, 3.0));
    for _ in 0..2 {
        let (_, token, _) = fetch(&provider).await.unwrap();
        provider.abandon_orchestration_item(&token, None, false).await.unwrap();
    }
    let points = exported.collect(&meters);
    let again = Some(("sidereal.duroxide.retried", "turn"));
    assert_eq!(sum(&points, "sidereal.duroxide.retries", again), 1.0);
}

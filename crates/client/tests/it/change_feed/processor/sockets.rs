//! The processor over sockets, in real time: three workers, one of which is killed and started again.

use std::time::Duration;

use serde_json::Value;
use sidereal::change_feed::processor::{ChangeFeedProcessor, Changes, HandlerError};
use sidereal::prelude::*;
use sidereal_emulator::Emulator;
use sidereal_testing::within_timeout;

use super::super::write;
use super::Log;

fn client_of(emulator: &Emulator) -> CosmosClient {
    CosmosClient::builder(emulator.endpoint(), emulator.key().clone())
        .trust_pem_on_loopback(emulator.certificate_pem().as_bytes())
        .unwrap()
        .build()
        .unwrap()
}

async fn start(emulator: &Emulator, log: &Log, name: &'static str) -> ChangeFeedProcessor {
    let database = client_of(emulator).database("db");
    let (items, leases, log) =
        (database.container("items"), database.container("leases"), log.clone());
    let processor = items
        .change_feed_processor("billing", &leases)
        .with_instance(name)
        .with_lease_duration(Duration::from_millis(600))
        .with_acquire_interval(Duration::from_millis(60))
        .with_poll_interval(Duration::from_millis(10))
        .with_page_size(10);
    let started = processor.start(move |changes: Changes<Value>| {
        log.note(name, &changes);
        async { Ok::<_, HandlerError>(()) }
    });
    started.await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_over_sockets_take_over_from_one_that_keeps_dying() {
    let emulator = Emulator::builder().partitions(4).start().await.unwrap();
    let client = client_of(&emulator);
    client.create_database("db", None).await.unwrap();
    for (id, path) in [("items", "/pk"), ("leases", "/processor")] {
        let properties = ContainerProperties::new(id, path.parse().unwrap());
        client.database("db").create_container(properties, None).await.unwrap();
    }
    let (items, log) = (client.database("db").container("items"), Log::default());
    let (a, b) = (start(&emulator, &log, "a").await, start(&emulator, &log, "b").await);
    for v in 1..=4 {
        let c = start(&emulator, &log, "c").await;
        write(&items, 0..60, v).await;
        if v == 2 {
            emulator.account().split_range("db", "items", "0", Duration::ZERO).unwrap();
        }
        // In the middle of whatever it does then.
        tokio::time::sleep(Duration::from_millis(40 * v as u64)).await;
        drop(c);
    }
    let handled = async {
        while !(0..60).all(|id| log.distinct().contains(&(id, 4))) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    within_timeout("every change to be handled", handled).await;
    log.check(60, 4);
    assert!(!a.progress().is_empty() && !b.progress().is_empty());
    a.stop().await;
    b.stop().await;
    emulator.shutdown().await;
}

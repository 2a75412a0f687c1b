//! Behaviour that every account shares: the emulator's in `cargo test`, and any other that the environment names.
//!
//! | variable | |
//! |---|---|
//! | `SIDEREAL_TEST_ENDPOINT` | the account to run against; the emulator if it is not set |
//! | `SIDEREAL_TEST_KEY` | its key |
//! | `SIDEREAL_TEST_LACKS` | what it cannot do, by the names of [`Feature`], separated by commas |
//!
//! | `SIDEREAL_TEST_GREASE` | the seed of the emulator's second run, in which it uses the latitudes of the service's contract |
//!
//! Each test has a database of its own, which it removes. Against the emulator each runs twice: on an account that answers as
//! conveniently as it can, and on one that answers as inconveniently as it may.

mod accounts;
mod batches;
mod bulk;
mod change_feed;
mod containers;
mod databases;
mod items;
mod keys;
mod patches;
mod queries;

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::FutureExt;
use serde_json::{Value, json};
use sidereal::options::{CosmosClientOptions, ItemOptions, ItemWriteOptions};
use sidereal::prelude::*;
use sidereal_emulator::{Emulator, Grease};

/// A capability that an account may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Feature {
    /// Several operations at once, all or none.
    Batch,
    /// Several operations at once, each by itself.
    Bulk,
    /// Change feeds by partition range and by partition key.
    ChangeFeed,
    /// Reading what is not there is answered with 404.
    MissingItem,
    /// A read with `If-None-Match`.
    ConditionalReads,
    /// Keys that are null, absent, numbers.
    EveryKey,
    /// Aggregates as an SDK asks each partition for them.
    Aggregates,
    /// Every shape of query: groups, distinct values, windows.
    EveryQuery,
    /// Queries of one partition key, or of a part of the container.
    QueryScopes,
    /// Pages of queries that go on where they ended.
    QueryPaging,
    /// Session tokens.
    Sessions,
    /// Refuses what the service refuses: ids, sizes, definitions.
    Refusals,
    /// Offers.
    Throughput,
    /// `prefer: return=minimal`.
    MinimalResponses,
}

fn is_lacking(feature: Feature) -> bool {
    let lacks = std::env::var("SIDEREAL_TEST_LACKS").unwrap_or_default();
    lacks.split(',').any(|name| name.trim() == format!("{feature:?}"))
}

/// A database of one test, with a container of orders by customer.
pub(crate) struct Store {
    pub(crate) client: CosmosClient,
    pub(crate) database: DatabaseClient,
    pub(crate) orders: ContainerClient,
    _emulator: Option<Emulator>,
}

/// Runs a test with a store of its own, if the account can do what the test needs.
pub(crate) async fn with_store(needs: &[Feature], test: impl AsyncFn(&Store)) {
    if let Some(lacking) = needs.iter().find(|feature| is_lacking(**feature)) {
        eprintln!("the account lacks {lacking:?}");
        return;
    }
    with_opened(Store::open(None).await, &test).await;
    if std::env::var_os("SIDEREAL_TEST_ENDPOINT").is_none() {
        with_opened(Store::open(Some(Grease::new(seed()))).await, &test).await;
    }
}

/// The first seed; `SIDEREAL_TEST_GREASE` names another.
pub(crate) fn seed() -> u64 {
    std::env::var("SIDEREAL_TEST_GREASE").map_or(1, |seed| seed.parse().unwrap())
}

async fn with_opened(store: Store, test: &impl AsyncFn(&Store)) {
    // Whatever happens: a database that a failed test left would stay in somebody's account.
    let outcome = AssertUnwindSafe(test(&store)).catch_unwind().await;
    store.database.delete(None).await.unwrap();
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

impl Store {
    async fn open(grease: Option<Grease>) -> Self {
        static OPENED: AtomicU32 = AtomicU32::new(0);
        let (client, emulator) = connect(grease).await;
        // Relaxed: a number that is not to be given twice, nothing more.
        let number = OPENED.fetch_add(1, Ordering::Relaxed);
        let id = format!("sidereal-test-{}-{number}", std::process::id());
        client.create_database(&id, None).await.unwrap();
        let database = client.database(&id);
        let by_customer = PartitionKeyDefinition::new(["/customer"]).unwrap();
        let orders = ContainerProperties::new("orders", by_customer);
        database.create_container(orders, None).await.unwrap();
        let orders = database.container("orders");
        Self { client, database, orders, _emulator: emulator }
    }
}

async fn connect(grease: Option<Grease>) -> (CosmosClient, Option<Emulator>) {
    if let Ok(endpoint) = std::env::var("SIDEREAL_TEST_ENDPOINT") {
        let key =
            std::env::var("SIDEREAL_TEST_KEY").expect("SIDEREAL_TEST_KEY is the account's key");
        let key = CosmosCredential::key(&key).unwrap();
        let client = CosmosClient::new(endpoint, key, Some(CosmosClientOptions::default()));
        return (client.unwrap(), None);
    }
    let builder = Emulator::builder().partitions(4);
    let builder = match grease {
        Some(grease) => builder.grease(grease),
        None => builder,
    };
    let emulator = builder.start().await.unwrap();
    let client = CosmosClient::builder(emulator.endpoint(), emulator.key().clone())
        .trust_pem_on_loopback(emulator.certificate_pem().as_bytes())
        .unwrap()
        .build()
        .unwrap();
    (client, Some(emulator))
}

/// An order of a customer.
pub(crate) fn order(customer: &str, id: &str, total: u32) -> Value {
    json!({"id": id, "customer": customer, "total": total})
}

/// Options of a write.
pub(crate) fn writing(write: ItemWriteOptions) -> Option<ItemOptions<'static>> {
    Some(ItemOptions { write, ..ItemOptions::default() })
}

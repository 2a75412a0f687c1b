//! The account of a test on real time: an emulator of its own, or the account that the environment names.
//!
//! | variable | |
//! |---|---|
//! | `COSMOSDB_ENDPOINT` | the account to run against; an emulator for each test if it is not set |
//! | `COSMOSDB_KEY` | its key |
//!
//! Each test has a database of its own, which is removed afterwards, whether the test failed or not.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::FutureExt;
use sidereal::options::{CosmosClientOptions, RegionOptions};
use sidereal::prelude::*;
use sidereal_duroxide::CosmosDBProviderConfig;
use sidereal_emulator::{Emulator, EmulatorBuilder};

/// How long work of another process waits at most here.
const LONGEST_FEED_INTERVAL: Duration = Duration::from_millis(50);

/// A database of one test.
pub(crate) struct Account {
    pub(crate) client: CosmosClient,
    pub(crate) database: String,
    emulator: Option<Emulator>,
}

/// Runs a test with a database of its own.
pub(crate) async fn with_account(test: impl AsyncFnOnce(&Account)) {
    with_account_like(Emulator::builder(), test).await;
}

/// The same; the emulator, if it is one, is made as the caller says.
pub(crate) async fn with_account_like(emulator: EmulatorBuilder, test: impl AsyncFnOnce(&Account)) {
    let account = Account::open(emulator).await;
    // Whatever happens: a database that a failed test left would stay in somebody's account.
    let outcome = AssertUnwindSafe(test(&account)).catch_unwind().await;
    account.close().await;
    if let Err(panic) = outcome {
        std::panic::resume_unwind(panic);
    }
}

impl Account {
    async fn open(emulator: EmulatorBuilder) -> Self {
        static OPENED: AtomicU32 = AtomicU32::new(0);
        // Relaxed: a number that is not to be given twice, nothing more.
        let number = OPENED.fetch_add(1, Ordering::Relaxed);
        let database = format!("duroxide-test-{}-{number}", std::process::id());
        if let Ok(endpoint) = std::env::var("COSMOSDB_ENDPOINT") {
            let key = std::env::var("COSMOSDB_KEY").expect("COSMOSDB_KEY is the account's key");
            let key = CosmosCredential::key(&key).unwrap();
            let client = CosmosClient::new(endpoint, key, None).unwrap();
            return Self { client, database, emulator: None };
        }
        let emulator = emulator.start().await.unwrap();
        let regions = RegionOptions {
            preferred_regions: Some(vec!["West US".into()]),
            ..RegionOptions::default()
        };
        let options = CosmosClientOptions { regions, ..CosmosClientOptions::default() };
        let key = emulator.key().clone();
        let client = CosmosClient::new(emulator.http_endpoint(), key, Some(options)).unwrap();
        Self { client, database, emulator: Some(emulator) }
    }

    async fn close(&self) {
        if self.emulator.is_some() {
            return; // It is gone with everything in it.
        }
        match self.client.database(&self.database).delete(None).await {
            // A test that has no provider has no database.
            Err(error) if error.kind() != ErrorKind::NotFound => panic!("{error}"),
            _ => {}
        }
    }

    /// What a provider of the test is made with.
    pub(crate) fn config(&self) -> CosmosDBProviderConfig {
        let mut config = CosmosDBProviderConfig::with_client(self.client.clone());
        config.database.clone_from(&self.database);
        config.feed_interval_min = LONGEST_FEED_INTERVAL / 5;
        config.feed_interval_max = LONGEST_FEED_INTERVAL;
        config
    }
}

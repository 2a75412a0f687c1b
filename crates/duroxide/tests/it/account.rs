//! The account of a test on real time: an emulator of its own, or the account that the environment names.
//!
//! | variable | |
//! |---|---|
//! | `COSMOSDB_ENDPOINT` | the account to run against; an emulator for each test if it is not set |
//! | `COSMOSDB_KEY` | its key |
//! | `SIDEREAL_TEST_GREASE` | the seed of the latitudes that an emulator's answers use; none if it is not set |
//!
//! Each test has a database of its own, which is removed afterwards, whether the test failed or not.

use std::sync::atomic::{AtomicU32, Ordering};

use sidereal::options::{CosmosClientOptions, RegionOptions};
use sidereal::prelude::*;
use sidereal_emulator::{Emulator, EmulatorBuilder, Grease, Latitude};

/// A database of one test.
pub(crate) struct Account {
    pub(crate) client: CosmosClient,
    pub(crate) database: String,
    emulator: Option<Emulator>,
}

impl Account {
    /// The database of another test, where an emulator's answers use none of these latitudes.
    pub(crate) async fn open(emulator: EmulatorBuilder, left_out: &[Latitude]) -> Self {
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
        let emulator = match std::env::var("SIDEREAL_TEST_GREASE") {
            Ok(seed) => {
                let grease = Grease::new(seed.parse().unwrap());
                emulator.grease(left_out.iter().fold(grease, |grease, it| grease.without(*it)))
            }
            Err(_) => emulator,
        };
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

    /// Removes the database. To be called whatever happens: it would stay in somebody's account.
    pub(crate) async fn close(&self) {
        if self.emulator.is_some() {
            return; // It is gone with everything in it.
        }
        match self.client.database(&self.database).delete(None).await {
            // A test that has no provider has no database.
            Err(error) if error.kind() != ErrorKind::NotFound => panic!("{error}"),
            _ => {}
        }
    }
}

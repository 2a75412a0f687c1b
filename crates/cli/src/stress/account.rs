//! The account of a stress run: one within the process, or a database of one that is named.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use duroxide::provider_stress_test::parallel_orchestrations::ProviderStressFactory;
use duroxide::providers::Provider;
use sidereal::{CosmosClient, ErrorKind};
use sidereal_duroxide::{CosmosDBProvider, CosmosDBProviderConfig};
use sidereal_emulator::{Emulator, FaultEffect, FaultRule};

use super::Concurrency;
use crate::failure::{ExitStatus, Failure};

/// Where a run stores.
pub(super) struct StressAccount {
    client: CosmosClient,
    database: String,
    emulator: Option<Emulator>,
}

impl StressAccount {
    /// An account within the process, whose requests take so much longer.
    pub(super) async fn embedded(round_trip: Duration) -> Result<Self, Failure> {
        let emulator = Emulator::builder().start().await;
        let emulator = emulator.map_err(|error| Failure::of(ExitStatus::Failed, &error))?;
        if !round_trip.is_zero() {
            let rule = FaultRule::new(FaultEffect::DelayBefore { wait: round_trip });
            let added = emulator.account().add_fault(rule);
            added.map_err(|error| Failure::of(ExitStatus::InvalidInput, &error))?;
        }
        let client = CosmosClient::new(emulator.http_endpoint(), emulator.key().clone(), None)?;
        Ok(Self { client, database: "stress".to_owned(), emulator: Some(emulator) })
    }

    /// A database of its own in an account that is named.
    pub(super) fn named(client: CosmosClient) -> Self {
        let database = format!("sidereal-stress-{}", uuid::Uuid::new_v4().simple());
        Self { client, database, emulator: None }
    }

    /// The account's counters of requests and request units; `None` if the account does not count.
    pub(super) fn counted(&self) -> Option<(u64, f64)> {
        let counters = self.emulator.as_ref()?.account().counters();
        let sum = |(requests, charge): (u64, f64), row: sidereal_emulator::CounterRow| {
            (requests + row.requests, charge + row.charge)
        };
        Some(counters.into_iter().fold((0, 0.0), sum))
    }

    /// A provider for so many dispatchers, opened before the run begins so that its errors can be told.
    pub(super) async fn open(&self, concurrency: Concurrency) -> Result<Opened, Failure> {
        let mut config = CosmosDBProviderConfig::with_client(self.client.clone());
        config.database.clone_from(&self.database);
        config.orch_concurrency = u32::from(concurrency.orchestrations);
        config.worker_concurrency = u32::from(concurrency.activities);
        let provider = CosmosDBProvider::new(config).await.map_err(|error| {
            Failure::new(ExitStatus::Failed, "the provider cannot be opened")
                .caused_by(&error)
                .with_hint("see whether the account answers, and the key may create databases")
        })?;
        Ok(Opened { provider: Arc::new(provider) })
    }

    /// Removes what a run has stored.
    pub(super) async fn end(self) -> Result<(), Failure> {
        if let Some(emulator) = self.emulator {
            emulator.shutdown().await;
            return Ok(());
        }
        match self.client.database(&self.database).delete(None).await {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(Failure::from(error)
                .with_hint(format!("delete the database {} by hand", self.database))),
        }
    }
}

/// A provider that the harness asks for.
pub(super) struct Opened {
    pub(super) provider: Arc<CosmosDBProvider>,
}

#[async_trait]
impl ProviderStressFactory for Opened {
    async fn create_provider(&self) -> Arc<dyn Provider> {
        Arc::clone(&self.provider) as Arc<dyn Provider>
    }
}

//! Plain reads and writes through the client, at a steady rate, whatever becomes of those before (an open loop).

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use sidereal::ContainerClient;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior};

use crate::observe::{Kind, Observer};

/// Customers whose profiles are read and written: enough that every partition has some.
const CUSTOMERS: u32 = 64;

/// Operations under way at most. Beyond that the flow waits, and the next operations are late.
const MOST_UNDER_WAY: usize = 512;

/// One in this many operations is a write.
const READS_PER_WRITE: u32 = 3;

/// Plain reads and writes for each orchestration.
pub(crate) const PLAIN_PER_ORCHESTRATION: u32 = 8;

/// A flow of reads and writes.
pub(crate) struct Traffic {
    pub(crate) profiles: ContainerClient,
    pub(crate) observer: Arc<Observer>,
    pub(crate) per_second: u32,
    pub(crate) seed: u64,
}

/// A customer's name, which is the partition key of the profile.
fn customer(number: u32) -> String {
    format!("customer-{number}")
}

impl Traffic {
    /// Creates the profiles that are read later.
    pub(crate) async fn prepare(&self) -> sidereal::Result<()> {
        for number in 0..CUSTOMERS {
            write(&self.profiles, &customer(number), 0).await?;
        }
        Ok(())
    }

    /// Reads and writes until it is over, and waits for what is under way then.
    pub(crate) async fn run(self, until: Instant) {
        let mut random = fastrand::Rng::with_seed(self.seed);
        let permits = Arc::new(Semaphore::new(MOST_UNDER_WAY));
        let mut due = every(Duration::from_secs(1) / self.per_second.max(1));
        let mut under_way = JoinSet::new();
        let mut number = 0_u32;
        while Instant::now() < until {
            due.tick().await;
            while under_way.try_join_next().is_some() {}
            let Ok(permit) = Arc::clone(&permits).acquire_owned().await else { break };
            number += 1;
            let kind = match number % (READS_PER_WRITE + 1) {
                0 => Kind::Write,
                _ => Kind::Read,
            };
            let customer = customer(random.u32(..CUSTOMERS));
            let (profiles, observer) = (self.profiles.clone(), Arc::clone(&self.observer));
            under_way.spawn(async move {
                operate(&profiles, kind, &customer, number, &observer).await;
                drop(permit);
            });
        }
        while under_way.join_next().await.is_some() {}
    }
}

/// Ticks at a steady rate; ticks that were missed are not made up for in a burst.
pub(super) fn every(period: Duration) -> Interval {
    let mut interval = tokio::time::interval(period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}

async fn operate(
    profiles: &ContainerClient,
    kind: Kind,
    customer: &str,
    version: u32,
    observer: &Observer,
) {
    let began = Instant::now();
    let outcome = match kind {
        Kind::Read => profiles.read_item(customer, "profile", None).await,
        Kind::Write => write(profiles, customer, version).await,
    };
    match outcome {
        Ok(response) => observer.succeeded(kind, began.elapsed(), response.diagnostics()),
        Err(error) => observer.failed(kind, began.elapsed(), &error),
    }
}

async fn write(
    profiles: &ContainerClient,
    customer: &str,
    version: u32,
) -> sidereal::Result<sidereal::ItemResponse> {
    let profile = json!({ "id": "profile", "customer": customer, "version": version });
    profiles.upsert_item(customer, &profile, None).await
}

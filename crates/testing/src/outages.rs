//! Outages as an application notices them: a load on an account in this process, a fault, and the outcomes of the calls.
//!
//! On tokio's paused clock, so that minutes take seconds and a run repeats. A run is healthy for a while, then the fault is
//! there, then it is gone; times are those of the simulated network.

use std::fmt;
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use sidereal_driver::options::{CosmosClientOptions, RequestOptions};
use sidereal_driver::{CosmosDriver, CosmosOperation, OperationOptions};
use sidereal_emulator::{
    AccountOptions, FaultCondition, FaultEffect, FaultRule, WriteRegionChange,
};
use sidereal_protocol::{
    OperationType, ReadConsistencyStrategy, RegionName, RequestPath, ResourceLink, ResourceType,
};
use tokio::task::{JoinSet, LocalSet};
use tokio::time::{Instant, sleep, sleep_until};

use crate::in_process::{InProcessAccount, NetworkFaults};

/// The regions; the first one accepts writes.
const REGIONS: [&str; 3] = ["West US", "East US", "UK South"];
const PARTITIONS: u32 = 8;
const CUSTOMERS: usize = 64;

/// How long the fault is there, and how long the run is watched after it.
const FAULT: Duration = Duration::from_secs(30);
const AFTER: Duration = Duration::from_secs(90);
const HEALTHY: Duration = Duration::from_secs(20);

/// When the service makes another region the write region, after its own was lost.
pub const CHANGE_AFTER: Duration = Duration::from_secs(5);

/// Which regions accept writes, and what moves them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One region accepts writes.
    SingleWrite,
    /// One region accepts writes, and partitions fail over by themselves.
    PartitionFailover,
    /// Every region accepts writes.
    MultiWrite,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Self; 3] = [Self::SingleWrite, Self::PartitionFailover, Self::MultiWrite];
}

/// The kind of an outage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outage {
    /// One partition answers 503 in the region that the application prefers.
    PartitionSick,
    /// The preferred region takes half a second longer.
    RegionSlow,
    /// The preferred region, which does not accept writes, answers nothing.
    ReadRegionLost,
    /// The write region answers nothing; another one takes its place after [`CHANGE_AFTER`].
    WriteRegionLost,
    /// The write region is changed as planned.
    GracefulChange,
    /// The preferred region refuses connections for three seconds, and serves for three.
    Flapping,
    /// A tenth of the requests to one partition are not answered in the preferred region.
    Gray,
}

impl Outage {
    /// Every outage.
    pub const ALL: [Self; 7] = [
        Self::PartitionSick,
        Self::RegionSlow,
        Self::ReadRegionLost,
        Self::WriteRegionLost,
        Self::GracefulChange,
        Self::Flapping,
        Self::Gray,
    ];

    /// The region that the application prefers, and that the fault is in.
    fn region(self) -> &'static str {
        match self {
            Self::RegionSlow | Self::ReadRegionLost => "UK South",
            _ => "West US",
        }
    }
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// The account.
    pub kind: Kind,
    /// The outage.
    pub outage: Outage,
    /// The round trips to the regions, in the order of their distance.
    pub distances: [Duration; 3],
    /// How far regions are behind the writes of others.
    pub lag: Duration,
    /// The time between two calls.
    pub between_calls: Duration,
}

/// The outcomes of the calls of a period.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// How many there were.
    pub calls: usize,
    /// Reads that failed.
    pub failed_reads: usize,
    /// Writes that failed, by when they began after the fault.
    pub failed_writes: Vec<Duration>,
    /// How long reads took, in order.
    reads: Vec<Duration>,
    /// How long writes took, in order.
    writes: Vec<Duration>,
    /// Requests about items that the account has seen, for each call.
    pub requests_per_call: f64,
}

impl Calls {
    /// The 99th percentile of reads.
    #[must_use]
    pub fn read_p99(&self) -> Duration {
        percentile(&self.reads)
    }

    /// The 99th percentile of writes.
    #[must_use]
    pub fn write_p99(&self) -> Duration {
        percentile(&self.writes)
    }
}

fn percentile(sorted: &[Duration]) -> Duration {
    sorted.get(sorted.len().saturating_sub(1) * 99 / 100).copied().unwrap_or_default()
}

/// The outcome of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Before the fault.
    pub healthy: Calls,
    /// In the first half of the fault.
    pub during: Calls,
    /// In its second half: what could move has moved.
    pub moved: Calls,
    /// After it.
    pub after: Calls,
    /// How long after the fault three quarters of the usual reads were made in the preferred region again.
    pub fail_back: Option<Duration>,
}

impl Outcome {
    /// Requests that the fault has added, in percent of the calls.
    #[must_use]
    pub fn added_requests(&self) -> f64 {
        let (during, moved) = (&self.during, &self.moved);
        let calls = (during.calls + moved.calls).max(1) as f64;
        let requests = during.requests_per_call * during.calls as f64
            + moved.requests_per_call * moved.calls as f64;
        100.0 * (requests / calls - self.healthy.requests_per_call)
    }

    /// How many times as long reads take as without a fault, once what could move has moved.
    #[must_use]
    pub fn read_p99_ratio(&self) -> f64 {
        self.moved.read_p99().as_secs_f64() / self.healthy.read_p99().as_secs_f64()
    }

    /// Failed reads of the whole run.
    #[must_use]
    pub fn failed_reads(&self) -> usize {
        [&self.healthy, &self.during, &self.moved, &self.after]
            .map(|it| it.failed_reads)
            .iter()
            .sum()
    }

    /// When the failed writes of the whole run began, after the fault.
    pub fn failed_writes(&self) -> impl Iterator<Item = Duration> {
        let all = [&self.healthy, &self.during, &self.moved, &self.after];
        all.into_iter().flat_map(|it| it.failed_writes.iter().copied())
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fail_back =
            self.fail_back.map_or("-".to_owned(), |it| format!("{:.0} s", it.as_secs_f64()));
        write!(
            formatter,
            "{:>6} calls | reads failed {:>3} | writes failed {:>4} (last begun at {:>4.1} s) | read p99 {:>4.0} -> {:>4.0} \
             -> {:>4.0} ms ({:.1}x) | write p99 {:>4.0} -> {:>5.0} -> {:>5.0} ms | requests {:+.1} % | back after {fail_back}",
            self.healthy.calls + self.during.calls + self.moved.calls + self.after.calls,
            self.failed_reads(),
            self.failed_writes().count(),
            self.failed_writes().max().unwrap_or_default().as_secs_f64(),
            millis(self.healthy.read_p99()),
            millis(self.during.read_p99()),
            millis(self.moved.read_p99()),
            self.read_p99_ratio(),
            millis(self.healthy.write_p99()),
            millis(self.during.write_p99()),
            millis(self.moved.write_p99()),
            self.added_requests(),
        )
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1_000.0
}

/// Runs a scenario.
///
/// # Panics
///
/// The account cannot be set up.
#[must_use]
pub fn run(scenario: &Scenario, seed: u64) -> Outcome {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without threads can be made");
    LocalSet::new().block_on(&runtime, execute(*scenario, seed))
}

async fn execute(scenario: Scenario, seed: u64) -> Outcome {
    let site = Rc::new(Site::new(scenario, seed).await);
    let warm_up = load(&site, Duration::from_secs(5)).await.gather().await;
    assert_eq!(warm_up.failed_reads + warm_up.failed_writes.len(), 0, "nothing is wrong yet");
    let healthy = load(&site, HEALTHY).await.gather().await;
    let usual = site.read_at_home().await;
    site.began.set(Some(Instant::now()));
    let fault = tokio::task::spawn_local(inject(Rc::clone(&site)));
    let during = load(&site, FAULT / 2).await;
    let moved = load(&site, FAULT / 2).await;
    fault.abort();
    site.heal();
    let healed = Instant::now();
    let back = tokio::task::spawn_local({
        let site = Rc::clone(&site);
        async move {
            while healed.elapsed() < AFTER {
                if site.read_at_home().await * 4 >= usual * 3 {
                    return Some(healed.elapsed());
                }
                sleep(Duration::from_millis(500)).await;
            }
            None
        }
    });
    let after = load(&site, AFTER).await;
    let (during, moved) = (during.gather().await, moved.gather().await);
    let after = after.gather().await;
    Outcome { healthy, during, moved, after, fail_back: back.await.unwrap_or_default() }
}

/// An account with items, and an application that prefers the region of the fault.
struct Site {
    scenario: Scenario,
    account: InProcessAccount,
    driver: Rc<CosmosDriver>,
    began: std::cell::Cell<Option<Instant>>,
    number: std::cell::Cell<usize>,
}

impl Site {
    async fn new(scenario: Scenario, seed: u64) -> Self {
        let options = AccountOptions {
            regions: REGIONS.map(RegionName::from).to_vec(),
            partitions: Some(PARTITIONS),
            multi_write: scenario.kind == Kind::MultiWrite,
            partition_failover: scenario.kind == Kind::PartitionFailover,
            ..AccountOptions::default()
        };
        let preferred = scenario.outage.region();
        let mut order: Vec<&str> = vec![preferred];
        order.extend(REGIONS.iter().filter(|it| **it != preferred));
        let distances: Vec<(&str, Duration)> =
            order.iter().copied().zip(scenario.distances).collect();
        let account =
            InProcessAccount::new(options, seed, NetworkFaults::NONE).with_distances(&distances);
        for region in REGIONS {
            account.account().set_replication_delay(&region.into(), scenario.lag).unwrap();
        }
        let mut options = CosmosClientOptions::default();
        options.regions.preferred_regions =
            Some(order.iter().map(|it| RegionName::from(*it)).collect());
        let driver = Rc::new(account.driver_on(account.runtime(), options));
        create(&driver, ResourceLink::ACCOUNT, ResourceType::Database, r#"{"id":"store"}"#).await;
        let orders = r#"{"id":"orders","partitionKey":{"paths":["/customer"],"kind":"Hash"}}"#;
        let store = ResourceLink::database("store").unwrap();
        create(&driver, store, ResourceType::DocumentCollection, orders).await;
        for customer in 0..CUSTOMERS {
            driver.execute_operation(&upsert(customer), &Default::default()).await.unwrap();
        }
        sleep(scenario.lag).await;
        let (began, number) = Default::default();
        Self { scenario, account, driver, began, number }
    }

    fn add(&self, region: &str, range: Option<&str>, effect: FaultEffect, probability: f64) {
        let condition = FaultCondition {
            region: Some(region.into()),
            resource: range.map(|_| ResourceType::Document),
            range: range.map(|it| it.parse().unwrap()),
            ..FaultCondition::default()
        };
        let rule = FaultRule { condition, probability, ..FaultRule::new(effect) };
        self.account.account().add_fault(rule).unwrap();
    }

    fn heal(&self) {
        self.account.account().clear_faults();
        self.account.set_global_online(true);
        for region in REGIONS {
            self.account.account().set_online(&region.into(), true).unwrap();
        }
    }

    /// Requests about items that the account has seen.
    fn requests(&self) -> u64 {
        let rows = self.account.account().counters();
        let items = rows.iter().filter(|row| row.resource == Some(ResourceType::Document));
        items.map(|row| row.requests).sum()
    }

    /// How many customers are read in the preferred region, if a read need not be there for its session: what was written
    /// a moment ago may be elsewhere alone, whatever the region does.
    async fn read_at_home(&self) -> usize {
        let eventual = RequestOptions::default()
            .with_read_consistency_strategy(ReadConsistencyStrategy::Eventual);
        let options = OperationOptions::default().with_request(eventual);
        let mut at_home = 0;
        for customer in 0..CUSTOMERS {
            let found = self.driver.execute_operation(&read(customer), &options).await;
            at_home += usize::from(found.is_ok_and(|found| {
                let last = found.diagnostics().attempts().last().and_then(|it| it.region.clone());
                last.is_some_and(|region| region.as_str() == self.scenario.outage.region())
            }));
        }
        at_home
    }
}

/// Makes the fault happen, for as long as it is polled.
async fn inject(site: Rc<Site>) {
    let region = site.scenario.outage.region();
    let change = |change| {
        site.account.account().change_write_region(&"East US".into(), change).unwrap();
    };
    let is_multi_write = site.scenario.kind == Kind::MultiWrite;
    match site.scenario.outage {
        Outage::PartitionSick => {
            let sick = FaultEffect::Answer { status: 503, sub_status: 0, retry_after: None };
            site.add(region, Some("1"), sick, 1.0);
            if site.scenario.kind == Kind::PartitionFailover {
                sleep(CHANGE_AFTER).await;
                let account = site.account.account();
                account.move_partition("store", "orders", "1", Some(&"East US".into())).unwrap();
            }
        }
        Outage::RegionSlow => {
            let wait = Duration::from_millis(500);
            site.add(region, None, FaultEffect::DelayBefore { wait }, 1.0);
        }
        Outage::ReadRegionLost => site.add(region, None, FaultEffect::Hang, 1.0),
        Outage::WriteRegionLost => {
            // Its name leads to the write region.
            site.account.set_global_online(false);
            site.add(region, None, FaultEffect::Hang, 1.0);
            if !is_multi_write {
                sleep(CHANGE_AFTER).await;
                change(WriteRegionChange::Forced);
            }
        }
        Outage::GracefulChange if is_multi_write => {}
        Outage::GracefulChange => change(WriteRegionChange::GRACEFUL),
        Outage::Flapping => loop {
            for is_online in [false, true] {
                site.account.account().set_online(&region.into(), is_online).unwrap();
                sleep(Duration::from_secs(3)).await;
            }
        },
        Outage::Gray => site.add(region, Some("1"), FaultEffect::Hang, 0.1),
    }
}

/// A steady load: a call every so often, whatever becomes of those before. Each is counted where it began.
async fn load(site: &Rc<Site>, lasts: Duration) -> Running {
    let (start, requests) = (Instant::now(), site.requests());
    let interval = site.scenario.between_calls;
    let mut running = JoinSet::new();
    let mut at = start;
    while at < start + lasts {
        sleep_until(at).await;
        let number = site.number.replace(site.number.get() + 1);
        let site = Rc::clone(site);
        running.spawn_local(async move { call(&site, number).await });
        at += interval;
    }
    Running { calls: running, requests: site.requests() - requests }
}

/// Calls that have begun.
struct Running {
    calls: JoinSet<Call>,
    /// Requests about items that the account has seen meanwhile.
    requests: u64,
}

impl Running {
    /// Waits for the calls to end.
    async fn gather(mut self) -> Calls {
        let mut calls = Calls::default();
        while let Some(call) = self.calls.join_next().await {
            let Call { is_read, took, began, is_ok } = call.expect("a call does not panic");
            calls.calls += 1;
            match (is_ok, is_read) {
                (true, true) => calls.reads.push(took),
                (true, false) => calls.writes.push(took),
                (false, true) => calls.failed_reads += 1,
                (false, false) => calls.failed_writes.push(began),
            }
        }
        calls.reads.sort();
        calls.writes.sort();
        calls.requests_per_call = self.requests as f64 / calls.calls.max(1) as f64;
        calls
    }
}

/// The outcome of one call.
struct Call {
    is_read: bool,
    took: Duration,
    /// When it began, after the fault.
    began: Duration,
    is_ok: bool,
}

/// A read, an unconditional upsert or a replace, in turn.
async fn call(site: &Site, number: usize) -> Call {
    let customer = number * 7 % CUSTOMERS;
    let operation = match number % 3 {
        0 => read(customer),
        1 => upsert(customer),
        _ => CosmosOperation::replace_item(&orders(), key(customer), "1", item(customer)).unwrap(),
    };
    let started = Instant::now();
    let outcome = site.driver.execute_operation(&operation, &Default::default()).await;
    Call {
        is_read: number.is_multiple_of(3),
        took: started.elapsed(),
        began: site
            .began
            .get()
            .map_or(Duration::ZERO, |fault| started.saturating_duration_since(fault)),
        is_ok: outcome.is_ok(),
    }
}

async fn create(driver: &CosmosDriver, parent: ResourceLink, kind: ResourceType, body: &str) {
    let path = RequestPath::feed(parent, kind).unwrap();
    let operation = CosmosOperation::new(OperationType::Create, path)
        .with_body(Bytes::copy_from_slice(body.as_bytes()));
    driver.execute_operation(&operation, &Default::default()).await.unwrap();
}

fn orders() -> ResourceLink {
    ResourceLink::container("store", "orders").unwrap()
}

fn item(customer: usize) -> Bytes {
    Bytes::from(format!(r#"{{"id":"1","customer":"customer {customer}"}}"#))
}

fn key(customer: usize) -> sidereal_protocol::PartitionKey {
    format!("customer {customer}").as_str().into()
}

fn read(customer: usize) -> CosmosOperation {
    CosmosOperation::read_item(&orders(), key(customer), "1").unwrap()
}

fn upsert(customer: usize) -> CosmosOperation {
    CosmosOperation::upsert_item(&orders(), key(customer), item(customer)).unwrap()
}

//! A thousand runs of random faults over partitions and regions, each repeatable from its seed.
//!
//! Whatever fails: no operation outlives its deadline, one partition's failure moves nobody else, and when all is
//! well again every partition is back in its preferred region within the windows of the settings.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sidereal_driver::options::{AvailabilityOptions, CosmosClientOptions, Ratio};
use sidereal_driver::{CosmosOperation, CosmosResponse, Error};
use sidereal_emulator::{
    AccountOptions, FaultCondition, FaultEffect, FaultRule, Grease, Operation,
};
use sidereal_protocol::{RegionName, ResourceType};

use crate::three_regions::{REGIONS, ThreeRegions, read_of, regions, unavailable, upsert_of};

const SEEDS: u64 = 1_000;
const OPERATIONS: usize = 200;
/// Of them, with one partition sick and nothing else.
const OPERATIONS_OF_ISOLATION: usize = 50;
const PARTITIONS: u32 = 6;
const DEADLINE: Duration = Duration::from_secs(3);
const SECOND: Duration = Duration::from_secs(1);
const PREFERRED: &str = "UK South";

/// Numbers from a seed (SplitMix64), so that a run needs nothing but its seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

struct Simulation {
    seed: u64,
    stack: ThreeRegions,
    customers: Vec<String>,
    random: Random,
    /// A region that goes offline and comes back with each operation.
    flapping: Option<&'static str>,
}

impl Simulation {
    async fn new(seed: u64) -> Self {
        let account = AccountOptions {
            partitions: Some(PARTITIONS),
            multi_write: seed % 2 == 1,
            partition_failover: seed % 4 == 2,
            // Every third seed also draws the latitudes of the service's contract.
            grease: seed.is_multiple_of(3).then(|| Grease::new(seed)),
            ..AccountOptions::default()
        };
        let mut options = CosmosClientOptions::default();
        options.regions.preferred_regions = Some(vec![RegionName::from(PREFERRED)]);
        options.partition_failover.partition_unavailability_duration = Some(SECOND);
        options.partition_failover.endpoint_unavailable_duration = Some(2 * SECOND);
        options.partition_failover.counter_reset_window = Some(5 * SECOND);
        options.partition_failover.probe_lease = Some(2 * SECOND);
        options.partition_failover.unavailability_jitter = Some(Ratio::constant(0.2));
        options.availability = AvailabilityOptions::default().with_end_to_end_timeout(DEADLINE);
        let stack = ThreeRegions::with(account, options).await;
        let mut customers = Vec::new();
        for range in 0..PARTITIONS {
            customers.push(stack.customer_in(&range.to_string()).await);
        }
        for customer in &customers {
            stack.execute(&upsert_of(customer, "1")).await.unwrap();
        }
        Self { seed, stack, customers, random: Random(seed), flapping: None }
    }

    /// Executes an operation; it ends in time.
    async fn execute(&self, operation: &CosmosOperation) -> Result<CosmosResponse, Error> {
        let started = tokio::time::Instant::now();
        let outcome = self.stack.execute(operation).await;
        let took = started.elapsed();
        assert!(took <= DEADLINE, "seed {}: {took:?} {outcome:?}", self.seed);
        outcome
    }

    /// Reads of one partition fail in the preferred region: all succeed, and the others stay where they are.
    async fn isolation(&mut self) {
        let sick = self.random.below(self.customers.len());
        let range = sick.to_string();
        let fault = self.stack.inject_in_range(PREFERRED, &range, Operation::Read, unavailable());
        for _ in 0..OPERATIONS_OF_ISOLATION {
            let partition = self.random.below(self.customers.len());
            let found = self.execute(&read_of(&self.customers[partition], "1")).await;
            let went_to = regions(&found);
            assert!(found.is_ok(), "seed {}: {found:?}", self.seed);
            // In an account with grease a replica may be behind a session: the read goes on in another region.
            if partition != sick && !self.is_greased() {
                assert_eq!(went_to, [PREFERRED], "seed {}, partition {partition}", self.seed);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.stack.account.account().remove_fault(&fault);
    }

    /// Everything may fail; every operation ends.
    async fn chaos(&mut self) {
        for step in 0..OPERATIONS - OPERATIONS_OF_ISOLATION {
            if step % 10 == 0 {
                self.change_something();
            }
            if let Some(region) = self.flapping {
                self.stack.set_online(region, step % 2 == 0);
            }
            let customer = self.customers[self.random.below(self.customers.len())].clone();
            let operation = match self.random.below(3) {
                0 => upsert_of(&customer, "1"),
                _ => read_of(&customer, "1"),
            };
            // Whatever comes of it: that it ends in time is asserted.
            let _ = self.execute(&operation).await;
        }
    }

    fn change_something(&mut self) {
        let region = REGIONS[self.random.below(REGIONS.len())];
        let range = self.random.below(self.customers.len()).to_string();
        let operation = [Operation::Read, Operation::Upsert][self.random.below(2)];
        let effect = match self.random.below(11) {
            0 => unavailable(),
            1 => FaultEffect::DelayBefore { wait: Duration::from_millis(400) },
            2 => FaultEffect::ResetAfter,
            3 => FaultEffect::Answer { status: 410, sub_status: 1022, retry_after: None },
            4 => return self.stack.set_online(region, self.random.below(2) == 0),
            5 => return self.lose_silently(region),
            6 => return self.make_gray(region, &range),
            7 => return self.flapping = Some(region),
            8 => {
                let lag = Duration::from_millis(self.random.below(1_000) as u64);
                return self.set_lag(region, lag);
            }
            9 => return self.spoil_metadata(region),
            _ => return self.end_faults(),
        };
        self.stack.inject_in_range(region, &range, operation, effect);
    }

    /// The region takes requests and answers none.
    fn lose_silently(&self, region: &str) {
        self.add(region, FaultCondition::default(), FaultEffect::Hang, 1.0);
    }

    /// A tenth of the requests to a partition are not answered.
    fn make_gray(&self, region: &str, range: &str) {
        let range = Some(range.parse().unwrap());
        self.add(
            region,
            FaultCondition { range, ..FaultCondition::default() },
            FaultEffect::Hang,
            0.1,
        );
    }

    /// Half of what the region says of the account or of the ranges of a container cannot be read.
    fn spoil_metadata(&mut self, region: &str) {
        let kinds = [ResourceType::DatabaseAccount, ResourceType::PartitionKeyRange];
        let resource = Some(kinds[self.random.below(kinds.len())]);
        let condition = FaultCondition { resource, ..FaultCondition::default() };
        self.add(region, condition, FaultEffect::WrongBody { body: None }, 0.5);
    }

    fn add(&self, region: &str, condition: FaultCondition, effect: FaultEffect, probability: f64) {
        let condition = FaultCondition { region: Some(region.into()), ..condition };
        let rule = FaultRule { condition, probability, ..FaultRule::new(effect) };
        self.stack.account.account().add_fault(rule).unwrap();
    }

    fn set_lag(&self, region: &str, lag: Duration) {
        self.stack.account.account().set_replication_delay(&region.into(), lag).unwrap();
    }

    fn end_faults(&mut self) {
        self.stack.account.account().clear_faults();
        self.flapping = None;
    }

    fn is_greased(&self) -> bool {
        self.stack.account.account().options().grease.is_some()
    }

    /// All is well again; after the windows of the settings every partition is read where it should be.
    async fn recovery(&mut self) {
        self.end_faults();
        for region in REGIONS {
            self.stack.set_online(region, true);
            self.set_lag(region, Duration::ZERO);
        }
        // An endpoint's window, then a partition's, both doubled by relapses; a read after the end of one makes the probe.
        for _ in 0..6 {
            for customer in &self.customers {
                self.execute(&read_of(customer, "1")).await.unwrap();
            }
            tokio::time::sleep(10 * SECOND).await;
        }
        for (partition, customer) in self.customers.iter().enumerate() {
            let mut went_to = regions(&self.execute(&read_of(customer, "1")).await);
            went_to.dedup(); // Other latitudes are refusals that pass in place.
            if self.is_greased() && went_to.len() > 1 {
                // A replica was behind the session, which it is once for each write.
                went_to = regions(&self.execute(&read_of(customer, "1")).await);
                went_to.dedup();
            }
            assert_eq!(went_to, [PREFERRED], "seed {}, partition {partition}", self.seed);
            self.execute(&upsert_of(customer, "2")).await.unwrap();
        }
    }
}

fn simulate(seed: u64) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async {
        let mut simulation = Simulation::new(seed).await;
        simulation.isolation().await;
        simulation.recovery().await;
        simulation.chaos().await;
        simulation.recovery().await;
    });
}

#[test]
fn a_thousand_seeds_of_random_faults_keep_to_their_deadlines_and_recover() {
    let next = AtomicU64::new(0);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= SEEDS {
                return;
            }
            let outcome = std::panic::catch_unwind(|| simulate(seed));
            assert!(outcome.is_ok(), "seed {seed} fails: run it alone with `simulate({seed})`");
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
}

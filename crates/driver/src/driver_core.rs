//! The state that the operations of one driver share.
//!
//! State and connections alone: operations are run by `pipeline/`, on top of this, and started by
//! `operation_executor.rs`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use crate::CosmosDriverRuntime;
use crate::hedging::{HedgingBudget, LatencyTracker};
use crate::options::{AvailabilityOptions, OptionLayers};
use crate::routing::{
    AccountMetadataCache, ContainerCache, EndpointProber, LocationStateStore, MetadataReader,
    TICKS, Tick, WriteGate,
};
use crate::session::{RegionLags, SessionContainer};
use crate::slow_operations::SlowOperationThresholds;
use crate::system::{Clock, TaskSpawner};
use crate::transport::{AnswerTimes, TransportPipeline};

/// The state and the connections of one account, as its operations see them.
#[derive(Debug)]
pub(crate) struct DriverCore {
    /// Kept also so that connections and their care live as long as their driver.
    pub(crate) runtime: Arc<CosmosDriverRuntime>,
    pub(crate) options: OptionLayers,
    pub(crate) locations: Arc<LocationStateStore>,
    pub(crate) account: Arc<AccountMetadataCache>,
    pub(crate) write_gate: Arc<WriteGate>,
    pub(crate) answers: Arc<AnswerTimes>,
    pub(crate) prober: Arc<EndpointProber>,
    pub(crate) containers: Arc<ContainerCache>,
    pub(crate) sessions: SessionContainer,
    pub(crate) lags: RegionLags,
    pub(crate) latencies: LatencyTracker,
    pub(crate) hedging_budget: HedgingBudget,
    pub(crate) thresholds: SlowOperationThresholds,
    /// The origin of ticks.
    origin: Instant,
    has_told_of_thin_client: AtomicBool,
}

/// The parts of a [`DriverCore`].
pub(crate) struct CoreParts {
    pub(crate) runtime: Arc<CosmosDriverRuntime>,
    pub(crate) options: OptionLayers,
    pub(crate) locations: Arc<LocationStateStore>,
    pub(crate) account: Arc<AccountMetadataCache>,
    pub(crate) write_gate: Arc<WriteGate>,
    pub(crate) answers: Arc<AnswerTimes>,
    /// The pipeline that endpoints are probed over.
    pub(crate) data: Arc<TransportPipeline>,
    /// The reader of containers. Weak: it runs operations on the core, and so owns it.
    pub(crate) reader: Weak<dyn MetadataReader>,
    pub(crate) tasks: TaskSpawner,
}

impl DriverCore {
    pub(crate) fn new(parts: CoreParts) -> Self {
        let CoreParts {
            runtime,
            options,
            locations,
            account,
            write_gate,
            answers,
            data,
            reader,
            tasks,
        } = parts;
        // The budget belongs to the driver, so no call can set it.
        let unset = AvailabilityOptions::default();
        let burst = options.availability(&unset).hedging_budget_burst();
        let containers =
            Arc::new(ContainerCache::new(reader, Arc::clone(&locations), tasks.clone()));
        let prober = EndpointProber::start(
            Arc::clone(&locations),
            Arc::clone(&containers),
            data,
            &options,
            runtime.clock().clone(),
            &tasks,
        );
        Self {
            containers,
            sessions: SessionContainer::default(),
            lags: RegionLags::new(Clock::now()),
            latencies: LatencyTracker::new(Clock::now()),
            hedging_budget: HedgingBudget::full(burst),
            thresholds: SlowOperationThresholds::of(&options),
            runtime,
            options,
            locations,
            account,
            write_gate,
            answers,
            prober,
            origin: Clock::now(),
            has_told_of_thin_client: AtomicBool::new(false),
        }
    }

    /// Where time, randomness and ids come from.
    pub(crate) fn clock(&self) -> &Clock {
        self.runtime.clock()
    }

    /// The tick of a moment, for the activity of partitions.
    pub(crate) fn tick(&self, now: Instant) -> Tick {
        Tick::of(now, self.origin, self.locations.config().settings.endpoint_failure_window)
    }

    /// How many partitions were asked lately at the endpoint of a slot.
    pub(crate) fn partitions_asked(&self, slot: usize, now: Instant) -> usize {
        let (tick, mut count) = (self.tick(now), 0);
        self.containers.each_partition(|partition| {
            count += usize::from(partition.activity.was_asked(slot, tick, TICKS));
        });
        count
    }

    /// Says whether an operation is the first to tell of the account's second gateway.
    pub(crate) fn tells_of_thin_client(&self) -> bool {
        // Relaxed: told once, by whichever operation comes first.
        !self.has_told_of_thin_client.load(Ordering::Relaxed)
            && !self.has_told_of_thin_client.swap(true, Ordering::Relaxed)
    }
}

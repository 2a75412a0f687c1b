//! What the operations of one driver share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Instant;

use crate::hedging::{HedgingBudget, LatencyTracker};
use crate::options::{AvailabilityOptions, OptionLayers};
use crate::pipeline::{OperationPipeline, SlowOperationThresholds, execute_operation_pipeline};
use crate::routing::{
    AccountMetadataCache, ContainerCache, EndpointProber, LocationStateStore, MetadataFuture,
    MetadataReader, TICKS, Tick, WriteGate,
};
use crate::session::{RegionLags, SessionContainer};
use crate::system::{Clock, TaskSpawner};
use crate::transport::{AnswerTimes, TransportPipeline};
use crate::{CosmosDriverRuntime, CosmosOperation, CosmosResponse, Error, OperationOptions};

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
    data: Arc<TransportPipeline>,
    metadata: Arc<TransportPipeline>,
    /// What ticks are counted from.
    origin: Instant,
    has_told_of_thin_client: AtomicBool,
}

/// What a driver's core is made of.
pub(crate) struct CoreParts {
    pub(crate) runtime: Arc<CosmosDriverRuntime>,
    pub(crate) options: OptionLayers,
    pub(crate) locations: Arc<LocationStateStore>,
    pub(crate) account: Arc<AccountMetadataCache>,
    pub(crate) write_gate: Arc<WriteGate>,
    pub(crate) answers: Arc<AnswerTimes>,
    pub(crate) data: Arc<TransportPipeline>,
    pub(crate) metadata: Arc<TransportPipeline>,
    pub(crate) tasks: TaskSpawner,
}

impl DriverCore {
    pub(crate) fn new(parts: CoreParts) -> Arc<Self> {
        let CoreParts {
            runtime,
            options,
            locations,
            account,
            write_gate,
            answers,
            data,
            metadata,
            tasks,
        } = parts;
        let unset = AvailabilityOptions::default();
        let burst = options.availability(&unset).hedging_budget_burst();
        Arc::new_cyclic(|core: &Weak<Self>| {
            let reader: Weak<dyn MetadataReader> = core.clone();
            let containers =
                Arc::new(ContainerCache::new(reader, Arc::clone(&locations), tasks.clone()));
            let prober = EndpointProber::start(
                Arc::clone(&locations),
                Arc::clone(&containers),
                Arc::clone(&data),
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
                data,
                metadata,
                origin: Clock::now(),
                has_told_of_thin_client: AtomicBool::new(false),
            }
        })
    }

    /// Where time, randomness and ids come from.
    pub(crate) fn clock(&self) -> &Clock {
        self.runtime.clock()
    }

    pub(crate) async fn execute(
        &self,
        operation: &CosmosOperation,
        options: &OperationOptions<'_>,
    ) -> Result<CosmosResponse, Error> {
        // Metadata has its own connections: its long timeout must not hold up data, nor a burst of data
        // keep the account from being read.
        let transport = match operation.path().kind().is_metadata() {
            true => &*self.metadata,
            false => &*self.data,
        };
        let pipeline = OperationPipeline { core: self, transport, options };
        execute_operation_pipeline(operation, &pipeline).await
    }

    /// The tick of a moment, for the activity of partitions.
    pub(crate) fn tick(&self, now: Instant) -> Tick {
        Tick::of(now, self.origin, self.locations.config().endpoint_failure_window)
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

impl MetadataReader for DriverCore {
    fn execute<'a>(
        &'a self,
        operation: &'a CosmosOperation,
        may_hedge: bool,
    ) -> MetadataFuture<'a> {
        let hedging_enabled = if may_hedge { None } else { Some(false) };
        let availability = AvailabilityOptions { hedging_enabled, ..Default::default() };
        let options = OperationOptions::default().with_availability(availability);
        Box::pin(async move { Self::execute(self, operation, &options).await })
    }

    fn jitter(&self) -> f64 {
        self.clock().random()
    }
}

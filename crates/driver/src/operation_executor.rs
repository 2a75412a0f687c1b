//! Operations of one driver, each over the connections of its kind: those of callers, and the driver's own reads
//! of containers.

use std::sync::{Arc, Weak};

use crate::driver_core::{CoreParts, DriverCore};
use crate::options::AvailabilityOptions;
use crate::pipeline::{OperationPipeline, execute_operation_pipeline};
use crate::routing::{MetadataFuture, MetadataReader};
use crate::transport::TransportPipeline;
use crate::{CosmosOperation, CosmosResponse, Error, OperationOptions};

/// Runs the operations of one driver.
#[derive(Debug)]
pub(crate) struct OperationExecutor {
    pub(crate) core: DriverCore,
    data: Arc<TransportPipeline>,
    metadata: Arc<TransportPipeline>,
}

impl OperationExecutor {
    /// An executor, and the core that its operations share. The parts of the core are made by a function of the
    /// reader of containers, which is the executor itself.
    pub(crate) fn new(
        data: Arc<TransportPipeline>,
        metadata: Arc<TransportPipeline>,
        parts: impl FnOnce(Weak<dyn MetadataReader>) -> CoreParts,
    ) -> Arc<Self> {
        Arc::new_cyclic(|executor: &Weak<Self>| Self {
            core: DriverCore::new(parts(executor.clone())),
            data,
            metadata,
        })
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
        let pipeline = OperationPipeline { core: &self.core, transport, options };
        execute_operation_pipeline(operation, &pipeline).await
    }
}

impl MetadataReader for OperationExecutor {
    fn execute<'a>(
        &'a self,
        operation: &'a CosmosOperation,
        may_hedge: bool,
    ) -> MetadataFuture<'a> {
        let hedging_enabled = if may_hedge { None } else { Some(false) };
        let availability = AvailabilityOptions { hedging_enabled, ..Default::default() };
        let options = OperationOptions::default().with_availability(availability);
        // Boxed: the pipeline awaits reads of containers, which run through the pipeline. A future cannot contain itself.
        Box::pin(async move { Self::execute(self, operation, &options).await })
    }

    fn jitter(&self) -> f64 {
        self.core.clock().random()
    }
}

//! Which operations are slow or expensive, by the settings.

use std::time::Duration;

use crate::CosmosOperation;
use crate::options::OptionLayers;

/// From when on an operation is worth a line in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlowOperationThresholds {
    pub(crate) is_traced: bool,
    point: Duration,
    other: Duration,
    pub(crate) charge: f64,
}

impl SlowOperationThresholds {
    pub(crate) fn of(options: &OptionLayers) -> Self {
        let options = options.client_options();
        Self {
            is_traced: options.tracing_enabled(),
            point: options.slow_point_operation_threshold(),
            other: options.slow_operation_threshold(),
            charge: f64::from(options.request_charge_threshold()),
        }
    }

    /// Whether an operation took longer than such an operation should.
    pub(crate) fn is_slow(&self, operation: &CosmosOperation, took: Duration) -> bool {
        took >= if operation.is_about_one_item() { self.point } else { self.other }
    }
}

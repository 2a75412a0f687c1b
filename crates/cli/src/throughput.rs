//! Throughput on the command line.

use clap::Args;
use serde_json::{Value, json};
use sidereal::models::ThroughputProperties;

#[derive(Args, Debug)]
pub(crate) struct ThroughputArguments {
    /// Provisioned throughput, in RU/s.
    #[arg(long, value_name = "RU", conflicts_with = "autoscale")]
    throughput: Option<u32>,
    /// Autoscale up to this throughput, in RU/s.
    #[arg(long, value_name = "RU")]
    autoscale: Option<u32>,
}

impl ThroughputArguments {
    pub(crate) fn throughput(&self) -> Option<ThroughputProperties> {
        let manual = self.throughput.map(ThroughputProperties::manual);
        manual.or_else(|| self.autoscale.map(|max| ThroughputProperties::autoscale(max, None)))
    }
}

/// Throughput as it is printed; null where there is none of its own.
pub(crate) fn json(throughput: Option<ThroughputProperties>) -> Value {
    let Some(throughput) = throughput else { return Value::Null };
    match throughput.autoscale_max_throughput() {
        Some(max) => json!({ "autoscale": max }),
        None => json!({ "manual": throughput.ceiling() }),
    }
}

//! Consistency, priority, headers and excluded regions of requests; the one group of the specification that spans all layers.

use sidereal_protocol::{ConsistencyLevel, PriorityLevel, ReadConsistencyStrategy, RegionName};

use super::CustomHeaders;
use crate::CosmosOptions;

/// Consistency, priority, headers and excluded regions.
#[derive(Clone, Debug, PartialEq, CosmosOptions)]
#[options(layers(runtime, account, operation))]
pub struct RequestOptions {
    /// The consistency of reads; at most as strong as the account's.
    #[option(env = "AZURE_COSMOS_CONSISTENCY_LEVEL", copy)]
    pub consistency_level: Option<ConsistencyLevel>,

    /// How reads get their consistency. Set, it replaces `consistency_level`.
    #[option(env = "AZURE_COSMOS_READ_CONSISTENCY_STRATEGY", copy)]
    pub read_consistency_strategy: Option<ReadConsistencyStrategy>,

    /// Which requests are throttled first.
    #[option(env = "AZURE_COSMOS_PRIORITY", copy)]
    pub priority: Option<PriorityLevel>,

    /// The bucket whose share of the throughput is used.
    #[option(env = "AZURE_COSMOS_THROUGHPUT_BUCKET")]
    pub throughput_bucket: Option<usize>,

    /// Headers added to every request. Layers are merged; a higher layer overwrites by name.
    #[option(merge = "extend", redact)]
    pub custom_headers: Option<CustomHeaders>,

    /// Regions not to be used. A higher layer replaces the list of a lower one.
    #[option(env = "AZURE_COSMOS_EXCLUDED_REGIONS")]
    pub excluded_regions: Option<Vec<RegionName>>,
}

//! Which regions the application lives in and prefers.

use sidereal_protocol::RegionName;

use crate::CosmosOptions;

/// Where the application runs, and which regions it prefers.
#[derive(Clone, Debug, PartialEq, CosmosOptions)]
#[options(layers(runtime, account))]
pub struct RegionOptions {
    /// The region the application runs in: it comes first, and the others as the account lists them.
    #[option(env = "AZURE_COSMOS_APPLICATION_REGION")]
    pub application_region: Option<RegionName>,

    /// Regions in the order of preference. Wins over `application_region`.
    #[option(env = "AZURE_COSMOS_PREFERRED_REGIONS")]
    pub preferred_regions: Option<Vec<RegionName>>,
}

//! Options of an account, with every default.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use http::Uri;
use sidereal_protocol::{AccountKey, ConsistencyLevel, RegionName};

use crate::advertised_host::AdvertisedHost;
use crate::clock::{Clock, SystemClock};
use crate::grease::Grease;

/// The key that the published emulator has; every SDK's documentation names it.
const PUBLISHED_KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

/// The most writes that a region may be behind under bounded staleness, as the service defaults it for
/// accounts of several regions.
const MAX_STALENESS: u64 = 100_000;

/// Options of an account.
#[derive(Clone, Debug)]
pub struct AccountOptions {
    /// The key that requests are signed with; the published emulator key by default.
    pub key: AccountKey,
    /// The account's consistency; session by default.
    pub consistency: ConsistencyLevel,
    /// Physical partitions of a new container; by its throughput where this is not set.
    pub partitions: Option<u32>,
    /// Whether requests beyond the provisioned throughput are refused with 429.
    pub enforce_throughput: bool,
    /// The account's regions; the first accepts writes.
    pub regions: Vec<RegionName>,
    /// The URLs that the account advertises for its regions, such as those of a proxy or of published
    /// container ports. A region without one is advertised under the scheme that the client used and
    /// the advertised host, on the region's own port.
    pub advertised_urls: BTreeMap<RegionName, Uri>,
    /// The host that the account advertises for regions without a URL of their own, on the port that they
    /// would have otherwise; the one that the client used where this is not set.
    pub advertised_host: Option<AdvertisedHost>,
    /// Whether every region accepts writes.
    pub multi_write: bool,
    /// How far behind a region's replicas are.
    pub replication_delay: Duration,
    /// Under bounded staleness, the most writes that a region may be behind.
    pub max_staleness: u64,
    /// Whether clients are told to move the writes of a failing partition by themselves.
    pub partition_failover: bool,
    /// Whether clients are told not to hedge across regions.
    pub hedging_suppressed: bool,
    /// Whether thin-client locations are listed to clients that ask for them. Nothing speaks there yet:
    /// their probe answers 503, so clients stay on this gateway.
    pub thin_client: bool,
    /// Whether any Entra token from anywhere is accepted, for tests. Otherwise one has to come from this
    /// machine, with the base64url of the account key as its third segment.
    pub entra_any: bool,
    /// The latitudes of the service's contract that answers use; none by default.
    pub grease: Option<Grease>,
    /// Where the account gets its time from.
    pub clock: Arc<dyn Clock>,
}

impl Default for AccountOptions {
    fn default() -> Self {
        Self {
            key: AccountKey::from_base64(PUBLISHED_KEY).expect("the published key is base64"),
            consistency: ConsistencyLevel::Session,
            partitions: None,
            enforce_throughput: false,
            regions: vec![RegionName::from("South Central US")],
            advertised_urls: BTreeMap::new(),
            advertised_host: None,
            multi_write: false,
            replication_delay: Duration::ZERO,
            max_staleness: MAX_STALENESS,
            partition_failover: false,
            hedging_suppressed: false,
            thin_client: false,
            entra_any: false,
            grease: None,
            clock: Arc::new(SystemClock),
        }
    }
}

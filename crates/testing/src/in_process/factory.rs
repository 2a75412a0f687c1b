//! An account with a name, and the factory whose clients reach it by that name.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http::Uri;
use sidereal_driver::options::{CosmosClientOptions, CosmosEnvironmentOptions};
use sidereal_driver::transport::{
    Credential, Endpoint, HttpClient, HttpClientConfig, HttpClientFactory,
};
use sidereal_driver::{CosmosDriver, CosmosDriverRuntime};
use sidereal_emulator::{Account, AccountEndpoint, AccountOptions, Clock as _, Timestamp};
use sidereal_protocol::RegionName;

use super::client::InProcessClient;
use super::{NetworkFaults, SimulatedNetwork, TokioAccountClock};

/// The host of the global endpoint; a region's has the region's name in it. Reserved (RFC 2606), so that a
/// client that went past the factory would reach nobody.
const HOST: &str = "account.test";

/// 2026-01-01T00:00:00Z, when every account here begins: the same seed then gives the same signatures.
const BEGINNING: Timestamp = Timestamp::from_millis(1_767_225_600_000);

/// An account in this process, behind a simulated network.
#[derive(Clone, Debug)]
pub struct InProcessAccount {
    account: Arc<Account>,
    network: Arc<SimulatedNetwork>,
    seed: u64,
    clock: TokioAccountClock,
    is_global_online: Arc<AtomicBool>,
    /// The round trip to each host.
    distances: BTreeMap<String, Duration>,
}

impl InProcessAccount {
    /// An account with these regions, the first of which accepts writes.
    #[must_use]
    pub fn with_regions(regions: &[&str], seed: u64, faults: NetworkFaults) -> Self {
        let regions = regions.iter().map(|name| RegionName::from(*name)).collect();
        Self::new(AccountOptions { regions, ..AccountOptions::default() }, seed, faults)
    }

    /// An account, on tokio's time and under names that its factory knows.
    #[must_use]
    pub fn new(mut options: AccountOptions, seed: u64, faults: NetworkFaults) -> Self {
        let clock = TokioAccountClock::starting_at(BEGINNING);
        options.clock = Arc::new(clock);
        for region in &options.regions {
            options.advertised_urls.insert(region.clone(), url_of(&host_of(region)));
        }
        let network = Arc::new(SimulatedNetwork::new(seed, faults));
        let is_global_online = Arc::new(AtomicBool::new(true));
        let account = Arc::new(Account::new(options));
        Self { account, network, seed, clock, is_global_online, distances: BTreeMap::new() }
    }

    /// Puts the regions at different distances, given as round trips. The global endpoint is as far as the
    /// first of them.
    #[must_use]
    pub fn with_distances(mut self, distances: &[(&str, Duration)]) -> Self {
        let of =
            |(name, distance): &(&str, Duration)| (host_of(&RegionName::from(*name)), *distance);
        self.distances = distances.iter().map(of).collect();
        if let Some((_, first)) = distances.first() {
            self.distances.insert(HOST.to_owned(), *first);
        }
        self
    }

    /// The account itself, for its control plane and its counters.
    #[must_use]
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// The network before it.
    #[must_use]
    pub fn network(&self) -> &SimulatedNetwork {
        &self.network
    }

    /// Lets the global endpoint accept or refuse connections; those of the regions are the account's to close.
    pub fn set_global_online(&self, is_online: bool) {
        // Relaxed: a flag that stands alone, on a runtime with one thread.
        self.is_global_online.store(is_online, Ordering::Relaxed);
    }

    /// The endpoint of a region.
    ///
    /// # Panics
    ///
    /// The region's name makes no host.
    #[must_use]
    pub fn endpoint_of(&self, region: &str) -> Endpoint {
        let url = url_of(&host_of(&RegionName::from(region)));
        Endpoint::of(&url).expect("a host and a scheme are an endpoint")
    }

    /// The account's global endpoint.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        Endpoint::of(&url_of(HOST)).expect("a host and a scheme are an endpoint")
    }

    /// The credential of requests.
    #[must_use]
    pub fn credential(&self) -> Credential {
        Credential::Key(self.account.options().key.clone())
    }

    /// A driver's clock that shows the account's time and draws from its seed.
    #[must_use]
    pub fn driver_clock(&self) -> sidereal_driver::system::Clock {
        sidereal_driver::system::Clock::simulated(self.seed, self.clock.now().system_time())
    }

    /// A driver for this account, on the same clock, with nothing of this machine's environment.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    #[must_use]
    pub fn driver(&self) -> CosmosDriver {
        self.driver_on(self.runtime(), CosmosClientOptions::default())
    }

    /// The runtime that drivers for this account share.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    #[must_use]
    pub fn runtime(&self) -> Arc<CosmosDriverRuntime> {
        CosmosDriverRuntime::builder()
            .environment(CosmosEnvironmentOptions::default())
            .http_client_factory(self.factory())
            .clock(self.driver_clock())
            .build()
            .expect("settings that are all defaults are valid")
    }

    /// A driver with options of its own.
    ///
    /// # Panics
    ///
    /// The options are not valid.
    #[must_use]
    pub fn driver_on(
        &self,
        runtime: Arc<CosmosDriverRuntime>,
        options: CosmosClientOptions,
    ) -> CosmosDriver {
        CosmosDriver::new(runtime, self.endpoint(), self.credential(), options)
            .expect("an account of ours has a valid endpoint")
    }

    /// The factory whose clients reach this account.
    #[must_use]
    pub fn factory(&self) -> Arc<dyn HttpClientFactory> {
        Arc::new(InProcessFactory(self.clone()))
    }

    /// The endpoint that a host names.
    fn endpoint_at(&self, host: &str) -> Option<AccountEndpoint> {
        if host == HOST {
            return Some(AccountEndpoint::global(Arc::clone(&self.account)));
        }
        let regions = self.account.region_names();
        let region = regions.into_iter().find(|region| host_of(region) == host)?;
        Some(AccountEndpoint::of_region(Arc::clone(&self.account), region))
    }
}

/// Makes clients that reach one account, without sockets.
#[derive(Debug)]
pub struct InProcessFactory(InProcessAccount);

impl HttpClientFactory for InProcessFactory {
    fn create(&self, endpoint: &Endpoint, _: &HttpClientConfig) -> Arc<dyn HttpClient> {
        let InProcessAccount { network, is_global_online, distances, .. } = &self.0;
        let distance = distances.get(endpoint.host()).copied().unwrap_or_default();
        let is_online = (endpoint.host() == HOST).then(|| Arc::clone(is_global_online));
        let account = self.0.endpoint_at(endpoint.host());
        Arc::new(InProcessClient::new(account, Arc::clone(network), is_online, distance))
    }
}

fn host_of(region: &RegionName) -> String {
    format!("{}.{HOST}", region.as_str().replace(' ', "").to_ascii_lowercase())
}

fn url_of(host: &str) -> Uri {
    format!("https://{host}/").parse().expect("a host name makes a URL")
}

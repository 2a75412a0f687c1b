//! The factory of fault-injecting clients, and its rules.

use std::collections::HashMap;
use std::sync::Arc;

use arc_swap::ArcSwap;

use super::client::FaultGate;
use super::faults::Faults;
use super::{FaultInjectingHttpClient, FaultInjectionRule};
use crate::exchange::Endpoint;
use crate::system::Clock;
use crate::transport::{ConnectGate, HttpClient, HttpClientConfig, HttpClientFactory};

/// Wraps the clients of another factory, so that faults can be injected into them while they run.
///
/// Rules are tried in the order in which they were added. A change takes effect with the next request.
#[derive(Debug)]
pub struct FaultInjectingHttpClientFactory {
    inner: Arc<dyn HttpClientFactory>,
    faults: Arc<Faults>,
    /// How many clients were made for each endpoint.
    created: ArcSwap<HashMap<Endpoint, u64>>,
}

impl FaultInjectingHttpClientFactory {
    /// A factory without rules, whose draws differ from run to run.
    #[must_use]
    pub fn new(inner: Arc<dyn HttpClientFactory>) -> Self {
        Self::with_seed(inner, Clock::system().random_seed())
    }

    /// A factory without rules, whose draws are the same for the same seed.
    #[must_use]
    pub fn with_seed(inner: Arc<dyn HttpClientFactory>, seed: u64) -> Self {
        let faults = Arc::new(Faults::with_seed(seed));
        Self { inner, faults, created: ArcSwap::default() }
    }

    /// Adds a rule behind the others; one with the same id is replaced. The rule that comes back can be
    /// switched off and on, and counts its hits.
    pub fn add(&self, rule: FaultInjectionRule) -> Arc<FaultInjectionRule> {
        let rule = Arc::new(rule);
        // Replaced whole: requests read the rules without a lock while a test changes them.
        self.faults.rules.rcu(|rules| {
            let others = rules.iter().filter(|other| other.id() != rule.id()).cloned();
            others.chain([Arc::clone(&rule)]).collect::<Vec<_>>()
        });
        rule
    }

    /// Removes a rule, and says whether it was there.
    pub fn remove(&self, id: &str) -> bool {
        let before = self
            .faults
            .rules
            .rcu(|rules| rules.iter().filter(|rule| rule.id() != id).cloned().collect::<Vec<_>>());
        before.iter().any(|rule| rule.id() == id)
    }

    /// Replaces all rules at once.
    pub fn replace(&self, rules: impl IntoIterator<Item = FaultInjectionRule>) {
        self.faults.rules.store(Arc::new(rules.into_iter().map(Arc::new).collect()));
    }

    /// Removes all rules.
    pub fn clear(&self) {
        self.replace([]);
    }

    /// The rules, in the order in which they are tried.
    #[must_use]
    pub fn rules(&self) -> Arc<Vec<Arc<FaultInjectionRule>>> {
        self.faults.rules.load_full()
    }

    /// How often a rule was applied; `None` if there is no such rule.
    #[must_use]
    pub fn hits(&self, id: &str) -> Option<u64> {
        self.faults.rules.load().iter().find(|rule| rule.id() == id).map(|rule| rule.hits())
    }

    /// How many clients were made for an endpoint.
    #[must_use]
    pub fn clients_created(&self, endpoint: &Endpoint) -> u64 {
        self.created.load().get(endpoint).copied().unwrap_or(0)
    }

    /// The number of the next client for an endpoint.
    fn next_number(&self, endpoint: &Endpoint) -> u64 {
        let before = self.created.rcu(|created| {
            let mut created = HashMap::clone(created);
            *created.entry(endpoint.clone()).or_default() += 1;
            created
        });
        before.get(endpoint).copied().unwrap_or(0)
    }
}

impl HttpClientFactory for FaultInjectingHttpClientFactory {
    fn create(&self, endpoint: &Endpoint, config: &HttpClientConfig) -> Arc<dyn HttpClient> {
        let number = self.next_number(endpoint);
        let gate = FaultGate::new(endpoint.clone(), number, Arc::clone(&self.faults));
        let mut config = config.clone();
        config.connect_gate = Some(Arc::clone(&gate) as Arc<dyn ConnectGate>);
        let inner = self.inner.create(endpoint, &config);
        Arc::new(FaultInjectingHttpClient::new(inner, gate))
    }
}

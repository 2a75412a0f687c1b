//! HTTP/2 over several connections or HTTP/1.1 over a pool, endpoint by endpoint, as the peer has it.
//!
//! Every endpoint starts sharded: its first connection finds out, and so does every later one. An
//! endpoint that turns out to speak the other version is followed: a new pool takes the place of the
//! old one, and the requests that met the change are told that they were not sent.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

use super::sharding::{EndpointShardPool, PoolContext, PoolKind, PoolSnapshot, SendTerms};
use super::{Endpoint, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpVersions};
use crate::diagnostics::RequestDiagnostics;
use crate::system::CpuLoad;

/// How long an endpoint that asked for HTTP/1.1 in so many words is not offered HTTP/2 again.
const HTTP1_MEMORY: Duration = Duration::from_secs(5 * 60);

/// The connections to all endpoints of one plane.
#[derive(Debug)]
pub struct AdaptiveTransport {
    context: PoolContext,
    gateways: ArcSwap<HashMap<Endpoint, Arc<Gateway>>>,
}

/// One endpoint, and the pool that serves it now.
#[derive(Debug)]
struct Gateway {
    endpoint: Endpoint,
    versions: HttpVersions,
    pool: ArcSwap<EndpointShardPool>,
}

impl AdaptiveTransport {
    /// A transport without connections.
    #[must_use]
    pub fn new(context: PoolContext) -> Arc<Self> {
        Arc::new(Self { context, gateways: ArcSwap::default() })
    }

    /// Sends a request to an endpoint and waits for its whole answer.
    ///
    /// # Errors
    ///
    /// What kept the request from its answer, and how far it got.
    pub async fn send(
        &self,
        endpoint: &Endpoint,
        request: HttpRequest,
        diagnostics: &mut RequestDiagnostics,
        terms: SendTerms,
    ) -> Result<HttpResponse, HttpError> {
        let gateway = self.gateway(endpoint);
        let pool = gateway.pool.load_full();
        let outcome = pool.send(request, diagnostics, terms).await;
        if let Err(error) = &outcome
            && error.kind() == HttpErrorKind::ProtocolChanged
        {
            self.follow(&gateway, &pool);
        }
        outcome
    }

    /// Says that an endpoint speaks HTTP/2 without being asked, and nothing else.
    pub fn expect_http2(&self, endpoint: &Endpoint) {
        let gateway = Arc::new(self.make_gateway(endpoint, HttpVersions::Http2PriorKnowledge));
        self.gateways.rcu(|gateways| {
            let mut gateways = HashMap::clone(gateways);
            let known = gateways.get(endpoint).map(|known| known.versions);
            if known != Some(HttpVersions::Http2PriorKnowledge) {
                gateways.insert(endpoint.clone(), Arc::clone(&gateway));
            }
            gateways
        });
    }

    /// Looks after every endpoint's connections: once.
    pub fn sweep(&self, now: Instant, cpu_load: Option<f64>) {
        for gateway in self.gateways.load().values() {
            let pool = gateway.pool.load_full();
            pool.sweep(now, cpu_load);
            let spoke_http1 = pool.kind() == PoolKind::Sharded && pool.http1_client().is_some();
            if spoke_http1 {
                self.follow(gateway, &pool);
            }
            let may_speak_http2 = pool.kind() == PoolKind::Plain
                && gateway.versions == HttpVersions::Negotiate
                && now.saturating_duration_since(pool.began()) > HTTP1_MEMORY;
            if may_speak_http2 && pool.is_http1_by_request() {
                self.replace(gateway, &pool, PoolKind::Sharded);
            }
        }
    }

    /// Looks after every endpoint's connections at the interval of the settings, in the background.
    ///
    /// `cpu_load` is read before each round. Says whether the round was started: a runtime that is
    /// shutting down starts nothing.
    pub fn start_sweeping(self: &Arc<Self>, cpu_load: CpuLoad) -> bool {
        let interval = self.context.sharding.health_check_interval;
        let transport = Arc::downgrade(self);
        self.context.tasks.spawn("look after connections", async move {
            loop {
                tokio::time::sleep(interval).await;
                let Some(transport) = transport.upgrade() else { return };
                transport.sweep(Instant::now(), cpu_load.now());
            }
        })
    }

    /// What there is now, endpoint by endpoint.
    #[must_use]
    pub fn snapshots(&self) -> Vec<PoolSnapshot> {
        self.gateways.load().values().map(|gateway| gateway.pool.load().snapshot()).collect()
    }

    /// The pool that serves an endpoint now.
    #[must_use]
    pub fn pool(&self, endpoint: &Endpoint) -> Arc<EndpointShardPool> {
        self.gateway(endpoint).pool.load_full()
    }

    fn gateway(&self, endpoint: &Endpoint) -> Arc<Gateway> {
        if let Some(gateway) = self.gateways.load().get(endpoint) {
            return Arc::clone(gateway);
        }
        let made = Arc::new(self.make_gateway(endpoint, self.context.client_config.versions));
        self.gateways.rcu(|gateways| {
            let mut gateways = HashMap::clone(gateways);
            gateways.entry(endpoint.clone()).or_insert_with(|| Arc::clone(&made));
            gateways
        });
        // Somebody else may have been quicker.
        self.gateways.load().get(endpoint).map_or(made, Arc::clone)
    }

    fn make_gateway(&self, endpoint: &Endpoint, versions: HttpVersions) -> Gateway {
        let kind = match versions {
            HttpVersions::Http1Only => PoolKind::Plain,
            HttpVersions::Negotiate | HttpVersions::Http2PriorKnowledge => PoolKind::Sharded,
        };
        let pool = EndpointShardPool::new(endpoint.clone(), kind, self.context_for(versions));
        Gateway { endpoint: endpoint.clone(), versions, pool: ArcSwap::new(pool) }
    }

    fn context_for(&self, versions: HttpVersions) -> PoolContext {
        let mut context = self.context.clone();
        context.client_config.versions = versions;
        context
    }

    /// Goes over to the version that the endpoint wants, once for all who noticed.
    fn follow(&self, gateway: &Gateway, pool: &Arc<EndpointShardPool>) {
        if gateway.versions != HttpVersions::Negotiate {
            return; // There is no other version to go over to.
        }
        let kind = match pool.kind() {
            PoolKind::Sharded => PoolKind::Plain,
            PoolKind::Plain => PoolKind::Sharded,
        };
        self.replace(gateway, pool, kind);
    }

    fn replace(&self, gateway: &Gateway, old: &Arc<EndpointShardPool>, kind: PoolKind) {
        let connected = (kind == PoolKind::Plain).then(|| old.http1_client()).flatten();
        // A peer that chose HTTP/1.1 by ALPN may choose otherwise next time. One that broke off HTTP/2
        // would choose it again, so it is not asked for a while.
        let versions = match (kind, &connected) {
            (PoolKind::Plain, None) => HttpVersions::Http1Only,
            _ => HttpVersions::Negotiate,
        };
        let new =
            EndpointShardPool::new(gateway.endpoint.clone(), kind, self.context_for(versions));
        // Before anybody can ask the new pool for a connection, so that it makes no second one.
        if let Some(client) = connected {
            new.adopt(client);
        }
        let found = gateway.pool.compare_and_swap(old, Arc::clone(&new));
        if !Arc::ptr_eq(&found, old) {
            return; // Somebody else was quicker.
        }
        tracing::info!(endpoint = %gateway.endpoint, ?kind, "the endpoint's version of HTTP changed");
        old.close();
    }
}

//! HTTP/2 over several connections or HTTP/1.1 over a pool, endpoint by endpoint, as ALPN has it.
//!
//! Every endpoint starts sharded: its first connection negotiates the version of HTTP, and so does every
//! later one. The transport switches between HTTP/1.1 and HTTP/2 when the endpoint does: a new pool
//! replaces the old one, and requests that met the change fail as *not sent*, so they are sent again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;

use super::sharding::{
    EndpointShardPool, PoolContext, PoolKind, PoolSnapshot, ReservedStream, SendTerms,
};
use super::{HttpRequest, HttpResponse, HttpVersions};
use crate::diagnostics::RequestDiagnostics;
use crate::exchange::{Endpoint, HttpError, HttpErrorKind};
use crate::system::{Clock, CpuLoad};

/// How long an endpoint that reset a stream with `HTTP_1_1_REQUIRED` (RFC 9113, section 7) is not offered
/// HTTP/2 again. Long beside the cost of switching back and forth, short beside a deployment.
const HTTP1_ONLY_PERIOD: Duration = Duration::from_secs(5 * 60);

/// The connections to all endpoints of one plane.
#[derive(Debug)]
pub struct AdaptiveTransport {
    context: PoolContext,
    /// Ordered: a sweep goes through it, and two runs must do so alike.
    endpoints: ArcSwap<BTreeMap<Endpoint, Arc<EndpointPool>>>,
}

/// One endpoint, and the pool that serves it now.
#[derive(Debug)]
struct EndpointPool {
    endpoint: Endpoint,
    versions: HttpVersions,
    pool: ArcSwap<EndpointShardPool>,
}

/// A stream that is reserved for a request: see [`AdaptiveTransport::reserve`].
#[derive(Debug)]
pub(super) struct PooledStream {
    pool: Arc<EndpointShardPool>,
    reserved: ReservedStream,
}

impl PooledStream {
    /// Whether the request had to wait for it.
    pub(super) fn has_waited(&self) -> bool {
        self.reserved.has_waited()
    }
}

impl AdaptiveTransport {
    /// A transport without connections.
    #[must_use]
    pub fn new(context: PoolContext) -> Arc<Self> {
        Arc::new(Self { context, endpoints: ArcSwap::default() })
    }

    /// Sends a request to an endpoint and waits for its whole response. The request is taken out of its variable once
    /// it has a connection: passed by value it would be copied into the future of every layer.
    ///
    /// # Errors
    ///
    /// [`HttpError`]: why no response came, and how far the request got.
    pub async fn send(
        &self,
        endpoint: &Endpoint,
        request: &mut HttpRequest,
        diagnostics: &mut RequestDiagnostics,
        terms: SendTerms,
    ) -> Result<HttpResponse, HttpError> {
        let reserved = self.reserve(endpoint, diagnostics, &terms).await?;
        self.send_over(reserved, request, diagnostics, &terms).await
    }

    /// Reserves a stream at an endpoint, so that a request is made only once it can be sent: its signature
    /// is fresh then, and a request that waits keeps little in memory.
    ///
    /// # Errors
    ///
    /// As [`EndpointShardPool::reserve_stream`].
    pub(super) async fn reserve(
        &self,
        endpoint: &Endpoint,
        diagnostics: &mut RequestDiagnostics,
        terms: &SendTerms,
    ) -> Result<PooledStream, HttpError> {
        let pool = self.pool(endpoint);
        match pool.reserve_stream(diagnostics, terms).await {
            Ok(reserved) => Ok(PooledStream { pool, reserved }),
            Err(error) => {
                self.follow_version(&pool, &error);
                Err(error)
            }
        }
    }

    /// Sends a request over the stream that was reserved for it, and waits for its whole response.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub(super) async fn send_over(
        &self,
        PooledStream { pool, reserved }: PooledStream,
        request: &mut HttpRequest,
        diagnostics: &mut RequestDiagnostics,
        terms: &SendTerms,
    ) -> Result<HttpResponse, HttpError> {
        let outcome = pool.send_over(&reserved, request, diagnostics, terms).await;
        if let Err(error) = &outcome {
            self.follow_version(&pool, error);
        }
        outcome
    }

    /// Switches to the version of HTTP that an error says an endpoint speaks now.
    fn follow_version(&self, pool: &Arc<EndpointShardPool>, error: &HttpError) {
        if error.kind() == HttpErrorKind::ProtocolChanged {
            // Looked up once more, for this is rare. A pool that another has replaced meanwhile stays replaced.
            self.switch_version(&self.endpoint_pool(pool.endpoint()), pool);
        }
    }

    /// Says that an endpoint speaks HTTP/2 without being asked, and nothing else.
    pub fn expect_http2(&self, endpoint: &Endpoint) {
        let entry = Arc::new(self.new_endpoint_pool(endpoint, HttpVersions::Http2PriorKnowledge));
        self.endpoints.rcu(|endpoints| {
            let mut endpoints = BTreeMap::clone(endpoints);
            let known = endpoints.get(endpoint).map(|known| known.versions);
            if known != Some(HttpVersions::Http2PriorKnowledge) {
                endpoints.insert(endpoint.clone(), Arc::clone(&entry));
            }
            endpoints
        });
    }

    /// Sweeps every endpoint's connections once: see [`EndpointShardPool::sweep`].
    pub fn sweep(&self, now: Instant, cpu_load: Option<f64>) {
        for entry in self.endpoints.load().values() {
            let pool = entry.pool.load_full();
            pool.sweep(now, cpu_load);
            let spoke_http1 = pool.kind() == PoolKind::Sharded && pool.http1_client().is_some();
            if spoke_http1 {
                self.switch_version(entry, &pool);
            }
            let may_speak_http2 = pool.kind() == PoolKind::Plain
                && entry.versions == HttpVersions::Negotiate
                && now.saturating_duration_since(pool.created()) > HTTP1_ONLY_PERIOD;
            if may_speak_http2 && pool.is_http1_only() {
                self.replace(entry, &pool, PoolKind::Sharded);
            }
        }
    }

    /// Sweeps every endpoint's connections at the interval of the settings, in the background.
    ///
    /// `cpu_load` is read before each sweep. Says whether the task was started: a runtime that is
    /// shutting down starts nothing.
    pub fn start_sweeping(self: &Arc<Self>, cpu_load: CpuLoad) -> bool {
        let interval = self.context.sharding.health_check_interval;
        let transport = Arc::downgrade(self);
        let tasks = self.context.tasks.clone();
        self.context.tasks.spawn("shard-sweep", async move {
            loop {
                tokio::select! {
                    // The shutdown first: a sweep would open connections that it closes again.
                    biased;
                    () = tasks.shutdown_requested() => {
                        transport.upgrade().inspect(|transport| transport.close());
                        return;
                    }
                    () = tokio::time::sleep(interval) => {}
                }
                // Weak between sweeps: the task must not keep the transport alive.
                let Some(transport) = transport.upgrade() else { return };
                transport.sweep(Clock::now(), cpu_load.now());
            }
        })
    }

    /// Takes no more requests. Those on a connection may finish, and their connections end with them.
    fn close(&self) {
        for entry in self.endpoints.load().values() {
            entry.pool.load().close();
        }
    }

    /// Closes the connections to an endpoint that is not asked any more. Requests on them may finish.
    pub fn forget(&self, endpoint: &Endpoint) {
        let before = self.endpoints.rcu(|endpoints| {
            let mut endpoints = BTreeMap::clone(endpoints);
            endpoints.remove(endpoint);
            endpoints
        });
        // After it has left the map: a request that comes now makes a new pool.
        if let Some(entry) = before.get(endpoint) {
            entry.pool.load().close();
        }
    }

    /// The pools at this moment, by endpoint.
    #[must_use]
    pub fn snapshots(&self) -> Vec<PoolSnapshot> {
        self.endpoints.load().values().map(|entry| entry.pool.load().snapshot()).collect()
    }

    /// The pool that serves an endpoint now.
    #[must_use]
    pub fn pool(&self, endpoint: &Endpoint) -> Arc<EndpointShardPool> {
        // Without a clone of the entry, for every request comes through here.
        if let Some(entry) = self.endpoints.load().get(endpoint) {
            return entry.pool.load_full();
        }
        self.endpoint_pool(endpoint).pool.load_full()
    }

    fn endpoint_pool(&self, endpoint: &Endpoint) -> Arc<EndpointPool> {
        // Read before `rcu`: the map is copied only when an endpoint is new.
        if let Some(entry) = self.endpoints.load().get(endpoint) {
            return Arc::clone(entry);
        }
        let made = Arc::new(self.new_endpoint_pool(endpoint, self.context.client_config.versions));
        self.endpoints.rcu(|endpoints| {
            let mut endpoints = BTreeMap::clone(endpoints);
            endpoints.entry(endpoint.clone()).or_insert_with(|| Arc::clone(&made));
            endpoints
        });
        // Another thread may have inserted its own first.
        self.endpoints.load().get(endpoint).map_or(made, Arc::clone)
    }

    fn new_endpoint_pool(&self, endpoint: &Endpoint, versions: HttpVersions) -> EndpointPool {
        let kind = match versions {
            HttpVersions::Http1Only => PoolKind::Plain,
            HttpVersions::Negotiate | HttpVersions::Http2PriorKnowledge => PoolKind::Sharded,
        };
        let pool = EndpointShardPool::new(endpoint.clone(), kind, self.context_for(versions));
        EndpointPool { endpoint: endpoint.clone(), versions, pool: ArcSwap::new(pool) }
    }

    fn context_for(&self, versions: HttpVersions) -> PoolContext {
        let mut context = self.context.clone();
        context.client_config.versions = versions;
        context
    }

    /// Switches to the version of HTTP that the endpoint speaks now, once for all requests that met it.
    fn switch_version(&self, entry: &EndpointPool, pool: &Arc<EndpointShardPool>) {
        if entry.versions != HttpVersions::Negotiate {
            return; // There is no other version to switch to.
        }
        let kind = match pool.kind() {
            PoolKind::Sharded => PoolKind::Plain,
            PoolKind::Plain => PoolKind::Sharded,
        };
        self.replace(entry, pool, kind);
    }

    fn replace(&self, entry: &EndpointPool, old: &Arc<EndpointShardPool>, kind: PoolKind) {
        let connected = (kind == PoolKind::Plain).then(|| old.http1_client()).flatten();
        // A peer that chose HTTP/1.1 by ALPN may choose otherwise next time. One that negotiated HTTP/2 and
        // then refused it would negotiate it again, so for a while it is not offered.
        let versions = match (kind, &connected) {
            (PoolKind::Plain, None) => HttpVersions::Http1Only,
            _ => HttpVersions::Negotiate,
        };
        let new = EndpointShardPool::new(entry.endpoint.clone(), kind, self.context_for(versions));
        // Before the new pool is visible, so that no request makes it connect a second time.
        if let Some(client) = connected {
            new.adopt(client);
        }
        // Compare-and-swap: many requests meet the change at once, and one of them replaces the pool.
        let found = entry.pool.compare_and_swap(old, Arc::clone(&new));
        if !Arc::ptr_eq(&found, old) {
            return; // Another thread has replaced it.
        }
        tracing::info!(endpoint = %entry.endpoint, ?kind, "endpoint switched its version of HTTP");
        // After the swap: new requests go to the new pool, and waiters of the old one are sent again there.
        old.close();
    }
}

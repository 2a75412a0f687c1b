//! The pool of shards of one endpoint: its parts, and the way of one request through it.
//!
//! Each part owns its state: the list of shards, the wait queue, the load, the growth back-off, the requests
//! that wait for a connection. What the pool does with them is in `reservation.rs` (a stream for a request),
//! `growth.rs`, `eviction.rs` and `sweep.rs`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use super::ShardingConfig;
use super::client_shard::ClientShard;
use super::connect_waiters::ConnectWaiters;
use super::eviction::Removal;
use super::growth_backoff::GrowthBackoff;
use super::load_meter::LoadMeter;
use super::reservation::{ReservedStream, SendTerms, Waiter};
use super::shard_list::ShardList;
use super::snapshot::{PoolSnapshot, ShardSnapshot};
use super::wait_queue::{Capacity, WaitQueue};
use crate::diagnostics::{RequestDiagnostics, RequestEventKind};
use crate::system::{Clock, TaskSpawner};
use crate::transport::{
    Endpoint, HttpClient, HttpClientConfig, HttpClientFactory, HttpError, HttpErrorKind,
    HttpRequest, HttpResponse, HttpVersions, RequestSentStatus,
};

/// The clients of one endpoint.
///
/// Reading the shards takes no lock: the list is replaced whole, and a stream is reserved with one
/// compare-and-swap. A request that finds every stream reserved waits in a FIFO queue for the next one
/// that is released.
#[derive(Debug)]
pub struct EndpointShardPool {
    endpoint: Endpoint,
    kind: PoolKind,
    context: PoolContext,
    created: Instant,
    shards: ShardList,
    queue: WaitQueue<Waiter>,
    load: LoadMeter,
    connect_waiters: ConnectWaiters,
    growth_backoff: GrowthBackoff,
    /// How many waiters had their turn, cancelled ones included.
    turns: AtomicU64,
    /// Whether a task watches the queue: see `growth.rs`.
    is_queue_watched: AtomicBool,
    /// The first client that turned out to speak HTTP/1.1 where streams were expected.
    http1_client: OnceLock<Arc<dyn HttpClient>>,
    is_closed: AtomicBool,
}

/// What a pool is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    /// HTTP/2, or a client that does not say: several clients, each with its streams.
    Sharded,
    /// HTTP/1.1: one client with a pool of connections of its own; nothing is checked or evicted.
    Plain,
}

/// What pools are made with.
#[derive(Clone, Debug)]
pub struct PoolContext {
    /// Where clients come from.
    pub factory: Arc<dyn HttpClientFactory>,
    /// What they are made with.
    pub client_config: HttpClientConfig,
    /// How many there are, and when one is evicted.
    pub sharding: ShardingConfig,
    /// Who owns the tasks that make and end connections.
    pub tasks: TaskSpawner,
    /// Where the random part of a connection's age comes from.
    pub clock: Clock,
}

impl EndpointShardPool {
    /// A pool without shards; the first request, or the first sweep, makes one.
    #[must_use]
    pub fn new(endpoint: Endpoint, kind: PoolKind, mut context: PoolContext) -> Arc<Self> {
        // Connections end with their owner's other tasks.
        context.client_config.tasks = Some(context.tasks.clone());
        if kind == PoolKind::Plain {
            // HTTP/1.1 has no streams: the one client's connections are the limit.
            let connections = context.client_config.pool_max_idle_per_host;
            context.sharding.max_streams_per_client =
                u32::try_from(connections).unwrap_or(u32::MAX);
            context.sharding.max_clients_per_endpoint = 1;
            context.sharding.eager_clients_per_endpoint = 1;
            context.sharding.min_clients_per_endpoint = 1;
        }
        Arc::new(Self {
            endpoint,
            kind,
            created: Clock::now(),
            shards: ShardList::new(
                context.sharding.eager_clients_per_endpoint,
                context.sharding.max_clients_per_endpoint,
            ),
            queue: WaitQueue::new(Capacity {
                waiters: context.sharding.max_queued_requests.unwrap_or(usize::MAX),
                bytes: context.sharding.max_queued_bytes,
            }),
            load: LoadMeter::new(context.sharding.load_spread_ratio),
            connect_waiters: ConnectWaiters::default(),
            growth_backoff: GrowthBackoff::default(),
            turns: AtomicU64::new(0),
            is_queue_watched: AtomicBool::new(false),
            http1_client: OnceLock::new(),
            is_closed: AtomicBool::new(false),
            context,
        })
    }

    /// What the pool is for.
    #[must_use]
    pub fn kind(&self) -> PoolKind {
        self.kind
    }

    /// When the pool was created.
    pub(in crate::transport) fn created(&self) -> Instant {
        self.created
    }

    /// Whether its clients are not to offer HTTP/2.
    pub(in crate::transport) fn is_http1_only(&self) -> bool {
        self.context.client_config.versions == HttpVersions::Http1Only
    }

    /// The client that turned out to speak HTTP/1.1 where streams were expected.
    pub(in crate::transport) fn http1_client(&self) -> Option<Arc<dyn HttpClient>> {
        self.http1_client.get().map(Arc::clone)
    }

    /// Sends a request over a shard and waits for its whole response, and notes when it came. The request is taken out
    /// of its variable once a stream is reserved for it.
    ///
    /// # Errors
    ///
    /// Why no response came; a full wait queue is [`HttpErrorKind::QueueFull`].
    pub async fn send(
        self: &Arc<Self>,
        request: &mut HttpRequest,
        diagnostics: &mut RequestDiagnostics,
        terms: SendTerms,
    ) -> Result<HttpResponse, HttpError> {
        let reserved = self.reserve_stream(diagnostics, &terms).await?;
        self.send_over(&reserved, request, diagnostics, &terms).await
    }

    /// Sends a request over the stream that was reserved for it, as [`send`](Self::send) does.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub(in crate::transport) async fn send_over(
        self: &Arc<Self>,
        reserved: &ReservedStream,
        request: &mut HttpRequest,
        diagnostics: &mut RequestDiagnostics,
        terms: &SendTerms,
    ) -> Result<HttpResponse, HttpError> {
        let shard = reserved.reservation.shard();
        diagnostics.shard = Some(shard.id());
        self.load.record();
        shard.record_start(reserved.reservation.in_use(), self.age_at(reserved.at));
        let end = terms.timeout.and_then(|timeout| reserved.at.checked_add(timeout));
        let end = [end, terms.deadline].into_iter().flatten().min();
        // Armed across the await: if the caller drops this future, only a destructor still runs.
        let from = [end, terms.slow_after].into_iter().flatten().min();
        let mut cut_off = CutOff { shard, from, is_armed: true };
        // Assumed, before the client has the request: one that is dropped on the way may have sent it. A
        // client that knows better says so (`RequestDiagnostics::not_sent_yet`).
        diagnostics.request_sent = RequestSentStatus::MaybeSent;
        let executing = shard.client().execute(std::mem::take(request), diagnostics);
        let outcome = match end {
            None => Some(executing.await),
            Some(end) => tokio::time::timeout_at(end.into(), executing).await.ok(),
        };
        // It stays armed at the end of its time: the connection may hang.
        let Some(outcome) = outcome else { return Err(self.timed_out(diagnostics, terms)) };
        cut_off.is_armed = false;
        match &outcome {
            Ok(_) => {
                let now = Clock::now();
                diagnostics.record_at(RequestEventKind::ResponseBodyReceived, now);
                shard.record_success(self.age_at(now));
            }
            Err(error) => self.record_failure(shard, error),
        }
        outcome
    }

    /// What an error says about the shard it came over.
    fn record_failure(self: &Arc<Self>, shard: &Arc<ClientShard>, error: &HttpError) {
        match error.kind() {
            // The connection has ended, for this request and the next.
            _ if self.kind == PoolKind::Sharded && shard.is_closed() => {
                shard.record_failure();
                self.remove(shard, Removal::ConnectionClosed);
            }
            // The request is at fault, or the endpoint as a whole.
            HttpErrorKind::InvalidRequest | HttpErrorKind::ProtocolChanged => {}
            _ => shard.record_failure(),
        }
    }

    /// The pool now, for diagnostics and tests.
    #[must_use]
    pub fn snapshot(&self) -> PoolSnapshot {
        let shard = |shard: &Arc<ClientShard>| ShardSnapshot {
            id: shard.id(),
            is_ready: shard.is_ready(),
            stats: shard.stats(),
        };
        PoolSnapshot {
            endpoint: self.endpoint.clone(),
            kind: self.kind,
            shards: self.shards.load().iter().map(shard).collect(),
            queued: self.queue.len(),
            load_spread_ratio: self.load.spread_ratio(),
        }
    }
}

/// The parts of the pool, for the files that work with them.
impl EndpointShardPool {
    pub(in crate::transport) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    pub(super) fn config(&self) -> &ShardingConfig {
        &self.context.sharding
    }

    pub(super) fn connect_timeout(&self) -> Duration {
        self.context.client_config.connect_timeout
    }

    pub(super) fn tasks(&self) -> &TaskSpawner {
        &self.context.tasks
    }

    pub(super) fn shards(&self) -> &ShardList {
        &self.shards
    }

    pub(super) fn queue(&self) -> &WaitQueue<Waiter> {
        &self.queue
    }

    pub(super) fn load(&self) -> &LoadMeter {
        &self.load
    }

    pub(super) fn connect_waiters(&self) -> &ConnectWaiters {
        &self.connect_waiters
    }

    pub(super) fn growth_backoff(&self) -> &GrowthBackoff {
        &self.growth_backoff
    }

    /// A client that is not connected yet, and whose connections get no requests beyond an age.
    pub(super) fn new_client(&self, max_connection_age: Duration) -> Arc<dyn HttpClient> {
        let config = HttpClientConfig { max_connection_age, ..self.context.client_config.clone() };
        self.context.factory.create(&self.endpoint, &config)
    }

    /// The age of the next connection: the setting's, or up to twice as much. Without jitter, the connections of
    /// a burst, or of all processes of a deployment, would end at the same moment.
    pub(super) fn draw_connection_age(&self) -> Duration {
        let age = self.context.client_config.max_connection_age;
        // A random number is below 1, so the product is no longer than the age.
        age.saturating_add(age.mul_f64(self.context.clock.random()))
    }

    /// Whether the endpoint turned out to speak HTTP/1.1. A pool of another kind takes over with the connection that
    /// was made: to make one more here would be one too many.
    pub(super) fn is_handed_over(&self) -> bool {
        self.kind() == PoolKind::Sharded && self.http1_client.get().is_some()
    }

    /// Keeps a connected HTTP/1.1 client for the pool that replaces this one. One is enough: of two that connected at
    /// once, the second closes.
    pub(super) fn keep_http1_client(&self, client: &Arc<dyn HttpClient>) {
        self.http1_client.get_or_init(|| Arc::clone(client));
    }

    /// The time since the pool was created: what its shards' times are measured by.
    pub(super) fn age(&self) -> Duration {
        self.age_at(Clock::now())
    }

    fn age_at(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.created)
    }

    /// Counts a waiter that had its turn.
    pub(super) fn note_turn(&self) {
        // Relaxed: a statistic.
        self.turns.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn turns(&self) -> u64 {
        self.turns.load(Ordering::Relaxed)
    }

    /// Begins to watch the queue; says whether nobody did.
    pub(super) fn begin_watching_queue(&self) -> bool {
        // Read first: while requests wait, each newcomer looks. AcqRel: pairs with `end_watching_queue`.
        !self.is_queue_watched.load(Ordering::Relaxed)
            && !self.is_queue_watched.swap(true, Ordering::AcqRel)
    }

    pub(super) fn end_watching_queue(&self) {
        self.is_queue_watched.store(false, Ordering::Release);
    }

    pub(super) fn mark_closed(&self) {
        // Release: pairs with the Acquire in `is_closed`; who sees the mark also sees the shutdown or the
        // replacement that led to it, and so reports the right cause.
        self.is_closed.store(true, Ordering::Release);
    }

    pub(super) fn is_closed(&self) -> bool {
        // Acquire: see `mark_closed`.
        self.is_closed.load(Ordering::Acquire)
    }
}

/// Counts a request against its shard if it is dropped at its deadline, or once it is slow: the connection
/// may hang. One that is dropped before was cancelled by its caller, which says nothing of the connection.
struct CutOff<'a> {
    shard: &'a ClientShard,
    from: Option<Instant>,
    is_armed: bool,
}

impl Drop for CutOff<'_> {
    fn drop(&mut self) {
        if self.is_armed && self.from.is_some_and(|from| Clock::now() >= from) {
            self.shard.record_failure();
        }
    }
}

//! The pool of shards of one endpoint: its parts, the streams that are reserved from it, and the requests that
//! wait for one.
//!
//! Each part owns its state: the list of shards, the wait queue, the load, the growth back-off, the requests
//! that wait for a connection. The files that work with them are `reservation.rs` (a stream for a request),
//! `sending.rs` (the request over it), `growth.rs`, `eviction.rs` and `sweep.rs`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

use super::ShardingConfig;
use super::client_shard::ClientShard;
use super::connect_waiters::ConnectWaiters;
use super::growth_backoff::GrowthBackoff;
use super::load_meter::LoadMeter;
use super::pool_context::{PoolContext, PoolKind};
use super::shard_list::ShardList;
use super::snapshot::{PoolSnapshot, ShardSnapshot};
use super::wait_queue::{Capacity, WaitQueue};
use crate::exchange::Endpoint;
use crate::system::{Clock, TaskSpawner};
use crate::transport::{HttpClient, HttpClientConfig, HttpVersions};

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
            context.eager_clients_per_endpoint = 1;
            context.sharding.min_clients_per_endpoint = 1;
        }
        Arc::new(Self {
            endpoint,
            kind,
            created: Clock::now(),
            shards: ShardList::new(
                context.eager_clients_per_endpoint,
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

    /// The kind of the pool.
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

    pub(super) fn age_at(&self, now: Instant) -> Duration {
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

    /// Claims the watch over the queue; `false` if a task watches it already.
    pub(super) fn begin_watching_queue(&self) -> bool {
        // Read first: while requests wait, each newcomer looks. AcqRel: pairs with `end_watching_queue`.
        !self.is_queue_watched.load(Ordering::Relaxed)
            && !self.is_queue_watched.swap(true, Ordering::AcqRel)
    }

    pub(super) fn end_watching_queue(&self) {
        // Release: pairs with the swap in `begin_watching_queue`.
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

/// A request in the queue.
#[derive(Debug)]
pub(super) struct Waiter {
    pub(super) reserved: oneshot::Sender<Reservation>,
    pub(super) avoided: Option<u64>,
}

impl Waiter {
    /// A receiver that was dropped is a request that was cancelled.
    pub(super) fn is_cancelled(&self) -> bool {
        self.reserved.is_closed()
    }
}

/// A stream of a shard, held until it is dropped.
#[derive(Debug)]
pub(super) struct Reservation {
    pool: Arc<EndpointShardPool>,
    shard: Arc<ClientShard>,
    in_use: u32,
    is_held: bool,
}

impl Reservation {
    /// A stream that was just reserved.
    pub(super) fn new(pool: Arc<EndpointShardPool>, shard: Arc<ClientShard>, in_use: u32) -> Self {
        Self { pool, shard, in_use, is_held: true }
    }

    /// The shard whose stream it is.
    pub(super) fn shard(&self) -> &Arc<ClientShard> {
        &self.shard
    }

    /// How many streams of the shard were in use with this one.
    pub(super) fn in_use(&self) -> u32 {
        self.in_use
    }

    /// Gives the stream back without serving the queue: the caller serves it, and from `drop` it would
    /// recurse.
    pub(super) fn release_unserved(mut self) {
        self.is_held = false;
        self.shard.release();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.is_held {
            // Released first, then looked at the queue: the order that loses no wakeup (`WaitQueue`).
            self.shard.release();
            self.pool.serve_queue();
            self.pool.connect_waiters().notify_stream_freed();
        }
    }
}

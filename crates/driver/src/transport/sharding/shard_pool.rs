//! The shards of one endpoint: where decisions about them are carried out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::oneshot;

use super::ShardingConfig;
use super::client_shard::ClientShard;
use super::load_spread::LoadSpread;
use super::selection::{Selection, select_shard, should_scale_up};
use super::shard_health::{EvictionReason, ShardHealthStatus, ShardStats, check_shard_health};
use super::stream_slots::Retirement;
use super::waiting_line::WaitingLine;
use crate::diagnostics::{RequestDiagnostics, RequestEventKind};
use crate::system::TaskSpawner;
use crate::transport::{
    Endpoint, HttpClient, HttpClientConfig, HttpClientFactory, HttpError, HttpErrorKind,
    HttpProtocol, HttpRequest, HttpResponse, HttpVersions, RequestSentStatus,
};

/// The clients of one endpoint.
///
/// Reading the shards takes no lock: the list is replaced whole, and a stream is reserved with one
/// compare-and-swap. A request that finds every stream taken waits in line, and gets the next one that
/// is released.
#[derive(Debug)]
pub struct EndpointShardPool {
    endpoint: Endpoint,
    kind: PoolKind,
    context: PoolContext,
    began: Instant,
    /// From the oldest to the youngest; retired ones are not in it.
    shards: ArcSwap<Vec<Arc<ClientShard>>>,
    /// How many shards there are or are being made; at most the setting's most.
    places: AtomicU32,
    next_id: AtomicU64,
    line: WaitingLine<oneshot::Sender<Reservation>>,
    spread: ArcSwap<LoadSpread>,
    requests: AtomicU64,
    requests_at_last_sweep: AtomicU64,
    /// A client that turned out to speak HTTP/1.1 where streams were expected.
    http1_client: ArcSwapOption<Arc<dyn HttpClient>>,
    closed: AtomicBool,
}

/// What a pool is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PoolKind {
    /// HTTP/2, or a client that does not say: several clients, each with its streams.
    Sharded,
    /// HTTP/1.1: one client with a pool of connections of its own; nothing is judged or given up.
    Plain,
}

/// What pools are made with.
#[derive(Clone, Debug)]
pub struct PoolContext {
    /// Where clients come from.
    pub factory: Arc<dyn HttpClientFactory>,
    /// What they are made with.
    pub client_config: HttpClientConfig,
    /// How many there are, and when one is given up.
    pub sharding: ShardingConfig,
    /// Who owns the tasks that make and end connections.
    pub tasks: TaskSpawner,
}

/// What a request asks of the transport beside being sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendTerms {
    /// When the caller will drop the future: a request that is dropped then counts against its shard,
    /// one that is dropped before does not.
    pub deadline: Option<Instant>,
    /// The shard that the request failed on before; another is used if there is or can be one.
    pub avoided_shard: Option<u64>,
}

/// A stream of a shard, held until it is dropped.
#[derive(Debug)]
struct Reservation {
    pool: Arc<EndpointShardPool>,
    shard: Arc<ClientShard>,
    in_use: u32,
    is_held: bool,
}

impl Reservation {
    fn release(&self) {
        if self.shard.slots.release() {
            self.shard.drained.notify_one();
        }
    }

    /// Gives the stream back without looking at the line; the caller does.
    fn release_quietly(mut self) {
        self.is_held = false;
        self.release();
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        if self.is_held {
            self.release();
            self.pool.serve_line();
        }
    }
}

impl EndpointShardPool {
    /// A pool without shards; the first request, or the first sweep, makes one.
    #[must_use]
    pub fn new(endpoint: Endpoint, kind: PoolKind, mut context: PoolContext) -> Arc<Self> {
        if kind == PoolKind::Plain {
            let connections = context.client_config.pool_max_idle_per_host;
            context.sharding.max_streams_per_client =
                u32::try_from(connections).unwrap_or(u32::MAX);
            context.sharding.max_clients_per_endpoint = 1;
            context.sharding.min_clients_per_endpoint = 1;
        }
        Arc::new(Self {
            endpoint,
            kind,
            began: Instant::now(),
            shards: ArcSwap::default(),
            places: AtomicU32::new(0),
            next_id: AtomicU64::new(0),
            line: WaitingLine::new(context.sharding.max_queued_requests),
            spread: ArcSwap::from_pointee(LoadSpread::new(context.sharding.load_spread_ratio)),
            requests: AtomicU64::new(0),
            requests_at_last_sweep: AtomicU64::new(0),
            http1_client: ArcSwapOption::empty(),
            closed: AtomicBool::new(false),
            context,
        })
    }

    /// What the pool is for.
    #[must_use]
    pub fn kind(&self) -> PoolKind {
        self.kind
    }

    /// When the pool was made.
    pub(in crate::transport) fn began(&self) -> Instant {
        self.began
    }

    /// Whether its clients are not to offer HTTP/2.
    pub(in crate::transport) fn is_http1_by_request(&self) -> bool {
        self.context.client_config.versions == HttpVersions::Http1Only
    }

    /// The client that turned out to speak HTTP/1.1 where streams were expected.
    pub(in crate::transport) fn http1_client(&self) -> Option<Arc<dyn HttpClient>> {
        self.http1_client.load_full().map(|client| Arc::clone(&*client))
    }

    /// Starts with a client that exists already and has a connection.
    pub(in crate::transport) fn adopt(self: &Arc<Self>, client: Arc<dyn HttpClient>) {
        if self.take_place() {
            self.add_shard(client).became_ready();
        }
    }

    /// Sends a request over a shard and waits for its whole answer.
    ///
    /// # Errors
    ///
    /// What kept the request from its answer; a full waiting line is [`HttpErrorKind::QueueFull`].
    pub async fn send(
        self: &Arc<Self>,
        request: HttpRequest,
        diagnostics: &mut RequestDiagnostics,
        terms: SendTerms,
    ) -> Result<HttpResponse, HttpError> {
        let reservation = self.reserve(diagnostics, terms.avoided_shard).await?;
        let shard = &reservation.shard;
        diagnostics.shard = Some(shard.id);
        shard.ready(diagnostics).await?;
        self.requests.fetch_add(1, Ordering::Relaxed);
        shard.began(reservation.in_use, self.began.elapsed());
        let mut verdict = Verdict { shard, deadline: terms.deadline, is_open: true };
        let outcome = shard.client.execute(request, diagnostics).await;
        verdict.is_open = false;
        match &outcome {
            Ok(_) => shard.succeeded(self.began.elapsed()),
            Err(error) => self.judge(shard, error),
        }
        outcome
    }

    /// What an error says about the shard it came over.
    fn judge(self: &Arc<Self>, shard: &Arc<ClientShard>, error: &HttpError) {
        match error.kind() {
            // The connection is over, for this request and the next.
            _ if self.kind == PoolKind::Sharded && shard.has_ended() => {
                shard.failed();
                self.retire(shard, Farewell::Ended);
            }
            // The request is at fault, or the endpoint as a whole.
            HttpErrorKind::InvalidRequest | HttpErrorKind::ProtocolChanged => {}
            _ => shard.failed(),
        }
    }

    async fn reserve(
        self: &Arc<Self>,
        diagnostics: &mut RequestDiagnostics,
        avoided_shard: Option<u64>,
    ) -> Result<Reservation, HttpError> {
        // Those who wait go first.
        if self.line.is_empty()
            && let Some(reservation) = self.try_reserve(avoided_shard)
        {
            return Ok(reservation);
        }
        if self.closed.load(Ordering::Acquire) {
            return Err(self.no_longer_here());
        }
        diagnostics.record(RequestEventKind::Queued);
        let (turn, comes) = oneshot::channel();
        if self.line.join(turn, oneshot::Sender::is_closed).is_err() {
            return Err(self.queue_full());
        }
        self.serve_line();
        if self.closed.load(Ordering::Acquire) {
            // The pool was closed while this one joined.
            self.dismiss_line();
        }
        comes.await.map_err(|_| self.no_longer_here())
    }

    /// A stream of some shard, if there is one or a shard can be made.
    fn try_reserve(self: &Arc<Self>, avoided_shard: Option<u64>) -> Option<Reservation> {
        let config = &self.context.sharding;
        loop {
            if self.closed.load(Ordering::Acquire) {
                return None;
            }
            let shards = self.shards.load();
            let may_grow = self.places.load(Ordering::Relaxed) < config.max_clients_per_endpoint;
            let views = shards.iter().map(|shard| shard.view(config));
            let avoided =
                avoided_shard.and_then(|id| shards.iter().position(|shard| shard.id == id));
            match select_shard(views, avoided, self.spread.load().ratio(), may_grow) {
                Selection::Use(index) => {
                    let shard = &shards[index];
                    let limit = shard.client.stream_limit().within(config.max_streams_per_client);
                    // Somebody else may have taken the last stream: look again.
                    if let Ok(in_use) = shard.slots.try_reserve(limit) {
                        let (pool, shard) = (Arc::clone(self), Arc::clone(shard));
                        return Some(Reservation { pool, shard, in_use, is_held: true });
                    }
                }
                Selection::Grow => self.grow(),
                Selection::Full if self.retire_ended(&shards) => {}
                Selection::Full => return None,
            }
        }
    }

    /// Takes out shards whose connection is over; says whether there were any.
    fn retire_ended(self: &Arc<Self>, shards: &[Arc<ClientShard>]) -> bool {
        let mut ended = shards.iter().filter(|shard| shard.has_ended()).peekable();
        let any = ended.peek().is_some();
        ended.for_each(|shard| self.retire(shard, Farewell::Ended));
        any
    }

    /// Gives free streams to those who wait, first come, first served.
    fn serve_line(self: &Arc<Self>) {
        while self.line.is_anyone_waiting() {
            let Some(reservation) = self.try_reserve(None) else { return };
            if let Some(unwanted) = self.hand_over(reservation) {
                // Others were quicker. Whoever joined while the stream was held here has found none, so
                // the line is looked at once more.
                unwanted.release_quietly();
            }
        }
    }

    /// Gives a stream to the first in line who still waits; gives it back if nobody does.
    fn hand_over(&self, mut reservation: Reservation) -> Option<Reservation> {
        while let Some(first) = self.line.next() {
            match first.send(reservation) {
                Ok(()) => return None,
                Err(back) => reservation = back,
            }
        }
        Some(reservation)
    }

    /// Makes another shard, if there may be one.
    fn grow(self: &Arc<Self>) {
        if !self.take_place() {
            return;
        }
        let client = self.context.factory.create(&self.endpoint, &self.context.client_config);
        let shard = self.add_shard(client);
        let pool = Arc::clone(self);
        let started = self.context.tasks.spawn("connect a shard", async move {
            pool.connect(&shard).await;
        });
        if !started {
            // The runtime is shutting down: nobody will make the connection.
            self.close();
        }
    }

    fn take_place(&self) -> bool {
        let most = self.context.sharding.max_clients_per_endpoint;
        let below = |places: u32| (places < most).then_some(places + 1);
        self.places.fetch_update(Ordering::AcqRel, Ordering::Relaxed, below).is_ok()
    }

    fn add_shard(&self, client: Arc<dyn HttpClient>) -> Arc<ClientShard> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let shard = Arc::new(ClientShard::connecting(id, client, self.began.elapsed()));
        self.shards.rcu(|shards| {
            let mut shards = Vec::clone(shards);
            shards.push(Arc::clone(&shard));
            shards
        });
        shard
    }

    /// Makes the connection of a shard and tells those who wait for it.
    async fn connect(self: &Arc<Self>, shard: &Arc<ClientShard>) {
        let connecting = Connecting { pool: self, shard };
        let connected = shard.client.connect().await;
        std::mem::forget(connecting);
        match connected {
            Ok(Some(HttpProtocol::Http1)) if self.kind == PoolKind::Sharded => {
                self.http1_client.store(Some(Arc::new(Arc::clone(&shard.client))));
                shard.failed_to_connect(HttpError::new(
                    HttpErrorKind::ProtocolChanged,
                    RequestSentStatus::NotSent,
                    format!("{} speaks HTTP/1.1", self.endpoint),
                ));
                self.retire(shard, Farewell::HandedOver);
            }
            Ok(Some(HttpProtocol::Http2)) if self.kind == PoolKind::Plain => {
                shard.failed_to_connect(HttpError::new(
                    HttpErrorKind::ProtocolChanged,
                    RequestSentStatus::NotSent,
                    format!("{} speaks HTTP/2", self.endpoint),
                ));
                self.retire(shard, Farewell::Ended);
            }
            Ok(_) => {
                shard.became_ready();
                self.serve_line();
            }
            Err(error) => {
                tracing::debug!(endpoint = %self.endpoint, shard = shard.id, error = %error.chain(),
                    "a connection could not be made");
                shard.failed_to_connect(error);
                self.retire(shard, Farewell::Ended);
            }
        }
    }

    /// Takes a shard out: it gets no more requests, and those on it may finish.
    fn retire(self: &Arc<Self>, shard: &Arc<ClientShard>, farewell: Farewell) {
        let found = shard.slots.retire();
        if found == Retirement::Already {
            return;
        }
        self.shards.rcu(|shards| {
            let others = shards.iter().filter(|other| other.id != shard.id);
            others.cloned().collect::<Vec<_>>()
        });
        self.places.fetch_sub(1, Ordering::AcqRel);
        if let (Farewell::Evicted(reason), Retirement::Draining(in_flight)) = (farewell, found) {
            tracing::warn!(endpoint = %self.endpoint, shard = shard.id, in_flight,
                reason = reason.as_str(), "a connection is given up");
            self.end_after_drain(shard);
        }
        // Those who wait may want the place that became free.
        self.serve_line();
    }

    /// Lets the requests of a shard finish, up to the drain timeout.
    fn end_after_drain(&self, shard: &Arc<ClientShard>) {
        let shard = Arc::clone(shard);
        let limit = self.context.sharding.eviction_drain_timeout;
        let fallback = Arc::clone(&shard);
        let started = self.context.tasks.spawn("drain a shard", async move {
            // Both ends are the same: nothing is on the connection any more, or what is has had its time.
            let _ = tokio::time::timeout(limit, shard.drained.notified()).await;
            shard.client.close();
        });
        if !started {
            fallback.client.close();
        }
    }

    /// Judges every shard and acts on it: sick ones are given up, unused ones closed, and another is
    /// made where the load or the least asks for it.
    ///
    /// While the processors are busier than the limit, nothing is given up: slowness is then our own.
    pub fn sweep(self: &Arc<Self>, now: Instant, cpu_load: Option<f64>) {
        self.retire_ended(&self.shards.load_full());
        let shards = self.shards.load_full();
        for shard in shards.iter() {
            shard.client.sweep();
        }
        if self.kind == PoolKind::Plain || self.closed.load(Ordering::Acquire) {
            return;
        }
        self.observe_load();
        let is_busy = cpu_load.is_some_and(|load| load > self.context.sharding.eviction_cpu_limit);
        self.retire_by_health(&shards, now, is_busy);
        self.scale_up();
        // A peer may have raised its limit, which no stream that ends would tell.
        self.serve_line();
    }

    fn observe_load(&self) {
        let requests = self.requests.load(Ordering::Relaxed);
        let before = self.requests_at_last_sweep.swap(requests, Ordering::Relaxed);
        self.spread.rcu(|spread| spread.observe(requests.saturating_sub(before)));
    }

    fn retire_by_health(
        self: &Arc<Self>,
        shards: &[Arc<ClientShard>],
        now: Instant,
        is_busy: bool,
    ) {
        let config = &self.context.sharding;
        let now = now.saturating_duration_since(self.began);
        let stats: Vec<ShardStats> = shards.iter().map(|shard| shard.stats()).collect();
        // The youngest first: the oldest are the active set.
        for (index, shard) in shards.iter().enumerate().rev() {
            let peers = stats.iter().enumerate().filter(|(peer, _)| *peer != index);
            match check_shard_health(&stats[index], peers.map(|(_, it)| *it), config, now) {
                ShardHealthStatus::Healthy => {}
                ShardHealthStatus::Unhealthy { reason } if is_busy => {
                    tracing::debug!(endpoint = %self.endpoint, shard = shard.id,
                        reason = reason.as_str(), "a sick connection is kept: the processors are busy");
                }
                ShardHealthStatus::Unhealthy { reason } => {
                    self.retire(shard, Farewell::Evicted(reason));
                }
                ShardHealthStatus::Idle => {
                    let least = config.min_clients_per_endpoint as usize;
                    if self.shards.load().len() > least {
                        self.retire(shard, Farewell::Evicted(EvictionReason::IdleTimeout));
                    }
                }
            }
        }
    }

    fn scale_up(self: &Arc<Self>) {
        let config = &self.context.sharding;
        while self.places.load(Ordering::Relaxed) < config.min_clients_per_endpoint
            && !self.closed.load(Ordering::Acquire)
        {
            self.grow();
        }
        let shards = self.shards.load();
        let views = shards.iter().map(|shard| shard.view(config));
        if should_scale_up(views, config.scale_up_threshold_ratio) {
            self.grow();
        }
    }

    /// Takes no more requests; those who wait are sent away, those on a connection may finish.
    pub(in crate::transport) fn close(self: &Arc<Self>) {
        self.closed.store(true, Ordering::Release);
        for shard in self.shards.load_full().iter() {
            self.retire(shard, Farewell::HandedOver);
        }
        self.dismiss_line();
    }

    /// Sends those who wait away: a sender that is dropped tells its receiver.
    fn dismiss_line(&self) {
        while self.line.next().is_some() {}
    }

    /// What there is now, for people and tests.
    #[must_use]
    pub fn snapshot(&self) -> PoolSnapshot {
        let shards = self.shards.load();
        let shard = |shard: &Arc<ClientShard>| ShardSnapshot {
            id: shard.id,
            is_ready: shard.view(&self.context.sharding).is_ready,
            stats: shard.stats(),
        };
        PoolSnapshot {
            endpoint: self.endpoint.clone(),
            kind: self.kind,
            shards: shards.iter().map(shard).collect(),
            queued: self.line.length(),
            load_spread_ratio: self.spread.load().ratio(),
        }
    }

    fn queue_full(&self) -> HttpError {
        let most = self.context.sharding.max_queued_requests;
        HttpError::new(
            HttpErrorKind::QueueFull,
            RequestSentStatus::NotSent,
            format!(
                "{most} requests wait for a connection to {} already: send fewer at once, or raise \
                 max_clients_per_endpoint or max_queued_requests",
                self.endpoint
            ),
        )
    }

    fn no_longer_here(&self) -> HttpError {
        HttpError::new(
            HttpErrorKind::Closed,
            RequestSentStatus::NotSent,
            format!("the connections to {} are being closed or changed", self.endpoint),
        )
    }
}

/// Tells those who wait for a connection that it will not come, should its task end before it does.
struct Connecting<'a> {
    pool: &'a Arc<EndpointShardPool>,
    shard: &'a Arc<ClientShard>,
}

impl Drop for Connecting<'_> {
    fn drop(&mut self) {
        self.shard.failed_to_connect(self.pool.no_longer_here());
        self.pool.retire(self.shard, Farewell::Ended);
    }
}

/// How a shard leaves.
#[derive(Clone, Copy, Debug)]
enum Farewell {
    /// It is given up: its requests have until the drain timeout.
    Evicted(EvictionReason),
    /// Its connection has ended or takes no more streams: its requests end by themselves.
    Ended,
    /// It goes on elsewhere, or its pool ends.
    HandedOver,
}

/// What is to be said of a shard if its request is dropped.
struct Verdict<'a> {
    shard: &'a ClientShard,
    deadline: Option<Instant>,
    is_open: bool,
}

impl Drop for Verdict<'_> {
    fn drop(&mut self) {
        if self.is_open && self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            self.shard.failed();
        }
    }
}

/// The shards of an endpoint at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct PoolSnapshot {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// What the pool is for.
    pub kind: PoolKind,
    /// The shards, from the oldest to the youngest.
    pub shards: Vec<ShardSnapshot>,
    /// The requests that wait for a stream.
    pub queued: usize,
    /// The share of shards that take new requests.
    pub load_spread_ratio: f64,
}

/// One shard at one moment.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ShardSnapshot {
    /// Its number among those of the endpoint.
    pub id: u64,
    /// Whether its connection is made.
    pub is_ready: bool,
    /// What is known of its requests; times count from the pool's beginning.
    pub stats: ShardStats,
}

//! The shards of one endpoint: where decisions about them are carried out.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use arc_swap::{ArcSwap, ArcSwapOption};
use tokio::sync::{Notify, oneshot};

use super::ShardingConfig;
use super::client_shard::ClientShard;
use super::load_spread::LoadSpread;
use super::reservation::{Reservation, SendTerms};
use super::retirement::Farewell;
use super::snapshot::{PoolSnapshot, ShardSnapshot};
use super::waiting_line::WaitingLine;
use crate::diagnostics::RequestDiagnostics;
use crate::system::TaskSpawner;
use crate::transport::{
    Endpoint, HttpClient, HttpClientConfig, HttpClientFactory, HttpError, HttpErrorKind,
    HttpRequest, HttpResponse, HttpVersions,
};

/// The clients of one endpoint.
///
/// Reading the shards takes no lock: the list is replaced whole, and a stream is reserved with one
/// compare-and-swap. A request that finds every stream taken waits in line, and gets the next one that
/// is released.
#[derive(Debug)]
pub struct EndpointShardPool {
    pub(super) endpoint: Endpoint,
    pub(super) kind: PoolKind,
    pub(super) context: PoolContext,
    pub(super) began: Instant,
    /// From the oldest to the youngest; retired ones are not in it.
    pub(super) shards: ArcSwap<Vec<Arc<ClientShard>>>,
    /// How many shards there are or are being made; at most the setting's most.
    pub(super) places: AtomicU32,
    pub(super) next_id: AtomicU64,
    pub(super) line: WaitingLine<oneshot::Sender<Reservation>>,
    pub(super) spread: ArcSwap<LoadSpread>,
    pub(super) requests: AtomicU64,
    pub(super) requests_at_last_sweep: AtomicU64,
    /// A client that turned out to speak HTTP/1.1 where streams were expected.
    pub(super) http1_client: ArcSwapOption<Arc<dyn HttpClient>>,
    /// Told when a stream becomes free that nobody in line wants.
    pub(super) freed: Notify,
    /// How many requests have a stream of a connection that is still being made.
    pub(super) waiting_for_connection: AtomicU32,
    /// Until when no shard is added, in nanoseconds since the pool began.
    pub(super) growth_paused_until: AtomicU64,
    pub(super) closed: AtomicBool,
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
            freed: Notify::new(),
            waiting_for_connection: AtomicU32::new(0),
            growth_paused_until: AtomicU64::new(0),
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
        let reservation = self.reserve_connected(diagnostics, terms.avoided_shard).await?;
        let shard = &reservation.shard;
        diagnostics.shard = Some(shard.id);
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

//! Growth of the pool: when a shard may be added, and how its connection is made.

use std::sync::Arc;
use std::time::Duration;

use super::client_shard::ClientShard;
use super::eviction::Removal;
use super::pool_context::PoolKind;
use super::shard_pool::EndpointShardPool;
use crate::exchange::{HttpError, HttpErrorKind, HttpProtocol, RequestSentStatus};
use crate::transport::HttpClient;

/// How much longer than its own connect timeout a client may take to report a failure. A foreign
/// client may have no timeout at all, and must not keep its slot for ever.
const CONNECT_SLACK: Duration = Duration::from_secs(1);

/// How long a request waits for a stream before there may be more shards than the eager ones. Longer than a
/// burst takes that the connections at hand absorb, short beside the time that a request takes.
const WIDEN_INTERVAL: Duration = Duration::from_millis(10);

/// The endpoint must have answered within this time to get more than the eager shards: further connections do not help
/// one that hangs, and would only hold more requests.
const ANSWER_WINDOW: Duration = Duration::from_secs(1);

impl EndpointShardPool {
    /// Starts with a client that exists already and has a connection.
    pub(in crate::transport) fn adopt(self: &Arc<Self>, client: Arc<dyn HttpClient>) {
        let age = self.draw_connection_age();
        if let Some(shard) = self.add_shard(age, || client) {
            shard.mark_ready();
        }
    }

    /// Whether another shard may be made.
    pub(super) fn may_grow(&self, shards: &[Arc<ClientShard>]) -> bool {
        // The back-off protects an endpoint that serves. With no connection at all there is nothing to
        // protect, and every request would fail meanwhile.
        self.shards().has_free_slot()
            && (!self.growth_backoff().is_active(|| self.age())
                || !shards.iter().any(|shard| shard.is_ready()))
    }

    /// Makes another shard, if there may be one.
    pub(super) fn grow(self: &Arc<Self>) {
        let age = self.draw_connection_age();
        let Some(shard) = self.add_shard(age, || self.new_client(age)) else { return };
        let pool = Arc::clone(self);
        let started = self.tasks().spawn("shard-connect", async move {
            pool.connect(&shard).await;
        });
        if !started {
            // The runtime is shutting down: the connection will never be made.
            self.close();
        }
    }

    /// Lets there be more shards for as long as requests wait in the queue for longer than an interval.
    ///
    /// By Little's law the wait grows with the load and with the latency, so the number of streams follows
    /// both. It doubles at most once per interval and not while connections are being made, as TCP's slow
    /// start does, up to the maximum.
    pub(super) fn widen_while_requests_wait(self: &Arc<Self>) {
        if !self.shards().can_widen() || !self.begin_watching_queue() {
            return;
        }
        let watch = QueueWatch { pool: Arc::clone(self) };
        // Not started: the driver shuts down, and the guard is dropped with the task.
        let _ = self.tasks().spawn("queue-watch", async move {
            while watch.pool.shards().can_widen() && watch.pool.queue().has_waiters() {
                let (turns, waiting) = (watch.pool.turns(), watch.pool.queue().len());
                tokio::time::sleep(WIDEN_INTERVAL).await;
                let served = watch.pool.turns() - turns;
                // FIFO: if fewer had their turn than waited, some of them have waited all the time.
                if (served as usize) < waiting {
                    watch.pool.widen();
                }
            }
        });
    }

    /// Raises the number of shards that may be made, if the endpoint answers.
    pub(super) fn widen_by(&self, count: u32) {
        if self.has_answered_within(ANSWER_WINDOW) {
            self.shards().widen(count);
        }
    }

    /// Doubles the shards, unless connections are being made.
    fn widen(self: &Arc<Self>) {
        let shards = self.shards().load_full();
        if shards.iter().all(|shard| shard.is_ready()) {
            self.widen_by(u32::try_from(shards.len().max(1)).unwrap_or(u32::MAX));
            // Makes as many as the waiters need.
            self.serve_queue();
        }
    }

    fn add_shard(
        self: &Arc<Self>,
        age: Duration,
        client: impl FnOnce() -> Arc<dyn HttpClient>,
    ) -> Option<Arc<ClientShard>> {
        // Weak: the client keeps the callback, and the pool the client.
        let pool = Arc::downgrade(self);
        let watched = || {
            let client = client();
            client.on_stream_limit_raised(Arc::new(move || {
                if let Some(pool) = pool.upgrade() {
                    pool.serve_queue();
                }
            }));
            client
        };
        self.shards().add(watched, self.age(), age)
    }

    /// Makes the connection of a shard, and wakes the requests that wait for it.
    async fn connect(self: &Arc<Self>, shard: &Arc<ClientShard>) {
        let cancelled = ConnectCancelled { pool: self, shard };
        let limit = self.connect_timeout().saturating_add(CONNECT_SLACK);
        let connected = match tokio::time::timeout(limit, shard.client().connect()).await {
            Ok(connected) => connected,
            Err(_) => Err(HttpError::new(
                HttpErrorKind::Connect,
                RequestSentStatus::NotSent,
                format!("no connection to {} was ready within {limit:?}", self.endpoint()),
            )),
        };
        // The outcome is known, and `finish_connect` reports it. Dropping the guard would report a
        // cancelled connect on top, and remove the shard a second time. It owns nothing that could leak.
        std::mem::forget(cancelled);
        self.finish_connect(shard, connected);
    }

    fn finish_connect(
        self: &Arc<Self>,
        shard: &Arc<ClientShard>,
        connected: Result<Option<HttpProtocol>, HttpError>,
    ) {
        match connected {
            Ok(Some(HttpProtocol::Http1)) if self.kind() == PoolKind::Sharded => {
                // Kept before the waiters are woken: they make the pool that takes it over.
                self.keep_http1_client(shard.client());
                shard.mark_failed(self.protocol_changed("HTTP/1.1"));
                self.remove(shard, Removal::HandedOver);
            }
            Ok(Some(HttpProtocol::Http2)) if self.kind() == PoolKind::Plain => {
                shard.mark_failed(self.protocol_changed("HTTP/2"));
                self.remove(shard, Removal::ConnectionClosed);
            }
            Ok(_) => {
                shard.mark_ready();
                self.serve_queue();
            }
            Err(error) => {
                if self.shards().has_ready() {
                    self.growth_backoff().start(self.age());
                }
                tracing::debug!(endpoint = %self.endpoint(), shard = shard.id(),
                    error = %error.chain(), "connecting a shard failed");
                shard.mark_failed(error);
                self.remove(shard, Removal::ConnectionClosed);
            }
        }
    }

    pub(super) fn protocol_changed(&self, spoken: &str) -> HttpError {
        HttpError::new(
            HttpErrorKind::ProtocolChanged,
            RequestSentStatus::NotSent,
            format!("{} speaks {spoken}", self.endpoint()),
        )
    }
}

/// The watch over a queue, which ends with its task.
struct QueueWatch {
    pool: Arc<EndpointShardPool>,
}

impl Drop for QueueWatch {
    fn drop(&mut self) {
        self.pool.end_watching_queue();
    }
}

/// Fails the requests that wait for a connection, should its task be aborted or panic before the outcome
/// is known.
struct ConnectCancelled<'a> {
    pool: &'a Arc<EndpointShardPool>,
    shard: &'a Arc<ClientShard>,
}

impl Drop for ConnectCancelled<'_> {
    fn drop(&mut self) {
        let error = match self.pool.tasks().is_shutting_down() {
            true => self.pool.closed_error(),
            false => HttpError::new(
                HttpErrorKind::Connect,
                RequestSentStatus::NotSent,
                format!("connecting to {} ended before it was done", self.pool.endpoint()),
            ),
        };
        self.shard.mark_failed(error);
        self.pool.remove(self.shard, Removal::ConnectionClosed);
    }
}

//! More shards: when there may be another, and how its connection is made.

use std::sync::Arc;
use std::time::Duration;

use super::client_shard::ClientShard;
use super::eviction::Removal;
use super::shard_pool::{EndpointShardPool, PoolKind};
use crate::transport::{HttpClient, HttpError, HttpErrorKind, HttpProtocol, RequestSentStatus};

/// How much longer than its own connect timeout a client may take to report a failure. A client of
/// somebody else may have no timeout at all, and must not keep its slot for ever.
const CONNECT_SLACK: Duration = Duration::from_secs(1);

impl EndpointShardPool {
    /// Starts with a client that exists already and has a connection.
    pub(in crate::transport) fn adopt(self: &Arc<Self>, client: Arc<dyn HttpClient>) {
        if let Some(shard) = self.add_shard(|| client) {
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
        let Some(shard) = self.add_shard(|| self.new_client()) else { return };
        let pool = Arc::clone(self);
        let started = self.tasks().spawn("shard-connect", async move {
            pool.connect(&shard).await;
        });
        if !started {
            // The runtime is shutting down: nobody will make the connection.
            self.close();
        }
    }

    fn add_shard(
        self: &Arc<Self>,
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
        self.shards().add(watched, self.age())
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

//! More shards: when there may be another, and how its connection is made.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::client_shard::ClientShard;
use super::retirement::Farewell;
use super::shard_pool::{EndpointShardPool, PoolKind};
use crate::transport::{HttpClient, HttpError, HttpErrorKind, HttpProtocol, RequestSentStatus};

/// How long no shard is added after one could not be, while others serve.
const GROWTH_PAUSE: Duration = Duration::from_secs(1);

/// How much longer than its own timeout a client may take to say that it could not connect. A client of
/// somebody else may have no timeout at all.
const CONNECT_SLACK: Duration = Duration::from_secs(1);

impl EndpointShardPool {
    /// Starts with a client that exists already and has a connection.
    pub(in crate::transport) fn adopt(self: &Arc<Self>, client: Arc<dyn HttpClient>) {
        if self.take_place() {
            self.add_shard(client).became_ready();
        }
    }

    /// Whether another shard may be made.
    pub(super) fn may_grow(&self, shards: &[Arc<ClientShard>]) -> bool {
        let most = self.context.sharding.max_clients_per_endpoint;
        self.places.load(Ordering::Relaxed) < most
            && (!self.is_growth_paused() || !shards.iter().any(|shard| shard.is_ready()))
    }

    /// Whether some shard has its connection.
    pub(super) fn has_ready_shard(&self) -> bool {
        self.shards.load().iter().any(|shard| shard.is_ready() && !shard.has_ended())
    }

    fn is_growth_paused(&self) -> bool {
        let until = Duration::from_nanos(self.growth_paused_until.load(Ordering::Relaxed));
        // Hardly ever paused, and then the clock need not be read.
        !until.is_zero() && self.began.elapsed() < until
    }

    fn pause_growth(&self) {
        let until = (self.began.elapsed() + GROWTH_PAUSE).as_nanos();
        let until = u64::try_from(until).unwrap_or(u64::MAX);
        self.growth_paused_until.store(until, Ordering::Relaxed);
    }

    /// Makes another shard, if there may be one.
    pub(super) fn grow(self: &Arc<Self>) {
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

    fn add_shard(self: &Arc<Self>, client: Arc<dyn HttpClient>) -> Arc<ClientShard> {
        let pool = Arc::downgrade(self);
        client.when_it_takes_more(Arc::new(move || {
            if let Some(pool) = pool.upgrade() {
                pool.serve_line();
            }
        }));
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
        let limit = self.context.client_config.connect_timeout + CONNECT_SLACK;
        let connected = match tokio::time::timeout(limit, shard.client.connect()).await {
            Ok(connected) => connected,
            Err(_) => Err(HttpError::new(
                HttpErrorKind::Connect,
                RequestSentStatus::NotSent,
                format!("no connection to {} was ready within {limit:?}", self.endpoint),
            )),
        };
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
                if self.has_ready_shard() {
                    self.pause_growth();
                }
                tracing::debug!(endpoint = %self.endpoint, shard = shard.id, error = %error.chain(),
                    "a connection could not be made");
                shard.failed_to_connect(error);
                self.retire(shard, Farewell::Ended);
            }
        }
    }
}

/// Tells those who wait for a connection that it will not come, should its task end before it does.
struct Connecting<'a> {
    pool: &'a Arc<EndpointShardPool>,
    shard: &'a Arc<ClientShard>,
}

impl Drop for Connecting<'_> {
    fn drop(&mut self) {
        let error = match self.pool.context.tasks.is_shutting_down() {
            true => self.pool.no_longer_here(),
            false => HttpError::new(
                HttpErrorKind::Connect,
                RequestSentStatus::NotSent,
                format!("connecting to {} ended before it was done", self.pool.endpoint),
            ),
        };
        self.shard.failed_to_connect(error);
        self.pool.retire(self.shard, Farewell::Ended);
    }
}

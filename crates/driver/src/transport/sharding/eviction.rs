//! Removal of shards: eviction, draining and closing, and the fate of requests in flight.

use std::sync::Arc;

use super::client_shard::ClientShard;
use super::shard_health::EvictionReason;
use super::shard_pool::EndpointShardPool;
use super::stream_slots::DrainStart;

/// Why a shard is removed, which decides how long its requests may go on.
#[derive(Clone, Copy, Debug)]
pub(super) enum Removal {
    /// It is evicted: its requests have until the drain timeout.
    Evicted(EvictionReason),
    /// Its connection has ended or takes no more streams: its requests end by themselves.
    ConnectionClosed,
    /// It is past its age: its requests may finish, as after GOAWAY.
    Aged,
    /// Its client is handed to another pool, or its pool is closed: its requests may finish.
    HandedOver,
}

impl EndpointShardPool {
    /// Removes a shard: it gets no more requests, and those on it may finish.
    pub(super) fn remove(self: &Arc<Self>, shard: &Arc<ClientShard>, removal: Removal) {
        // First, so that of several threads that find the same fault exactly one frees the slot.
        let found = shard.start_draining();
        if found == DrainStart::AlreadyBegun {
            return;
        }
        self.shards().remove(shard);
        if let (Removal::Evicted(reason), DrainStart::InUse(in_flight)) = (removal, found) {
            tracing::warn!(endpoint = %self.endpoint(), shard = shard.id(), in_flight,
                reason = reason.as_str(), "shard evicted");
            self.close_after_drain(shard);
        }
        // Waiters may want the slot that became free.
        self.serve_queue();
    }

    /// Lets the requests of a shard finish, up to the drain timeout.
    fn close_after_drain(&self, shard: &Arc<ClientShard>) {
        let limit = self.config().eviction_drain_timeout;
        let (shard, fallback) = (Arc::clone(shard), Arc::clone(shard));
        let started = self.tasks().spawn("shard-drain", async move {
            // Drained or out of time, the end is the same: what is left ends as maybe sent.
            let _ = tokio::time::timeout(limit, shard.drained()).await;
            shard.client().close();
        });
        if !started {
            fallback.client().close();
        }
    }

    /// Removes shards whose connection is closed; says whether there were any.
    pub(super) fn remove_closed(self: &Arc<Self>, shards: &[Arc<ClientShard>]) -> bool {
        let mut closed = shards.iter().filter(|shard| shard.is_closed()).peekable();
        let any = closed.peek().is_some();
        closed.for_each(|shard| self.remove(shard, Removal::ConnectionClosed));
        any
    }

    /// Takes no more requests: waiters are rejected, requests on a connection may finish.
    pub(in crate::transport) fn close(self: &Arc<Self>) {
        // Before the queue is emptied: a waiter that enqueues after that sees the mark and rejects
        // itself (`reserve`).
        self.mark_closed();
        for shard in self.shards().load_full().iter() {
            self.remove(shard, Removal::HandedOver);
        }
        self.reject_waiters();
    }
}

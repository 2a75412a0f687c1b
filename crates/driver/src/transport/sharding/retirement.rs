//! Fewer shards: how one leaves, and what becomes of the requests on it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::client_shard::ClientShard;
use super::shard_health::EvictionReason;
use super::shard_pool::EndpointShardPool;
use super::stream_slots::Retirement;

/// How a shard leaves.
#[derive(Clone, Copy, Debug)]
pub(super) enum Farewell {
    /// It is given up: its requests have until the drain timeout.
    Evicted(EvictionReason),
    /// Its connection has ended or takes no more streams: its requests end by themselves.
    Ended,
    /// It goes on elsewhere, or its pool ends.
    HandedOver,
}

impl EndpointShardPool {
    /// Takes a shard out: it gets no more requests, and those on it may finish.
    pub(super) fn retire(self: &Arc<Self>, shard: &Arc<ClientShard>, farewell: Farewell) {
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

    /// Takes out shards whose connection is over; says whether there were any.
    pub(super) fn retire_ended(self: &Arc<Self>, shards: &[Arc<ClientShard>]) -> bool {
        let mut ended = shards.iter().filter(|shard| shard.has_ended()).peekable();
        let any = ended.peek().is_some();
        ended.for_each(|shard| self.retire(shard, Farewell::Ended));
        any
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
    pub(super) fn dismiss_line(&self) {
        while self.line.next().is_some() {}
    }
}

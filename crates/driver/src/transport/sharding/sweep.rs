//! The periodic health sweep over the shards of an endpoint.

use std::sync::Arc;
use std::time::Instant;

use super::client_shard::ClientShard;
use super::eviction::Removal;
use super::pool_context::PoolKind;
use super::selection::should_scale_up;
use super::shard_health::{EvictionReason, ShardHealthStatus, ShardStats, check_shard_health};
use super::shard_pool::EndpointShardPool;

/// A sweep replaces at most one in this many shards because of its age, so that most requests find a connection.
const AGED_PER_SWEEP: usize = 4;

impl EndpointShardPool {
    /// Checks every shard and acts on it: unhealthy ones are evicted, idle ones closed, and another is
    /// made where the load or the minimum asks for it.
    ///
    /// While the processors are busier than the limit, nothing is evicted: slowness is then our own.
    pub fn sweep(self: &Arc<Self>, now: Instant, cpu_load: Option<f64>) {
        self.remove_closed(&self.shards().load_full());
        let shards = self.shards().load_full();
        for shard in shards.iter() {
            shard.client().sweep();
        }
        if self.kind() == PoolKind::Plain || self.is_closed() {
            return;
        }
        self.load().end_interval();
        let is_busy = cpu_load.is_some_and(|load| load > self.config().eviction_cpu_limit);
        self.evict_by_health(&shards, now, is_busy);
        self.replace_aged(now);
        match self.queue().has_waiters() {
            // Should a request have enqueued just when the last watch ended.
            true => self.widen_while_requests_wait(),
            false => self.shards().narrow(),
        }
        self.scale_up();
        // A client that reports no limit may take more requests than before without saying so.
        self.serve_queue();
    }

    fn evict_by_health(self: &Arc<Self>, shards: &[Arc<ClientShard>], now: Instant, is_busy: bool) {
        let config = self.config();
        let now = now.saturating_duration_since(self.created());
        let stats: Vec<ShardStats> = shards.iter().map(|shard| shard.stats()).collect();
        // The youngest first: the oldest are the active set.
        for (index, shard) in shards.iter().enumerate().rev() {
            let peers = stats.iter().enumerate().filter(|(peer, _)| *peer != index);
            match check_shard_health(&stats[index], peers.map(|(_, it)| *it), config, now) {
                ShardHealthStatus::Healthy => {}
                ShardHealthStatus::Unhealthy { reason } if is_busy => {
                    tracing::debug!(endpoint = %self.endpoint(), shard = shard.id(),
                        reason = reason.as_str(), "unhealthy shard kept: the processors are busy");
                }
                ShardHealthStatus::Unhealthy { reason } => {
                    self.remove(shard, Removal::Evicted(reason));
                }
                ShardHealthStatus::Idle => {
                    // Counted again for each: those before it may be gone by now.
                    let min = config.min_clients_per_endpoint as usize;
                    if self.shards().load().len() > min {
                        self.remove(shard, Removal::Evicted(EvictionReason::IdleTimeout));
                    }
                }
            }
        }
    }

    /// Replaces shards that are past their age, some at a sweep. The last one goes only once another is connected.
    fn replace_aged(self: &Arc<Self>, now: Instant) {
        let now = now.saturating_duration_since(self.created());
        let shards = self.shards().load_full();
        let (aged, others): (Vec<_>, Vec<_>) =
            shards.iter().partition(|shard| shard.is_past_its_age(now));
        if aged.is_empty() {
            return;
        }
        if !others.iter().any(|shard| shard.is_ready()) {
            if !self.shards().has_free_slot() {
                self.shards().widen(1);
            }
            // One that is still connecting is enough.
            if others.is_empty() && self.shards().has_free_slot() {
                self.grow();
            }
            if self.shards().slots_taken() > aged.len() as u32 {
                return;
            }
        }
        let most = shards.len().div_ceil(AGED_PER_SWEEP);
        for shard in aged.into_iter().take(most) {
            tracing::debug!(endpoint = %self.endpoint(), shard = shard.id(), "shard past its age");
            self.remove(shard, Removal::Aged);
        }
    }

    fn scale_up(self: &Arc<Self>) {
        let config = self.config();
        while self.shards().slots_taken() < config.min_clients_per_endpoint && !self.is_closed() {
            self.grow();
        }
        let shards = self.shards().load();
        let views = shards.iter().map(|shard| shard.view(config));
        if should_scale_up(views, config.scale_up_threshold_ratio) {
            if !self.shards().has_free_slot() {
                self.widen_by(1);
            }
            self.grow();
        }
    }
}

//! Looking after the shards of an endpoint, now and then.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::client_shard::ClientShard;
use super::retirement::Farewell;
use super::selection::should_scale_up;
use super::shard_health::{EvictionReason, ShardHealthStatus, ShardStats, check_shard_health};
use super::shard_pool::{EndpointShardPool, PoolKind};

impl EndpointShardPool {
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
        // A client that cannot tell may take more requests than before.
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
}

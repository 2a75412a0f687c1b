//! The shards of an endpoint: the list, how many there may be, and their ids.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::{ArcSwap, Guard};

use super::client_shard::ClientShard;
use crate::transport::HttpClient;

/// A list that is replaced whole, so reading it takes no lock.
///
/// A shard takes a slot before its client is made and frees it when it is removed. So the number of
/// clients, also of those that are not in the list yet, never exceeds the maximum.
///
/// How many there may be at the moment is a limit between `eager` and `max`: it is raised while requests
/// wait for streams, and falls back when none does.
#[derive(Debug)]
pub(super) struct ShardList {
    eager: u32,
    max: u32,
    limit: AtomicU32,
    /// From the oldest to the youngest; draining shards are not in it.
    shards: ArcSwap<Vec<Arc<ClientShard>>>,
    slots: AtomicU32,
    next_id: AtomicU64,
}

impl ShardList {
    /// An empty list with an initial and a maximum number of shards.
    pub(super) fn new(eager: u32, max: u32) -> Self {
        let eager = eager.min(max);
        let (slots, next_id) = (AtomicU32::new(0), AtomicU64::new(0));
        let limit = AtomicU32::new(eager);
        Self { eager, max, limit, shards: ArcSwap::default(), slots, next_id }
    }

    /// The shards now, for a short look: the guard must not be held across a wait.
    pub(super) fn load(&self) -> Guard<Arc<Vec<Arc<ClientShard>>>> {
        self.shards.load()
    }

    /// The current shards, as an owned snapshot: for iteration while the list changes.
    pub(super) fn load_full(&self) -> Arc<Vec<Arc<ClientShard>>> {
        self.shards.load_full()
    }

    /// How many slots are taken.
    pub(super) fn slots_taken(&self) -> u32 {
        // Relaxed: a hint; `take_slot` decides.
        self.slots.load(Ordering::Relaxed)
    }

    /// Whether a slot seems to be free.
    pub(super) fn has_free_slot(&self) -> bool {
        self.slots_taken() < self.limit()
    }

    fn limit(&self) -> u32 {
        // Relaxed: a number by itself; read late, it costs one look at the queue more.
        self.limit.load(Ordering::Relaxed)
    }

    /// Whether the limit is below the maximum.
    pub(super) fn can_widen(&self) -> bool {
        self.limit() < self.max
    }

    /// Raises the number of shards that may be made, up to the maximum.
    pub(super) fn widen(&self, by: u32) {
        let wider = |limit: u32| Some(limit.saturating_add(by).min(self.max));
        // The closure never refuses. Relaxed: as in `limit`.
        let _ = self.limit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, wider);
    }

    /// Lowers the number again to what is in use.
    pub(super) fn narrow(&self) {
        let used = self.slots_taken().max(self.eager);
        // Relaxed: as in `limit`. A shard that is added meanwhile stays: the limit holds for the next one.
        self.limit.fetch_min(used, Ordering::Relaxed);
    }

    /// Whether some shard has its connection.
    pub(super) fn has_ready(&self) -> bool {
        self.load().iter().any(|shard| shard.is_ready() && !shard.is_closed())
    }

    /// Adds a shard with a new client, if a slot is free.
    pub(super) fn add(
        &self,
        client: impl FnOnce() -> Arc<dyn HttpClient>,
        now: Duration,
        max_age: Duration,
    ) -> Option<Arc<ClientShard>> {
        if !self.take_slot() {
            return None;
        }
        // Relaxed: ids need only differ.
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let shard = Arc::new(ClientShard::connecting(id, client(), now, max_age));
        self.shards.rcu(|shards| {
            let mut shards = Vec::clone(shards);
            shards.push(Arc::clone(&shard));
            shards
        });
        Some(shard)
    }

    /// Removes a shard that is in the list, and frees its slot.
    pub(super) fn remove(&self, shard: &ClientShard) {
        self.shards.rcu(|shards| {
            let others = shards.iter().filter(|other| other.id() != shard.id());
            others.cloned().collect::<Vec<_>>()
        });
        // Release: pairs with the Acquire in `take_slot`; the slot is free only once the list is without
        // its shard, so the list too stays within the maximum.
        self.slots.fetch_sub(1, Ordering::AcqRel);
    }

    fn take_slot(&self) -> bool {
        let limit = self.limit();
        let below = |slots: u32| (slots < limit).then_some(slots + 1);
        // One read-modify-write, so that two threads cannot take the last slot. Acquire: see `remove`.
        self.slots.fetch_update(Ordering::AcqRel, Ordering::Relaxed, below).is_ok()
    }
}

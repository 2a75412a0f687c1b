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
#[derive(Debug)]
pub(super) struct ShardList {
    max: u32,
    /// From the oldest to the youngest; draining shards are not in it.
    shards: ArcSwap<Vec<Arc<ClientShard>>>,
    slots: AtomicU32,
    next_id: AtomicU64,
}

impl ShardList {
    /// An empty list with a maximum.
    pub(super) fn new(max: u32) -> Self {
        let (slots, next_id) = (AtomicU32::new(0), AtomicU64::new(0));
        Self { max, shards: ArcSwap::default(), slots, next_id }
    }

    /// The shards now, for a short look: the guard must not be held across a wait.
    pub(super) fn load(&self) -> Guard<Arc<Vec<Arc<ClientShard>>>> {
        self.shards.load()
    }

    /// The shards now, for one who changes the list while going through it.
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
        self.slots_taken() < self.max
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
    ) -> Option<Arc<ClientShard>> {
        if !self.take_slot() {
            return None;
        }
        // Relaxed: ids need only differ.
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let shard = Arc::new(ClientShard::connecting(id, client(), now));
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
        let below = |slots: u32| (slots < self.max).then_some(slots + 1);
        // One read-modify-write, so that two threads cannot take the last slot. Acquire: see `remove`.
        self.slots.fetch_update(Ordering::AcqRel, Ordering::Relaxed, below).is_ok()
    }
}

//! Which of the entries of a cache were used least recently, without a lock.
//!
//! An approximation of LRU: uses are told apart by epochs, and an epoch ends when an entry is added. While a cache
//! does not change, using an entry is one load of a number that is not written.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// The epoch of a cache.
#[derive(Debug, Default)]
pub(crate) struct Epoch(AtomicU64);

impl Epoch {
    /// Begins the next epoch: an entry is added.
    pub(crate) fn advance(&self) {
        // Relaxed, here and below: numbers by themselves. An entry that is used while another is added may count as
        // used before it, and is then evicted one entry too soon.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The epoch in which an entry was last used.
#[derive(Debug)]
pub(crate) struct LastUse(AtomicU64);

impl LastUse {
    /// An entry that is added now.
    pub(crate) fn now(epoch: &Epoch) -> Self {
        Self(AtomicU64::new(epoch.now()))
    }

    /// Notes a use.
    pub(crate) fn note(&self, epoch: &Epoch) {
        let now = epoch.now();
        // Read first: a store for every use would take the cache line from all other cores.
        if self.0.load(Ordering::Relaxed) != now {
            self.0.store(now, Ordering::Relaxed);
        }
    }

    /// The epoch, for comparison with that of other entries.
    fn epoch(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Removes the entry that was used least recently; of equals, the first by key.
pub(crate) fn evict_least_recent<K: Ord + Clone, V>(
    entries: &mut BTreeMap<K, V>,
    last_use: impl Fn(&V) -> &LastUse,
) {
    let oldest = entries.iter().min_by_key(|(_, entry)| last_use(entry).epoch());
    if let Some(key) = oldest.map(|(key, _)| key.clone()) {
        entries.remove(&key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_entry_that_was_used_last_is_the_youngest() {
        let epoch = Epoch::default();
        let add = || {
            epoch.advance();
            LastUse::now(&epoch)
        };
        let (first, second) = (add(), add());
        assert!(first.epoch() < second.epoch());
        add();
        first.note(&epoch);
        assert!(first.epoch() > second.epoch());
    }
}

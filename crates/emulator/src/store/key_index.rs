//! Which items have which key and id: point lookups by hash, logical partitions by effective partition key.
//!
//! Holds ordinals and no copies of ids, for there is an entry per item.

use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::ops::Bound;

use sidereal_protocol::{EffectivePartitionKey, EffectivePartitionKeyRange};

use super::Item;

/// Where a scan of a replica in the order of ordinals resumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Position {
    Start,
    /// After this ordinal.
    After(u64),
    /// At this ordinal again, of which some rows were already returned.
    At(u64),
}

/// The items of a replica by key and id.
#[derive(Clone, Debug, Default)]
pub(super) struct KeyIndex {
    by_key: BTreeMap<EffectivePartitionKey, Ordinals>,
    /// By the hash of effective key and id. Seeded, so that nobody can choose ids that collide.
    by_name: HashMap<u64, Ordinals, BuildHasherDefault<HashedAlready>>,
    seed: RandomState,
}

impl KeyIndex {
    pub(super) fn insert(&mut self, item: &Item) {
        let hash = self.hash(&item.effective_key, &item.id);
        self.by_name.entry(hash).or_default().add(item.ordinal);
        match self.by_key.get_mut(&item.effective_key) {
            Some(ordinals) => ordinals.add(item.ordinal),
            None => {
                self.by_key.insert(item.effective_key.clone(), Ordinals::One(item.ordinal));
            }
        }
    }

    pub(super) fn remove(&mut self, item: &Item) {
        let hash = self.hash(&item.effective_key, &item.id);
        if self.by_name.get_mut(&hash).is_some_and(|ordinals| ordinals.remove(item.ordinal)) {
            self.by_name.remove(&hash);
        }
        let of_key = self.by_key.get_mut(&item.effective_key);
        if of_key.is_some_and(|ordinals| ordinals.remove(item.ordinal)) {
            self.by_key.remove(&item.effective_key);
        }
    }

    /// The items that may have a key and an id; nearly always one. The caller compares both.
    pub(super) fn named(
        &self,
        effective_key: &EffectivePartitionKey,
        id: &str,
    ) -> impl Iterator<Item = u64> {
        let found = self.by_name.get(&self.hash(effective_key, id));
        found.into_iter().flat_map(|ordinals| ordinals.from(Position::Start))
    }

    /// The items whose keys fall into `window`, from `position` on, in the order of their ordinals.
    pub(super) fn within(
        &self,
        window: &EffectivePartitionKeyRange,
        position: Position,
    ) -> Vec<u64> {
        let of_window = self.by_key.range(window.min().clone()..window.max().clone());
        let mut ordinals: Vec<u64> =
            of_window.flat_map(|(_, ordinals)| ordinals.from(position)).collect();
        // Effective keys are hashes, so their order is not that of the ordinals.
        if !ordinals.is_sorted() {
            ordinals.sort_unstable();
        }
        ordinals
    }

    /// The number of items whose keys fall into `window`, counted up to `most`.
    pub(super) fn count_within(&self, window: &EffectivePartitionKeyRange, most: usize) -> usize {
        let of_window = self.by_key.range(window.min().clone()..window.max().clone());
        let mut count = 0;
        for (_, ordinals) in of_window {
            count += ordinals.len();
            if count >= most {
                break;
            }
        }
        count.min(most)
    }

    fn hash(&self, effective_key: &EffectivePartitionKey, id: &str) -> u64 {
        self.seed.hash_one((effective_key, id))
    }
}

/// The hasher of keys that are hashes.
#[derive(Clone, Copy, Debug, Default)]
struct HashedAlready(u64);

impl Hasher for HashedAlready {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Only `write_u64` is called for a `u64`; this keeps the contract for anything else.
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

/// A set of ordinals that takes no allocation while it has one.
#[derive(Clone, Debug)]
enum Ordinals {
    One(u64),
    #[expect(clippy::box_collection, reason = "keeps the usual case, one ordinal, at 16 bytes")]
    Many(Box<BTreeSet<u64>>),
}

impl Default for Ordinals {
    fn default() -> Self {
        Self::Many(Box::default())
    }
}

impl Ordinals {
    fn len(&self) -> usize {
        match self {
            Self::One(_) => 1,
            Self::Many(ordinals) => ordinals.len(),
        }
    }

    fn from(&self, position: Position) -> Box<dyn Iterator<Item = u64> + '_> {
        let lower = match position {
            Position::Start => Bound::Unbounded,
            Position::After(ordinal) => Bound::Excluded(ordinal),
            Position::At(ordinal) => Bound::Included(ordinal),
        };
        match self {
            Self::One(ordinal) => {
                let inside = std::ops::RangeBounds::contains(&(lower, Bound::Unbounded), ordinal);
                Box::new(Some(*ordinal).filter(|_| inside).into_iter())
            }
            Self::Many(ordinals) => Box::new(ordinals.range((lower, Bound::Unbounded)).copied()),
        }
    }

    fn add(&mut self, ordinal: u64) {
        match self {
            Self::Many(ordinals) if ordinals.is_empty() => *self = Self::One(ordinal),
            Self::Many(ordinals) => {
                ordinals.insert(ordinal);
            }
            Self::One(first) => *self = Self::Many(Box::new(BTreeSet::from([*first, ordinal]))),
        }
    }

    /// Removes an ordinal and returns whether none is left.
    fn remove(&mut self, ordinal: u64) -> bool {
        match self {
            Self::One(only) => *only == ordinal,
            Self::Many(ordinals) => {
                ordinals.remove(&ordinal);
                ordinals.is_empty()
            }
        }
    }
}

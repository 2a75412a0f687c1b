//! The index of a path, or of several paths one after the other: items in the order of their values.
//!
//! An entry is a sort key, whose bytes compare as the values do, and an ordinal. Every item has one, undefined
//! values too, so that the index has the order of all items. An index of an array's elements has an entry for
//! each element.

use std::collections::BTreeSet;
use std::ops::Bound;

use serde_json::Value;
use sidereal_query::order::write_sort_key;
use sidereal_query::{IndexPath, KeyRange, parse_at};
use smallvec::SmallVec;

use super::OrderByPath;
use crate::store::Item;

/// The longest sort key of an entry. Items with longer ones are candidates of every lookup instead, so that an
/// array of 2 MiB is not kept a second time.
const MAX_KEY: usize = 512;
/// The most entries of one item; items with more are candidates of every lookup.
const MAX_ELEMENTS: usize = 1000;

/// A sort key; those of numbers and short texts take no allocation.
pub(crate) type IndexKey = SmallVec<[u8; 16]>;

/// The definition of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum IndexDefinition {
    /// The values at paths, each in a direction; the first ascends.
    Values(Vec<OrderByPath>),
    /// The elements of the array at a path.
    Elements(Vec<String>),
}

/// An index.
#[derive(Clone, Debug)]
pub(crate) struct PathIndex {
    definition: IndexDefinition,
    entries: BTreeSet<(IndexKey, u64)>,
    /// Items whose keys are too long or too many.
    outsized: BTreeSet<u64>,
}

/// The entries of an item in an index.
enum Entries {
    Keys(SmallVec<[IndexKey; 1]>),
    Outsized,
}

impl IndexDefinition {
    /// The index that a condition on a path asks.
    pub(crate) fn of_path(path: &IndexPath) -> Self {
        match path.elements {
            true => Self::Elements(path.segments.clone()),
            false => Self::Values(vec![OrderByPath {
                segments: path.segments.clone(),
                descending: false,
            }]),
        }
    }

    /// The index that has an order, or its reverse: where the first key descends, all are turned round. So ties,
    /// which go by ordinal in the direction of the first key, come in the order of the entries.
    pub(crate) fn of_order(order: &[OrderByPath]) -> Self {
        let turned = order.first().is_some_and(|first| first.descending);
        let turn = |path: &OrderByPath| OrderByPath {
            segments: path.segments.clone(),
            descending: path.descending != turned,
        };
        Self::Values(order.iter().map(turn).collect())
    }

    /// The sort key of values, one for each path.
    pub(crate) fn key_of(&self, values: &[Option<Value>]) -> IndexKey {
        let Self::Values(paths) = self else { return IndexKey::new() };
        let mut key = Vec::with_capacity(32);
        for (path, value) in paths.iter().zip(values) {
            let begin = key.len();
            write_sort_key(value.as_ref(), &mut key);
            if path.descending {
                // No key is a prefix of another, so inverted bytes compare the other way round.
                key[begin..].iter_mut().for_each(|byte| *byte = !*byte);
            }
        }
        IndexKey::from_vec(key).shrunk()
    }

    /// The values of an item at the paths.
    pub(crate) fn values_of(&self, item: &Item) -> SmallVec<[Option<Value>; 2]> {
        match self {
            Self::Values(paths) => {
                paths.iter().map(|path| parse_at(&item.text, &path.segments)).collect()
            }
            Self::Elements(_) => SmallVec::new(),
        }
    }

    fn entries_of(&self, item: &Item) -> Entries {
        let keys: SmallVec<[IndexKey; 1]> = match self {
            Self::Values(_) => SmallVec::from_buf([self.key_of(&self.values_of(item))]),
            Self::Elements(path) => {
                let Some(Value::Array(elements)) = parse_at(&item.text, path) else {
                    return Entries::Keys(SmallVec::new());
                };
                if elements.len() > MAX_ELEMENTS {
                    return Entries::Outsized;
                }
                let key = |element: &Value| {
                    let mut key = Vec::new();
                    write_sort_key(Some(element), &mut key);
                    IndexKey::from_vec(key).shrunk()
                };
                elements.iter().map(key).collect()
            }
        };
        match keys.iter().any(|key| key.len() > MAX_KEY) {
            true => Entries::Outsized,
            false => Entries::Keys(keys),
        }
    }
}

impl PathIndex {
    /// The index of these items. Sorted first and built at once: several times as fast as one by one.
    pub(crate) fn of_items<'i>(
        definition: IndexDefinition,
        items: impl Iterator<Item = &'i Item>,
    ) -> Self {
        let mut outsized = BTreeSet::new();
        let mut entries = Vec::new();
        for item in items {
            match definition.entries_of(item) {
                Entries::Keys(keys) => {
                    entries.extend(keys.into_iter().map(|key| (key, item.ordinal)));
                }
                Entries::Outsized => {
                    outsized.insert(item.ordinal);
                }
            }
        }
        Self { definition, entries: entries.into_iter().collect(), outsized }
    }

    pub(crate) fn definition(&self) -> &IndexDefinition {
        &self.definition
    }

    /// Whether the entries are in the order of all items.
    pub(crate) fn is_complete(&self) -> bool {
        self.outsized.is_empty()
    }

    pub(crate) fn insert(&mut self, item: &Item) {
        match self.definition.entries_of(item) {
            Entries::Keys(keys) => {
                self.entries.extend(keys.into_iter().map(|key| (key, item.ordinal)));
            }
            Entries::Outsized => {
                self.outsized.insert(item.ordinal);
            }
        }
    }

    pub(crate) fn remove(&mut self, item: &Item) {
        match self.definition.entries_of(item) {
            Entries::Keys(keys) => {
                for key in keys {
                    self.entries.remove(&(key, item.ordinal));
                }
            }
            Entries::Outsized => {
                self.outsized.remove(&item.ordinal);
            }
        }
    }

    /// The candidates of some ranges: an item is among them if its value may lie in one. Some may be twice.
    pub(crate) fn candidates<'a>(
        &'a self,
        ranges: &'a [KeyRange],
    ) -> impl Iterator<Item = u64> + 'a {
        let found = ranges.iter().flat_map(|range| self.within(range));
        found.chain(self.outsized.iter().copied())
    }

    fn within(&self, range: &KeyRange) -> impl Iterator<Item = u64> + '_ {
        let key = |bytes: &[u8]| IndexKey::from_slice(bytes);
        let from = match &range.from {
            Bound::Included(bytes) => Bound::Included((key(bytes), 0)),
            Bound::Excluded(bytes) => Bound::Excluded((key(bytes), u64::MAX)),
            Bound::Unbounded => Bound::Unbounded,
        };
        let to = match &range.to {
            Bound::Included(bytes) => Bound::Included((key(bytes), u64::MAX)),
            Bound::Excluded(bytes) => Bound::Excluded((key(bytes), 0)),
            Bound::Unbounded => Bound::Unbounded,
        };
        self.entries.range((from, to)).map(|(_, ordinal)| *ordinal)
    }

    /// The entries after a boundary, in order or in reverse.
    pub(crate) fn from(
        &self,
        boundary: &Bound<(IndexKey, u64)>,
        reverse: bool,
    ) -> Box<dyn Iterator<Item = &(IndexKey, u64)> + '_> {
        match reverse {
            false => Box::new(self.entries.range((boundary.clone(), Bound::Unbounded))),
            true => Box::new(self.entries.range((Bound::Unbounded, boundary.clone())).rev()),
        }
    }
}

/// Keys are kept for as long as their items.
trait Shrunk {
    fn shrunk(self) -> Self;
}

impl Shrunk for IndexKey {
    fn shrunk(mut self) -> Self {
        self.shrink_to_fit();
        self
    }
}

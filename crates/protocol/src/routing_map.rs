//! The routing map: which partition range serves which part of the key space.
//!
//! Built from the entries the service lists, and brought up to date with the entries it lists
//! since. A map that exists is whole: its ranges lie end to end over the key space. When to ask
//! the service, and what to do while it answers with half a split, is the driver's decision.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use crate::body::PartitionKeyRange;
use crate::partition_key::{
    EffectivePartitionKey, EffectivePartitionKeyRange, PartitionKey, PartitionKeyDefinition,
    PartitionKeyRangeId,
};

/// The partition ranges of a container, end to end over the key space.
#[derive(Clone, Debug)]
pub struct RoutingMap {
    /// Sorted; the first begins at the beginning, each next one where the last ended.
    ranges: Vec<Arc<RoutedRange>>,
    by_id: HashMap<PartitionKeyRangeId, usize>,
    /// Every range that was split or merged away.
    gone: HashSet<PartitionKeyRangeId>,
}

/// One partition range of a routing map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoutedRange {
    id: PartitionKeyRangeId,
    range: EffectivePartitionKeyRange,
    parents: Vec<PartitionKeyRangeId>,
}

impl RoutedRange {
    /// The id requests are addressed to.
    pub fn id(&self) -> &PartitionKeyRangeId {
        &self.id
    }

    /// The part of the key space it serves.
    pub fn range(&self) -> &EffectivePartitionKeyRange {
        &self.range
    }

    /// Every range it descends from.
    pub fn parents(&self) -> &[PartitionKeyRangeId] {
        &self.parents
    }
}

impl RoutingMap {
    /// Builds a map from all entries of a container, in the order they were listed.
    ///
    /// The last entry of an id counts, and an id that is some other entry's parent is gone. A
    /// container in the middle of a split can be listed incompletely; such a list is refused.
    pub fn build(
        entries: impl IntoIterator<Item = PartitionKeyRange>,
    ) -> Result<Self, RoutingMapError> {
        Self::assemble(HashMap::new(), HashSet::new(), entries)
    }

    /// The map after the changes listed since it was built.
    ///
    /// On refusal this map is still the best there is; list the changes once more, then everything.
    pub fn apply(
        &self,
        changes: impl IntoIterator<Item = PartitionKeyRange>,
    ) -> Result<Self, RoutingMapError> {
        let known = self.ranges.iter().map(|range| (range.id.clone(), Arc::clone(range))).collect();
        Self::assemble(known, self.gone.clone(), changes)
    }

    fn assemble(
        mut known: HashMap<PartitionKeyRangeId, Arc<RoutedRange>>,
        mut gone: HashSet<PartitionKeyRangeId>,
        entries: impl IntoIterator<Item = PartitionKeyRange>,
    ) -> Result<Self, RoutingMapError> {
        for entry in entries {
            gone.extend(entry.parents.iter().cloned());
            let range = EffectivePartitionKeyRange::new(entry.min_inclusive, entry.max_exclusive)
                .map_err(|_| RoutingMapError::EmptyRange { id: entry.id.clone() })?;
            let routed = RoutedRange { id: entry.id.clone(), range, parents: entry.parents };
            known.insert(entry.id, Arc::new(routed));
        }
        let mut ranges: Vec<_> =
            known.into_values().filter(|range| !gone.contains(&range.id)).collect();
        ranges.sort_unstable_by(|a, b| a.range.min().cmp(b.range.min()));
        check_tiling(&ranges)?;
        let by_id = ranges.iter().enumerate().map(|(at, range)| (range.id.clone(), at)).collect();
        Ok(Self { ranges, by_id, gone })
    }

    /// The ranges in order.
    pub fn ranges(&self) -> &[Arc<RoutedRange>] {
        &self.ranges
    }

    /// The range that serves an effective partition key.
    pub fn at(&self, key: &EffectivePartitionKey) -> &Arc<RoutedRange> {
        &self.ranges[self.position(key)]
    }

    /// The position, among [`ranges`](Self::ranges), of the one that serves an effective partition key.
    pub fn position(&self, key: &EffectivePartitionKey) -> usize {
        // The first range begins at the beginning, so at least one begins at or before any key.
        let after = self.ranges.partition_point(|range| range.range.min() <= key);
        after.saturating_sub(1)
    }

    /// The ranges that serve any part of a range, in order.
    pub fn overlapping(&self, range: &EffectivePartitionKeyRange) -> &[Arc<RoutedRange>] {
        let start = self.ranges.partition_point(|ours| ours.range.max() <= range.min());
        let end = self.ranges.partition_point(|ours| ours.range.min() < range.max());
        &self.ranges[start..end.max(start)]
    }

    /// The ranges that serve a key: one for a full key, maybe several for a prefix.
    pub fn of_key(
        &self,
        definition: &PartitionKeyDefinition,
        key: &PartitionKey,
    ) -> crate::error::Result<&[Arc<RoutedRange>]> {
        Ok(self.overlapping(&definition.effective_range(key)?))
    }

    /// The range of an id, if it still exists.
    pub fn by_id(&self, id: &str) -> Option<&Arc<RoutedRange>> {
        self.by_id.get(id).map(|at| &self.ranges[*at])
    }

    /// Whether a range of this id was split or merged away.
    pub fn is_gone(&self, id: &str) -> bool {
        self.gone.contains(id)
    }

    /// The ranges that descend from one, in order: what to ask in its stead after a split.
    pub fn descendants<'a>(&'a self, id: &'a str) -> impl Iterator<Item = &'a Arc<RoutedRange>> {
        self.ranges
            .iter()
            .filter(move |range| range.parents.iter().any(|parent| parent.as_str() == id))
    }
}

fn check_tiling(ranges: &[Arc<RoutedRange>]) -> Result<(), RoutingMapError> {
    let mut reached = EffectivePartitionKey::MIN;
    for range in ranges {
        match range.range.min().cmp(&reached) {
            std::cmp::Ordering::Equal => reached = range.range.max().clone(),
            std::cmp::Ordering::Greater => return Err(RoutingMapError::Gap { at: reached }),
            std::cmp::Ordering::Less => {
                return Err(RoutingMapError::Overlap { id: range.id.clone() });
            }
        }
    }
    match reached == EffectivePartitionKey::MAX {
        true => Ok(()),
        false => Err(RoutingMapError::Gap { at: reached }),
    }
}

/// Why entries do not make a map. A gap or an overlap is what a split in progress looks like, and
/// passes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RoutingMapError {
    /// No range begins where the last one ends.
    Gap {
        /// The first effective partition key that is not served.
        at: EffectivePartitionKey,
    },
    /// A range begins before the last one ends.
    Overlap {
        /// The range that begins too early.
        id: PartitionKeyRangeId,
    },
    /// A range ends where it begins, or before.
    EmptyRange {
        /// The range.
        id: PartitionKeyRangeId,
    },
}

impl fmt::Display for RoutingMapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gap { at } => write!(f, "no partition range serves the keys from \"{at}\" on"),
            Self::Overlap { id } => {
                write!(f, "partition range {id} begins inside the one before it")
            }
            Self::EmptyRange { id } => write!(f, "partition range {id} is empty"),
        }
    }
}

impl std::error::Error for RoutingMapError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: u32, min: &str, max: &str, parents: &[u32]) -> PartitionKeyRange {
        let mut entry =
            PartitionKeyRange::new(id.into(), min.parse().unwrap(), max.parse().unwrap());
        entry.parents = parents.iter().copied().map(Into::into).collect();
        entry
    }

    fn ids(ranges: &[Arc<RoutedRange>]) -> Vec<&str> {
        ranges.iter().map(|range| range.id().as_str()).collect()
    }

    #[test]
    fn a_range_that_was_split_gives_way_to_its_children() {
        let whole = RoutingMap::build([entry(0, "", "FF", &[])]).unwrap();
        let split = whole.apply([entry(1, "", "1F", &[0]), entry(2, "1F", "FF", &[0])]).unwrap();
        assert_eq!(ids(split.ranges()), ["1", "2"]);
        assert!(split.is_gone("0") && split.by_id("0").is_none());
        assert_eq!(split.descendants("0").count(), 2);
        let merged = split.apply([entry(3, "", "FF", &[0, 1, 2])]).unwrap();
        assert_eq!(ids(merged.ranges()), ["3"]);
    }

    #[test]
    fn half_a_split_is_refused() {
        let whole = RoutingMap::build([entry(0, "", "FF", &[])]).unwrap();
        let gap = whole.apply([entry(1, "", "1F", &[0])]).unwrap_err();
        assert_eq!(gap, RoutingMapError::Gap { at: "1F".parse().unwrap() });
        let overlap =
            RoutingMap::build([entry(0, "", "FF", &[]), entry(1, "1F", "FF", &[])]).unwrap_err();
        assert_eq!(overlap, RoutingMapError::Overlap { id: 1.into() });
        assert!(RoutingMap::build([]).is_err());
        assert!(matches!(
            RoutingMap::build([entry(0, "FF", "FF", &[])]),
            Err(RoutingMapError::EmptyRange { .. })
        ));
    }

    #[test]
    fn the_last_entry_of_an_id_counts() {
        let map = RoutingMap::build([
            entry(0, "", "10", &[]),
            entry(1, "1F", "FF", &[]),
            entry(0, "", "1F", &[]),
        ])
        .unwrap();
        assert_eq!(ids(map.ranges()), ["0", "1"]);
    }

    #[test]
    fn an_old_entry_does_not_bring_a_range_back() {
        let split = RoutingMap::build([
            entry(0, "", "FF", &[]),
            entry(1, "", "1F", &[0]),
            entry(2, "1F", "FF", &[0]),
        ])
        .unwrap();
        let again = split.apply([entry(0, "", "FF", &[])]).unwrap();
        assert_eq!(ids(again.ranges()), ["1", "2"]);
    }

    #[test]
    fn a_key_a_range_and_a_prefix_are_looked_up() {
        let map = RoutingMap::build([
            entry(0, "", "10", &[]),
            entry(1, "10", "20", &[]),
            entry(2, "20", "FF", &[]),
        ])
        .unwrap();
        assert_eq!(map.at(&EffectivePartitionKey::MIN).id().as_str(), "0");
        assert_eq!(map.at(&"10".parse().unwrap()).id().as_str(), "1");
        assert_eq!(map.at(&EffectivePartitionKey::MAX).id().as_str(), "2");
        let range =
            EffectivePartitionKeyRange::new("0F".parse().unwrap(), "20".parse().unwrap()).unwrap();
        assert_eq!(ids(map.overlapping(&range)), ["0", "1"]);
        assert_eq!(ids(map.overlapping(&EffectivePartitionKeyRange::FULL)), ["0", "1", "2"]);
        let definition = PartitionKeyDefinition::new(["/a", "/b"]).unwrap();
        // The hash of "partitionKey" begins with 01.
        assert_eq!(ids(map.of_key(&definition, &"partitionKey".into()).unwrap()), ["0"]);
    }

    #[test]
    fn boundaries_of_hierarchical_containers_match_with_and_without_padding() {
        let padded = format!("10{}", "00".repeat(31));
        let map =
            RoutingMap::build([entry(0, "", "10", &[]), entry(1, &padded, "FF", &[])]).unwrap();
        assert_eq!(map.at(&padded.parse().unwrap()).id().as_str(), "1");
    }
}

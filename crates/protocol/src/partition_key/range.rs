//! Ranges of effective partition keys: half-open, never empty.

use std::fmt;

use super::effective::EffectivePartitionKey;
use crate::error::{Error, ErrorKind, Result};

/// A half-open range of effective partition keys: `min` inclusive, `max` exclusive, never empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EffectivePartitionKeyRange {
    min: EffectivePartitionKey,
    max: EffectivePartitionKey,
}

impl EffectivePartitionKeyRange {
    /// The whole key space.
    pub const FULL: Self =
        Self { min: EffectivePartitionKey::MIN, max: EffectivePartitionKey::MAX };

    /// The range from `min` to `max`; refuses one that holds nothing.
    pub fn new(min: EffectivePartitionKey, max: EffectivePartitionKey) -> Result<Self> {
        if min >= max {
            let message = format!(
                "the range from \"{min}\" to \"{max}\" is empty: its end must be greater than its start"
            );
            return Err(Error::new(ErrorKind::EffectivePartitionKey, message));
        }
        Ok(Self { min, max })
    }

    /// The inclusive lower bound.
    pub fn min(&self) -> &EffectivePartitionKey {
        &self.min
    }

    /// The exclusive upper bound.
    pub fn max(&self) -> &EffectivePartitionKey {
        &self.max
    }

    /// Whether the effective partition key is inside.
    pub fn contains(&self, key: &EffectivePartitionKey) -> bool {
        self.min <= *key && *key < self.max
    }

    /// Whether `other` is a subset of this range.
    pub fn covers(&self, other: &Self) -> bool {
        self.min <= other.min && other.max <= self.max
    }

    /// Whether the two intersect.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.min < other.max && other.min < self.max
    }

    /// The intersection of the two.
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        let min = self.min.clone().max(other.min.clone());
        let max = self.max.clone().min(other.max.clone());
        (min < max).then_some(Self { min, max })
    }

    /// Both sides of a point strictly inside: what lies before it, and the rest.
    pub fn split_at(&self, point: &EffectivePartitionKey) -> Option<(Self, Self)> {
        (self.min < *point && *point < self.max).then(|| {
            let left = Self { min: self.min.clone(), max: point.clone() };
            let right = Self { min: point.clone(), max: self.max.clone() };
            (left, right)
        })
    }
}

impl fmt::Display for EffectivePartitionKeyRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{},{})", self.min, self.max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(min: &str, max: &str) -> EffectivePartitionKeyRange {
        EffectivePartitionKeyRange::new(min.parse().unwrap(), max.parse().unwrap()).unwrap()
    }

    #[test]
    fn an_empty_range_is_refused() {
        let end = EffectivePartitionKey::MAX;
        assert!(EffectivePartitionKeyRange::new(end.clone(), end).is_err());
    }

    #[test]
    fn the_end_is_outside() {
        let half = range("", "1F");
        assert!(half.contains(&"1EFF".parse().unwrap()));
        assert!(!half.contains(&"1F".parse().unwrap()));
        assert!(!half.contains(&"1F00".parse().unwrap()));
    }

    #[test]
    fn neighbours_do_not_overlap() {
        assert!(!range("", "1F").overlaps(&range("1F", "FF")));
        assert!(range("", "20").overlaps(&range("1F", "FF")));
        assert_eq!(range("", "20").intersection(&range("1F", "FF")), Some(range("1F", "20")));
        assert!(EffectivePartitionKeyRange::FULL.covers(&range("1F", "FF")));
    }

    #[test]
    fn only_a_point_inside_splits_a_range() {
        let (left, right) = range("10", "20").split_at(&"18".parse().unwrap()).unwrap();
        assert_eq!((left, right), (range("10", "18"), range("18", "20")));
        assert_eq!(range("10", "20").split_at(&"10".parse().unwrap()), None);
        assert_eq!(range("10", "20").split_at(&"20".parse().unwrap()), None);
    }
}

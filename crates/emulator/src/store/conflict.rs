//! Conflict resolution of a multi-write account: last writer wins, with tombstones.
//!
//! Every version of an item has a rank, and the higher rank wins wherever two meet. Ranks are totally
//! ordered, so replicas converge: those that have applied the same versions agree, in whatever order.

use serde::{Deserialize, Serialize};

use crate::clock::Timestamp;

/// The rank that decides between versions of one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Rank {
    /// The item's incarnation: how often it had been deleted as far as its writer knew. A write that did not
    /// see a delete belongs to the incarnation that the delete ended.
    incarnation: u64,
    version: Version,
}

/// Within one incarnation: a later write beats an earlier one, and the tombstone that ends it beats them all.
/// The order of the variants is the order of the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Version {
    Written {
        /// A hybrid logical clock in milliseconds: the time of the write, moved on where the writer saw a
        /// version of the same moment, so that a write beats what it saw.
        at: u64,
        /// Of two regions that write in the same moment, the one listed first wins.
        precedence: u64,
    },
    Tombstone,
}

impl Rank {
    /// The rank of a write in a region that has `current`.
    pub(crate) fn of_write(current: Option<Self>, now: Timestamp, region: usize) -> Self {
        let precedence = u64::MAX - region as u64;
        let (incarnation, seen) = match current {
            None => (0, None),
            Some(Self { incarnation, version: Version::Tombstone }) => (incarnation + 1, None),
            Some(Self { incarnation, version: Version::Written { at, .. } }) => {
                (incarnation, Some(at))
            }
        };
        let at = seen.map_or(now.millis(), |seen| now.millis().max(seen + 1));
        Self { incarnation, version: Version::Written { at, precedence } }
    }

    /// The rank of a delete in a region that has `current`.
    pub(crate) fn of_delete(current: Option<Self>) -> Self {
        Self {
            incarnation: current.map_or(0, |current| current.incarnation),
            version: Version::Tombstone,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: Timestamp = Timestamp::from_millis(1_000);
    const LATER: Timestamp = Timestamp::from_millis(2_000);

    #[test]
    fn the_later_write_wins_and_a_tie_goes_to_the_region_listed_first() {
        let (first, second) = (Rank::of_write(None, NOON, 0), Rank::of_write(None, NOON, 1));
        assert!(first > second);
        assert!(Rank::of_write(None, LATER, 1) > first);
    }

    #[test]
    fn a_write_beats_what_it_saw_even_in_the_same_moment() {
        let seen = Rank::of_write(None, NOON, 0);
        assert!(Rank::of_write(Some(seen), NOON, 2) > seen);
    }

    #[test]
    fn a_delete_beats_every_concurrent_write_and_loses_to_one_that_saw_it() {
        let written = Rank::of_write(None, NOON, 0);
        let deleted = Rank::of_delete(Some(written));
        let concurrent = Rank::of_write(Some(written), LATER, 1);
        assert!(deleted > concurrent);
        assert!(Rank::of_write(Some(deleted), NOON, 2) > deleted);
    }
}

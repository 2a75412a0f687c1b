//! Conflicts of a multi-write account: which of two versions of an item wins, wherever they meet.
//!
//! Every version has a rank, and the higher rank wins. Ranks are totally ordered, so replicas that have seen
//! the same versions agree, in whatever order they saw them.

use crate::clock::Timestamp;

/// What decides between versions of one item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    /// How often the item had been deleted as far as its writer knew. A write that did not see a delete
    /// belongs to the life that the delete ended.
    life: u64,
    standing: Standing,
}

/// Within one life: a later write beats an earlier one, and the delete that ends the life beats them all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Standing {
    Written {
        /// Milliseconds; moved on where the writer saw a version of the same moment.
        at: u64,
        /// Of two regions that write in the same moment, the one listed first wins.
        precedence: u64,
    },
    Deleted,
}

impl Rank {
    /// The rank of a write in a region that has `current`.
    pub(crate) fn of_write(current: Option<Self>, now: Timestamp, region: usize) -> Self {
        let precedence = u64::MAX - region as u64;
        let (life, seen) = match current {
            None => (0, None),
            Some(Self { life, standing: Standing::Deleted }) => (life + 1, None),
            Some(Self { life, standing: Standing::Written { at, .. } }) => (life, Some(at)),
        };
        let at = seen.map_or(now.millis(), |seen| now.millis().max(seen + 1));
        Self { life, standing: Standing::Written { at, precedence } }
    }

    /// The rank of a delete in a region that has `current`.
    pub(crate) fn of_delete(current: Option<Self>) -> Self {
        Self { life: current.map_or(0, |current| current.life), standing: Standing::Deleted }
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

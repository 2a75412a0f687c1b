//! The documents of a lease container. Values.

use serde::{Deserialize, Serialize};
use sidereal_protocol::{EffectivePartitionKey, EffectivePartitionKeyRange, Etag};

use crate::change_feed::ChangeFeedStart;
use crate::change_feed::start::Position;
use crate::query::targets::Target;

/// The partition key path of a lease container: all leases of a processor are in one logical partition, so that a split is
/// one transaction.
pub(super) const PARTITION_KEY_PATH: &str = "/processor";
/// The partition key of what belongs to no processor. None may have this name.
pub(super) const OWNER_KEY: &str = "$application";
pub(super) const OWNER_ID: &str = "application";
pub(super) const PROCESSOR_ID: &str = "processor";
/// Tells leases from what else is in the partition.
pub(super) const LEASE_KIND: &str = "lease";

/// Whose the container is.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct OwnerDocument {
    pub(super) id: String,
    pub(super) processor: String,
    pub(super) application: String,
}

/// The container that a processor follows, and the leases that are still to be created for it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ProcessorDocument {
    pub(super) id: String,
    pub(super) processor: String,
    /// The RID of the container that is followed.
    pub(super) container: String,
    /// Seconds since 1970 before which changes are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) since: Option<u64>,
    /// Whether changes from before the processor was first started are left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) is_from_now: Option<bool>,
    /// Leases to be created: there may be more than one batch takes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) pending: Vec<LeaseDocument>,
    #[serde(rename = "_etag", default, skip_serializing)]
    pub(super) etag: Option<Etag>,
}

impl ProcessorDocument {
    /// Where the processor began: a lease that has no position goes on from there, whatever a later worker is told.
    pub(super) fn start(&self, told: ChangeFeedStart) -> (ChangeFeedStart, Option<u64>) {
        let start = match self.is_from_now {
            Some(true) => ChangeFeedStart::Now,
            Some(false) => ChangeFeedStart::Beginning,
            None => told,
        };
        (start, self.since)
    }
}

/// A lease: a part of the key space, who follows it, and how far it was handled.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct LeaseDocument {
    pub(super) id: String,
    pub(super) processor: String,
    pub(super) kind: String,
    min: EffectivePartitionKey,
    max: EffectivePartitionKey,
    /// The etag of the last page that was handled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    continuation: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) owner: Option<String>,
    /// Of this document: one more with each write. Tells one's own write, whose answer was lost, from another's.
    pub(super) version: u64,
    #[serde(rename = "_etag", default, skip_serializing)]
    pub(super) etag: Option<Etag>,
}

impl LeaseDocument {
    pub(super) fn new(
        processor: &str,
        range: &EffectivePartitionKeyRange,
        position: &Position,
    ) -> Self {
        let (min, max) = (range.min().clone(), range.max().clone());
        Self {
            id: format!("lease-{min}-{max}"),
            processor: processor.to_owned(),
            kind: LEASE_KIND.to_owned(),
            min,
            max,
            continuation: match position {
                Position::Start => None,
                Position::After(etag) => Some(etag.clone()),
            },
            owner: None,
            version: 0,
            etag: None,
        }
    }

    /// The part of the key space; none of a document that somebody else wrote.
    pub(super) fn range(&self) -> Option<EffectivePartitionKeyRange> {
        EffectivePartitionKeyRange::new(self.min.clone(), self.max.clone()).ok()
    }

    pub(super) fn position(&self) -> Position {
        self.continuation.clone().map_or(Position::Start, Position::After)
    }

    /// The next version of it.
    pub(super) fn next(&self) -> Self {
        Self { version: self.version + 1, ..self.clone() }
    }

    pub(super) fn owned_by(mut self, owner: Option<&str>) -> Self {
        self.owner = owner.map(str::to_owned);
        self
    }

    pub(super) fn handled_to(mut self, position: &Position) -> Self {
        if let Position::After(etag) = position {
            self.continuation = Some(etag.clone());
        }
        self
    }

    /// The leases that take its place after a split: one for each partition range, of the same owner, from the same
    /// position on. The last covers what is left of more than a number of them.
    pub(super) fn children(
        &self,
        targets: &[(EffectivePartitionKeyRange, Target)],
        most: usize,
    ) -> Vec<Self> {
        let child = |range: &EffectivePartitionKeyRange| {
            Self::new(&self.processor, range, &self.position()).owned_by(self.owner.as_deref())
        };
        let (single, rest) = targets.split_at(targets.len().min(most));
        let mut ranges: Vec<_> = single.iter().map(|(range, _)| range.clone()).collect();
        if let (Some(last), Some((tail, _))) = (ranges.last_mut(), rest.last()) {
            let joined = EffectivePartitionKeyRange::new(last.min().clone(), tail.max().clone());
            *last = joined.unwrap_or_else(|_| last.clone());
        }
        ranges.iter().map(child).collect()
    }
}

/// The parts of the key space that no lease covers.
pub(super) fn holes(leases: &[LeaseDocument]) -> Vec<EffectivePartitionKeyRange> {
    let mut ranges: Vec<_> = leases.iter().filter_map(LeaseDocument::range).collect();
    ranges.sort_by(|left, right| left.min().cmp(right.min()));
    let full = EffectivePartitionKeyRange::FULL;
    let (mut holes, mut covered) = (Vec::new(), full.min().clone());
    for range in &ranges {
        // A range that is empty or ends before it begins is refused.
        holes.extend(EffectivePartitionKeyRange::new(covered.clone(), range.min().clone()).ok());
        covered = covered.max(range.max().clone());
    }
    holes.extend(EffectivePartitionKeyRange::new(covered, full.max().clone()).ok());
    holes
}

/// The holes that two lists have in common. A list has pages: a split between two of them looks like a hole in one list,
/// not in the next.
pub(super) fn confirmed(
    first: &[EffectivePartitionKeyRange],
    second: &[EffectivePartitionKeyRange],
) -> Vec<EffectivePartitionKeyRange> {
    let common = |hole: &EffectivePartitionKeyRange| {
        second.iter().filter_map(|other| hole.intersection(other)).collect::<Vec<_>>()
    };
    first.iter().flat_map(common).collect()
}

/// The leases whose ranges narrower leases cover: their changes would be handled twice.
pub(super) fn covered(leases: &[LeaseDocument]) -> Vec<&LeaseDocument> {
    let is_covered = |lease: &&LeaseDocument| {
        let Some(range) = lease.range() else { return false };
        let mut within: Vec<_> = leases.iter().filter_map(LeaseDocument::range).collect();
        within.retain(|other| *other != range && range.covers(other));
        within.sort_by(|left, right| left.min().cmp(right.min()));
        let mut end = range.min().clone();
        for other in &within {
            if *other.min() > end {
                return false;
            }
            end = end.max(other.max().clone());
        }
        end == *range.max()
    };
    leases.iter().filter(is_covered).collect()
}

#[cfg(test)]
mod tests {
    use sidereal_protocol::PartitionKeyRangeId;

    use super::*;

    fn range(min: &str, max: &str) -> EffectivePartitionKeyRange {
        EffectivePartitionKeyRange::new(min.parse().unwrap(), max.parse().unwrap()).unwrap()
    }

    fn lease(min: &str, max: &str) -> LeaseDocument {
        let position = Position::After("\"7\"".to_owned());
        LeaseDocument::new("p", &range(min, max), &position).owned_by(Some("a"))
    }

    fn targets(bounds: &[&str]) -> Vec<(EffectivePartitionKeyRange, Target)> {
        let target = |(id, pair): (usize, &[&str])| {
            let id = PartitionKeyRangeId::from(id as u32);
            (range(pair[0], pair[1]), Target::Range { id, window: None })
        };
        bounds.windows(2).enumerate().map(target).collect()
    }

    #[test]
    fn children_go_on_where_their_parent_stood_and_cover_it() {
        let parent = lease("", "40");
        let children = parent.children(&targets(&["", "10", "20", "40"]), 10);
        assert_eq!(children, [lease("", "10"), lease("10", "20"), lease("20", "40")]);
        let few = parent.children(&targets(&["", "10", "20", "30", "40"]), 2);
        assert_eq!(few, [lease("", "10"), lease("10", "40")]);
        assert!(holes(&[few, vec![lease("40", "FF")]].concat()).is_empty());
    }

    #[test]
    fn what_no_lease_covers_is_found() {
        assert_eq!(holes(&[]), [EffectivePartitionKeyRange::FULL]);
        assert_eq!(holes(&[lease("", "FF")]), []);
        let some = [lease("20", "30"), lease("10", "28")];
        assert_eq!(holes(&some), [range("", "10"), range("30", "FF")]);
    }

    #[test]
    fn a_hole_is_confirmed_by_a_second_list() {
        let (torn, whole) = ([range("10", "30")], [range("20", "28"), range("40", "50")]);
        assert_eq!(confirmed(&torn, &whole), [range("20", "28")]);
        assert_eq!(confirmed(&torn, &[]), []);
    }

    #[test]
    fn a_lease_that_narrower_ones_cover_is_found() {
        let children = [lease("10", "20"), lease("20", "30")];
        let leases =
            [&[lease("", "10"), lease("10", "30"), lease("30", "FF")], &children[..]].concat();
        assert_eq!(covered(&leases), [&lease("10", "30")]);
        // With a gap, or with others beside it, its changes are handled by no other lease.
        for partly in [lease("10", "18"), lease("12", "30"), lease("18", "40")] {
            let leases = [lease("10", "30"), partly, lease("", "10")];
            assert!(covered(&leases).is_empty(), "{leases:?}");
        }
    }

    #[test]
    fn a_lease_round_trips_without_what_the_service_adds() {
        let json = serde_json::to_value(lease("", "10").next()).unwrap();
        assert_eq!(json["version"], 1);
        assert!(json.get("_etag").is_none());
        let stored: LeaseDocument = serde_json::from_value(json).unwrap();
        assert_eq!(stored, lease("", "10").next());
    }
}

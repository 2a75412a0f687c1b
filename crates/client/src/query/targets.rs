//! Which partition ranges a query asks, now and after they were split or merged.
//!
//! A query keeps ranges of effective partition keys, which no split or merge changes. A request is addressed to
//! a partition range by its id, so that one that is gone is reported and never answered by half; with a window
//! of keys beside it where the partition range is wider than what is asked for.

use sidereal_protocol::{
    EffectivePartitionKey, EffectivePartitionKeyRange, PartitionKey, PartitionKeyDefinition,
    PartitionKeyRangeId, QueryRange, RoutingMap,
};

use crate::{Error, ErrorKind, Result};

/// The target of one request: a partition key or a partition range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// The items of one partition key: the gateway finds its range.
    Key(PartitionKey),
    /// A partition range, or the part of it that is in a window.
    Range { id: PartitionKeyRangeId, window: Option<EffectivePartitionKeyRange> },
}

/// The targets of a part of the key space, one for each partition range, in the order of the key space.
pub(crate) fn targets_of(
    part: &EffectivePartitionKeyRange,
    map: &RoutingMap,
) -> Vec<(EffectivePartitionKeyRange, Target)> {
    let targets = map.overlapping(part).iter().filter_map(|physical| {
        let asked = physical.range().intersection(part)?;
        let window = (asked != *physical.range()).then(|| asked.clone());
        Some((asked, Target::Range { id: physical.id().clone(), window }))
    });
    targets.collect()
}

/// The part of the key space that a query is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Coverage {
    /// The part that the caller asked for: a feed range, a prefix of a hierarchical key.
    window: EffectivePartitionKeyRange,
    /// Where the plan says that results can be. Only partition ranges are chosen by them: the filter that they
    /// come from does the rest.
    planned: Vec<EffectivePartitionKeyRange>,
    /// The result is the same everywhere, so one partition range is asked.
    is_anywhere: bool,
}

impl Coverage {
    /// The part that a plan's ranges and the caller leave.
    pub(super) fn of(
        ranges: &[QueryRange],
        window: EffectivePartitionKeyRange,
        definition: &PartitionKeyDefinition,
    ) -> Result<Self> {
        let refused = |error: sidereal_protocol::Error| {
            let sentence = format!("the query's plan has a range that cannot be read: {error}");
            Error::new(ErrorKind::InvalidResponse, sentence)
        };
        let planned = ranges.iter().map(|range| range.resolve(definition).map_err(refused));
        let is_anywhere = ranges == [QueryRange::from(EffectivePartitionKey::MIN)];
        Ok(Self { window, planned: planned.collect::<Result<_>>()?, is_anywhere })
    }

    /// The targets of the whole of it.
    pub(super) fn targets(&self, map: &RoutingMap) -> Vec<(EffectivePartitionKeyRange, Target)> {
        self.targets_within(&self.window, map)
    }

    /// The targets of a part of it, in the order of the key space.
    pub(super) fn targets_within(
        &self,
        part: &EffectivePartitionKeyRange,
        map: &RoutingMap,
    ) -> Vec<(EffectivePartitionKeyRange, Target)> {
        let targets = targets_of(part, map).into_iter().filter(|(asked, _)| {
            // By the partition range as a whole: a filter on a key is not narrowed to that key's range.
            let physical = map.at(asked.min()).range();
            self.is_anywhere || self.planned.iter().any(|range| range.overlaps(physical))
        });
        let most = if self.is_anywhere { 1 } else { usize::MAX };
        targets.take(most).collect()
    }
}

#[cfg(test)]
mod tests {
    use sidereal_protocol::PartitionKeyRange;

    use super::*;

    fn range(min: &str, max: &str) -> EffectivePartitionKeyRange {
        EffectivePartitionKeyRange::new(min.parse().unwrap(), max.parse().unwrap()).unwrap()
    }

    fn map(ranges: &[(u32, &str, &str)]) -> RoutingMap {
        let entry = |(id, min, max): &(u32, &str, &str)| {
            PartitionKeyRange::new((*id).into(), min.parse().unwrap(), max.parse().unwrap())
        };
        RoutingMap::build(ranges.iter().map(entry)).unwrap()
    }

    fn coverage(planned: &[QueryRange], window: EffectivePartitionKeyRange) -> Coverage {
        let definition = PartitionKeyDefinition::new(["/pk"]).unwrap();
        Coverage::of(planned, window, &definition).unwrap()
    }

    fn everything() -> QueryRange {
        QueryRange::from(EffectivePartitionKeyRange::FULL)
    }

    fn asked(
        coverage: &Coverage,
        part: &EffectivePartitionKeyRange,
        map: &RoutingMap,
    ) -> Vec<String> {
        let text = |(_, target): (_, Target)| match target {
            Target::Range { id, window: None } => id.to_string(),
            Target::Range { id, window: Some(window) } => format!("{id}{window}"),
            Target::Key(key) => key.to_header(),
        };
        coverage.targets_within(part, map).into_iter().map(text).collect()
    }

    #[test]
    fn a_split_is_asked_child_by_child_and_a_merge_for_the_old_part() {
        let whole = coverage(&[everything()], EffectivePartitionKeyRange::FULL);
        let halves = map(&[(1, "", "1F"), (2, "1F", "FF")]);
        assert_eq!(asked(&whole, &EffectivePartitionKeyRange::FULL, &halves), ["1", "2"]);
        let split = map(&[(3, "", "0F"), (4, "0F", "1F"), (2, "1F", "FF")]);
        assert_eq!(asked(&whole, &range("", "1F"), &split), ["3", "4"]);
        let merged = map(&[(5, "", "FF")]);
        assert_eq!(asked(&whole, &range("", "1F"), &merged), ["5[,1F)"]);
        assert_eq!(asked(&whole, &range("1F", "FF"), &merged), ["5[1F,FF)"]);
    }

    #[test]
    fn a_window_narrows_the_ranges_at_its_ends() {
        let half = coverage(&[everything()], range("10", "30"));
        let halves = map(&[(1, "", "1F"), (2, "1F", "FF")]);
        let targets = half.targets(&halves);
        assert_eq!(targets[0].0, range("10", "1F"));
        assert_eq!(asked(&half, &range("10", "30"), &halves), ["1[10,1F)", "2[1F,30)"]);
    }

    #[test]
    fn a_point_asks_the_whole_range_that_it_is_in() {
        let point = QueryRange::from("20".parse::<EffectivePartitionKey>().unwrap());
        let one = coverage(&[point], EffectivePartitionKeyRange::FULL);
        let halves = map(&[(1, "", "1F"), (2, "1F", "FF")]);
        assert_eq!(asked(&one, &EffectivePartitionKeyRange::FULL, &halves), ["2"]);
    }

    #[test]
    fn what_reads_no_items_asks_one_range_also_after_a_split() {
        let anywhere = QueryRange::from(EffectivePartitionKey::MIN);
        let one = coverage(&[anywhere], range("1F", "FF"));
        let split = map(&[(1, "", "1F"), (2, "1F", "2F"), (3, "2F", "FF")]);
        assert_eq!(asked(&one, &range("1F", "FF"), &split), ["2"]);
    }
}

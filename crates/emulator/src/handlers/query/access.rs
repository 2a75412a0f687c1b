//! Access path selection: how the items that a query may want are reached.
//!
//! By index where that leaves few candidates, by the slice's own keys where those are fewer, and otherwise by
//! scanning. An ORDER BY takes the order of an index, unless so few candidates are left that sorting them is
//! less work. The choice changes what a query costs and never what it returns: filter and slice are checked on
//! every item.

use sidereal_query::IndexCondition;

use super::execution::Execution;
use super::index_building;
use super::order_by::SortOrder;
use crate::handlers::target::Slice;
use crate::request::ClassifiedRequest;
use crate::store::{IndexDefinition, PathIndex, Position, Replica};

/// A partition, or a part of one, of so few items is read whole: no index is worth its memory.
const FEW_ITEMS: usize = 128;
/// So many items of a partition key are read whole too. Keys that a query names usually have few, and an index
/// would be one of the whole partition.
const FEW_OF_A_KEY: usize = 1000;
/// So many candidates are always worth looking up.
const FEW_CANDIDATES: usize = 64;
/// Beyond the few, an index has to leave out all but one of so many items. Reading by ordinal costs a lookup
/// each, and every page looks the candidates up again.
const NARROWING: usize = 4;
/// Indexes that one query has built; a filter of more paths is scanned until others have been asked for.
const MAX_BUILDS: usize = 8;
/// So many candidates are always sorted rather than found in the order of an index.
const SORTED_AT_ONCE: usize = 200;
/// Rows of a page, where the client names no number: every page sorts its candidates again.
const PAGE_ROWS: usize = 100;

/// How the items of a slice are reached.
#[derive(Debug)]
pub(super) enum Access {
    /// All of the partition, in the order of ordinals.
    Scan,
    /// These, in the order of ordinals.
    Listed(Vec<u64>),
    /// These, or all of the slice, sorted by the query's order.
    Sorted(Option<Vec<u64>>),
    /// All of the partition, in the order of an index.
    Ordered,
}

/// An access path, and the index lookups that it takes, for the charge.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) access: Access,
    pub(super) lookups: usize,
}

/// Chooses how to reach the items of a slice from `position` on.
pub(super) fn choose(
    request: &ClassifiedRequest,
    slice: &Slice,
    execution: &Execution,
    position: Position,
) -> Chosen {
    let items = request.view(&slice.partition).len();
    let most = FEW_CANDIDATES.max(items / NARROWING);
    let in_window = slice.window().map(|window| {
        request.view(&slice.partition).count_within(window, most.max(FEW_OF_A_KEY) + 1)
    });
    let reads_whole =
        items <= FEW_ITEMS || in_window.is_some_and(|of_window| of_window <= FEW_OF_A_KEY);
    let condition = execution.condition.as_ref().filter(|_| !reads_whole);
    let found = condition.and_then(|condition| {
        for path in condition.paths().into_iter().take(MAX_BUILDS) {
            let definition = IndexDefinition::of_path(path);
            index_building::ensure(request, &slice.partition, &definition);
        }
        // An index that leaves more candidates than the key does is not worth asking.
        let most = in_window.map_or(most, |of_window| of_window.min(most));
        candidates(&request.view(&slice.partition), condition, most)
    });
    let lookups = found.as_ref().and(condition).map_or(0, lookups_of);
    let listed = found.or_else(|| {
        let window = slice.window().filter(|_| reads_whole)?;
        Some(request.view(&slice.partition).ordinals_within(window, Position::Start))
    });
    let access = match &execution.order {
        None => in_order(request, slice, listed, position),
        Some(_) if reads_whole => Access::Sorted(listed),
        Some(order) => sorted(request, slice, order, listed),
    };
    Chosen { access, lookups }
}

fn in_order(
    request: &ClassifiedRequest,
    slice: &Slice,
    listed: Option<Vec<u64>>,
    position: Position,
) -> Access {
    let from = |ordinals: Vec<u64>| {
        let begin = match position {
            Position::Start => 0,
            Position::After(last) => ordinals.partition_point(|ordinal| *ordinal <= last),
            Position::At(last) => ordinals.partition_point(|ordinal| *ordinal < last),
        };
        Access::Listed(ordinals[begin..].to_vec())
    };
    match (listed, slice.window()) {
        (Some(ordinals), _) => from(ordinals),
        (None, None) => Access::Scan,
        (None, Some(window)) => {
            Access::Listed(request.view(&slice.partition).ordinals_within(window, position))
        }
    }
}

fn sorted(
    request: &ClassifiedRequest,
    slice: &Slice,
    order: &SortOrder,
    listed: Option<Vec<u64>>,
) -> Access {
    let items = request.view(&slice.partition).len();
    if let Some(ordinals) = listed.filter(|ordinals| sorts(ordinals.len(), items)) {
        return Access::Sorted(Some(ordinals));
    }
    index_building::ensure(request, &slice.partition, order.index());
    let replica = request.view(&slice.partition);
    match replica.indexes().get(order.index()).is_some_and(PathIndex::is_complete) {
        true => Access::Ordered,
        false => Access::Sorted(None),
    }
}

/// Whether candidates are sorted rather than met on a walk through an index of all items.
///
/// To the last page the walk reads every item once, wherever in the order the candidates are. Sorting reads the candidates
/// once for each page.
fn sorts(candidates: usize, items: usize) -> bool {
    let pages = candidates.div_ceil(PAGE_ROWS);
    candidates <= SORTED_AT_ONCE || candidates.saturating_mul(pages) <= items
}

/// The ordinals of the items that may satisfy a condition, each once and in order; none if the indexes cannot
/// tell, or there are more than `most`.
fn candidates(replica: &Replica, condition: &IndexCondition, most: usize) -> Option<Vec<u64>> {
    let mut ordinals = Vec::new();
    collect(replica, condition, most, &mut ordinals)?;
    ordinals.sort_unstable();
    ordinals.dedup();
    Some(ordinals)
}

fn collect(
    replica: &Replica,
    condition: &IndexCondition,
    most: usize,
    ordinals: &mut Vec<u64>,
) -> Option<()> {
    match condition {
        IndexCondition::Path { path, ranges } => {
            let index = replica.indexes().get(&IndexDefinition::of_path(path))?;
            let room = most.saturating_sub(ordinals.len());
            let before = ordinals.len();
            ordinals.extend(index.candidates(ranges).take(room + 1));
            (ordinals.len() - before <= room).then_some(())
        }
        IndexCondition::Any(conditions) => {
            conditions.iter().try_for_each(|one| collect(replica, one, most, ordinals))
        }
        IndexCondition::All(conditions) => {
            // The most selective one: the others would leave out no more than the filter does.
            let counted =
                conditions.iter().filter_map(|one| Some((count(replica, one, most)?, one)));
            let (_, fewest) = counted.min_by_key(|(count, _)| *count)?;
            collect(replica, fewest, most, ordinals)
        }
    }
}

/// How many candidates a condition has, counted up to one more than `most`; none if the indexes cannot tell.
fn count(replica: &Replica, condition: &IndexCondition, most: usize) -> Option<usize> {
    match condition {
        IndexCondition::Path { path, ranges } => {
            let index = replica.indexes().get(&IndexDefinition::of_path(path))?;
            Some(index.candidates(ranges).take(most + 1).count())
        }
        IndexCondition::Any(conditions) => {
            conditions.iter().map(|one| count(replica, one, most)).sum()
        }
        IndexCondition::All(conditions) => {
            conditions.iter().filter_map(|one| count(replica, one, most)).min()
        }
    }
}

/// The ranges that a condition asks indexes for.
fn lookups_of(condition: &IndexCondition) -> usize {
    match condition {
        IndexCondition::Path { ranges, .. } => ranges.len(),
        IndexCondition::Any(conditions) => conditions.iter().map(lookups_of).sum(),
        IndexCondition::All(conditions) => conditions.iter().map(lookups_of).min().unwrap_or(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_sorted_where_a_walk_through_all_items_reads_more() {
        assert!(sorts(200, 201), "few are always sorted");
        assert!(sorts(300, 900) && !sorts(300, 899));
        assert!(sorts(1_500, 36_000), "a queue in a container of many other items");
        assert!(!sorts(9_000, 36_000));
        assert!(!sorts(usize::MAX, 36_000), "no overflow");
    }
}

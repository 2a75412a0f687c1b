//! Building an index when a query first asks for it.
//!
//! The items are taken in chunks under the partition's read lock and indexed without it; what is written
//! meanwhile is noted and taken in at the end. A writer waits for a chunk, or for the notes, and not for the
//! build. A build ends with the request that it is for, if that is cancelled; the time of a page does not end it,
//! because the next page would begin it again, and an index that takes longer would never be there.

use std::sync::Arc;

use crate::interruption::Interruption;
use crate::request::ClassifiedRequest;
use crate::store::{IndexDefinition, Item, Partition, PathIndex, Position};

/// Items taken under the lock at once.
const CHUNK: usize = 1024;

/// Builds an index unless it is there, is being built, or there is no room for it. The caller that needs it looks after
/// this whether it is there.
pub(super) fn ensure(
    request: &ClassifiedRequest,
    partition: &Partition,
    definition: &IndexDefinition,
) {
    let is_cancelled = || request.interruption.as_ref().is_some_and(Interruption::is_cancelled);
    if request.view(partition).indexes().get(definition).is_some() || is_cancelled() {
        return;
    }
    let begun = partition.write().replica_mut(request.region).indexes_mut().begin(definition);
    if !begun {
        return;
    }
    let mut build = Build { partition, region: request.region, definition, built: None };
    let chunk =
        |position| request.view(partition).in_order(position).take(CHUNK).cloned().collect();
    build.built =
        all_items(chunk, is_cancelled).and_then(|items| index_of(definition, &items, is_cancelled));
}

/// The items in their order, chunk by chunk; none if the request is cancelled meanwhile.
fn all_items(
    chunk: impl Fn(Position) -> Vec<Arc<Item>>,
    is_cancelled: impl Fn() -> bool,
) -> Option<Vec<Arc<Item>>> {
    let mut items: Vec<Arc<Item>> = Vec::new();
    while !is_cancelled() {
        let position = items.last().map_or(Position::Start, |last| Position::After(last.ordinal));
        let next = chunk(position);
        let is_last = next.len() < CHUNK;
        items.extend(next);
        if is_last {
            return Some(items);
        }
    }
    None
}

/// The index of these items; none if the request is cancelled meanwhile.
fn index_of(
    definition: &IndexDefinition,
    items: &[Arc<Item>],
    is_cancelled: impl Fn() -> bool,
) -> Option<PathIndex> {
    // Before each: an item may have two megabytes to parse.
    let items = items.iter().map(|item| &**item).take_while(|_| !is_cancelled());
    let index = PathIndex::of_items(definition.clone(), items);
    // What was cancelled stays so.
    (!is_cancelled()).then_some(index)
}

/// A build that has begun; dropping it ends it, with an index or, if it failed, without.
struct Build<'a> {
    partition: &'a Partition,
    region: usize,
    definition: &'a IndexDefinition,
    built: Option<PathIndex>,
}

impl Drop for Build<'_> {
    fn drop(&mut self) {
        let mut state = self.partition.write();
        let indexes = state.replica_mut(self.region).indexes_mut();
        indexes.finish(self.definition, self.built.take());
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use sidereal_protocol::{EffectivePartitionKey, Etag};

    use super::*;

    fn item(ordinal: u64) -> Arc<Item> {
        let key = r#"["a"]"#.parse().unwrap();
        let effective_key = EffectivePartitionKey::from_bytes(&[1]);
        let etag = Etag::new("\"1\"").unwrap();
        let text = format!(r#"{{"n":{ordinal}}}"#);
        Item::stored("id".into(), key, effective_key, ordinal, 1, etag, (0, None), 1, &text).into()
    }

    /// Cancelled once it was asked so often.
    fn cancelled_after(times: usize) -> impl Fn() -> bool {
        let asked = Cell::new(0);
        move || asked.replace(asked.get() + 1) >= times
    }

    fn chunk(position: Position) -> Vec<Arc<Item>> {
        let from = match position {
            Position::Start => 0,
            Position::After(last) => last + 1,
            Position::At(at) => at,
        };
        (from..2500).take(CHUNK).map(item).collect()
    }

    #[test]
    fn a_build_reads_every_item_in_chunks_until_it_is_cancelled() {
        assert_eq!(all_items(chunk, || false).map(|items| items.len()), Some(2500));
        for times in 0..3 {
            assert!(all_items(chunk, cancelled_after(times)).is_none(), "cancelled after {times}");
        }
    }

    #[test]
    fn a_build_that_is_cancelled_leaves_no_part_of_an_index() {
        let definition = IndexDefinition::Elements(vec!["n".to_owned()]);
        let items: Vec<Arc<Item>> = (0..5).map(item).collect();
        assert!(index_of(&definition, &items, || false).is_some());
        for times in 0..=items.len() {
            let built = index_of(&definition, &items, cancelled_after(times));
            assert!(built.is_none(), "cancelled after {times}");
        }
    }
}

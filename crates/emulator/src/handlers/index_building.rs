//! Building an index when a query first asks for it.
//!
//! The items are taken in chunks under the partition's read lock and indexed without it; what is written
//! meanwhile is noted and taken in at the end. A writer waits for a chunk, or for the notes, and not for the
//! build.

use std::sync::Arc;

use sidereal_query::Signal;

use crate::request::ClassifiedRequest;
use crate::store::{IndexDefinition, Item, Partition, PathIndex, Position};

/// Items taken under the lock at once.
const CHUNK: usize = 1024;

/// Builds an index unless it is there, is being built, or there is no room for it. Whoever needs it looks after
/// this whether it is there.
pub(super) fn ensure(
    request: &ClassifiedRequest,
    partition: &Partition,
    definition: &IndexDefinition,
) {
    if request.view(partition).indexes().get(definition).is_some() || is_cancelled(request) {
        return;
    }
    let begun = partition.write().replica_mut(request.region).indexes_mut().begin(definition);
    if !begun {
        return;
    }
    let mut build = Build { partition, region: request.region, definition, built: None };
    let items = all_items(request, partition);
    let items = items.iter().map(|item| &**item);
    build.built = Some(PathIndex::of_items(definition.clone(), items));
}

fn is_cancelled(request: &ClassifiedRequest) -> bool {
    request.interruption.as_ref().is_some_and(|it| it.signal() == Signal::Cancel)
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

fn all_items(request: &ClassifiedRequest, partition: &Partition) -> Vec<Arc<Item>> {
    let mut items: Vec<Arc<Item>> = Vec::new();
    loop {
        let position = items.last().map_or(Position::Start, |last| Position::After(last.ordinal));
        let before = items.len();
        // The guard of the lock is released with each chunk.
        items.extend(request.view(partition).in_order(position).take(CHUNK).cloned());
        if items.len() - before < CHUNK {
            return items;
        }
    }
}

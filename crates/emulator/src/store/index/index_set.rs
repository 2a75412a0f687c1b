//! The indexes of one replica, and those that are being built.
//!
//! A build reads the items in chunks, without a lock in between, and what is written meanwhile is noted here and
//! applied when it is finished. Writers wait for none of it but the end, which is as long as the notes.

use std::sync::Arc;

use super::{IndexDefinition, PathIndex};
use crate::store::Item;

/// Indexes of one replica; the paths that are asked for later are scanned.
const MAX_INDEXES: usize = 64;
/// Changes that a build may take in at its end. With more it is given up, for writers wait for it, and begun
/// again by the next query.
const MAX_NOTES: usize = 10_000;

/// The indexes of one replica.
#[derive(Debug, Default)]
pub(crate) struct IndexSet {
    built: Vec<PathIndex>,
    building: Vec<Building>,
}

/// An index that is being built.
#[derive(Debug)]
struct Building {
    definition: IndexDefinition,
    notes: Vec<Note>,
}

/// A change since the build began.
#[derive(Debug)]
enum Note {
    Inserted(Arc<Item>),
    Removed(Arc<Item>),
}

/// A copy has no builds: they are for the original, whose notes they get.
impl Clone for IndexSet {
    fn clone(&self) -> Self {
        Self { built: self.built.clone(), building: Vec::new() }
    }
}

impl IndexSet {
    pub(crate) fn get(&self, definition: &IndexDefinition) -> Option<&PathIndex> {
        self.built.iter().find(|index| index.definition() == definition)
    }

    /// Whether a build of this index may begin: there is none, nobody builds it, and there is room.
    pub(crate) fn begin(&mut self, definition: &IndexDefinition) -> bool {
        let is_building = self.building.iter().any(|building| building.definition == *definition);
        let has_room = self.built.len() + self.building.len() < MAX_INDEXES;
        let begins = self.get(definition).is_none() && !is_building && has_room;
        if begins {
            self.building.push(Building { definition: definition.clone(), notes: Vec::new() });
        }
        begins
    }

    /// Ends a build with what it made, or with nothing.
    pub(crate) fn finish(&mut self, definition: &IndexDefinition, built: Option<PathIndex>) {
        let mut building = self.building.iter();
        // A copy of the replica, or one that was reset, does not know the build.
        let Some(at) = building.position(|building| building.definition == *definition) else {
            return;
        };
        let notes = self.building.swap_remove(at).notes;
        let Some(mut index) = built.filter(|_| notes.len() <= MAX_NOTES) else { return };
        // Idempotent: the build may have read an item before or after the change that is noted of it.
        for note in notes {
            match note {
                Note::Inserted(item) => index.insert(&item),
                Note::Removed(item) => index.remove(&item),
            }
        }
        self.built.push(index);
    }

    pub(crate) fn insert(&mut self, item: &Arc<Item>) {
        self.built.iter_mut().for_each(|index| index.insert(item));
        self.note(|| Note::Inserted(Arc::clone(item)));
    }

    pub(crate) fn remove(&mut self, item: &Arc<Item>) {
        self.built.iter_mut().for_each(|index| index.remove(item));
        self.note(|| Note::Removed(Arc::clone(item)));
    }

    fn note(&mut self, note: impl Fn() -> Note) {
        for building in &mut self.building {
            // One more than are taken in, so that the end of the build knows.
            if building.notes.len() <= MAX_NOTES {
                building.notes.push(note());
            }
        }
    }
}

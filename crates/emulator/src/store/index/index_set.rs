//! The indexes of one replica, and those that are being built.
//!
//! A build reads the items in chunks, without a lock in between, and what is written meanwhile is noted here and
//! applied when it is finished. Writers wait for none of it but the end, which is as long as the notes.

use std::sync::Arc;

use super::{IndexDefinition, PathIndex};
use crate::store::Item;

/// Indexes of one replica; the paths that are asked for later are scanned. At some 50 bytes an entry they take a
/// few times the memory of small items, and no more.
const MAX_INDEXES: usize = 32;
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

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;
    use serde_json::{Value, json};
    use sidereal_protocol::{EffectivePartitionKey, PartitionKey};
    use sidereal_query::{IndexPath, KeyRange};

    use super::*;
    use crate::store::{ItemDraft, SystemProperties, new_etag};

    fn item(ordinal: u64, value: &Value) -> Arc<Item> {
        let Value::Object(document) = json!({ "id": ordinal.to_string(), "a": value }) else {
            unreachable!("an object literal")
        };
        let draft = ItemDraft {
            id: ordinal.to_string().into(),
            key: PartitionKey::from("p"),
            effective_key: EffectivePartitionKey::MIN,
            document,
        };
        let system = SystemProperties {
            rid: String::new(),
            link: String::new(),
            etag: new_etag(ordinal, 0),
            written_at: 0,
        };
        Arc::new(draft.into_item(ordinal, 1, 0, None, system))
    }

    fn definition() -> IndexDefinition {
        IndexDefinition::of_path(&IndexPath { segments: vec!["a".to_owned()], elements: false })
    }

    fn entries(index: &PathIndex) -> Vec<(Vec<u8>, u64)> {
        let all = index.from(&std::ops::Bound::Unbounded, false);
        all.map(|(key, ordinal)| (key.to_vec(), *ordinal)).collect()
    }

    proptest! {
        /// Items that the build reads before, between and after the changes that are noted of them.
        #[test]
        fn a_build_beside_writes_is_a_build_of_what_was_written(
            changes in vec((0..6_u64, proptest::option::of(0..4_u8), any::<bool>()), 0..30),
        ) {
            let mut set = IndexSet::default();
            let mut current: Vec<Arc<Item>> = (0..6).map(|n| item(n, &json!(n))).collect();
            let mut present = [true; 6];
            prop_assert!(set.begin(&definition()));
            prop_assert!(!set.begin(&definition()), "one build at a time");
            let mut read: Vec<Option<Arc<Item>>> = vec![None; 6];
            for (ordinal, value, reads) in changes {
                let at = ordinal as usize;
                if reads && read[at].is_none() && present[at] {
                    read[at] = Some(current[at].clone());
                }
                if std::mem::replace(&mut present[at], value.is_some()) {
                    set.remove(&current[at]);
                }
                if let Some(value) = value {
                    current[at] = item(ordinal, &json!(value));
                    set.insert(&current[at]);
                }
            }
            for at in 0..6 {
                if read[at].is_none() && present[at] {
                    read[at] = Some(current[at].clone());
                }
            }
            let built = PathIndex::of_items(definition(), read.iter().flatten().map(|item| &**item));
            set.finish(&definition(), Some(built));
            let left = current.iter().zip(present).filter(|(_, present)| *present);
            let fresh = PathIndex::of_items(definition(), left.map(|(item, _)| &**item));
            prop_assert_eq!(entries(set.get(&definition()).unwrap()), entries(&fresh));
        }
    }

    #[test]
    fn a_build_that_is_given_up_leaves_nothing_and_can_begin_again() {
        let mut set = IndexSet::default();
        assert!(set.begin(&definition()));
        set.finish(&definition(), None);
        assert!(set.get(&definition()).is_none());
        assert!(set.begin(&definition()));
        // More is written than it may take in.
        let item = item(1, &json!(1));
        (0..=MAX_NOTES).for_each(|_| set.insert(&item));
        set.finish(&definition(), Some(PathIndex::of_items(definition(), std::iter::empty())));
        assert!(set.get(&definition()).is_none());
    }

    #[test]
    fn the_number_of_indexes_is_bounded() {
        let mut set = IndexSet::default();
        let of_name = |n: usize| IndexDefinition::Elements(vec![n.to_string()]);
        for n in 0..MAX_INDEXES {
            assert!(set.begin(&of_name(n)));
            set.finish(&of_name(n), Some(PathIndex::of_items(of_name(n), std::iter::empty())));
        }
        assert!(!set.begin(&of_name(MAX_INDEXES)));
    }

    #[test]
    fn items_with_oversized_keys_are_candidates_of_every_lookup() {
        let long = json!("x".repeat(5000));
        let mut index = PathIndex::of_items(definition(), [&*item(1, &json!(1))].into_iter());
        assert!(index.is_complete());
        index.insert(&item(2, &long));
        assert!(!index.is_complete());
        let nothing =
            [KeyRange { from: std::ops::Bound::Included(vec![9]), to: std::ops::Bound::Unbounded }];
        assert_eq!(index.candidates(&nothing).collect::<Vec<_>>(), [2]);
        index.remove(&item(2, &long));
        assert!(index.is_complete());
    }
}

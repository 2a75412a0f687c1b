//! The keys of an instance after a turn.

use std::collections::BTreeMap;

use duroxide::EventKind;

use super::turn::Turn;
use crate::documents::{KeyValueChange, KeyValueDocument, StagedChange};
use crate::write::Write;

/// The keys after a turn.
#[derive(Debug)]
pub(super) struct KeyValues {
    /// Those that the turn changed: after it, and before it if there was a document.
    changed: Vec<(KeyValueDocument, Option<KeyValueDocument>)>,
    /// All of them.
    pub(super) all: Vec<KeyValueDocument>,
}

/// The keys after a turn: what its events set and cleared; at the end of an execution, what the next starts with.
pub(super) fn after(turn: &Turn<'_>) -> KeyValues {
    let before: BTreeMap<&str, &KeyValueDocument> =
        turn.key_values.iter().map(|document| (document.key.as_str(), document)).collect();
    let mut documents: BTreeMap<String, KeyValueDocument> =
        before.iter().map(|(key, document)| ((*key).to_owned(), (*document).clone())).collect();
    let instance = &turn.instance.instance_id;
    let cleared = || Some(KeyValueChange { value: None, last_updated_at: turn.now.unsigned_abs() });
    for event in turn.history {
        match &event.kind {
            EventKind::KeyValueSet { key, value, last_updated_at_ms } => {
                let (value, last_updated_at) = (Some(value.clone()), *last_updated_at_ms);
                entry(&mut documents, instance, key).delta =
                    Some(KeyValueChange { value, last_updated_at });
            }
            EventKind::KeyValueCleared { key } => {
                entry(&mut documents, instance, key).delta = cleared();
            }
            EventKind::KeyValuesCleared => {
                documents.values_mut().for_each(|document| document.delta = cleared());
            }
            _ => {}
        }
    }
    if is_terminal(turn) {
        documents.values_mut().for_each(KeyValueDocument::merge);
    }
    let is_changed = |document: &KeyValueDocument| {
        before.get(document.key.as_str()).is_none_or(|before| *before != document)
    };
    let all = documents.values().filter(|document| !document.is_empty()).cloned().collect();
    let changed = documents.into_values().filter(is_changed).map(|document| {
        let before = before.get(document.key.as_str()).map(|before| (*before).clone());
        (document, before)
    });
    KeyValues { changed: changed.collect(), all }
}

fn entry<'a>(
    documents: &'a mut BTreeMap<String, KeyValueDocument>,
    instance: &str,
    key: &str,
) -> &'a mut KeyValueDocument {
    let new = || KeyValueDocument::new(instance, key);
    documents.entry(key.to_owned()).or_insert_with(new)
}

/// Whether the turn ends its execution.
fn is_terminal(turn: &Turn<'_>) -> bool {
    let status = turn.metadata.status.as_deref();
    matches!(status, Some("Completed" | "Failed" | "ContinuedAsNew"))
}

impl KeyValues {
    /// The changes, made at once.
    pub(super) fn writes(&self) -> Vec<Write> {
        let write = |(document, before): &(KeyValueDocument, Option<KeyValueDocument>)| match (
            document.is_empty(),
            before,
        ) {
            (true, Some(_)) => Some(Write::delete(&document.id, None)),
            (true, None) => None,
            (false, _) => Some(Write::upsert(&document.id, document)),
        };
        self.changed.iter().filter_map(write).collect()
    }

    /// The changes, beside what is committed: they count once the turn is.
    pub(super) fn staged(&self, turn: u64) -> Vec<Write> {
        let write = |(after, before): &(KeyValueDocument, Option<KeyValueDocument>)| {
            if after.is_empty() && before.is_none() {
                return None;
            }
            let (stored, delta) = (after.stored.clone(), after.delta.clone());
            // What was there stays for those who read before the commit.
            let new = || KeyValueDocument::new(&after.instance_id, &after.key);
            let mut document = before.clone().unwrap_or_else(new);
            document.staged = Some(StagedChange { turn, stored, delta });
            Some(Write::upsert(&document.id, &document))
        };
        self.changed.iter().filter_map(write).collect()
    }
}

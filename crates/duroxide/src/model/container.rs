//! A container as a small value: batches of real `Write`s are applied to it as the service applies them.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::write::{Change, Write};

/// Documents by partition and id, each with how often it was written: its etag, which never comes back.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Container {
    documents: BTreeMap<(String, String), Document>,
    versions: BTreeMap<(String, String), u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Document {
    text: String,
    version: u64,
}

/// A rule of the protocol that is left out, to see that its absence is noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mutation {
    #[default]
    None,
    /// Conditions on etags hold always.
    NoIfMatch,
    /// Seeded bug: consumed documents are deleted and leave no tombstone.
    NoTombstone,
}

impl Container {
    /// Applies a batch, all or nothing. Says whether it did.
    pub(super) fn apply(&mut self, partition: &str, writes: &[Write], mutation: Mutation) -> bool {
        // The changes of a batch are about different documents.
        let mut changed = Vec::with_capacity(writes.len());
        for write in writes {
            let key = (partition.to_owned(), write.id.clone());
            match self.changed(&key, write, mutation) {
                Some(text) => changed.push((key, text)),
                None => return false,
            }
        }
        for (key, text) in changed {
            let version = self.versions.entry(key.clone()).or_default();
            *version += 1;
            match text {
                Some(text) => {
                    self.documents.insert(key, Document { text, version: *version });
                }
                None => {
                    self.documents.remove(&key);
                }
            }
        }
        true
    }

    /// Applies a change to a document: the new document, nothing if it is removed, or `None` if the change is refused.
    fn changed(
        &self,
        key: &(String, String),
        write: &Write,
        mutation: Mutation,
    ) -> Option<Option<String>> {
        let there = self.documents.get(key);
        let holds = |if_match: &Option<sidereal_protocol::Etag>| {
            let is_same = |etag: &sidereal_protocol::Etag| {
                there.is_some_and(|there| etag.as_str() == there.version.to_string())
            };
            there.is_some()
                && (mutation == Mutation::NoIfMatch || if_match.as_ref().is_none_or(is_same))
        };
        match &write.change {
            Change::Create(_) if there.is_some() => None,
            Change::Create(text) => Some(Some(text.clone())),
            Change::Upsert(text) if mutation == Mutation::NoTombstone && is_tombstone(text) => {
                Some(None)
            }
            Change::Upsert(text) => Some(Some(text.clone())),
            Change::Replace { if_match, .. }
            | Change::Lock { if_match, .. }
            | Change::Postpone { if_match, .. }
            | Change::Delete { if_match }
                if !holds(if_match) =>
            {
                None
            }
            Change::Replace { document, .. } => Some(Some(document.clone())),
            Change::Delete { .. } => Some(None),
            Change::Postpone { until, .. } => {
                let mut value = there.map_or(Value::Null, |there| parse(&there.text));
                value["retryAt"] = json!(until);
                Some(Some(value.to_string()))
            }
            Change::Lock { token, until, attempts, visible_at, .. } => {
                let mut value = there.map_or(Value::Null, |there| parse(&there.text));
                value["lockToken"] = json!(token);
                value["lockedUntil"] = json!(until);
                let count = value["attemptCount"].as_i64().unwrap_or_default();
                value["attemptCount"] = json!(count + i64::from(*attempts));
                if let Some(visible_at) = visible_at {
                    value["visibleAt"] = json!(visible_at);
                }
                Some(Some(value.to_string()))
            }
        }
    }

    /// The documents of a kind, of one partition.
    pub(super) fn of_kind<T: DeserializeOwned>(&self, partition: &str, kind: &str) -> Vec<T> {
        let (mut found, quoted) = (Vec::new(), format!("\"{kind}\""));
        for ((its_partition, _), document) in &self.documents {
            // Most documents are others, and reading them takes the time of the exploration.
            if its_partition != partition || !document.text.contains(&quoted) {
                continue;
            }
            let mut value = parse(&document.text);
            if value["type"] == kind {
                value["_etag"] = json!(document.version.to_string());
                found.push(serde_json::from_value(value).expect("a document of the kind"));
            }
        }
        found
    }

    /// Every document of a partition as a deletion sees it.
    pub(super) fn all<T: DeserializeOwned>(&self, partition: &str) -> Vec<T> {
        let of_partition = self.documents.iter().filter(|((it, _), _)| it == partition);
        of_partition
            .map(|(_, document)| serde_json::from_str(&document.text).expect("a document"))
            .collect()
    }
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("what was written as JSON is JSON")
}

fn is_tombstone(text: &str) -> bool {
    parse(text)["type"] == crate::documents::kinds::TOMBSTONE
}

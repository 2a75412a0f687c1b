//! One change of one document, as a value: plans are lists of them, and a batch sends a list.

use serde::Serialize;
use sidereal_protocol::Etag;

use crate::documents::{InstanceDocument, TombstoneDocument};
use crate::ids;

/// The most changes of one batch.
// A documented limit of the service.
pub(crate) const MAX_BATCH_WRITES: usize = 100;

/// The most bytes of the documents of one batch: below the service's 2 MB by what the batch puts around them.
pub(crate) const MAX_BATCH_BYTES: usize = 1_700_000;

/// The bytes that a change adds around its document in the body of a batch.
const OVERHEAD_BYTES: usize = 200;

/// A change of one document of a partition.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Write {
    pub(crate) id: String,
    pub(crate) change: Change,
}

/// A kind of change.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Change {
    /// There must be none of its id.
    Create(String),
    /// Whether there is one or not.
    Upsert(String),
    /// There must be one, of this version if one is named.
    Replace {
        /// The document, as JSON.
        document: String,
        /// The version.
        if_match: Option<Etag>,
    },
    /// The lock of a message: who holds it, until when, and how often it was tried.
    Lock {
        /// The token; none releases.
        token: Option<String>,
        /// Until when.
        until: Option<i64>,
        /// The process that holds it.
        owner: Option<String>,
        /// By how much the attempts change.
        attempts: i32,
        /// When it becomes visible; unchanged if none.
        visible_at: Option<i64>,
        /// The version.
        if_match: Option<Etag>,
    },
    /// Polls do not find the message before a time. It must be of this version.
    Postpone {
        /// The time.
        until: i64,
        /// The version.
        if_match: Option<Etag>,
    },
    /// There must be one, of this version if one is named.
    Delete {
        /// The version.
        if_match: Option<Etag>,
    },
}

impl Write {
    /// Creates a document.
    pub(crate) fn create(id: &str, document: &impl Serialize) -> Self {
        Self { id: id.to_owned(), change: Change::Create(json(document)) }
    }

    /// Creates or replaces a document.
    pub(crate) fn upsert(id: &str, document: &impl Serialize) -> Self {
        Self { id: id.to_owned(), change: Change::Upsert(json(document)) }
    }

    /// Replaces a document.
    pub(crate) fn replace(id: &str, document: &impl Serialize, if_match: Option<Etag>) -> Self {
        Self { id: id.to_owned(), change: Change::Replace { document: json(document), if_match } }
    }

    /// Replaces an instance, conditional on its etag: the first change of a batch that the instance fences.
    pub(crate) fn replace_instance(instance: &InstanceDocument) -> Self {
        Self::replace(&instance.id, instance, instance.etag.clone())
    }

    /// Deletes a document.
    pub(crate) fn delete(id: &str, if_match: Option<Etag>) -> Self {
        Self { id: id.to_owned(), change: Change::Delete { if_match } }
    }

    /// Replaces a document by its tombstone, whether there is one or not.
    pub(crate) fn bury(instance: &str, id: &str) -> Self {
        Self::upsert(id, &TombstoneDocument::of(instance, id))
    }

    /// Replaces a part of a payload by a tombstone, whether there is one or not.
    pub(crate) fn bury_part(instance: &str, owner: &str, number: usize) -> Self {
        Self::bury(instance, &ids::payload_part(owner, number))
    }

    /// How many bytes it adds to a batch.
    pub(crate) fn bytes(&self) -> usize {
        let document = match &self.change {
            Change::Create(document) | Change::Upsert(document) => document.len(),
            Change::Replace { document, .. } => document.len(),
            Change::Lock { .. } | Change::Postpone { .. } | Change::Delete { .. } => 0,
        };
        document + self.id.len() + OVERHEAD_BYTES
    }
}

/// A document of ours as JSON.
fn json(document: &impl Serialize) -> String {
    serde_json::to_string(document).expect("a document of texts, numbers and lists is JSON")
}

/// Whether a batch of these changes is applied once at most, however often it is sent: one of them asks for a version,
/// which is gone afterwards for good. A document that must not be there may be removed again.
pub(crate) fn asks_for_version(writes: &[Write]) -> bool {
    writes.iter().any(|write| match &write.change {
        Change::Create(_) | Change::Upsert(_) => false,
        Change::Replace { if_match, .. }
        | Change::Lock { if_match, .. }
        | Change::Postpone { if_match, .. }
        | Change::Delete { if_match } => if_match.is_some(),
    })
}

/// Whether a list of changes fits into one batch.
pub(crate) fn fits(writes: &[Write]) -> bool {
    writes.len() <= MAX_BATCH_WRITES
        && writes.iter().map(Write::bytes).sum::<usize>() <= MAX_BATCH_BYTES
}

/// Cuts a list of changes into pieces that each fit into a batch beside something of a size.
pub(crate) fn chunks(writes: Vec<Write>, beside: usize) -> Vec<Vec<Write>> {
    let mut chunks: Vec<Vec<Write>> = Vec::new();
    let mut bytes = usize::MAX;
    for write in writes {
        let is_full = chunks.last().is_none_or(|chunk| chunk.len() + 1 >= MAX_BATCH_WRITES);
        if is_full || bytes + write.bytes() > MAX_BATCH_BYTES {
            chunks.push(Vec::new());
            bytes = beside;
        }
        bytes += write.bytes();
        if let Some(chunk) = chunks.last_mut() {
            chunk.push(write);
        }
    }
    chunks
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of_size(bytes: usize) -> Write {
        Write::create("id", &json!({"id": "id", "text": "x".repeat(bytes)}))
    }

    #[test]
    fn a_batch_is_applied_once_if_it_asks_for_a_version() {
        let document = json!({"id": "id"});
        let (created, upserted) = (Write::create("id", &document), Write::upsert("id", &document));
        let deleted = Write::delete("id", None);
        assert!(!asks_for_version(&[created.clone(), upserted, deleted]));
        assert!(asks_for_version(&[created, Write::delete("id", Some(Etag::new("1").unwrap()))]));
    }

    #[test]
    fn a_batch_has_a_most_of_changes_and_of_bytes() {
        assert!(fits(&vec![of_size(10); 100]));
        assert!(!fits(&vec![of_size(10); 101]));
        assert!(!fits(&[of_size(1_000_000), of_size(1_000_000)]));
    }

    #[test]
    fn chunks_leave_room_for_one_more_and_keep_every_change_in_order() {
        let writes: Vec<Write> = (0..250).map(|n| Write::delete(&n.to_string(), None)).collect();
        let chunks = chunks(writes.clone(), 1_000);
        assert_eq!(chunks.iter().map(Vec::len).collect::<Vec<_>>(), [99, 99, 52]);
        assert_eq!(chunks.concat(), writes);
        let large = super::chunks(vec![of_size(900_000); 3], 100_000);
        assert_eq!(large.iter().map(Vec::len).collect::<Vec<_>>(), [1, 1, 1]);
    }
}

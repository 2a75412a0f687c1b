//! One version of an item: its document as stored, and what the store needs to know of it.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value};
use sidereal_protocol::{EffectivePartitionKey, Etag, PartitionKey};
use sidereal_query::DocumentMembers;

/// The name of an item within a partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ItemName {
    pub(crate) effective_key: EffectivePartitionKey,
    pub(crate) key: PartitionKey,
    pub(crate) id: Arc<str>,
}

/// One version of an item; never changed, only superseded.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) id: Arc<str>,
    pub(crate) key: PartitionKey,
    pub(crate) effective_key: EffectivePartitionKey,
    /// The item's number in its container, in the order of creation; part of its RID and never changed.
    pub(crate) ordinal: u64,
    /// The log entry that wrote this version.
    pub(crate) lsn: u64,
    pub(crate) etag: Etag,
    /// Seconds since the epoch at which this version was written: `_ts`.
    pub(crate) written_at: u64,
    /// Seconds since the epoch at which its own `ttl` ends, `u64::MAX` for never; none if it has no `ttl`. It
    /// counts while the container's setting lets items expire: `Expiry` decides.
    pub(crate) expires_at: Option<u64>,
    /// Indexed terms, for the charge.
    pub(crate) terms: u32,
    /// The document with its system properties, as text: the body of a read, shared and not copied, and what its
    /// size is counted in. It is parsed when it is looked into: parsed values take five times the memory.
    pub(crate) text: Bytes,
}

impl Item {
    /// A version as it was kept on disk.
    #[expect(clippy::too_many_arguments, reason = "one for each field of the record")]
    pub(crate) fn stored(
        id: Arc<str>,
        key: PartitionKey,
        effective_key: EffectivePartitionKey,
        ordinal: u64,
        lsn: u64,
        etag: Etag,
        (written_at, expires_at): (u64, Option<u64>),
        terms: u32,
        text: &str,
    ) -> Self {
        let text = Bytes::copy_from_slice(text.as_bytes());
        Self { id, key, effective_key, ordinal, lsn, etag, written_at, expires_at, terms, text }
    }

    pub(crate) fn name(&self) -> ItemName {
        ItemName {
            effective_key: self.effective_key.clone(),
            key: self.key.clone(),
            id: self.id.clone(),
        }
    }

    pub(crate) fn size(&self) -> usize {
        self.text.len()
    }

    /// Parses the document.
    pub(crate) fn document(&self) -> Value {
        self.members(&DocumentMembers::All)
    }

    /// Parses some members of the document.
    pub(crate) fn members(&self, members: &DocumentMembers) -> Value {
        // The text was printed from a document. If a disk made another one of it, nothing matches it.
        members.parse(&self.text).unwrap_or_default()
    }
}

/// System properties that the store adds to a document.
#[derive(Clone, Debug)]
pub(crate) struct SystemProperties {
    /// `_rid`, as text.
    pub(crate) rid: String,
    /// `_self`.
    pub(crate) link: String,
    pub(crate) etag: Etag,
    pub(crate) written_at: u64,
}

/// A document that is to become an item: without RID, etag and timestamp.
#[derive(Debug)]
pub(crate) struct ItemDraft {
    pub(crate) id: Arc<str>,
    pub(crate) key: PartitionKey,
    pub(crate) effective_key: EffectivePartitionKey,
    pub(crate) document: Map<String, Value>,
}

impl ItemDraft {
    pub(crate) fn name(&self) -> ItemName {
        ItemName {
            effective_key: self.effective_key.clone(),
            key: self.key.clone(),
            id: self.id.clone(),
        }
    }

    /// Completes the document and fixes the version.
    pub(crate) fn into_item(
        self,
        ordinal: u64,
        lsn: u64,
        terms: u32,
        expires_at: Option<u64>,
        system: SystemProperties,
    ) -> Item {
        let Self { id, key, effective_key, mut document } = self;
        let SystemProperties { rid, link, etag, written_at } = system;
        // The map keeps insertion order: removing first puts the system properties at the end, where the
        // service has them.
        for name in SYSTEM_PROPERTIES {
            document.shift_remove(*name);
        }
        document.insert("_rid".to_owned(), rid.into());
        document.insert("_self".to_owned(), link.into());
        document.insert("_etag".to_owned(), etag.as_str().into());
        document.insert("_attachments".to_owned(), "attachments/".into());
        document.insert("_ts".to_owned(), written_at.into());
        // Without spare capacity: it would stay for as long as the item does.
        let text = Value::Object(document).to_string().into_boxed_str();
        let text = Bytes::from(text.into_boxed_bytes());
        Item { id, key, effective_key, ordinal, lsn, etag, written_at, expires_at, terms, text }
    }
}

/// The properties that belong to the store; what a client sends under these names is dropped.
const SYSTEM_PROPERTIES: &[&str] = &["_rid", "_self", "_etag", "_attachments", "_ts"];

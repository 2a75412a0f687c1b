//! One activity that waits.

use std::sync::Arc;

use sidereal_protocol::Etag;

use crate::documents::WorkerDocument;

/// A payload that is larger is read when the activity is claimed.
const MAX_KEPT_PAYLOAD: usize = 64 << 10;

/// The order of activities: the longest waiting first.
pub(super) type Order = (i64, u64, Arc<str>);

/// An activity that waits.
#[derive(Clone, Debug)]
pub(crate) struct ItemHint {
    pub(crate) instance: String,
    pub(crate) id: String,
    pub(crate) enqueued_at: i64,
    pub(crate) seq: u64,
    pub(crate) tag: Option<String>,
    pub(crate) session: Option<String>,
    /// The version that is to be locked; none if it has to be read before.
    pub(crate) etag: Option<Etag>,
    /// The whole, if it is known.
    pub(crate) document: Option<Box<WorkerDocument>>,
}

impl ItemHint {
    /// An activity that this process has written, of the version that the service answered with.
    pub(crate) fn of(document: &WorkerDocument, etag: Option<Etag>) -> Self {
        let is_small = document.work_item.bytes() <= MAX_KEPT_PAYLOAD;
        let whole = || {
            let mut document = document.clone();
            document.etag.clone_from(&etag);
            Box::new(document)
        };
        Self {
            instance: document.instance_id.clone(),
            id: document.id.clone(),
            enqueued_at: document.enqueued_at,
            seq: document.seq,
            tag: document.tag.clone(),
            session: document.session_id.clone(),
            document: (is_small && etag.is_some()).then(whole),
            etag,
        }
    }

    /// The address of the activity, without its document: to be read again.
    pub(crate) fn address(&self) -> Self {
        Self {
            instance: self.instance.clone(),
            id: self.id.clone(),
            enqueued_at: self.enqueued_at,
            seq: self.seq,
            tag: self.tag.clone(),
            session: self.session.clone(),
            etag: None,
            document: None,
        }
    }

    /// Whether both can be claimed by one batch: they are of one instance, and known whole.
    pub(crate) fn is_beside(&self, other: &Self) -> bool {
        self.instance == other.instance && self.document.is_some() && other.document.is_some()
    }

    pub(super) fn order(&self) -> Order {
        (self.enqueued_at, self.seq, Arc::from(self.id.as_str()))
    }

    /// The order, to compare without an allocation.
    pub(super) fn age(&self) -> (i64, u64, &str) {
        (self.enqueued_at, self.seq, &self.id)
    }

    pub(super) fn bytes(&self) -> usize {
        self.document.as_ref().map_or(0, |document| document.work_item.bytes())
    }
}

//! The documents of the container, one struct per type.
//!
//! All documents of an instance are in the partition of its id; sessions and the container's own documents have
//! partitions of their own. `docs/provider-data-model.md` is the description of it for people.

mod instance;
mod key_value;
mod payload;
mod queue;
mod ranges;
mod records;
mod text;
mod unknown;

pub(crate) use instance::{Cleanup, DELETION_LEASE_MS, InstanceDocument, PinnedVersion};
pub(crate) use key_value::{KeyValueChange, KeyValueDocument, StagedChange};
pub(crate) use payload::{PartDocument, Payload};
pub(crate) use queue::{MessageDocument, WorkerDocument};
pub(crate) use records::{
    ExecutionDocument, HistoryDocument, IntentDocument, SessionDocument, TombstoneDocument,
};
pub(crate) use text::compact;
pub(crate) use unknown::Unknown;

/// The value of `type`, by which documents are told apart.
pub(crate) mod kinds {
    pub(crate) const EXECUTION: &str = "execution";
    pub(crate) const HISTORY: &str = "history";
    pub(crate) const INSTANCE: &str = "instance";
    pub(crate) const INTENT: &str = "outbox_intent";
    pub(crate) const LEASES: &str = "leases";
    pub(crate) const KEY_VALUE: &str = "kv";
    pub(crate) const MESSAGE: &str = "orch_queue";
    pub(crate) const PART: &str = "part";
    pub(crate) const SCHEMA: &str = "schema";
    pub(crate) const SESSION: &str = "session";
    pub(crate) const TOMBSTONE: &str = "tombstone";
    pub(crate) const WORKER_ITEM: &str = "worker_queue";
}

/// The status of an intent.
pub(crate) mod delivery {
    pub(crate) const PENDING: &str = "pending";
    /// Not delivered until an operator retries it.
    pub(crate) const UNDELIVERABLE: &str = "undeliverable";
}

/// The time to live of a delivered message's tombstone: longer than its delivery may be repeated.
pub(crate) const TOMBSTONE_SECONDS: u32 = 8 * 24 * 3600;

/// The time to live of any other tombstone. A create whose response was lost is repeated for a minute at most, so this leaves
/// room for processes that are paused and for clocks that are wrong.
pub(crate) const SHORT_TOMBSTONE_SECONDS: u32 = 3600;

//! The instance: what an orchestration is, and who works on it.

use serde::{Deserialize, Serialize};
use sidereal_protocol::Etag;

use super::{Payload, Unknown, kinds};
use crate::ids;
use crate::locks::Lock;

/// One for each instance. Its etag is the fence of every change to the instance's partition.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct InstanceDocument {
    pub(crate) id: String,
    pub(crate) instance_id: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    pub(crate) orchestration_name: Option<String>,
    pub(crate) orchestration_version: Option<String>,
    pub(crate) current_execution_id: u64,
    pub(crate) status: String,
    /// Its parts, if it has any, are the execution's.
    pub(crate) output: Option<Payload>,
    pub(crate) parent_instance_id: Option<String>,
    /// Of the current execution.
    pub(crate) pinned_duroxide_version: Option<PinnedVersion>,
    // The instance is in every batch: what it takes there must not depend on the characters of the status.
    #[serde(default, with = "super::compact")]
    pub(crate) custom_status: Option<String>,
    pub(crate) custom_status_version: u64,
    pub(crate) lock_token: Option<String>,
    /// Milliseconds since 1970.
    pub(crate) locked_until: Option<i64>,
    /// The process that holds the lock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) lock_owner: Option<String>,
    pub(crate) created_at: i64,
    pub(crate) updated_at: i64,

    /// Drawn when the instance is created: what a former instance of the same id left behind is told apart by it.
    pub(crate) incarnation: String,
    /// When the current execution began, and when it ended.
    pub(crate) execution_started_at: i64,
    pub(crate) completed_at: Option<i64>,
    /// How many turns were committed.
    #[serde(default)]
    pub(crate) turn: u64,
    /// How often its history was changed by something else than a turn. What is remembered of it counts for a turn
    /// and a revision.
    #[serde(default)]
    pub(crate) revision: u64,
    /// It was locked, and no turn has named its orchestration yet: only the dispatcher sees it.
    #[serde(default)]
    pub(crate) is_provisional: bool,
    /// How many documents of keys there are, those of cleared keys included.
    #[serde(default)]
    pub(crate) key_values: u32,
    /// The tokens of the last turns that were committed: a commit whose answer was lost is found here.
    #[serde(default)]
    pub(crate) recent_acks: Vec<String>,
    /// A turn whose documents are being written in several batches, and is not committed yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) staging_turn: Option<u64>,
    /// How many of its batches were written.
    #[serde(default)]
    pub(crate) staged_batches: u32,
    /// Removals that a committed turn left to be done.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) cleanup: Vec<Cleanup>,
    /// It is being deleted: nothing sees it any more, and nothing may be committed to it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) is_deleting: bool,

    /// Always 0: among the documents of its partition that are sorted by it, the instance is the first.
    #[serde(default)]
    pub(crate) enqueued_at: i64,

    #[serde(flatten)]
    pub(crate) unknown: Unknown,
    #[serde(rename = "_etag", default, skip_serializing)]
    pub(crate) etag: Option<Etag>,
}

/// How long a marked instance is reserved for the deletion that marked it, from the mark and from each batch of removals.
pub(crate) const DELETION_LEASE_MS: i64 = 60_000;

/// How many commits are remembered.
const RECENT_ACKS: usize = 4;

/// The version of duroxide that an execution was started with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PinnedVersion {
    pub(crate) major: u64,
    pub(crate) minor: u64,
    pub(crate) patch: u64,
}

/// A document that a committed turn no longer needs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "do")]
pub(crate) enum Cleanup {
    /// Delete it.
    Delete { id: String },
    /// Replace it by a tombstone, so that it cannot be created again.
    Bury { id: String },
    /// Replace activities by tombstones. Their ids follow from these numbers: there may be many thousands.
    Cancel {
        execution: u64,
        #[serde(with = "super::ranges")]
        activities: Vec<u64>,
    },
}

impl Cleanup {
    /// The rest of a list after its first removals.
    pub(crate) fn without_first(list: &[Self], count: usize) -> Vec<Self> {
        let (mut done, mut left) = (count, Vec::new());
        for item in list {
            match item {
                Self::Cancel { execution, activities } if activities.len() > done => {
                    let (execution, activities) = (*execution, activities[done..].to_vec());
                    left.push(Self::Cancel { execution, activities });
                }
                Self::Delete { .. } | Self::Bury { .. } if done == 0 => left.push(item.clone()),
                Self::Cancel { .. } | Self::Delete { .. } | Self::Bury { .. } => {}
            }
            done = done.saturating_sub(item.removals());
        }
        left
    }

    fn removals(&self) -> usize {
        match self {
            Self::Delete { .. } | Self::Bury { .. } => 1,
            Self::Cancel { activities, .. } => activities.len(),
        }
    }
}

impl InstanceDocument {
    /// An instance that was locked for the first time.
    pub(crate) fn provisional(instance: &str, incarnation: String, now: i64) -> Self {
        Self {
            id: ids::instance(instance),
            instance_id: instance.to_owned(),
            kind: kinds::INSTANCE.to_owned(),
            orchestration_name: None,
            orchestration_version: None,
            current_execution_id: 1,
            status: "Running".to_owned(),
            output: None,
            parent_instance_id: None,
            pinned_duroxide_version: None,
            custom_status: None,
            custom_status_version: 0,
            lock_token: None,
            locked_until: None,
            lock_owner: None,
            created_at: now,
            updated_at: now,
            incarnation,
            execution_started_at: now,
            completed_at: None,
            turn: 0,
            revision: 0,
            is_provisional: true,
            key_values: 0,
            recent_acks: Vec::new(),
            staging_turn: None,
            staged_batches: 0,
            cleanup: Vec::new(),
            is_deleting: false,
            enqueued_at: 0,
            unknown: Unknown::default(),
            etag: None,
        }
    }

    /// The lock, which needs a token to count.
    pub(crate) fn lock(&self) -> Lock<'_> {
        let until = self.lock_token.as_ref().and(self.locked_until);
        Lock { until, owner: self.lock_owner.as_deref() }
    }

    /// Releases the lock.
    pub(crate) fn unlock(&mut self) {
        (self.lock_token, self.locked_until, self.lock_owner) = (None, None, None);
    }

    /// Whether a token holds the lock, expired or not.
    pub(crate) fn is_held_by(&self, token: &str) -> bool {
        self.lock_token.as_deref() == Some(token)
    }

    /// Whether it is marked for deletion and the deletion has made no progress within its lease.
    pub(crate) fn is_abandoned(&self, now: i64) -> bool {
        let first_lease = self.updated_at.saturating_add(DELETION_LEASE_MS);
        self.is_deleting && self.locked_until.unwrap_or(first_lease).max(first_lease) <= now
    }

    /// Whether clients and administrators see it.
    pub(crate) fn is_visible(&self) -> bool {
        !self.is_provisional && !self.is_deleting
    }

    /// Whether a document of a turn that was written in several batches counts.
    pub(crate) fn has_committed(&self, staged_turn: Option<u64>) -> bool {
        staged_turn.is_none_or(|turn| turn <= self.turn)
    }

    /// How large it is, roughly.
    pub(crate) fn bytes(&self) -> usize {
        let status = self.custom_status.as_ref().map_or(0, String::len);
        size_of::<Self>() + status + self.output.as_ref().map_or(0, Payload::bytes)
    }

    /// Notes the commit of a turn by a token, and releases its lock.
    pub(crate) fn commit(&mut self, token: &str, now: i64) {
        self.turn += 1;
        (self.staging_turn, self.staged_batches) = (None, 0);
        self.unlock();
        self.updated_at = now;
        self.recent_acks.insert(0, token.to_owned());
        self.recent_acks.truncate(RECENT_ACKS);
    }
}

impl From<&semver::Version> for PinnedVersion {
    fn from(version: &semver::Version) -> Self {
        Self { major: version.major, minor: version.minor, patch: version.patch }
    }
}

impl From<PinnedVersion> for semver::Version {
    fn from(version: PinnedVersion) -> Self {
        Self::new(version.major, version.minor, version.patch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_is_abandoned_when_its_lease_has_ended() {
        let new = InstanceDocument::provisional("i", "x".to_owned(), 10);
        let marked = InstanceDocument { is_deleting: true, ..new.clone() };
        assert!(!marked.is_abandoned(60_009) && marked.is_abandoned(60_010));
        let extended = InstanceDocument { locked_until: Some(90_000), ..marked };
        assert!(!extended.is_abandoned(89_999) && extended.is_abandoned(90_000));
        assert!(!new.is_abandoned(i64::MAX));
    }

    #[test]
    fn removals_are_left_out_of_a_list_in_its_order() {
        let cancel =
            |activities: &[u64]| Cleanup::Cancel { execution: 1, activities: activities.to_vec() };
        let delete = || Cleanup::Delete { id: "d".to_owned() };
        let list = [delete(), cancel(&[2, 3]), delete(), cancel(&[4])];
        let left = |count| Cleanup::without_first(&list, count);
        assert_eq!(left(0), list);
        assert_eq!(left(1), [cancel(&[2, 3]), delete(), cancel(&[4])]);
        assert_eq!(left(2), [cancel(&[3]), delete(), cancel(&[4])]);
        assert_eq!(left(3), [delete(), cancel(&[4])]);
        assert_eq!(left(4), [cancel(&[4])]);
        assert_eq!(left(9), []);
    }
}

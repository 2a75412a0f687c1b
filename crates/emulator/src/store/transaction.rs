//! Transactions: each operation reads what the ones before it wrote, and all of them are committed or none.
//!
//! Writes go to an overlay over the replica (copy on write). A single write is a transaction of one. Nothing is applied here: the caller commits the changes as
//! one entry of the log, or drops them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Map, Value};
use sidereal_protocol::{Etag, PartitionKeyDefinition, PatchOperation, Rid};
use sidereal_query::{Condition, Context};

use super::expiry::own_end;
use super::patch::apply as apply_patch;
use super::unique::Fingerprint;
use super::{
    Change, Expiry, IndexPolicy, Item, ItemDraft, ItemName, ItemResult, Outcome, Refusal, Replica,
    SystemProperties, new_etag,
};
use crate::charge;
use crate::clock::Timestamp;

/// The largest document: a limit of the service, counted in bytes of UTF-8.
pub(crate) const ITEM_LIMIT: usize = 2 * 1024 * 1024;

/// The rules of a container for its items.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules<'a> {
    pub(crate) container: Rid,
    /// The container's `_self`.
    pub(crate) link: &'a str,
    pub(crate) index: &'a IndexPolicy,
    pub(crate) expiry: Expiry,
    /// Every region accepts writes.
    pub(crate) multi_write: bool,
    pub(crate) ordinals: &'a AtomicU64,
    pub(crate) versions: &'a AtomicU64,
    pub(crate) now: Timestamp,
}

/// The conditions of `if-match` and `if-none-match`.
#[derive(Clone, Debug, Default)]
pub(crate) struct WriteCondition {
    pub(crate) if_match: Option<Etag>,
    pub(crate) if_none_match: Option<Etag>,
}

/// How a patch changes a document, and whether it should.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PatchOf<'a> {
    pub(crate) operations: &'a [PatchOperation],
    pub(crate) condition: Option<&'a Condition>,
    /// The time and the limits that the condition is evaluated with.
    pub(crate) context: &'a Context,
    /// The paths of a document that cannot be patched.
    pub(crate) key: &'a PartitionKeyDefinition,
}

impl PatchOf<'_> {
    fn applies_to(&self, document: &Value) -> Result<(), Refusal> {
        let Some(condition) = self.condition else { return Ok(()) };
        match condition.matches(document, self.context) {
            Ok(true) => Ok(()),
            Ok(false) => Err(Refusal::PatchConditionNotMet),
            Err(error) => Err(Refusal::Invalid(error.to_string())),
        }
    }
}

/// Operations decided one after the other against one replica.
pub(crate) struct Transaction<'a> {
    replica: &'a Replica,
    rules: Rules<'a>,
    lsn: u64,
    /// The items that the operations so far wrote; `None` is a deleted one.
    overlay: HashMap<ItemName, Option<Arc<Item>>>,
    /// The owners of unique keys after the operations so far; `None` is a released one.
    claims: HashMap<Fingerprint, Option<u64>>,
    changes: Vec<Change>,
}

impl<'a> Transaction<'a> {
    /// Begins a transaction whose changes will be the replica's next entry.
    pub(crate) fn new(replica: &'a Replica, rules: Rules<'a>) -> Self {
        Self {
            replica,
            rules,
            // The partition's write lock is held, so the next number is this transaction's.
            lsn: replica.lsn() + 1,
            overlay: HashMap::new(),
            claims: HashMap::new(),
            changes: Vec::new(),
        }
    }

    /// The partition as it was before the transaction.
    pub(crate) fn replica(&self) -> &'a Replica {
        self.replica
    }

    /// The changes to commit.
    pub(crate) fn into_changes(self) -> Vec<Change> {
        self.changes
    }

    /// Reads an item as the operations so far leave it.
    pub(crate) fn read(
        &self,
        name: &ItemName,
        condition: &WriteCondition,
    ) -> Result<ItemResult, Refusal> {
        let item = self.find(name).ok_or(Refusal::NotFound)?;
        ItemResult::of_read(item, condition.if_none_match.as_ref())
    }

    pub(crate) fn create(&mut self, draft: ItemDraft) -> Result<ItemResult, Refusal> {
        if self.find(&draft.name()).is_some() {
            return Err(Refusal::Conflict);
        }
        self.put(draft, None)
    }

    pub(crate) fn upsert(
        &mut self,
        draft: ItemDraft,
        condition: &WriteCondition,
    ) -> Result<ItemResult, Refusal> {
        match self.find(&draft.name()) {
            Some(current) => {
                condition.check(&current)?;
                self.put(draft, Some(current))
            }
            None => self.put(draft, None),
        }
    }

    /// Replaces an item, and renames it where the draft has another id.
    pub(crate) fn replace(
        &mut self,
        name: &ItemName,
        draft: ItemDraft,
        condition: &WriteCondition,
    ) -> Result<ItemResult, Refusal> {
        let current = self.find(name).ok_or(Refusal::NotFound)?;
        condition.check(&current)?;
        if draft.id != name.id && self.find(&draft.name()).is_some() {
            return Err(Refusal::Conflict);
        }
        self.put(draft, Some(current))
    }

    pub(crate) fn patch(
        &mut self,
        name: &ItemName,
        patch: &PatchOf<'_>,
        condition: &WriteCondition,
    ) -> Result<ItemResult, Refusal> {
        let current = self.find(name).ok_or(Refusal::NotFound)?;
        condition.check(&current)?;
        let document = current.document();
        patch.applies_to(&document)?;
        let Value::Object(mut document) = document else { return Err(Refusal::NotFound) };
        apply_patch(&mut document, patch.operations, patch.key).map_err(Refusal::Invalid)?;
        let draft = ItemDraft {
            id: name.id.clone(),
            key: name.key.clone(),
            effective_key: name.effective_key.clone(),
            document,
        };
        let mut written = self.put(draft, Some(current.clone()))?;
        let size = written.item.size();
        written.charge =
            charge::patch(size, current.terms, written.item.terms, patch.operations.len());
        Ok(written)
    }

    pub(crate) fn delete(
        &mut self,
        name: &ItemName,
        condition: &WriteCondition,
    ) -> Result<ItemResult, Refusal> {
        let item = self.find(name).ok_or(Refusal::NotFound)?;
        condition.check(&item)?;
        // A later operation of the transaction may take the unique keys over.
        for fingerprint in self.replica.fingerprints(&item) {
            self.claims.insert(fingerprint, None);
        }
        self.overlay.insert(name.clone(), None);
        self.changes.push(Change::Delete { item: item.clone() });
        let charge = charge::write(item.size(), item.terms);
        Ok(ItemResult { item, outcome: Outcome::Deleted, charge })
    }

    fn find(&self, name: &ItemName) -> Option<Arc<Item>> {
        if let Some(item) = self.overlay.get(name) {
            return item.clone();
        }
        self.replica.find_unexpired(name, self.rules.expiry)
    }

    fn put(
        &mut self,
        draft: ItemDraft,
        replaced: Option<Arc<Item>>,
    ) -> Result<ItemResult, Refusal> {
        let name = draft.name();
        let renamed = replaced.as_ref().filter(|current| current.id != name.id).cloned();
        // Two regions that give one item two names at once make two items of it, which need two RIDs.
        let keeps_rid = renamed.is_none() || !self.rules.multi_write;
        let ordinal = match &replaced {
            Some(current) if keeps_rid => current.ordinal,
            // Relaxed: only uniqueness matters. A transaction that is not committed leaves a gap.
            _ => self.rules.ordinals.fetch_add(1, Ordering::Relaxed),
        };
        let item = Arc::new(self.rules.complete(draft, ordinal, self.lsn)?);
        self.claim_unique_keys(&item, replaced.as_deref())?;
        let charge = match &replaced {
            Some(current) => charge::replace(item.size(), current.terms, item.terms),
            None => charge::write(item.size(), item.terms),
        };
        let outcome = if replaced.is_some() { Outcome::Replaced } else { Outcome::Created };
        if let Some(old) = renamed {
            // Under its old name it is gone: conflict resolution and its tombstones go by names.
            self.overlay.insert(old.name(), None);
            self.changes.push(Change::Delete { item: old });
        }
        self.overlay.insert(name, Some(item.clone()));
        self.changes.push(Change::Put { item: item.clone() });
        Ok(ItemResult { item, outcome, charge })
    }

    fn claim_unique_keys(&mut self, item: &Item, replaced: Option<&Item>) -> Result<(), Refusal> {
        let wanted = self.replica.fingerprints(item);
        let owner = |claims: &HashMap<Fingerprint, Option<u64>>, fingerprint: &Fingerprint| {
            claims.get(fingerprint).copied().unwrap_or_else(|| self.replica.owner_of(fingerprint))
        };
        let own = |ordinal| {
            ordinal == item.ordinal || replaced.is_some_and(|current| ordinal == current.ordinal)
        };
        let taken =
            |fingerprint| owner(&self.claims, fingerprint).is_some_and(|ordinal| !own(ordinal));
        if wanted.iter().any(taken) {
            return Err(Refusal::UniqueKeyConflict);
        }
        if let Some(replaced) = replaced {
            for fingerprint in self.replica.fingerprints(replaced) {
                self.claims.insert(fingerprint, None);
            }
        }
        self.claims.extend(wanted.into_iter().map(|fingerprint| (fingerprint, Some(item.ordinal))));
        Ok(())
    }
}

impl WriteCondition {
    fn check(&self, current: &Item) -> Result<(), Refusal> {
        let stale = self.if_match.as_ref().is_some_and(|etag| !etag.matches(&current.etag));
        let present = self.if_none_match.as_ref().is_some_and(|etag| etag.matches(&current.etag));
        // `if-none-match` on a write means "only if it is not there", or not at that version (RFC 9110,
        // section 13.1.2); both conditions fail with 412.
        if stale || present { Err(Refusal::PreconditionFailed) } else { Ok(()) }
    }
}

impl Rules<'_> {
    /// Gives a draft its version, its RID and its end.
    fn complete(&self, draft: ItemDraft, ordinal: u64, lsn: u64) -> Result<Item, Refusal> {
        let written_at = self.now.seconds();
        let expires_at = own_end(&draft.document, written_at)?;
        let rid = self.container.document(ordinal).map(|rid| rid.to_string()).unwrap_or_default();
        // Relaxed: only uniqueness matters.
        let version = self.versions.fetch_add(1, Ordering::Relaxed);
        let system = SystemProperties {
            link: format!("{}docs/{rid}/", self.link),
            rid,
            etag: new_etag(version, written_at),
            written_at,
        };
        let terms = terms_of(self.index, &draft.document);
        let item = draft.into_item(ordinal, lsn, terms, expires_at, system);
        // Measured with the system properties, as it is stored.
        if item.size() > ITEM_LIMIT {
            return Err(Refusal::TooLarge);
        }
        Ok(item)
    }
}

fn terms_of(index: &IndexPolicy, document: &Map<String, Value>) -> u32 {
    document.iter().map(|(name, value)| index.terms_below(name, value)).sum()
}

//! A container: its definition, and the physical partitions that hold its items.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use serde_json::{Value, json};
use sidereal_protocol::{EffectivePartitionKey, Rid};

use super::layout::LayoutChange;
use super::persistence::{CommitQueue, Mutation};
use super::{
    Definition, Expiry, Layout, Partition, ReplicaProgress, Rules, StalenessBound, Transaction,
};
use crate::clock::Timestamp;
use crate::topology::{ReplicaSet, Topology};

/// A container and its partitions.
#[derive(Debug)]
pub(crate) struct Container {
    pub(crate) rid: Rid,
    pub(crate) id: Arc<str>,
    /// The id of the database, for the owner's full name.
    pub(crate) database: Arc<str>,
    /// `dbs/{id}/colls/{id}` and the RID, as nearly every response has them.
    pub(crate) full_name: Bytes,
    pub(crate) rid_text: Bytes,
    /// `_self`: `dbs/{rid}/colls/{rid}/`.
    pub(crate) link: String,
    /// Seconds since the epoch.
    pub(crate) created_at: u64,
    pub(super) definition: RwLock<Arc<Definition>>,
    pub(super) layout: RwLock<Arc<Layout>>,
    /// The next item's ordinal, which becomes part of its RID.
    pub(super) ordinals: AtomicU64,
    /// The next etag's number.
    pub(super) versions: AtomicU64,
    /// Where changes are stored, in an account that is kept on disk.
    pub(super) commits: Option<Arc<CommitQueue>>,
}

/// Region and time of a write, and how far the other regions may fall behind it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WriteContext<'a> {
    pub(crate) region: usize,
    pub(crate) topology: &'a Topology,
    pub(crate) now: Timestamp,
    pub(crate) staleness: StalenessBound,
}

/// A decision, the partition that made it, and the progress of its replica after it.
#[derive(Debug)]
pub(crate) struct Decided<T, E> {
    pub(crate) decision: Result<T, E>,
    pub(crate) partition: Arc<Partition>,
    pub(crate) progress: ReplicaProgress,
}

impl Container {
    pub(crate) fn new(
        rid: Rid,
        database: (Arc<str>, Rid),
        definition: Definition,
        partitions: u32,
        replicas: ReplicaSet,
        commits: Option<Arc<CommitQueue>>,
    ) -> Self {
        let layout = Layout::new(&definition.key, partitions, &definition.unique_keys, replicas);
        Self {
            rid,
            full_name: full_name(&database.0, definition.id()),
            rid_text: rid.to_string().into(),
            id: definition.id().into(),
            link: format!("dbs/{}/colls/{rid}/", database.1),
            created_at: definition.changed_at,
            database: database.0,
            definition: RwLock::new(Arc::new(definition)),
            layout: RwLock::new(Arc::new(layout)),
            ordinals: AtomicU64::new(1),
            versions: AtomicU64::new(1),
            commits,
        }
    }

    pub(crate) fn definition(&self) -> Arc<Definition> {
        self.definition.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes a new definition; what cannot change is refused with the reason.
    pub(crate) fn replace(&self, new: Definition) -> Result<(), String> {
        // One write lock for comparison and replacement, so that no update is lost.
        let mut current = self.definition.write().unwrap_or_else(PoisonError::into_inner);
        if new.id() != current.id() {
            return Err("Replacing the id of a container is not supported.".to_owned());
        }
        if new.key != current.key {
            return Err("Document collection partition key cannot be changed.".to_owned());
        }
        let unique =
            |definition: &Definition| definition.properties.get("uniqueKeyPolicy").cloned();
        // A client that leaves the policy out keeps it; one that sends another is refused.
        if unique(&new).is_some() && unique(&new) != unique(&current) {
            return Err("The unique keys of a container cannot be changed.".to_owned());
        }
        *current = Arc::new(new);
        drop(current);
        if let Some(commits) = &self.commits {
            // Under the layout's lock: a split that runs meanwhile is stored before or after, not undone.
            let layout = self.layout.read().unwrap_or_else(PoisonError::into_inner);
            commits.enqueue(vec![Mutation::PutContainer(self.record(&layout))]);
        }
        Ok(())
    }

    /// Decides at a moment whether the container's items have expired.
    pub(crate) fn expiry(&self, now: Timestamp) -> Expiry {
        Expiry::new(self.definition().default_ttl, now)
    }

    /// How the key space is divided now.
    pub(crate) fn layout(&self) -> Arc<Layout> {
        self.layout.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn partitions(&self) -> Arc<[Arc<Partition>]> {
        self.layout().partitions().clone()
    }

    /// The partition whose range an effective partition key falls into now.
    pub(crate) fn partition_of(&self, effective_key: &EffectivePartitionKey) -> Arc<Partition> {
        self.layout().partition_of(effective_key).clone()
    }

    /// Replaces the layout by what `change` makes of it, or leaves it where `change` refuses.
    pub(crate) fn change_layout<T>(
        &self,
        change: impl FnOnce(&Layout) -> Result<(LayoutChange, T), String>,
    ) -> Result<T, String> {
        // Lock order: the layout's before any partition's. A write holds a partition's and never asks for
        // the layout's.
        let mut current = self.layout.write().unwrap_or_else(PoisonError::into_inner);
        let (LayoutChange { layout, created, retired }, result) = change(&current)?;
        *current = Arc::new(layout);
        // Queued before the lock is released: a write of the new partitions comes after them.
        self.store_layout_change(&current, &created, retired);
        Ok(result)
    }

    /// Splits ranges until there are so many, those first that were split least.
    pub(crate) fn split_into_at_least(&self, count: usize, now: Timestamp) {
        let definition = self.definition();
        loop {
            let partitions = self.partitions();
            let least = partitions.iter().min_by_key(|partition| partition.generation);
            let Some(least) = least.filter(|_| partitions.len() < count) else { return };
            // Refused where the range is too narrow, or another split was quicker: there are enough, or there
            // cannot be more.
            if self
                .change_layout(|layout| layout.split(least.id.as_str(), &definition.key, now))
                .is_err()
            {
                return;
            }
        }
    }

    /// The rules of the container for its items.
    fn rules<'a>(
        &'a self,
        definition: &'a Definition,
        topology: &Topology,
        now: Timestamp,
    ) -> Rules<'a> {
        Rules {
            container: self.rid,
            link: &self.link,
            index: &definition.index,
            expiry: Expiry::new(definition.default_ttl, now),
            multi_write: topology.multi_write,
            ordinals: &self.ordinals,
            versions: &self.versions,
            now,
        }
    }

    /// Decides on writes to the partition of an effective partition key and commits them as one entry of
    /// its log, or nothing where `decide` refuses.
    pub(crate) fn transact<T, E>(
        &self,
        effective_key: &EffectivePartitionKey,
        definition: &Definition,
        context: &WriteContext<'_>,
        decide: impl FnOnce(&mut Transaction<'_>) -> Result<T, E>,
    ) -> Decided<T, E> {
        let &WriteContext { region, topology, now, staleness } = context;
        loop {
            let partition = self.partition_of(effective_key);
            // Held from the decision to the commit: what was decided on cannot change before it is applied
            // (the same lock serializes all writes of a partition).
            let mut state = partition.write();
            // Lost a race with a split or merge, which retires the partition under its lock and replaces
            // the layout after. The new layout is there by now or will be in a moment, so this spins.
            if state.is_retired() {
                // Released before yielding: readers of the retired partition need not wait for this.
                drop(state);
                std::thread::yield_now();
                continue;
            }
            // In this order: what replication still holds may expire, and an expired item must be gone before
            // an operation looks for it.
            state.prepare_to_write(region);
            state.expire(region, Expiry::new(definition.default_ttl, now), now);
            let mut transaction =
                Transaction::new(state.replica(region), self.rules(definition, topology, now));
            let decision = decide(&mut transaction);
            let changes = if decision.is_ok() { transaction.into_changes() } else { Vec::new() };
            state.commit(region, changes, now);
            state.catch_up_everywhere(topology, now);
            state.enforce_staleness_bound(staleness, topology);
            self.store_log(&partition, &mut state);
            let progress = ReplicaProgress::of(state.replica(region));
            drop(state);
            return Decided { decision, partition, progress };
        }
    }

    /// The container as clients see it.
    pub(crate) fn resource(&self) -> Value {
        let definition = self.definition();
        let mut properties = definition.properties.clone();
        for (name, value) in [
            ("_rid", json!(self.rid.to_string())),
            ("_ts", json!(definition.changed_at())),
            ("_self", json!(self.link)),
            ("_etag", json!(definition.etag.as_str())),
            ("_docs", json!("docs/")),
            ("_sprocs", json!("sprocs/")),
            ("_triggers", json!("triggers/")),
            ("_udfs", json!("udfs/")),
            ("_conflicts", json!("conflicts/")),
        ] {
            properties.insert(name.to_owned(), value);
        }
        Value::Object(properties)
    }
}

/// A container by names.
pub(super) fn full_name(database: &str, id: &str) -> Bytes {
    format!("dbs/{database}/colls/{id}").into()
}

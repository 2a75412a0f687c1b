//! How a container gets to disk and back.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use super::container::Container;
use super::container::full_name;
use super::partition::RetiredPartition;
use super::partition_state::PartitionState;
use super::persistence::{
    CommitQueue, ContainerRecord, LogChange, Mutation, PartitionCommit, PartitionRecord,
    RestoredContainer,
};
use super::{Definition, Layout, Partition};
use crate::clock::Timestamp;
use crate::topology::ReplicaSet;

impl Container {
    /// A container as it was kept on disk; the error says what of it cannot be read.
    pub(crate) fn restored(
        restored: RestoredContainer,
        database: Arc<str>,
        replicas: ReplicaSet,
        commits: Arc<CommitQueue>,
    ) -> Result<Self, String> {
        let record = &restored.record;
        let rid = record.rid;
        let damaged = |reason: String| format!("the container {rid} ({reason})");
        let properties =
            serde_json::from_str(&record.properties).map_err(|error| damaged(error.to_string()))?;
        // Seconds are what a definition keeps of the moment.
        let changed_at = Timestamp::from_millis(record.changed_at.saturating_mul(1000));
        let definition =
            Definition::parse(properties, record.etag.clone(), changed_at).map_err(damaged)?;
        let database_rid = rid.database_rid().ok_or_else(|| damaged("its RID".to_owned()))?;
        let highest = |number: fn(&PartitionRecord) -> u64| {
            let numbers = restored.partitions.iter().map(|it| number(&it.contents.record));
            // A container that was never written begins with 1.
            AtomicU64::new(numbers.max().unwrap_or_default().max(1))
        };
        Ok(Self {
            rid,
            full_name: full_name(&database, definition.id()),
            rid_text: rid.to_string().into(),
            id: definition.id().into(),
            link: format!("dbs/{database_rid}/colls/{rid}/"),
            created_at: record.created_at,
            database,
            ordinals: highest(|record| record.next_ordinal),
            versions: highest(|record| record.next_version),
            layout: {
                let unique_keys = definition.unique_keys.clone();
                RwLock::new(Arc::new(Layout::restored(restored, &unique_keys, replicas)))
            },
            definition: RwLock::new(Arc::new(definition)),
            commits: Some(commits),
        })
    }

    /// The container as it is kept on disk.
    pub(crate) fn record(&self, layout: &Layout) -> ContainerRecord {
        let definition = self.definition();
        ContainerRecord {
            rid: self.rid,
            created_at: self.created_at,
            properties: definition.properties_text(),
            etag: definition.etag.clone(),
            changed_at: definition.changed_at(),
            ranges: layout.ranges(),
            generation: layout.generation(),
            next_range: layout.next_number(),
            gone: layout.gone().map(|(id, at)| (id.clone(), at.millis())).collect(),
        }
    }

    /// Queues what a write changed in a partition's log. Called with the partition's lock held, so that
    /// entries are stored in the order of the log.
    pub(crate) fn store_log(&self, partition: &Partition, state: &mut PartitionState) {
        let Some(commits) = &self.commits else { return };
        if let Some(commit) = self.partition_commit(partition, state) {
            partition.set_durability(commits.enqueue(vec![commit]));
        }
    }

    /// Queues the state of a partition, also where its log did not change.
    pub(crate) fn store_partition(&self, partition: &Partition, state: &mut PartitionState) {
        let Some(commits) = &self.commits else { return };
        let whole = self.whole_partition(partition, state);
        partition.set_durability(commits.enqueue(vec![whole]));
    }

    /// Queues a new layout: the partitions that went, and those that came in their place.
    pub(super) fn store_layout_change(
        &self,
        layout: &Layout,
        created: &[Arc<Partition>],
        retired: Vec<RetiredPartition>,
    ) {
        let Some(commits) = &self.commits else { return };
        let container = self.rid;
        let mut group = Vec::new();
        for RetiredPartition { id, unstored } in retired {
            let partition = id.as_str().parse().unwrap_or(u32::MAX);
            // What was settled belongs to the container's items and stays.
            let record = PartitionRecord::default();
            let last = PartitionCommit { container, partition, changes: unstored, record };
            group.push(Mutation::Partition(last));
            group.push(Mutation::DropPartition { container, partition });
        }
        let new = created.iter().map(|it| self.whole_partition(it, &mut it.write()));
        group.extend(new);
        group.push(Mutation::PutContainer(self.record(layout)));
        let durability = commits.enqueue(group);
        created.iter().for_each(|partition| partition.set_durability(durability));
    }

    fn partition_commit(
        &self,
        partition: &Partition,
        state: &mut PartitionState,
    ) -> Option<Mutation> {
        let changes = state.take_unstored();
        (!changes.is_empty()).then(|| self.commit_of(partition, state, changes))
    }

    fn whole_partition(&self, partition: &Partition, state: &mut PartitionState) -> Mutation {
        let changes = state.take_unstored();
        self.commit_of(partition, state, changes)
    }

    fn commit_of(
        &self,
        partition: &Partition,
        state: &PartitionState,
        changes: Vec<LogChange>,
    ) -> Mutation {
        // Relaxed: the numbers of what is stored here were given before, by this thread.
        let next_ordinal = self.ordinals.load(Ordering::Relaxed);
        let next_version = self.versions.load(Ordering::Relaxed);
        Mutation::Partition(PartitionCommit {
            container: self.rid,
            partition: partition.number(),
            changes,
            record: state.record(next_ordinal, next_version),
        })
    }
}

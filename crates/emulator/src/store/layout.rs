//! How a container's key space is divided among its partitions, and how that changes.
//!
//! A [`Layout`] is an immutable snapshot, replaced whole when a range splits or two merge. Children keep
//! their parents' log sequence numbers, so that session tokens and change-feed cursors stay valid.

use std::collections::HashMap;
use std::sync::Arc;

use sidereal_protocol::{
    EffectivePartitionKey, EffectivePartitionKeyRange, PartitionKeyDefinition, PartitionKeyRangeId,
};

use super::partition::RetiredPartition;
use super::persistence::{RangeRecord, RestoredContainer};
use super::{Partition, UniqueKeys};
use crate::clock::Timestamp;
use crate::topology::ReplicaSet;

/// The partitions of a container, in the order of the key space.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    partitions: Arc<[Arc<Partition>]>,
    /// Grows with every change; the cursor of the feed of ranges.
    generation: u64,
    next_number: u32,
    /// The retired ranges, and when the split or merge that replaced them completes.
    gone: HashMap<PartitionKeyRangeId, Timestamp>,
}

/// A layout that replaces another, and the partitions that come and go with it.
#[derive(Debug)]
pub(crate) struct LayoutChange {
    pub(crate) layout: Layout,
    pub(crate) created: Vec<Arc<Partition>>,
    pub(crate) retired: Vec<RetiredPartition>,
}

/// The fate of a range that a request names by its id.
#[derive(Clone, Debug)]
pub(crate) enum RangeLookup {
    Current(Arc<Partition>),
    /// It is being split or merged: 410/1007.
    Changing,
    /// It was split or merged, or never existed: 410/1002.
    Gone,
}

impl Layout {
    /// Divides the key space into equal ranges.
    pub(crate) fn new(
        key: &PartitionKeyDefinition,
        partitions: u32,
        unique_keys: &UniqueKeys,
        replicas: ReplicaSet,
    ) -> Self {
        let ranges = key.even_ranges(partitions);
        let partition = |(number, range): (u32, EffectivePartitionKeyRange)| {
            Arc::new(Partition::new(
                PartitionKeyRangeId::from(number),
                range,
                unique_keys,
                replicas,
            ))
        };
        let partitions: Arc<[Arc<Partition>]> = (0..).zip(ranges).map(partition).collect();
        let next_number = u32::try_from(partitions.len()).unwrap_or(u32::MAX);
        Self { partitions, generation: 1, next_number, gone: HashMap::new() }
    }

    pub(crate) fn partitions(&self) -> &Arc<[Arc<Partition>]> {
        &self.partitions
    }

    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// The partition whose range an effective partition key falls into.
    pub(crate) fn partition_of(&self, effective_key: &EffectivePartitionKey) -> &Arc<Partition> {
        // Binary search: ranges are contiguous and sorted by their minimum.
        let after =
            self.partitions.partition_point(|partition| partition.range.min() <= effective_key);
        // The first range begins at the lowest effective key, so there is always one at or before.
        &self.partitions[after.saturating_sub(1)]
    }

    pub(crate) fn lookup(&self, id: &str, now: Timestamp) -> RangeLookup {
        if let Some(partition) =
            self.partitions.iter().find(|partition| partition.id.as_str() == id)
        {
            return RangeLookup::Current(partition.clone());
        }
        match self.gone.get(id) {
            Some(complete_at) if now < *complete_at => RangeLookup::Changing,
            _ => RangeLookup::Gone,
        }
    }

    /// A layout as it was kept on disk.
    pub(crate) fn restored(
        restored: RestoredContainer,
        unique_keys: &UniqueKeys,
        replicas: ReplicaSet,
    ) -> Self {
        let RestoredContainer { record, partitions } = restored;
        let partition = |it| Arc::new(Partition::restored(it, unique_keys, replicas));
        let gone = record.gone.into_iter();
        Self {
            partitions: partitions.into_iter().map(partition).collect(),
            generation: record.generation,
            next_number: record.next_range,
            gone: gone.map(|(id, at)| (id, Timestamp::from_millis(at))).collect(),
        }
    }

    /// The ranges, as they are kept on disk.
    pub(crate) fn ranges(&self) -> Vec<RangeRecord> {
        let range = |partition: &Arc<Partition>| RangeRecord {
            number: partition.number(),
            min: partition.range.min().as_bytes().to_vec(),
            max: partition.range.max().as_bytes().to_vec(),
            parents: partition.parents.clone(),
            generation: partition.generation,
        };
        self.partitions.iter().map(range).collect()
    }

    pub(crate) fn next_number(&self) -> u32 {
        self.next_number
    }

    /// The retired ranges, and when the split or merge that replaced them completes.
    pub(crate) fn gone(&self) -> impl Iterator<Item = (&PartitionKeyRangeId, Timestamp)> {
        self.gone.iter().map(|(id, complete_at)| (id, *complete_at))
    }

    /// The layout after a range was cut in two, and the ids of its halves.
    pub(crate) fn split(
        &self,
        id: &str,
        key: &PartitionKeyDefinition,
        complete_at: Timestamp,
    ) -> Result<(LayoutChange, [PartitionKeyRangeId; 2]), String> {
        let index = self.index_of(id)?;
        let parent = &self.partitions[index];
        let cut = key.split_point(&parent.range).and_then(|point| parent.range.split_at(&point));
        let (left, right) =
            cut.ok_or_else(|| format!("the range {id} is too narrow to be split"))?;
        // Ids of retired ranges are not reused: a client's routing map may still hold them.
        let ids = [self.next_number, self.next_number + 1].map(PartitionKeyRangeId::from);
        let generation = self.generation + 1;
        let (children, retired) =
            parent.split_into([(ids[0].clone(), left), (ids[1].clone(), right)], generation);
        let next = self.replaced(index..=index, children.to_vec(), complete_at);
        let layout = Self { next_number: self.next_number + 2, ..next };
        Ok((LayoutChange { layout, created: children.into(), retired: vec![retired] }, ids))
    }

    /// The layout after two neighbours became one, and the id of the whole.
    pub(crate) fn merge(
        &self,
        left: &str,
        right: &str,
        complete_at: Timestamp,
    ) -> Result<(LayoutChange, PartitionKeyRangeId), String> {
        let (first, second) = (self.index_of(left)?, self.index_of(right)?);
        if second != first + 1 {
            return Err(format!("the ranges {left} and {right} are not neighbours in that order"));
        }
        let id = PartitionKeyRangeId::from(self.next_number);
        let generation = self.generation + 1;
        let (whole, retired) =
            self.partitions[first].merge_with(&self.partitions[second], id.clone(), generation)?;
        let whole = Arc::new(whole);
        let next = self.replaced(first..=second, vec![whole.clone()], complete_at);
        let layout = Self { next_number: self.next_number + 1, ..next };
        Ok((LayoutChange { layout, created: vec![whole], retired: retired.into() }, id))
    }

    fn index_of(&self, id: &str) -> Result<usize, String> {
        let index = self.partitions.iter().position(|partition| partition.id.as_str() == id);
        index.ok_or_else(|| format!("there is no partition range {id}"))
    }

    fn replaced(
        &self,
        old: std::ops::RangeInclusive<usize>,
        new: Vec<Arc<Partition>>,
        complete_at: Timestamp,
    ) -> Self {
        let mut gone = self.gone.clone();
        gone.extend(
            self.partitions[old.clone()].iter().map(|parent| (parent.id.clone(), complete_at)),
        );
        let mut partitions = self.partitions.to_vec();
        partitions.splice(old, new);
        Self {
            partitions: partitions.into(),
            generation: self.generation + 1,
            gone,
            ..self.clone()
        }
    }
}

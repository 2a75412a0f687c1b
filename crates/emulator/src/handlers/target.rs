//! Which partitions, and which part of each, a request about several items is addressed to.

use std::sync::Arc;

use sidereal_protocol::headers::names as headers;
use sidereal_protocol::{CosmosStatus, EffectivePartitionKeyRange, PartitionKey};

use super::items::check_size;
use crate::error::{Result, ServiceError};
use crate::request::{ClassifiedRequest, range_id};
use crate::store::{
    Container, Definition, Expiry, Item, Partition, Position, RangeLookup, Replica,
};

/// The target of a request.
#[derive(Debug)]
pub(super) enum Target {
    /// One partition key, or the prefix of a hierarchical one.
    Key(Slice),
    /// One partition range by its id, or a part of it.
    Range(Slice),
    /// A window of the key space, over as many partitions as it touches.
    Window(Vec<Slice>),
    /// The whole container.
    Everything(Vec<Slice>),
}

/// A part of one partition.
#[derive(Clone, Debug)]
pub(super) struct Slice {
    pub(super) partition: Arc<Partition>,
    /// Part of the partition's range; all of it where there is none.
    window: Option<EffectivePartitionKeyRange>,
    /// Version 1 hashes the first 100 characters of a string, so different keys can have the same effective
    /// key: the key itself is compared besides.
    key: Option<PartitionKey>,
}

impl Target {
    /// Reads the target from the headers of a request.
    pub(super) fn of(
        request: &ClassifiedRequest,
        container: &Container,
        definition: &Definition,
    ) -> Result<Self> {
        let window = request.typed().effective_partition_key_range()?;
        if let Some(id) = request.typed().text(&headers::PARTITION_KEY_RANGE_ID)? {
            let partition = match container.layout().lookup(range_id(id), request.now) {
                RangeLookup::Current(partition) => partition,
                RangeLookup::Changing => return Err(range_changing()),
                RangeLookup::Gone => return Err(range_gone()),
            };
            return Ok(Self::Range(Slice { partition, window, key: None }));
        }
        if let Some(key) = request.partition_key()? {
            return Self::of_key(&key, container, definition);
        }
        Ok(match window {
            Some(window) => Self::Window(slices(container, &window)),
            None => Self::Everything(slices(container, &EffectivePartitionKeyRange::FULL)),
        })
    }

    /// A partition key, or the prefix of one.
    pub(super) fn of_key(
        key: &PartitionKey,
        container: &Container,
        definition: &Definition,
    ) -> Result<Self> {
        check_size(key)?;
        let window = definition.key.effective_range(key);
        let window = window.map_err(|_| ServiceError::partition_key_mismatch())?;
        // A prefix of a hierarchical key is a range of effective keys and may span partitions.
        if key.components().len() < definition.key.paths().len() {
            return Ok(Self::Window(slices(container, &window)));
        }
        let partition = container.partition_of(window.min());
        Ok(Self::Key(Slice { partition, window: Some(window), key: Some(key.clone()) }))
    }

    pub(super) fn slices(&self) -> &[Slice] {
        match self {
            Self::Key(slice) | Self::Range(slice) => std::slice::from_ref(slice),
            Self::Window(slices) | Self::Everything(slices) => slices,
        }
    }
}

impl Slice {
    /// The part of a partition that falls into a window.
    pub(super) fn within(partition: Arc<Partition>, window: &EffectivePartitionKeyRange) -> Self {
        let part = partition.range.intersection(window).filter(|part| *part != partition.range);
        Self { partition, window: part, key: None }
    }

    /// Every item of the slice, in the order of their RIDs.
    pub(super) fn items(&self, replica: &Replica, expiry: Expiry) -> Vec<Arc<Item>> {
        let wanted = |item: &&Arc<Item>| !expiry.is_over(item) && self.contains(item);
        match &self.window {
            None => replica.in_order(Position::Start).filter(wanted).cloned().collect(),
            Some(window) => {
                let ordinals = replica.ordinals_within(window, Position::Start).into_iter();
                let items = ordinals.filter_map(|ordinal| replica.by_ordinal(ordinal));
                items.filter(wanted).cloned().collect()
            }
        }
    }

    /// Whether an item of the partition belongs to the slice.
    pub(super) fn contains(&self, item: &Item) -> bool {
        self.window.as_ref().is_none_or(|window| window.contains(&item.effective_key))
            && self.has_key_of(item)
    }

    /// The part of the partition's key space; all of it where there is none.
    pub(super) fn window(&self) -> Option<&EffectivePartitionKeyRange> {
        self.window.as_ref()
    }

    pub(super) fn has_key_of(&self, item: &Item) -> bool {
        self.key.as_ref().is_none_or(|key| item.key == *key)
    }
}

fn range_changing() -> ServiceError {
    ServiceError::new(
        CosmosStatus::COMPLETING_SPLIT_OR_MERGE,
        "The requested partition key range is being split or merged: read the partition key ranges again.",
    )
}

fn range_gone() -> ServiceError {
    ServiceError::new(
        CosmosStatus::PARTITION_KEY_RANGE_GONE,
        "The requested partition key range no longer exists: read the partition key ranges again.",
    )
}

fn slices(container: &Container, window: &EffectivePartitionKeyRange) -> Vec<Slice> {
    let touched = |partition: &Arc<Partition>| {
        let part = partition.range.intersection(window)?;
        Some(Slice::within(partition.clone(), &part))
    };
    container.partitions().iter().filter_map(touched).collect()
}

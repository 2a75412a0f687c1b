//! Metadata of a container: identity, partition key, partition ranges. Values; `container_cache.rs` reads and keeps them.

use std::sync::Arc;

use sidereal_protocol::{
    EffectivePartitionKeyRange, PartitionKey, PartitionKeyDefinition, PartitionKeyRange,
    RoutingMap, RoutingMapError,
};

use super::Partition;
use crate::OperationTarget;
use crate::exchange::Endpoint;

/// A container at a moment: its identity, what it is partitioned by, and its partition ranges.
#[derive(Clone, Debug)]
pub struct ContainerMetadata {
    rid: Arc<str>,
    definition: Arc<PartitionKeyDefinition>,
    ranges: RoutingMap,
    /// One for each of the ranges, in their order.
    partitions: Vec<Arc<Partition>>,
    /// The continuation of the list of ranges: changes are listed from here.
    cursor: Option<RangesCursor>,
}

/// The continuation of a list of partition ranges. Its etag is valid in the region alone that gave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RangesCursor {
    pub(crate) etag: String,
    pub(crate) endpoint: Endpoint,
}

impl ContainerMetadata {
    /// # Errors
    ///
    /// [`RoutingMapError`] if the ranges do not cover the key space.
    pub(crate) fn new(
        rid: Arc<str>,
        definition: PartitionKeyDefinition,
        ranges: Vec<PartitionKeyRange>,
        cursor: Option<RangesCursor>,
    ) -> Result<Self, RoutingMapError> {
        let definition = Arc::new(definition);
        let (ranges, partitions) = (RoutingMap::build(ranges)?, Vec::new());
        let container = Self { rid, definition, ranges, partitions, cursor };
        Ok(container.with_partitions_of(&[]))
    }

    /// The container after changes of its ranges.
    ///
    /// # Errors
    ///
    /// [`RoutingMapError`] if the ranges do not cover the key space afterwards: half a split was listed.
    pub(crate) fn after(
        &self,
        changes: Vec<PartitionKeyRange>,
        cursor: Option<RangesCursor>,
    ) -> Result<Self, RoutingMapError> {
        let ranges = self.ranges.apply(changes)?;
        let cursor = cursor.or_else(|| self.cursor.clone());
        let container = Self { ranges, cursor, ..self.clone() };
        Ok(container.with_partitions_of(&self.partitions))
    }

    /// The container with another list of all its ranges.
    ///
    /// # Errors
    ///
    /// [`RoutingMapError`] if the ranges do not cover the key space.
    pub(crate) fn with_all(
        &self,
        ranges: Vec<PartitionKeyRange>,
        cursor: Option<RangesCursor>,
    ) -> Result<Self, RoutingMapError> {
        let container = Self { ranges: RoutingMap::build(ranges)?, cursor, ..self.clone() };
        Ok(container.with_partitions_of(&self.partitions))
    }

    /// Partitions that are still there stay the same values: what is known of them is not lost.
    fn with_partitions_of(mut self, before: &[Arc<Partition>]) -> Self {
        let partition = |range: &Arc<sidereal_protocol::RoutedRange>| {
            let known = before.iter().find(|it| it.range() == range.id());
            known.cloned().unwrap_or_else(|| {
                let parents = range.parents().to_vec();
                Arc::new(Partition::new(Arc::clone(&self.rid), range.id().clone(), parents))
            })
        };
        self.partitions = self.ranges.ranges().iter().map(partition).collect();
        self
    }

    /// The identity that the service gave it. A container that is recreated gets another.
    #[must_use]
    pub fn rid(&self) -> &str {
        &self.rid
    }

    /// The definition of the container's partition key.
    #[must_use]
    pub fn partition_key_definition(&self) -> &PartitionKeyDefinition {
        &self.definition
    }

    /// Its partition ranges.
    #[must_use]
    pub fn ranges(&self) -> &RoutingMap {
        &self.ranges
    }

    pub(crate) fn cursor(&self) -> Option<&RangesCursor> {
        self.cursor.as_ref()
    }

    /// Whether another picture of the container has the same ranges.
    pub(crate) fn has_ranges_of(&self, other: &Self) -> bool {
        let ids = |container: &Self| {
            container.partitions.iter().map(|it| it.range().clone()).collect::<Vec<_>>()
        };
        self.rid == other.rid && ids(self) == ids(other)
    }

    pub(crate) fn partitions(&self) -> &[Arc<Partition>] {
        &self.partitions
    }

    /// The partition that an operation's target is in, if it is in one.
    pub(crate) fn partition_of(&self, target: Option<&OperationTarget>) -> Option<&Arc<Partition>> {
        match target? {
            OperationTarget::PartitionKey(key) => self.partition_of_key(key),
            OperationTarget::PartitionRange(id) => {
                self.partitions.iter().find(|it| it.range() == id)
            }
            OperationTarget::EffectiveRange(range) => self.only_partition(range),
            OperationTarget::Feed => match self.partitions.as_slice() {
                [only] => Some(only),
                _ => None,
            },
        }
    }

    fn partition_of_key(&self, key: &PartitionKey) -> Option<&Arc<Partition>> {
        // A prefix of a hierarchical key may be in several; a key that does not fit is the service's to refuse.
        if key.components().len() < self.definition.paths().len() {
            return self.only_partition(&self.definition.effective_range(key).ok()?);
        }
        let effective = self.definition.effective_key(key).ok()?;
        self.partitions.get(self.ranges.position(&effective))
    }

    fn only_partition(&self, range: &EffectivePartitionKeyRange) -> Option<&Arc<Partition>> {
        match self.overlapping(range) {
            [only] => Some(only),
            _ => None,
        }
    }

    /// The partitions that an operation's target may be in.
    pub(crate) fn partitions_within(&self, target: Option<&OperationTarget>) -> &[Arc<Partition>] {
        match target {
            Some(OperationTarget::EffectiveRange(range)) => self.overlapping(range),
            Some(OperationTarget::PartitionKey(key)) => {
                match self.definition.effective_range(key) {
                    Ok(range) => self.overlapping(&range),
                    // The service refuses the key.
                    Err(_) => &self.partitions,
                }
            }
            Some(OperationTarget::PartitionRange(_) | OperationTarget::Feed) | None => {
                &self.partitions
            }
        }
    }

    fn overlapping(&self, range: &EffectivePartitionKeyRange) -> &[Arc<Partition>] {
        let overlapping = self.ranges.overlapping(range);
        let Some(first) = overlapping.first() else { return &[] };
        let first = self.ranges.position(first.range().min());
        self.partitions.get(first..first + overlapping.len()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use sidereal_protocol::PartitionKeyRangeId;

    use super::*;

    fn range(id: u32, min: &str, max: &str, parents: &[u32]) -> PartitionKeyRange {
        let mut range =
            PartitionKeyRange::new(id.into(), min.parse().unwrap(), max.parse().unwrap());
        range.parents = parents.iter().copied().map(Into::into).collect();
        range
    }

    fn container(paths: &[&str], ranges: Vec<PartitionKeyRange>) -> ContainerMetadata {
        let definition = PartitionKeyDefinition::new(paths).unwrap();
        ContainerMetadata::new("rid".into(), definition, ranges, cursor("1")).unwrap()
    }

    fn cursor(etag: &str) -> Option<RangesCursor> {
        let endpoint = "https://contoso.documents.azure.com".parse().unwrap();
        Some(RangesCursor { etag: etag.to_owned(), endpoint })
    }

    fn halves() -> Vec<PartitionKeyRange> {
        vec![range(1, "", "1F", &[0]), range(2, "1F", "FF", &[0])]
    }

    fn found(container: &ContainerMetadata, target: &OperationTarget) -> Option<String> {
        container.partition_of(Some(target)).map(|it| it.range().to_string())
    }

    #[test]
    fn a_key_is_in_the_partition_that_the_service_would_route_it_to() {
        let container = container(&["/customer"], halves());
        for key in ["a", "b", "c", "d", "contoso"] {
            let key = PartitionKey::from(key);
            let effective = container.definition.effective_key(&key).unwrap();
            let expected = container.ranges.at(&effective).id().to_string();
            assert_eq!(found(&container, &OperationTarget::PartitionKey(key)), Some(expected));
        }
    }

    #[test]
    fn a_range_is_in_one_partition_and_a_feed_may_be_in_several() {
        let container = container(&["/customer"], halves());
        let by_id = OperationTarget::PartitionRange(PartitionKeyRangeId::from(2));
        assert_eq!(found(&container, &by_id).as_deref(), Some("2"));
        let part = |min: &str, max: &str| {
            let range = EffectivePartitionKeyRange::new(min.parse().unwrap(), max.parse().unwrap());
            OperationTarget::EffectiveRange(range.unwrap())
        };
        assert_eq!(found(&container, &part("20", "30")).as_deref(), Some("2"));
        assert_eq!(found(&container, &part("10", "30")), None);
        assert_eq!(found(&container, &OperationTarget::Feed), None);
        let whole = self::container(&["/customer"], vec![range(0, "", "FF", &[])]);
        assert_eq!(found(&whole, &OperationTarget::Feed).as_deref(), Some("0"));
    }

    #[test]
    fn a_key_that_does_not_fit_is_in_no_partition() {
        let container = container(&["/tenant", "/user"], halves());
        let too_long = PartitionKey::new(["a", "b", "c"]).unwrap();
        assert_eq!(found(&container, &OperationTarget::PartitionKey(too_long)), None);
    }

    #[test]
    fn a_split_replaces_one_partition_and_keeps_the_others() {
        let before = container(&["/customer"], halves());
        let changes = vec![range(3, "", "0F", &[0, 1]), range(4, "0F", "1F", &[0, 1])];
        let after = before.after(changes, cursor("2")).unwrap();
        let ids: Vec<&str> = after.partitions.iter().map(|it| it.range().as_str()).collect();
        assert_eq!(ids, ["3", "4", "2"]);
        assert!(Arc::ptr_eq(&before.partitions[1], &after.partitions[2]));
        assert_eq!(after.partitions[0].parents, [0, 1].map(PartitionKeyRangeId::from));
        assert_eq!(after.cursor(), cursor("2").as_ref());
    }

    #[test]
    fn half_a_split_is_refused() {
        let before = container(&["/customer"], halves());
        assert!(before.after(vec![range(3, "", "0F", &[0, 1])], None).is_err());
    }
}

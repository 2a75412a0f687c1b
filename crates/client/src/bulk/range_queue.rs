//! The operations that wait for one partition range, and the batches that are cut of them. Pure.

use std::collections::VecDeque;

use sidereal_protocol::{EffectivePartitionKey, MAX_BATCH_BYTES, MAX_BATCH_OPERATIONS};

use super::operation::{BRACKETS, Encoded};
use super::window::Window;

/// An operation that is not over.
#[derive(Debug)]
pub(super) struct Pending {
    /// Its position in the input.
    pub(super) index: usize,
    pub(super) encoded: Encoded,
    /// Where it is in the key space: its partition range may change, this does not.
    pub(super) effective_key: EffectivePartitionKey,
    /// The most operations of a batch with it in it: fewer after one of its batches was refused as a whole.
    pub(super) most_together: usize,
    /// How often it was throttled.
    pub(super) throttled: u32,
    /// How often it was sent again for any other reason.
    pub(super) resent: u32,
    /// An attempt may have been carried out although no result came.
    pub(super) may_have_been_applied: bool,
}

impl Pending {
    pub(super) fn new(
        index: usize,
        encoded: Encoded,
        effective_key: EffectivePartitionKey,
    ) -> Self {
        Self {
            index,
            encoded,
            effective_key,
            most_together: MAX_BATCH_OPERATIONS,
            throttled: 0,
            resent: 0,
            may_have_been_applied: false,
        }
    }
}

/// The queue of operations for one partition range.
#[derive(Debug)]
pub(super) struct RangeQueue {
    queue: VecDeque<Pending>,
    bytes: usize,
    pub(super) window: Window,
}

impl RangeQueue {
    pub(super) fn new(window: Window) -> Self {
        Self { queue: VecDeque::new(), bytes: 0, window }
    }

    pub(super) fn push(&mut self, operation: Pending) {
        self.bytes += operation.encoded.len();
        self.queue.push_back(operation);
    }

    /// Before all others: it has waited already.
    pub(super) fn push_front(&mut self, operation: Pending) {
        self.bytes += operation.encoded.len();
        self.queue.push_front(operation);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether no more than is here would fit into a batch.
    pub(super) fn has_full_batch(&self) -> bool {
        self.queue.len() >= MAX_BATCH_OPERATIONS || self.bytes + BRACKETS > MAX_BATCH_BYTES
    }

    /// The next batch: as many of the first operations as fit.
    pub(super) fn cut(&mut self) -> Vec<Pending> {
        let (mut batch, mut bytes, mut most) = (Vec::new(), BRACKETS, MAX_BATCH_OPERATIONS);
        while let Some(next) = self.queue.front() {
            let (length, together) = (next.encoded.len(), next.most_together.min(most));
            let fits = batch.len() < together && bytes + length <= MAX_BATCH_BYTES;
            // The first always fits: it was refused otherwise.
            if !fits && !batch.is_empty() {
                break;
            }
            (bytes, most) = (bytes + length, together);
            self.bytes -= length;
            batch.extend(self.queue.pop_front());
        }
        batch
    }

    /// All of it, for queues of other partition ranges.
    pub(super) fn drain(&mut self) -> VecDeque<Pending> {
        self.bytes = 0;
        std::mem::take(&mut self.queue)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::operation::{BulkOperation, batch_body};
    use super::*;

    fn pending(index: usize, length: usize) -> Pending {
        let item = json!({"id": index.to_string(), "text": "x".repeat(length)});
        let encoded = BulkOperation::upsert_item("a", &item).encoded(true).1.unwrap();
        Pending::new(index, encoded, EffectivePartitionKey::MIN)
    }

    fn lane(operations: impl Iterator<Item = Pending>) -> RangeQueue {
        let mut lane = RangeQueue::new(Window::new(1));
        operations.for_each(|it| lane.push(it));
        lane
    }

    fn sizes(lane: &mut RangeQueue) -> Vec<usize> {
        std::iter::from_fn(|| Some(lane.cut().len()).filter(|it| *it > 0)).collect()
    }

    #[test]
    fn a_batch_has_at_most_a_hundred_operations_in_their_order() {
        let mut lane = lane((0..250).map(|n| pending(n, 1)));
        assert!(lane.has_full_batch());
        let first: Vec<usize> = lane.cut().iter().map(|it| it.index).collect();
        assert_eq!(first, (0..100).collect::<Vec<_>>());
        assert_eq!(sizes(&mut lane), [100, 50]);
        assert!(lane.is_empty() && lane.bytes == 0);
    }

    #[test]
    fn a_batch_has_at_most_as_many_bytes_as_the_service_takes() {
        let mut lane = lane((0..10).map(|n| pending(n, 600_000)));
        let mut sizes = Vec::new();
        while !lane.is_empty() {
            let batch = lane.cut();
            let body = batch_body(batch.iter().map(|it| &it.encoded));
            assert!(body.len() <= MAX_BATCH_BYTES, "{}", body.len());
            sizes.push(batch.len());
        }
        assert_eq!(sizes, [3, 3, 3, 1]);
    }

    #[test]
    fn an_operation_that_is_to_be_with_fewer_others_is() {
        let mut lane = lane((0..6).map(|n| {
            let most_together = if n == 3 { 1 } else { 4 };
            Pending { most_together, ..pending(n, 1) }
        }));
        assert_eq!(sizes(&mut lane), [3, 1, 2]);
    }

    #[test]
    fn what_is_sent_again_goes_first() {
        let mut lane = lane((0..2).map(|n| pending(n, 1)));
        lane.push_front(pending(7, 1));
        let order: Vec<usize> = lane.cut().iter().map(|it| it.index).collect();
        assert_eq!(order, [7, 0, 1]);
    }
}

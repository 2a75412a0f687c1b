//! Reading the items of a slice without holding the partition's lock while they are evaluated.
//!
//! Items are taken in chunks under the read lock, which a write waits for, and evaluated without it. So a page
//! is not a snapshot of its partition: an item that is written meanwhile is seen as it was or as it is. Ordinals
//! never change, so a scan in their order meets each item at most once; in the order of values, an item whose own
//! value changes may be met twice or not at all.

use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use super::access::Access;
use super::order_by::{OrderBound, SortOrder};
use crate::handlers::target::Slice;
use crate::request::ClassifiedRequest;
use crate::store::{Expiry, IndexKey, Item, Position, Replica};

/// Items taken under the lock at once: some microseconds.
const CHUNK: usize = 256;

/// A scan of a slice.
pub(super) struct Scan<'a> {
    request: &'a ClassifiedRequest,
    slice: &'a Slice,
    /// The setting that counts for the whole page.
    expiry: Expiry,
    rest: Rest<'a>,
    chunk: std::vec::IntoIter<Arc<Item>>,
}

/// The items that are still to be taken.
enum Rest<'a> {
    /// The whole partition from a position on.
    After(Position),
    /// Items by their ordinals, from an index of the list on.
    Listed {
        ordinals: Vec<u64>,
        next: usize,
    },
    /// The whole partition in the order of an index, from a boundary on.
    Ordered {
        order: &'a SortOrder,
        from: OrderBound,
    },
    Nothing,
}

impl<'a> Scan<'a> {
    /// Every item of a slice from `position` on, in the order of ordinals.
    pub(super) fn in_order(
        request: &'a ClassifiedRequest,
        slice: &'a Slice,
        position: Position,
    ) -> Self {
        let access = match slice.window() {
            // The whole partition: its own index by ordinal has the order.
            None => Access::Scan,
            Some(window) => {
                Access::Listed(request.view(&slice.partition).ordinals_within(window, position))
            }
        };
        Self::by(request, slice, access, position)
    }

    /// The items that an access path leads to, in the order of ordinals.
    pub(super) fn by(
        request: &'a ClassifiedRequest,
        slice: &'a Slice,
        access: Access,
        position: Position,
    ) -> Self {
        let rest = match access {
            Access::Listed(ordinals) | Access::Sorted(Some(ordinals)) => {
                Rest::Listed { ordinals, next: 0 }
            }
            Access::Scan | Access::Ordered | Access::Sorted(None) => Rest::After(position),
        };
        Self { request, slice, expiry: request.expiry(), rest, chunk: Vec::new().into_iter() }
    }

    /// The items that an access path leads to, in the order of a query from a boundary on.
    pub(super) fn sorted(
        request: &'a ClassifiedRequest,
        slice: &'a Slice,
        access: Access,
        order: &'a SortOrder,
        from: OrderBound,
    ) -> Self {
        if matches!(access, Access::Ordered) {
            let rest = Rest::Ordered { order, from };
            let expiry = request.expiry();
            return Self { request, slice, expiry, rest, chunk: Vec::new().into_iter() };
        }
        let items: Vec<_> = match access {
            Access::Sorted(None) => Self::in_order(request, slice, Position::Start).collect(),
            access => Self::by(request, slice, access, Position::Start).collect(),
        };
        let chunk = sort(items, order, &from).into_iter();
        Self { request, slice, expiry: request.expiry(), rest: Rest::Nothing, chunk }
    }

    /// Takes the next chunk under the lock; an empty one is the end.
    fn refill(&mut self) {
        let wanted = |item: &Arc<Item>| !self.expiry.is_over(item) && self.slice.contains(item);
        let mut chunk = Vec::new();
        while chunk.is_empty() && !matches!(self.rest, Rest::Nothing) {
            // The lock is taken again for each round, so that one that leaves out many items does not hold it long.
            let replica = self.request.view(&self.slice.partition);
            let (taken, rest) = std::mem::replace(&mut self.rest, Rest::Nothing).take(&replica);
            self.rest = rest;
            chunk.extend(taken.into_iter().filter(wanted));
        }
        self.chunk = chunk.into_iter();
    }
}

impl<'a> Rest<'a> {
    fn take(self, replica: &Replica) -> (Vec<Arc<Item>>, Self) {
        match self {
            Self::Nothing => (Vec::new(), Self::Nothing),
            Self::After(position) => {
                let chunk: Vec<_> = replica.in_order(position).take(CHUNK).cloned().collect();
                let last = chunk.last().filter(|_| chunk.len() == CHUNK).map(|last| last.ordinal);
                let rest = last.map_or(Self::Nothing, |last| Self::After(Position::After(last)));
                (chunk, rest)
            }
            Self::Listed { ordinals, next } => {
                let end = (next + CHUNK).min(ordinals.len());
                let found = ordinals[next..end].iter().filter_map(|&it| replica.by_ordinal(it));
                let chunk = found.cloned().collect();
                match end < ordinals.len() {
                    true => (chunk, Self::Listed { ordinals, next: end }),
                    false => (chunk, Self::Nothing),
                }
            }
            Self::Ordered { order, from } => Self::take_ordered(replica, order, &from),
        }
    }

    fn take_ordered(
        replica: &Replica,
        order: &'a SortOrder,
        from: &OrderBound,
    ) -> (Vec<Arc<Item>>, Self) {
        let index = replica.indexes().get(order.index()).filter(|index| index.is_complete());
        let Some(index) = index else {
            // Gone since the scan began: the replica was reset by a failover, or got an item that does not fit.
            let items = replica.in_order(Position::Start).cloned().collect();
            return (sort(items, order, from), Self::Nothing);
        };
        let entries: Vec<_> = index.from(from, order.is_reverse()).take(CHUNK).collect();
        let found = entries.iter().filter_map(|(_, ordinal)| replica.by_ordinal(*ordinal));
        let chunk = found.cloned().collect();
        match entries.last().filter(|_| entries.len() == CHUNK) {
            Some(&last) => (chunk, Self::Ordered { order, from: Bound::Excluded(last.clone()) }),
            None => (chunk, Self::Nothing),
        }
    }
}

impl Iterator for Scan<'_> {
    type Item = Arc<Item>;

    fn next(&mut self) -> Option<Arc<Item>> {
        if self.chunk.len() == 0 {
            self.refill();
        }
        self.chunk.next()
    }
}

/// The items from a boundary on, in order.
fn sort(items: Vec<Arc<Item>>, order: &SortOrder, from: &OrderBound) -> Vec<Arc<Item>> {
    let range = match order.is_reverse() {
        false => (from.as_ref(), Bound::Unbounded),
        true => (Bound::Unbounded, from.as_ref()),
    };
    let keyed = items.into_iter().map(|item| ((order.key_of(&item), item.ordinal), item));
    let mut keyed: Vec<((IndexKey, u64), Arc<Item>)> =
        keyed.filter(|(key, _)| range.contains(key)).collect();
    keyed.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    if order.is_reverse() {
        keyed.reverse();
    }
    keyed.into_iter().map(|(_, item)| item).collect()
}

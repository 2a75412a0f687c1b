//! Reading the items of a slice without holding the partition's lock while they are evaluated.
//!
//! Items are taken in chunks under the read lock, which a write waits for, and evaluated without it. So a page
//! is not a snapshot of its partition: an item that is written meanwhile is seen as it was or as it is. Ordinals
//! never change, so a scan in their order meets each item at most once.

use std::sync::Arc;

use super::target::Slice;
use crate::request::ClassifiedRequest;
use crate::store::{Item, Position, Replica};

/// Items taken under the lock at once: some microseconds.
const CHUNK: usize = 256;

/// A scan of a slice.
pub(super) struct Scan<'a> {
    request: &'a ClassifiedRequest,
    slice: &'a Slice,
    rest: Rest,
    chunk: std::vec::IntoIter<Arc<Item>>,
}

/// What is still to be taken.
enum Rest {
    /// The whole partition from a position on.
    After(Position),
    /// Items by their ordinals, from an index of the list on.
    Listed {
        ordinals: Vec<u64>,
        next: usize,
    },
    Nothing,
}

impl<'a> Scan<'a> {
    /// The items of a slice from `position` on, in the order of their ordinals.
    pub(super) fn in_order(
        request: &'a ClassifiedRequest,
        slice: &'a Slice,
        position: Position,
    ) -> Self {
        let rest = match slice.window() {
            // The whole partition: its own index by ordinal has the order.
            None => Rest::After(position),
            Some(window) => {
                let ordinals = request.view(&slice.partition).ordinals_within(window, position);
                Rest::Listed { ordinals, next: 0 }
            }
        };
        Self { request, slice, rest, chunk: Vec::new().into_iter() }
    }

    /// Takes the next chunk under the lock; an empty one is the end.
    fn refill(&mut self) {
        let replica = self.request.view(&self.slice.partition);
        let now = self.request.now.seconds();
        let wanted = |item: &Arc<Item>| !item.is_expired(now) && self.slice.has_key_of(item);
        let mut chunk = Vec::new();
        while chunk.is_empty() && !matches!(self.rest, Rest::Nothing) {
            let (taken, rest) = std::mem::replace(&mut self.rest, Rest::Nothing).take(&replica);
            self.rest = rest;
            chunk.extend(taken.into_iter().filter(wanted));
        }
        self.chunk = chunk.into_iter();
    }
}

impl Rest {
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

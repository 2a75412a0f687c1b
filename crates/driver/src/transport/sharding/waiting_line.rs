//! The requests that wait for a stream, in the order in which they came.
//!
//! Nobody waits for a wake-up that never comes: one who joins looks for a free stream *after* joining,
//! and one who releases a stream looks at the line *after* releasing. A fence stands between the two steps
//! of each, so at least one of them sees the other.

use super::sync::{AtomicCell, AtomicIsize, AtomicUsize, Ordering, Queue, fence};

/// A bounded line.
///
/// Whoever gives up waiting stays in the line until it is passed; `is_dead` finds those at the front when
/// the line is full.
pub(super) struct WaitingLine<W> {
    capacity: usize,
    /// Places taken, by those who are about to stand in the line too.
    places: AtomicUsize,
    /// Those who stand in the line. It is counted up after standing, so for a moment it can be below zero.
    length: AtomicIsize,
    /// The first in line, where one was taken out and put back.
    front: AtomicCell<Option<Box<W>>>,
    queue: Queue<W>,
}

impl<W> WaitingLine<W> {
    /// An empty line for this many.
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            capacity,
            places: AtomicUsize::new(0),
            length: AtomicIsize::new(0),
            front: AtomicCell::new(None),
            queue: Queue::new(),
        }
    }

    /// Whether nobody seems to be in the line, for one who comes now.
    pub(super) fn is_empty(&self) -> bool {
        self.length.load(Ordering::Relaxed) <= 0
    }

    /// Whether somebody is in the line, for one who has just released a stream.
    pub(super) fn is_anyone_waiting(&self) -> bool {
        fence(Ordering::SeqCst);
        self.length.load(Ordering::Relaxed) > 0
    }

    /// How many are in the line, those who gave up included.
    pub(super) fn length(&self) -> usize {
        usize::try_from(self.length.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Joins at the end; a line that is full of the living hands the newcomer back.
    pub(super) fn join(&self, waiter: W, is_dead: impl Fn(&W) -> bool) -> Result<(), W> {
        if !self.take_place() {
            self.drop_dead(is_dead);
            if !self.take_place() {
                return Err(waiter);
            }
        }
        self.queue.push(waiter);
        self.length.fetch_add(1, Ordering::AcqRel);
        fence(Ordering::SeqCst);
        Ok(())
    }

    /// The first in line, who leaves it.
    pub(super) fn next(&self) -> Option<W> {
        let first = self.take_first()?;
        self.places.fetch_sub(1, Ordering::AcqRel);
        Some(first)
    }

    fn take_first(&self) -> Option<W> {
        let first = match self.front.take() {
            Some(first) => *first,
            None => self.queue.pop()?,
        };
        self.length.fetch_sub(1, Ordering::AcqRel);
        Some(first)
    }

    fn take_place(&self) -> bool {
        let below = |places: usize| (places < self.capacity).then_some(places + 1);
        self.places.fetch_update(Ordering::AcqRel, Ordering::Relaxed, below).is_ok()
    }

    /// Lets those at the front go who no longer wait. The first who does keeps his place.
    fn drop_dead(&self, is_dead: impl Fn(&W) -> bool) {
        for _ in 0..self.capacity {
            let Some(first) = self.take_first() else { return };
            if is_dead(&first) {
                self.places.fetch_sub(1, Ordering::AcqRel);
                continue;
            }
            if let Some(other) = self.front.swap(Some(Box::new(first))) {
                // Two cleaned up at once. Nobody is lost; one stands further back than he did.
                self.queue.push(*other);
            }
            self.length.fetch_add(1, Ordering::AcqRel);
            fence(Ordering::SeqCst);
            return;
        }
    }
}

impl<W> std::fmt::Debug for WaitingLine<W> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "WaitingLine({} of {})", self.length(), self.capacity)
    }
}

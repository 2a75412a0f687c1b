//! The requests that wait for a stream: a bounded FIFO queue without locks.
//!
//! No wakeup is lost. A waiter enqueues itself and *then* looks for a free stream; a releaser looks at
//! the queue *after* releasing its stream. Each side writes, then reads what the other writes
//! (Dekker's pattern), and a sequentially consistent fence stands between the two steps of each: without
//! it both reads could miss both writes (store buffering), and the waiter would sleep beside a free
//! stream. `tests/it/stream_reservation_model.rs` tries every interleaving.

use super::sync::{AtomicIsize, AtomicU64, AtomicUsize, Ordering, Queue, fence};

/// A FIFO queue of waiters, bounded by their number and by the bytes that they keep in memory.
///
/// A cancelled waiter stays until it is dequeued; when the queue is full, cancelled waiters are dropped
/// first, wherever they are in it.
pub(super) struct WaitQueue<W> {
    capacity: Capacity,
    /// The waiters and bytes taken, also by waiters that are about to be pushed: see [`Occupancy`]. One
    /// atomic number, so that a waiter takes both or neither.
    taken: AtomicU64,
    /// Waiters in the queue. Counted after the push, so for a moment it can be below zero.
    len: AtomicIsize,
    /// Waiters that were cancelled since the last cleanup, or more: some may have been dequeued since.
    cancelled: AtomicUsize,
    queue: Queue<QueuedWaiter<W>>,
}

/// The capacity of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Capacity {
    /// Waiters, cancelled ones included.
    pub(super) waiters: usize,
    /// Bytes that they keep in memory.
    pub(super) bytes: usize,
}

/// Why a queue takes no further waiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExceededLimit {
    /// It holds as many waiters as it may.
    Waiters,
    /// Its waiters hold as many bytes as they may.
    Bytes,
}

/// A waiter, and the bytes that it was counted with.
struct QueuedWaiter<W> {
    waiter: W,
    bytes: usize,
}

/// The bits of an occupancy that count bytes: up to a tebibyte. Those above count waiters, up to 16 million.
const BYTE_BITS: u32 = 40;
const MAX_BYTES: u64 = (1 << BYTE_BITS) - 1;
const MAX_WAITERS: u64 = (1 << (u64::BITS - BYTE_BITS)) - 1;

/// Waiters and their bytes, as one number.
#[derive(Clone, Copy)]
struct Occupancy {
    waiters: u64,
    bytes: u64,
}

impl Occupancy {
    fn of(number: u64) -> Self {
        Self { waiters: number >> BYTE_BITS, bytes: number & MAX_BYTES }
    }

    /// One waiter with this many bytes, for adding and subtracting.
    fn one(bytes: usize) -> u64 {
        (1 << BYTE_BITS) | (bytes as u64).min(MAX_BYTES)
    }

    /// The limit that a waiter with this many bytes would exceed.
    fn exceeds(self, capacity: Capacity, bytes: usize) -> Option<ExceededLimit> {
        let bytes = self.bytes.saturating_add(bytes as u64);
        if self.waiters >= (capacity.waiters as u64).min(MAX_WAITERS) {
            Some(ExceededLimit::Waiters)
        } else if bytes > (capacity.bytes as u64).min(MAX_BYTES) {
            Some(ExceededLimit::Bytes)
        } else {
            None
        }
    }
}

impl<W> WaitQueue<W> {
    /// An empty queue.
    pub(super) fn new(capacity: Capacity) -> Self {
        Self {
            capacity,
            taken: AtomicU64::new(0),
            len: AtomicIsize::new(0),
            cancelled: AtomicUsize::new(0),
            queue: Queue::new(),
        }
    }

    /// Whether the queue seems empty, for a new request.
    pub(super) fn is_empty(&self) -> bool {
        // Relaxed: a hint. A request that misses a waiter overtakes it, which costs order and no wakeup.
        self.len.load(Ordering::Relaxed) <= 0
    }

    /// Whether the queue has waiters, for a caller that has just released a stream.
    pub(super) fn has_waiters(&self) -> bool {
        // SeqCst: the releaser's half of Dekker's pattern; pairs with the fence after a push. The stream
        // is released before, the length is read after.
        fence(Ordering::SeqCst);
        // Relaxed: the fence above orders it.
        self.len.load(Ordering::Relaxed) > 0
    }

    /// How many are in the queue, cancelled ones included.
    pub(super) fn len(&self) -> usize {
        // Relaxed: for diagnostics; it is out of date as soon as it is read.
        usize::try_from(self.len.load(Ordering::Relaxed)).unwrap_or(0)
    }

    /// Adds a waiter at the tail, unless the queue is full and no waiter in it is cancelled.
    ///
    /// Either way the caller serves the queue afterwards: the cleanup takes waiters out for a moment, in
    /// which a releaser does not see them.
    pub(super) fn enqueue(
        &self,
        waiter: W,
        bytes: usize,
        is_cancelled: impl Fn(&W) -> bool,
    ) -> Result<(), ExceededLimit> {
        if self.reserve_slot(bytes).is_err() {
            self.drop_cancelled(is_cancelled);
            self.reserve_slot(bytes)?;
        }
        self.queue.push(QueuedWaiter { waiter, bytes });
        self.announce();
        Ok(())
    }

    /// Removes the waiter at the head.
    pub(super) fn dequeue(&self) -> Option<W> {
        let first = self.pop()?;
        self.release_slot(first.bytes);
        Some(first.waiter)
    }

    fn pop(&self) -> Option<QueuedWaiter<W>> {
        let first = self.queue.pop()?;
        // AcqRel, as in `announce`. The queue itself hands the waiter over; a counter would need less,
        // but nothing here is on the way of a request that finds a stream.
        self.len.fetch_sub(1, Ordering::AcqRel);
        Some(first)
    }

    /// Counts a waiter that was pushed.
    fn announce(&self) {
        // Release: who reads this length finds the waiter in the queue.
        self.len.fetch_add(1, Ordering::AcqRel);
        // SeqCst: the waiter's half of Dekker's pattern; pairs with the fence in `has_waiters`. The
        // caller looks for a free stream after it.
        fence(Ordering::SeqCst);
    }

    fn reserve_slot(&self, bytes: usize) -> Result<(), ExceededLimit> {
        let one_more = |taken: u64| {
            let is_free = Occupancy::of(taken).exceeds(self.capacity, bytes).is_none();
            is_free.then(|| taken + Occupancy::one(bytes))
        };
        // Acquire: pairs with the Release in `release_slot`, so a slot is taken again only after its
        // waiter is out of the queue. Relaxed on failure: nothing was taken.
        let taken = self.taken.fetch_update(Ordering::AcqRel, Ordering::Relaxed, one_more);
        taken.map(drop).map_err(|taken| {
            let exceeded = Occupancy::of(taken).exceeds(self.capacity, bytes);
            exceeded.unwrap_or(ExceededLimit::Waiters)
        })
    }

    fn release_slot(&self, bytes: usize) {
        // Release: pairs with the Acquire in `reserve_slot`.
        self.taken.fetch_sub(Occupancy::one(bytes), Ordering::AcqRel);
    }

    /// Notes that a waiter of the queue was cancelled: the next cleanup will find it.
    pub(super) fn mark_cancelled(&self) {
        // Release: pairs with the swap in `drop_cancelled`; who takes the mark finds the waiter cancelled.
        self.cancelled.fetch_add(1, Ordering::Release);
    }

    /// Drops all cancelled waiters: one turn of the whole queue, which keeps its order.
    fn drop_cancelled(&self, is_cancelled: impl Fn(&W) -> bool) {
        // Without a mark nothing is to be found: a queue full of living waiters is not turned for every
        // newcomer. Acquire: see `mark_cancelled`.
        if self.cancelled.swap(0, Ordering::AcqRel) == 0 {
            return;
        }
        for _ in 0..self.len() {
            let Some(first) = self.pop() else { return };
            match is_cancelled(&first.waiter) {
                true => self.release_slot(first.bytes),
                // No wakeup is lost, but the order is not FIFO if two threads turn the queue at once.
                false => {
                    self.queue.push(first);
                    self.announce();
                }
            }
        }
    }
}

impl<W> std::fmt::Debug for WaitQueue<W> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "WaitQueue({} of {})", self.len(), self.capacity.waiters)
    }
}

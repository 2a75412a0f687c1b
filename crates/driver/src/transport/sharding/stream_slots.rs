//! The streams of one shard: reserved one by one, until the shard drains.
//!
//! One atomic number holds both how many are reserved and whether more may be, so a reservation can
//! neither exceed the limit nor slip in after draining has begun.

use super::sync::{AtomicU64, Ordering};

/// The bit that says that no more streams are given out. The lower bits count those in use.
const DRAINING: u64 = 1 << 63;

/// How many streams of a shard are reserved.
#[derive(Debug)]
pub(super) struct StreamSlots(AtomicU64);

/// Why no stream could be reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The limit is reached.
    Full,
    /// The shard takes no more requests.
    Draining,
}

/// The state of a shard when draining began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DrainStart {
    /// Another thread began it before.
    AlreadyBegun,
    /// This many streams are in use; releasing the last of them reports the end.
    InUse(u32),
    /// Nothing was in use: this is the end.
    Drained,
}

impl StreamSlots {
    /// No stream is reserved.
    pub(super) fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Reserves a stream below the limit; says how many are reserved then.
    pub(super) fn try_reserve(&self, limit: u32) -> Result<u32, Refusal> {
        // Relaxed: a first guess. The compare-and-swap below decides.
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            if seen & DRAINING != 0 {
                return Err(Refusal::Draining);
            }
            if seen >= u64::from(limit) {
                return Err(Refusal::Full);
            }
            // AcqRel: pairs with `release`, so what the slot's last user did comes before what its next
            // one does. Weak: a spurious failure costs one more round of a loop that is here anyway.
            match self.0.compare_exchange_weak(seen, seen + 1, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return Ok(count(seen + 1)),
                Err(now) => seen = now,
            }
        }
    }

    /// Gives a stream back; says whether it was the last of a draining shard.
    pub(super) fn release(&self) -> bool {
        // Release: all that this user did comes before the next reservation. Acquire: the thread that sees the
        // last stream go sees what every other user did, and may close the connection.
        let before = self.0.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(count(before) > 0, "a stream is released once");
        before == DRAINING + 1
    }

    /// Gives out no more streams.
    pub(super) fn start_draining(&self) -> DrainStart {
        // AcqRel, as in `release`: one of the two sees the other, so the end is reported exactly once.
        let before = self.0.fetch_or(DRAINING, Ordering::AcqRel);
        match (before & DRAINING != 0, count(before)) {
            (true, _) => DrainStart::AlreadyBegun,
            (false, 0) => DrainStart::Drained,
            (false, in_use) => DrainStart::InUse(in_use),
        }
    }

    /// Whether no more streams are given out.
    pub(super) fn is_draining(&self) -> bool {
        // Relaxed: a hint for selection; `try_reserve` decides.
        self.0.load(Ordering::Relaxed) & DRAINING != 0
    }

    /// How many are reserved now.
    pub(super) fn in_use(&self) -> u32 {
        // Relaxed: a hint for selection and for statistics.
        count(self.0.load(Ordering::Relaxed))
    }
}

fn count(number: u64) -> u32 {
    u32::try_from(number & !DRAINING).unwrap_or(u32::MAX)
}

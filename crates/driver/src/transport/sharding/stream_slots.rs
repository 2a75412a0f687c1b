//! The streams of one shard: reserved one by one, until the shard is retired.
//!
//! One atomic number holds both how many are reserved and whether more may be, so a reservation can
//! neither exceed the limit nor slip in after retirement.

use super::sync::{AtomicU64, Ordering};

/// The bit that says that no more streams are given out.
const RETIRED: u64 = 1 << 63;

/// How many streams of a shard are reserved.
#[derive(Debug)]
pub(super) struct StreamSlots(AtomicU64);

/// Why no stream could be reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The limit is reached.
    Full,
    /// The shard takes no more requests.
    Retired,
}

/// What retiring found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Retirement {
    /// Somebody else retired it before.
    Already,
    /// This many streams are still in use; the last to be released reports the end.
    Draining(u32),
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
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            if seen & RETIRED != 0 {
                return Err(Refusal::Retired);
            }
            if seen >= u64::from(limit) {
                return Err(Refusal::Full);
            }
            match self.0.compare_exchange_weak(seen, seen + 1, Ordering::AcqRel, Ordering::Relaxed)
            {
                Ok(_) => return Ok(count(seen + 1)),
                Err(now) => seen = now,
            }
        }
    }

    /// Gives a stream back; says whether it was the last of a retired shard.
    pub(super) fn release(&self) -> bool {
        let before = self.0.fetch_sub(1, Ordering::AcqRel);
        debug_assert!(count(before) > 0, "a stream is released once");
        before == RETIRED + 1
    }

    /// Gives out no more streams.
    pub(super) fn retire(&self) -> Retirement {
        let before = self.0.fetch_or(RETIRED, Ordering::AcqRel);
        match (before & RETIRED != 0, count(before)) {
            (true, _) => Retirement::Already,
            (false, 0) => Retirement::Drained,
            (false, in_use) => Retirement::Draining(in_use),
        }
    }

    /// Whether more may be given out.
    pub(super) fn is_retired(&self) -> bool {
        self.0.load(Ordering::Relaxed) & RETIRED != 0
    }

    /// How many are reserved now.
    pub(super) fn in_use(&self) -> u32 {
        count(self.0.load(Ordering::Relaxed))
    }
}

fn count(number: u64) -> u32 {
    u32::try_from(number & !RETIRED).unwrap_or(u32::MAX)
}

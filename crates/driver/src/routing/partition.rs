//! A partition as requests are routed to it: its name, what it descends from, where it was asked lately.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use http::HeaderValue;
use sidereal_protocol::PartitionKeyRangeId;

use super::slowness::Slowness;
use crate::exchange::MAX_ENDPOINT_SLOTS;

/// Names a partition of an account: range `0` exists in every container.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PartitionId {
    pub(crate) container_rid: Arc<str>,
    pub(crate) range: PartitionKeyRangeId,
}

/// A partition that requests go to. Made when a container is resolved, or from what a response says.
#[derive(Debug)]
pub(crate) struct Partition {
    pub(crate) id: PartitionId,
    /// The RID of its container, as requests carry it.
    pub(crate) container_rid_header: Option<HeaderValue>,
    /// The ranges that it was split or merged from.
    pub(crate) parents: Vec<PartitionKeyRangeId>,
    pub(crate) activity: PartitionActivity,
    /// How slow it is where it is served.
    slowness: [Slowness; 2],
}

impl Partition {
    pub(crate) fn new(
        container_rid: Arc<str>,
        range: PartitionKeyRangeId,
        parents: Vec<PartitionKeyRangeId>,
    ) -> Self {
        // A RID is base64, and so a header.
        let container_rid_header = HeaderValue::from_str(&container_rid).ok();
        let id = PartitionId { container_rid, range };
        let (activity, slowness) = (PartitionActivity::default(), Default::default());
        Self { id, container_rid_header, parents, activity, slowness }
    }

    /// How slow its reads or its writes are: apart from each other, for they may be served in different regions.
    pub(crate) fn slowness(&self, traffic: Traffic) -> &Slowness {
        &self.slowness[usize::from(traffic == Traffic::Writes)]
    }

    /// The id of its range.
    pub(crate) fn range(&self) -> &PartitionKeyRangeId {
        &self.id.range
    }
}

/// Reads or writes: a partition's traffic of each kind is moved by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Traffic {
    Reads,
    Writes,
}

impl Traffic {
    pub(crate) fn of(is_write: bool) -> Self {
        if is_write { Self::Writes } else { Self::Reads }
    }
}

/// In which regions a partition was asked lately, to know what share of an endpoint's partitions fails.
///
/// A coarse time for each endpoint, kept on the way of a request: one load, and a store only when the tick has
/// changed, so that requests on several cores do not contend for the cache line.
#[derive(Debug)]
pub(crate) struct PartitionActivity {
    asked: [AtomicU32; MAX_ENDPOINT_SLOTS],
}

impl Default for PartitionActivity {
    fn default() -> Self {
        Self { asked: [const { AtomicU32::new(0) }; MAX_ENDPOINT_SLOTS] }
    }
}

impl PartitionActivity {
    /// Notes that the partition is asked at the endpoint of a slot.
    pub(crate) fn note(&self, slot: usize, tick: Tick) {
        let Some(asked) = self.asked.get(slot) else { return };
        // Relaxed: a statistic. A store that is lost is made up for by the next request.
        if asked.load(Ordering::Relaxed) != tick.0 {
            asked.store(tick.0, Ordering::Relaxed);
        }
    }

    /// Whether the partition was asked there within so many ticks.
    pub(crate) fn was_asked(&self, slot: usize, now: Tick, within: u32) -> bool {
        let asked = self.asked.get(slot).map_or(0, |asked| asked.load(Ordering::Relaxed));
        asked != 0 && now.0.saturating_sub(asked) <= within
    }
}

/// A moment in units of an eighth of the window that activity is looked at in. Zero is never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tick(u32);

/// Ticks in a window.
pub(crate) const TICKS: u32 = 8;

impl Tick {
    /// The tick of a moment, counted from an earlier one.
    pub(crate) fn of(now: Instant, origin: Instant, window: Duration) -> Self {
        let length = (millis(window) / u64::from(TICKS)).max(1);
        let ticks = millis(now.saturating_duration_since(origin)) / length;
        // From one on: zero is never. A driver that runs out of ticks keeps the last one.
        Self(u32::try_from(ticks).unwrap_or(u32::MAX - 1).saturating_add(1))
    }
}

/// Milliseconds in a machine word: this is on the way of every request, and `as_millis` divides wider numbers.
fn millis(duration: Duration) -> u64 {
    duration.as_secs().saturating_mul(1_000).saturating_add(duration.subsec_millis().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::from_secs(8);

    #[test]
    fn activity_is_known_for_a_window_and_by_endpoint() {
        let (activity, origin) = (PartitionActivity::default(), Instant::now());
        let tick = |seconds| Tick::of(origin + Duration::from_secs(seconds), origin, WINDOW);
        assert!(!activity.was_asked(1, tick(0), TICKS));
        activity.note(1, tick(100));
        assert!(activity.was_asked(1, tick(108), TICKS));
        assert!(!activity.was_asked(1, tick(109), TICKS));
        assert!(!activity.was_asked(0, tick(100), TICKS));
    }

    #[test]
    fn an_endpoint_beyond_the_slots_is_not_kept() {
        let (activity, now) = (PartitionActivity::default(), Instant::now());
        let tick = Tick::of(now, now, WINDOW);
        activity.note(MAX_ENDPOINT_SLOTS, tick);
        assert!(!activity.was_asked(MAX_ENDPOINT_SLOTS, tick, TICKS));
    }

    #[test]
    fn no_window_panics() {
        let now = Instant::now();
        for window in [Duration::ZERO, Duration::MAX] {
            let _ = Tick::of(now + Duration::from_secs(1 << 40), now, window);
        }
    }
}

//! The account's regions: which of them accept reads and writes, and how their replicas follow.
//!
//! A [`Topology`] is a value, replaced whole when something happens. Whether a region accepts writes at a
//! moment is a question to the value, so every rule of a handover is one short test.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use sidereal_protocol::RegionName;

use crate::clock::Timestamp;
use crate::store::RegionCount;

/// What the account knows of its regions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Topology {
    pub(crate) regions: Vec<Region>,
    /// The region that accepts writes, or will when the handover is over.
    write: usize,
    handover: Option<Handover>,
    /// Every region accepts writes.
    pub(crate) multi_write: bool,
    /// Part of session tokens; grows when history is cut off.
    pub(crate) version: i64,
}

/// One region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) name: RegionName,
    /// The port of the region's own endpoint; none where the account has a single endpoint.
    pub(crate) port: Option<u16>,
    pub(crate) online: bool,
    pub(crate) removed: bool,
    pub(crate) replication: Replication,
}

/// How a region's replicas follow the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Replication {
    pub(crate) delay: Duration,
    pub(crate) paused: bool,
}

/// The passing of writes from one region to the next: first the new one is announced while the old one
/// still accepts, then the old one refuses while it is still listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Handover {
    from: usize,
    switches_at: Timestamp,
    ends_at: Timestamp,
}

/// How long the two parts of a graceful handover take, as seen on the service.
pub(crate) const ANNOUNCEMENT: Duration = Duration::from_secs(6);
pub(crate) const OVERLAP: Duration = Duration::from_secs(16);

impl Topology {
    /// Regions in the order of their names; the first accepts writes.
    pub(crate) fn new(names: &[RegionName], multi_write: bool) -> Self {
        let region = |name: &RegionName| Region {
            name: name.clone(),
            port: None,
            online: true,
            removed: false,
            replication: Replication::default(),
        };
        Self {
            regions: names.iter().map(region).collect(),
            write: 0,
            handover: None,
            multi_write,
            version: 1,
        }
    }

    pub(crate) fn index_of(&self, name: &RegionName) -> Option<usize> {
        self.regions.iter().position(|region| region.name == *name && !region.removed)
    }

    /// What a new partition needs to know.
    pub(crate) fn replication(&self) -> RegionCount {
        RegionCount { regions: self.regions.len(), multi_write: self.multi_write }
    }

    /// The one region that accepts writes now; in a multi-write account, the one that accepts them from
    /// clients that do not know of the others.
    pub(crate) fn writer(&self, now: Timestamp) -> usize {
        match self.handover {
            Some(handover) if now < handover.switches_at => handover.from,
            _ => self.write,
        }
    }

    /// The regions listed as writable: both, while a handover lasts.
    pub(crate) fn writable(&self, now: Timestamp) -> Vec<usize> {
        if self.multi_write {
            return self.readable();
        }
        let old =
            self.handover.filter(|handover| now < handover.ends_at).map(|handover| handover.from);
        std::iter::once(self.write).chain(old).collect()
    }

    /// The regions listed as readable, the write region first.
    pub(crate) fn readable(&self) -> Vec<usize> {
        let others = (0..self.regions.len()).filter(|region| *region != self.write);
        let all = std::iter::once(self.write).chain(others);
        all.filter(|region| !self.regions[*region].removed).collect()
    }

    /// Lets writes move to another region without losing any.
    pub(crate) fn hand_over(
        &mut self,
        to: usize,
        now: Timestamp,
        announcement: Duration,
        overlap: Duration,
    ) {
        let from = self.writer(now);
        if from == to {
            return;
        }
        let switches_at = now.after(announcement);
        self.handover = Some(Handover { from, switches_at, ends_at: switches_at.after(overlap) });
        self.write = to;
    }

    /// Makes another region the writer at once.
    pub(crate) fn seize(&mut self, to: usize) {
        self.write = to;
        self.handover = None;
        self.version += 1;
    }
}

/// The current topology; replaced whole.
#[derive(Debug)]
pub(crate) struct Regions(RwLock<Arc<Topology>>);

impl Regions {
    pub(crate) fn new(topology: Topology) -> Self {
        Self(RwLock::new(Arc::new(topology)))
    }

    pub(crate) fn current(&self) -> Arc<Topology> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the topology by a changed copy.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Topology)) {
        let mut current = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let mut next = Topology::clone(&current);
        change(&mut next);
        *current = Arc::new(next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp::from_millis(1_000_000);

    fn three() -> Topology {
        Topology::new(&["West US", "East US", "North Europe"].map(RegionName::from), false)
    }

    #[test]
    fn the_write_region_is_listed_first() {
        let mut topology = three();
        assert_eq!(topology.readable(), [0, 1, 2]);
        topology.seize(2);
        assert_eq!(topology.readable(), [2, 0, 1]);
        topology.regions[0].removed = true;
        assert_eq!(topology.readable(), [2, 1]);
    }

    #[test]
    fn a_handover_announces_then_switches_then_ends() {
        let mut topology = three();
        topology.hand_over(1, START, ANNOUNCEMENT, OVERLAP);
        let switch = START.after(ANNOUNCEMENT);
        let end = switch.after(OVERLAP);
        let before = |moment: Timestamp| Timestamp::from_millis(moment.millis() - 1);
        assert_eq!((topology.writer(START), topology.writable(START)), (0, vec![1, 0]));
        assert_eq!((topology.writer(before(switch)), topology.writer(switch)), (0, 1));
        assert_eq!((topology.writable(before(end)), topology.writable(end)), (vec![1, 0], vec![1]));
    }

    #[test]
    fn a_seizure_takes_effect_at_once_and_starts_a_new_history() {
        let mut topology = three();
        topology.seize(2);
        assert_eq!((topology.writer(START), topology.writable(START)), (2, vec![2]));
        assert_eq!(topology.version, 2);
    }
}

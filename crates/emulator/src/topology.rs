//! The account's topology: its regions, which of them accept reads and writes, how their replicas follow.
//!
//! A [`Topology`] is an immutable snapshot, replaced whole (copy on write). Whether a region accepts writes
//! at a moment is a pure function of snapshot and time, so every rule of a failover is one short test.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sidereal_protocol::RegionName;

use crate::clock::Timestamp;

/// The regions of the account, as an immutable snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Topology {
    pub(crate) regions: Vec<Region>,
    /// The region that accepts writes, or will when the handover is over.
    write: usize,
    handover: Option<Handover>,
    /// Every region accepts writes.
    pub(crate) multi_write: bool,
    /// Part of vector session tokens; grows when a forced failover truncates the log.
    pub(crate) version: i64,
    /// Whether the account is kept on disk.
    pub(crate) stored: bool,
}

/// The part of a topology that is kept on disk. Not which regions are offline, and not their ports: an outage is over
/// when the account starts again.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TopologyRecord {
    write: u32,
    handover: Option<HandoverRecord>,
    version: i64,
    regions: Vec<RegionRecord>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct HandoverRecord {
    from: u32,
    switches_at: u64,
    ends_at: u64,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct RegionRecord {
    removed: bool,
    delay: u64,
    paused: bool,
}

/// One region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Region {
    pub(crate) name: RegionName,
    /// The port of the region's own endpoint; none where the account has a single endpoint.
    pub(crate) port: Option<u16>,
    /// The URL that clients are told instead of the one that follows from `port`.
    pub(crate) advertised_url: Option<Arc<str>>,
    /// Whether the region's endpoint accepts connections.
    pub(crate) online: bool,
    /// Whether the region was removed from the account. Its index stays, for partitions and counters use
    /// it.
    pub(crate) removed: bool,
    pub(crate) replication: Replication,
}

/// How a region's replicas follow the log of the write region.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Replication {
    pub(crate) delay: Duration,
    pub(crate) paused: bool,
}

/// How many replicas a partition has, and whether all of them accept writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplicaSet {
    pub(crate) regions: usize,
    pub(crate) multi_write: bool,
    /// Whether what they hold is kept on disk.
    pub(crate) stored: bool,
}

/// A planned failover of the write region: first the new one is announced while the old one still accepts
/// writes, then the old one refuses them while it is still listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Handover {
    from: usize,
    switches_at: Timestamp,
    ends_at: Timestamp,
}

/// How long the two phases of a planned failover take, as measured on the service: a client sees the new
/// write region in the account for this long before the old one refuses, and the old one for this long after.
pub(crate) const ANNOUNCEMENT: Duration = Duration::from_secs(6);
pub(crate) const OVERLAP: Duration = Duration::from_secs(16);

impl Topology {
    /// SharedTopology in the order of their names; the first accepts writes.
    pub(crate) fn new(names: &[RegionName], multi_write: bool) -> Self {
        let region = |name: &RegionName| Region {
            name: name.clone(),
            port: None,
            advertised_url: None,
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
            stored: false,
        }
    }

    /// The part that is kept on disk.
    pub(crate) fn record(&self) -> TopologyRecord {
        let handover = self.handover.map(|handover| HandoverRecord {
            from: handover.from as u32,
            switches_at: handover.switches_at.millis(),
            ends_at: handover.ends_at.millis(),
        });
        let region = |region: &Region| RegionRecord {
            removed: region.removed,
            delay: u64::try_from(region.replication.delay.as_millis()).unwrap_or(u64::MAX),
            paused: region.replication.paused,
        };
        TopologyRecord {
            write: self.write as u32,
            handover,
            version: self.version,
            regions: self.regions.iter().map(region).collect(),
        }
    }

    /// Takes over what was kept of an account with the same regions.
    pub(crate) fn restore(&mut self, record: &TopologyRecord) {
        self.write = record.write as usize;
        self.version = record.version;
        self.handover = record.handover.as_ref().map(|handover| Handover {
            from: handover.from as usize,
            switches_at: Timestamp::from_millis(handover.switches_at),
            ends_at: Timestamp::from_millis(handover.ends_at),
        });
        for (region, record) in self.regions.iter_mut().zip(&record.regions) {
            region.removed = record.removed;
            let delay = Duration::from_millis(record.delay);
            region.replication = Replication { delay, paused: record.paused };
        }
    }

    pub(crate) fn index_of(&self, name: &RegionName) -> Option<usize> {
        self.regions.iter().position(|region| region.name == *name && !region.removed)
    }

    /// The replicas of a new partition.
    pub(crate) fn replica_set(&self) -> ReplicaSet {
        ReplicaSet {
            regions: self.regions.len(),
            multi_write: self.multi_write,
            stored: self.stored,
        }
    }

    /// The one region that accepts writes now; in a multi-write account, the one that accepts them from
    /// clients that do not know of the others.
    pub(crate) fn write_region(&self, now: Timestamp) -> usize {
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

    /// Starts a planned failover: writes move to another region and none is lost.
    pub(crate) fn hand_over(
        &mut self,
        to: usize,
        now: Timestamp,
        announcement: Duration,
        overlap: Duration,
    ) {
        let from = self.write_region(now);
        // It accepts writes already: nothing has to move.
        if from == to {
            return;
        }
        let switches_at = now.after(announcement);
        self.handover = Some(Handover { from, switches_at, ends_at: switches_at.after(overlap) });
        self.write = to;
    }

    /// Makes another region the write region at once (forced failover).
    pub(crate) fn force_write_region(&mut self, to: usize) {
        self.write = to;
        self.handover = None;
        self.version += 1;
    }
}

/// The current snapshot. Readers clone the `Arc` and hold no lock while they work with it.
#[derive(Debug)]
pub(crate) struct SharedTopology(RwLock<Arc<Topology>>);

impl SharedTopology {
    pub(crate) fn new(topology: Topology) -> Self {
        Self(RwLock::new(Arc::new(topology)))
    }

    pub(crate) fn current(&self) -> Arc<Topology> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Looks at the snapshot while nobody can replace it.
    pub(crate) fn read(&self, look: impl FnOnce(&Topology)) {
        look(&self.0.read().unwrap_or_else(PoisonError::into_inner));
    }

    /// Replaces the topology by a changed copy.
    pub(crate) fn change(&self, change: impl FnOnce(&mut Topology)) {
        // The write lock is held from the copy to the replacement, so that of two concurrent changes
        // neither is lost (no lost update). `change` must not look at the topology through `self`.
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
        topology.force_write_region(2);
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
        assert_eq!((topology.write_region(START), topology.writable(START)), (0, vec![1, 0]));
        assert_eq!((topology.write_region(before(switch)), topology.write_region(switch)), (0, 1));
        assert_eq!((topology.writable(before(end)), topology.writable(end)), (vec![1, 0], vec![1]));
    }

    #[test]
    fn a_forced_failover_takes_effect_at_once_and_starts_a_new_version() {
        let mut topology = three();
        topology.force_write_region(2);
        assert_eq!((topology.write_region(START), topology.writable(START)), (2, vec![2]));
        assert_eq!(topology.version, 2);
    }
}

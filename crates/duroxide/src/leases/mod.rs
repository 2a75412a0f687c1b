//! Which slots of the instances a dispatcher, and a process, looks after.
//!
//! An instance is in one of 256 slots by the hash of its id. Slots keep processes and dispatchers out of each other's
//! way; they exclude no process, for every claim is conditional.

mod cosmosdb;
mod in_memory;
mod roster;
mod witness;

use async_trait::async_trait;

pub use cosmosdb::CosmosDBLeaseProvider;
pub use in_memory::InMemoryLeaseProvider;

pub(crate) use cosmosdb::LeaseSettings;

/// Assigns slots to dispatchers, and to the processes that they are in.
#[async_trait]
pub trait LeaseProvider: Send + Sync + std::fmt::Debug {
    /// The slots of a dispatcher. They are assigned with its first call, and may change as others come and go.
    async fn acquire_slots(&self, caller_id: u64) -> Vec<u8>;

    /// Gives the slots of a dispatcher back.
    async fn release_slots(&self, caller_id: u64);

    /// All slots that this process looks after: those of all its dispatchers, whether they have asked or not.
    async fn process_slots(&self) -> Vec<u8> {
        (0..=u8::MAX).collect()
    }

    /// The process ends: its slots are others'.
    async fn release_process(&self) {}

    /// No dispatcher of the process waits for work: its slots are others', but it may hold locks.
    async fn release_process_slots(&self) {
        self.release_process().await;
    }

    /// Extends the lease of the process, between the calls that ask for slots.
    async fn extend_lease(&self) {}

    /// The name of this process in its locks; none if its locks end by time alone.
    async fn process_name(&self) -> Option<String> {
        None
    }

    /// Whether other processes have leases.
    async fn has_others(&self) -> bool {
        false
    }

    /// Processes whose leases have ended: others take their locks over. A process is named only if this one could have seen
    /// it extend its lease, for a whole lease.
    async fn gone_processes(&self) -> Vec<String> {
        Vec::new()
    }
}

/// Slots as a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Slots([u64; 4]);

/// Every slot.
pub(crate) const ALL_SLOTS: Slots = Slots([u64::MAX; 4]);

impl Slots {
    pub(crate) fn insert(&mut self, slot: u8) {
        self.0[usize::from(slot / 64)] |= 1 << (slot % 64);
    }

    pub(crate) fn contains(&self, slot: u8) -> bool {
        self.0[usize::from(slot / 64)] & (1 << (slot % 64)) != 0
    }

    pub(crate) fn union(self, other: Self) -> Self {
        Self(std::array::from_fn(|word| self.0[word] | other.0[word]))
    }

    pub(crate) fn is_all(&self) -> bool {
        *self == ALL_SLOTS
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u8> + '_ {
        (0..=u8::MAX).filter(|slot| self.contains(*slot))
    }

    pub(crate) fn to_vec(self) -> Vec<u8> {
        self.iter().collect()
    }

    /// One of several equal shares of the set: sizes differ by at most one.
    pub(crate) fn share(&self, index: usize, of: usize) -> Self {
        self.iter()
            .enumerate()
            .filter(|(rank, _)| rank % of.max(1) == index)
            .map(|(_, slot)| slot)
            .collect()
    }
}

impl FromIterator<u8> for Slots {
    fn from_iter<I: IntoIterator<Item = u8>>(slots: I) -> Self {
        let mut set = Self::default();
        slots.into_iter().for_each(|slot| set.insert(slot));
        set
    }
}

/// The identity of a dispatcher: its task.
pub(crate) fn caller_id() -> u64 {
    let task = tokio::task::try_id().map(|id| id.to_string());
    // Tasks are numbered, and the number is told only as text.
    task.map_or(0, |id| u64::from(sidereal_protocol::murmur3_32(id.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_equal_within_one_and_together_everything() {
        for of in 1..=17 {
            let shares: Vec<Slots> = (0..of).map(|index| ALL_SLOTS.share(index, of)).collect();
            let sizes: Vec<usize> = shares.iter().map(|share| share.iter().count()).collect();
            let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
            assert!(most - least <= 1, "{of}: {sizes:?}");
            assert_eq!(
                sizes.iter().sum::<usize>(),
                crate::ids::SLOTS as usize,
                "no slot is in two"
            );
            assert!(shares.into_iter().fold(Slots::default(), Slots::union).is_all());
        }
    }

    #[tokio::test]
    async fn a_dispatcher_is_told_by_its_task() {
        let one = tokio::spawn(async { (caller_id(), caller_id()) }).await.unwrap();
        let other = tokio::spawn(async { caller_id() }).await.unwrap();
        assert_eq!(one.0, one.1);
        assert_ne!(one.0, other);
        assert_eq!(std::thread::spawn(caller_id).join().unwrap(), 0, "there is no task");
    }
}

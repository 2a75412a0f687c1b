//! Slots within one process.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;

use super::{ALL_SLOTS, LeaseProvider, Slots};

/// Divides the slots among the dispatchers of one process, which holds them all.
///
/// A runtime never gives slots back, and starts new dispatchers in the place of old ones: if there are more callers
/// than dispatchers, the one that has not asked for longest gives its share up.
#[derive(Debug)]
pub struct InMemoryLeaseProvider {
    shares: Mutex<Shares>,
}

impl InMemoryLeaseProvider {
    /// Shares for as many dispatchers.
    #[must_use]
    pub fn new(total_dispatchers: u32) -> Self {
        Self { shares: Mutex::new(Shares::new(total_dispatchers as usize)) }
    }

    pub(super) fn share_of(&self, caller_id: u64, slots: Slots) -> Slots {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        let index = shares.index_of(caller_id);
        slots.share(index, shares.total)
    }

    pub(super) fn release(&self, caller_id: u64) {
        self.shares.lock().unwrap_or_else(PoisonError::into_inner).release(caller_id);
    }
}

#[async_trait]
impl LeaseProvider for InMemoryLeaseProvider {
    async fn acquire_slots(&self, caller_id: u64) -> Vec<u8> {
        self.share_of(caller_id, ALL_SLOTS).to_vec()
    }

    async fn release_slots(&self, caller_id: u64) {
        self.release(caller_id);
    }
}

/// Which dispatcher has which share.
#[derive(Debug)]
struct Shares {
    total: usize,
    /// Dispatchers with the number of their share, the one that asked last at the end.
    callers: Vec<(u64, usize)>,
}

impl Shares {
    fn new(total: usize) -> Self {
        Self { total: total.max(1), callers: Vec::new() }
    }

    fn index_of(&mut self, caller: u64) -> usize {
        let index = match self.callers.iter().position(|(known, _)| *known == caller) {
            Some(position) => self.callers.remove(position).1,
            None => self.free_index(),
        };
        self.callers.push((caller, index));
        index
    }

    fn free_index(&mut self) -> usize {
        let is_free = |index: &usize| !self.callers.iter().any(|(_, taken)| taken == index);
        let free = (0..self.total).find(is_free);
        free.unwrap_or_else(|| self.callers.remove(0).1)
    }

    fn release(&mut self, caller: u64) {
        self.callers.retain(|(known, _)| *known != caller);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn dispatchers_share_the_slots_and_keep_their_share() {
        let leases = InMemoryLeaseProvider::new(3);
        let shares = [
            leases.acquire_slots(7).await,
            leases.acquire_slots(8).await,
            leases.acquire_slots(9).await,
        ];
        assert_eq!(shares.each_ref().map(Vec::len), [86, 85, 85]);
        assert_eq!(shares[0][..3], [0, 3, 6]);
        assert_eq!(leases.acquire_slots(7).await, shares[0]);
        let all: Slots = shares.concat().into_iter().collect();
        assert!(all.is_all());
    }

    #[tokio::test]
    async fn a_share_that_is_given_back_is_the_next_dispatcher_s() {
        let leases = InMemoryLeaseProvider::new(2);
        let first = leases.acquire_slots(1).await;
        leases.acquire_slots(2).await;
        leases.release_slots(1).await;
        assert_eq!(leases.acquire_slots(3).await, first);
    }

    #[tokio::test]
    async fn dispatchers_that_replace_others_have_every_slot_between_them() {
        let leases = InMemoryLeaseProvider::new(2);
        for caller in 0..100 {
            leases.acquire_slots(caller).await;
        }
        let shares = [leases.acquire_slots(98).await, leases.acquire_slots(99).await];
        let all: Slots = shares.concat().into_iter().collect();
        assert!(all.is_all(), "no slot is a dispatcher's that is gone");
    }
}

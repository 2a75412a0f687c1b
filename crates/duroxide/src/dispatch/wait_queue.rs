//! FIFO queues of callers that wait for work, with reservations: work that is being locked is promised to a waiter, or to the
//! next caller that asks (a prefetch).
//!
//! A waiter is in the queue until it is woken, reserved or has left, so one that is not there any more may have been woken.

use std::collections::VecDeque;
use std::sync::Arc;

use super::handover::Handover;

/// A caller that waits. `D` is what it asks for, `T` what it is handed.
#[derive(Debug)]
pub(crate) struct Waiter<D, T> {
    demand: D,
    handover: Handover<T>,
}

impl<D, T> Waiter<D, T> {
    fn new(demand: D) -> Arc<Self> {
        Arc::new(Self { demand, handover: Handover::default() })
    }

    pub(super) fn handover(&self) -> &Handover<T> {
        &self.handover
    }
}

/// A waiter that work will be handed to once it is locked.
#[derive(Debug)]
pub(crate) struct Reservation<D, T>(Arc<Waiter<D, T>>);

impl<D, T> Clone for Reservation<D, T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<D, T> Reservation<D, T> {
    /// The demand of the waiter.
    pub(crate) fn demand(&self) -> &D {
        &self.0.demand
    }

    /// Hands work over. It comes back if the waiter has left.
    pub(crate) fn hand(&self, work: Box<T>) -> Result<(), Box<T>> {
        self.0.handover.hand(work)
    }

    /// Waits until the waiter has taken what was handed over, or has left.
    pub(crate) async fn left(&self) {
        self.0.handover.left().await;
    }
}

/// How a waiter left its queue.
#[derive(Debug)]
pub(super) struct Departure<T> {
    /// The work that was handed to it.
    pub(super) handed: Option<Box<T>>,
    /// It was not in the queue any more: a wakeup may be lost with it, unless it is passed on.
    pub(super) may_be_woken: bool,
}

/// The waiters of one kind.
#[derive(Debug)]
pub(super) struct WaitQueue<D, T> {
    waiting: VecDeque<Arc<Waiter<D, T>>>,
    /// Callers that are about to ask, for whom work is being locked.
    expected: Vec<Arc<Waiter<D, T>>>,
}

impl<D, T> Default for WaitQueue<D, T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), expected: Vec::new() }
    }
}

impl<D, T> WaitQueue<D, T> {
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The demands of the waiters, in their order.
    pub(super) fn demands(&self) -> impl Iterator<Item = &D> {
        self.waiting.iter().map(|waiter| &waiter.demand)
    }

    /// Adds a waiter at the end.
    pub(super) fn park(&mut self, demand: D) -> Arc<Waiter<D, T>> {
        let waiter = Waiter::new(demand);
        self.waiting.push_back(Arc::clone(&waiter));
        waiter
    }

    /// Wakes the first waiter with a demand of a kind, and removes it: the next work is for another. Returns whether there was
    /// one.
    pub(super) fn wake(&mut self, is_meant: impl FnMut(&D) -> bool) -> bool {
        match self.take(is_meant) {
            Some(waiter) => {
                waiter.handover.wake();
                true
            }
            None => false,
        }
    }

    /// Reserves the first waiter with a demand of a kind.
    pub(super) fn reserve(
        &mut self,
        is_meant: impl FnMut(&D) -> bool,
    ) -> Option<Reservation<D, T>> {
        self.take(is_meant).map(Reservation)
    }

    fn take(&mut self, mut is_meant: impl FnMut(&D) -> bool) -> Option<Arc<Waiter<D, T>>> {
        let position = self.waiting.iter().position(|waiter| is_meant(&waiter.demand))?;
        self.waiting.remove(position)
    }

    /// Puts a reserved waiter back to the front. Returns whether it still waits.
    pub(super) fn unreserve(&mut self, Reservation(waiter): Reservation<D, T>) -> bool {
        let is_waiting = waiter.handover.is_waiting();
        if is_waiting {
            self.waiting.push_front(waiter);
        }
        is_waiting
    }

    /// Reserves the next caller with this demand, which has not asked yet.
    pub(super) fn expect(&mut self, demand: D) -> Reservation<D, T> {
        let waiter = Waiter::new(demand);
        self.expected.push(Arc::clone(&waiter));
        Reservation(waiter)
    }

    /// The place of an expected caller, for one that asks now.
    pub(super) fn take_expected(
        &mut self,
        is_meant: impl FnMut(&D) -> bool,
    ) -> Option<Arc<Waiter<D, T>>> {
        let position = self.expected.iter().map(|waiter| &waiter.demand).position(is_meant)?;
        Some(self.expected.remove(position))
    }

    /// How many callers are expected.
    pub(super) fn expected(&self) -> usize {
        self.expected.len()
    }

    /// Ends a reservation without work: if its caller has come, it looks for itself.
    pub(super) fn end(&mut self, reservation: &Reservation<D, T>) {
        if !self.forget_expected(reservation) {
            reservation.0.handover.wake();
        }
    }

    /// Takes back what was handed to a caller that has not come.
    pub(super) fn withdraw(&mut self, reservation: &Reservation<D, T>) -> Option<Box<T>> {
        self.forget_expected(reservation).then(|| reservation.0.handover.leave())?
    }

    /// Returns whether the caller had not come.
    fn forget_expected(&mut self, Reservation(waiter): &Reservation<D, T>) -> bool {
        let before = self.expected.len();
        self.expected.retain(|it| !Arc::ptr_eq(it, waiter));
        self.expected.len() < before
    }

    /// Removes a waiter.
    pub(super) fn leave(&mut self, waiter: &Arc<Waiter<D, T>>) -> Departure<T> {
        let before = self.waiting.len();
        self.waiting.retain(|it| !Arc::ptr_eq(it, waiter));
        let may_be_woken = self.waiting.len() == before;
        Departure { handed: waiter.handover.leave(), may_be_woken }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Queue = WaitQueue<&'static str, u32>;

    #[test]
    fn waiters_are_woken_first_in_first_out_each_once() {
        let mut queue = Queue::default();
        let [first, other, last] = ["turn", "other", "turn"].map(|demand| queue.park(demand));
        assert!(queue.wake(|demand| *demand == "turn"));
        assert_eq!(queue.demands().collect::<Vec<_>>(), [&"other", &"turn"]);
        assert!(queue.leave(&first).may_be_woken);
        assert!(!queue.leave(&other).may_be_woken && !queue.leave(&last).may_be_woken);
        assert!(queue.is_empty() && !queue.wake(|_| true));
    }

    #[test]
    fn a_reserved_waiter_is_handed_work_or_waits_again_at_the_front() {
        let mut queue = Queue::default();
        let [first, _second] = ["a", "b"].map(|demand| queue.park(demand));
        let reservation = queue.reserve(|_| true).unwrap();
        assert_eq!((*reservation.demand(), queue.len()), ("a", 1));
        assert!(queue.unreserve(reservation));
        let reservation = queue.reserve(|_| true).unwrap();
        assert_eq!(*reservation.demand(), "a", "it is the first one again");
        reservation.hand(Box::new(1)).unwrap();
        assert_eq!(queue.leave(&first).handed.as_deref(), Some(&1));
        assert_eq!(reservation.hand(Box::new(2)), Err(Box::new(2)), "it has left");
        assert!(!queue.unreserve(reservation));
    }

    #[test]
    fn work_for_an_expected_caller_is_given_to_it_or_taken_back() {
        let mut queue = Queue::default();
        let (one, other) = (queue.expect("a"), queue.expect("a"));
        assert!(queue.take_expected(|demand| *demand == "b").is_none());
        let come = queue.take_expected(|demand| *demand == "a").unwrap();
        one.hand(Box::new(1)).unwrap();
        other.hand(Box::new(2)).unwrap();
        assert_eq!(queue.withdraw(&one), None, "its caller has come");
        assert_eq!(queue.leave(&come).handed.as_deref(), Some(&1));
        assert_eq!(queue.withdraw(&other).as_deref(), Some(&2));
        assert_eq!(queue.expected(), 0);
    }
}

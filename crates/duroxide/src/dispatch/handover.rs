//! A slot for one value, through which locked work is handed to the caller that waits for it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

/// The place of one waiter: filled at most once, and not after it has left.
#[derive(Debug)]
pub(crate) struct Handover<T> {
    state: Mutex<State<T>>,
    woken: Notify,
    left: Notify,
}

#[derive(Debug)]
enum State<T> {
    Waiting,
    Handed(Box<T>),
    /// The waiter has gone.
    Left,
}

impl<T> Default for Handover<T> {
    fn default() -> Self {
        Self { state: Mutex::new(State::Waiting), woken: Notify::new(), left: Notify::new() }
    }
}

impl<T> Handover<T> {
    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands something over; it comes back if the waiter has gone.
    pub(crate) fn hand(&self, thing: Box<T>) -> Result<(), Box<T>> {
        let mut state = self.state();
        match *state {
            State::Waiting => {
                *state = State::Handed(thing);
                // A permit is stored: a waiter that is not polled yet is woken as well.
                self.woken.notify_one();
                Ok(())
            }
            State::Handed(_) | State::Left => Err(thing),
        }
    }

    /// Has the waiter look for itself.
    pub(super) fn wake(&self) {
        self.woken.notify_one();
    }

    /// Waits until something was handed over, or may be ready.
    pub(super) async fn woken(&self) {
        self.woken.notified().await;
    }

    /// Whether the waiter is there, and has nothing yet.
    pub(super) fn is_waiting(&self) -> bool {
        matches!(*self.state(), State::Waiting)
    }

    /// Takes what was handed over. Nothing is handed over from then on.
    pub(super) fn leave(&self) -> Option<Box<T>> {
        // Stored as well: the giver may begin to wait for it after the waiter has left.
        self.left.notify_one();
        match std::mem::replace(&mut *self.state(), State::Left) {
            State::Handed(thing) => Some(thing),
            State::Waiting | State::Left => None,
        }
    }

    /// Waits until the waiter has taken what was handed over, or has gone.
    pub(crate) async fn left(&self) {
        self.left.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_waiter_is_handed_one_thing_and_none_after_it_has_left() {
        let place = Handover::default();
        assert!(place.is_waiting());
        assert!(place.hand(Box::new(1)).is_ok());
        assert_eq!(place.hand(Box::new(2)), Err(Box::new(2)));
        assert_eq!(place.leave(), Some(Box::new(1)));
        assert_eq!(place.hand(Box::new(3)), Err(Box::new(3)));
        assert_eq!(place.leave(), None);
    }
}

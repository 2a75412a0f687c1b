//! The outbox: messages to other instances are stored with the turn that sends them and delivered afterwards, as often as it
//! takes.
//!
//! A delivery creates a document whose id follows from the turn, so a second delivery has no effect: it meets the message, or
//! the tombstone that its consumption left.

mod delivery;
mod pending;
mod reconciler;

pub(crate) use delivery::is_too_old;
#[cfg(test)]
pub(crate) use delivery::plan_delivery;
pub(crate) use pending::{FoundIntent, Undelivered};
pub(crate) use reconciler::{RECONCILER, ReconcilerSettings};

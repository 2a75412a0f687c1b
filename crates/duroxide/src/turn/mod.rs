//! A turn of an orchestration, as values: what a dispatcher asks for, which messages make the next turn, and how it is locked.
//!
//! Nothing here sends, waits or reads a clock. `fetch/` and `ack/` send what is planned here.

mod locking;
mod terms;

pub(crate) use locking::{
    Blocked, FetchPlan, FetchTerms, InstanceView, LockPlan, MAX_MESSAGES, ReadMessage, clean_up,
    consume, is_supported, plan, plan_created,
};
pub(crate) use terms::{Asked, LockedTurn, SharedFilter, TurnTerms};

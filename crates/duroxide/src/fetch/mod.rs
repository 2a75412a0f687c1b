//! Fetching the next turn of an instance: look, decide, lock, read the history.

mod ahead;
mod offer;
mod plan;
mod run;
mod states;
mod strays;
mod terms;

pub(crate) use offer::TurnOffer;
pub(crate) use plan::{
    Blocked, FetchPlan, FetchTerms, InstanceView, LockPlan, MAX_MESSAGES, ReadMessage, clean_up,
    consume, is_supported, plan, plan_created,
};
pub(crate) use strays::{STRAY_AFTER_MS, Strays};
pub(crate) use terms::{LockedTurn, SharedFilter, TurnTerms};

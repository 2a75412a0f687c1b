//! Fetching the next turn of an instance: look, decide, lock, read the history.

mod plan;
mod run;

pub(crate) use plan::{
    FetchPlan, FetchTerms, InstanceView, LockPlan, MAX_MESSAGES, ReadMessage, consume, plan,
};

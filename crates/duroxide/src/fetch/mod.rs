//! Fetching the next turn of an instance: look, decide, lock, read the history.

mod plan;
mod run;
mod states;

pub(crate) use plan::{
    FetchPlan, FetchTerms, InstanceView, LEFT_ALONE_MS, LockPlan, MAX_MESSAGES, ReadMessage,
    consume, is_supported, plan,
};

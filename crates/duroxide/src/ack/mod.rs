//! Committing a turn: everything it wrote in one batch, or staged and then committed by one.
//!
//! `run.rs` is a commit from the call to its follow-up; `plan.rs` plans its documents; `commit.rs` sends the batches.

mod commit;
mod executions;
mod hand_offs;
mod key_values;
mod next_turn;
mod outcome;
mod plan;
mod run;
mod staging;
mod turn;

use std::sync::Arc;

use crate::cache::ReplayCache;
use crate::context::Context;
use crate::dispatch::Dispatch;
use crate::fetch::TurnFetcher;
use crate::locks::Processes;
use crate::outbox::Outbox;
use crate::store::Store;
use crate::tasks::Tasks;
use crate::turn_locks::TurnLocks;
use crate::workers::ActivityQueue;

#[cfg(test)]
pub(crate) use next_turn::plan_next;
pub(crate) use outcome::Outcome;
#[cfg(test)]
pub(crate) use plan::{AckPlan, plan};
#[cfg(test)]
pub(crate) use turn::Turn;

/// Commits turns.
#[derive(Debug)]
pub(crate) struct TurnCommitter {
    store: Store,
    dispatch: Arc<Dispatch>,
    replays: Arc<ReplayCache>,
    processes: Arc<Processes>,
    locks: Arc<TurnLocks>,
    turns: Arc<TurnFetcher>,
    activities: Arc<ActivityQueue>,
    outbox: Arc<Outbox>,
    tasks: Tasks,
}

impl TurnCommitter {
    pub(crate) fn new(
        context: &Context,
        locks: Arc<TurnLocks>,
        turns: Arc<TurnFetcher>,
        activities: Arc<ActivityQueue>,
        outbox: Arc<Outbox>,
    ) -> Self {
        let Context { store, dispatch, processes, replays, tasks } = context.clone();
        Self { store, dispatch, replays, processes, locks, turns, activities, outbox, tasks }
    }
}

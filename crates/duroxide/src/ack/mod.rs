//! Committing a turn: everything it wrote in one batch, or staged and then committed by one.

mod commit;
mod hand_offs;
mod hold;
mod key_values;
mod next_turn;
mod plan;
mod run;
mod staging;

#[cfg(test)]
pub(crate) use next_turn::plan_next;
pub(crate) use plan::{AckPlan, Turn, event_document, plan, replaced};
pub(crate) use run::Outcome;

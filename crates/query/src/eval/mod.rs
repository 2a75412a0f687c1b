//! The evaluator: what a query gives for the documents of one partition.
//!
//! [`Program`] is a compiled query, [`Run`] one execution of it. Documents come in RID order, one
//! by one; rows go out as soon as the shape of the query allows. Nothing here reads a clock or a
//! source of randomness: both come with the [`Context`].

mod analysis;
mod code;
mod compile;
mod condition;
mod expressions;
mod flow;
mod join;
mod loops;
mod machine;
mod operators;
mod pattern;
#[cfg(test)]
mod pause_tests;
mod program;
mod reads;
mod row;
mod row_pipeline;
mod run;
#[cfg(test)]
mod tests;

pub use compile::Parameters;
pub use condition::Condition;
pub use flow::{Flow, Taken};
pub use program::{Counters, Program, Progress, Shape};
pub use row::Row;
pub use run::Run;

pub(crate) use analysis::{has_aggregate, member_names, mentions_aggregate};
pub(crate) use compile::count;

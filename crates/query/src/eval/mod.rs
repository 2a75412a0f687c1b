//! The evaluator: what a query gives for the documents of one partition.
//!
//! [`Program`] is a compiled query, [`Run`] one execution of it. Documents come in RID order, one
//! by one; rows go out as soon as the shape of the query allows. Nothing here reads a clock or a
//! source of randomness: both come with the [`Context`].

mod analysis;
mod code;
mod compile;
mod condition;
mod context;
mod expressions;
mod machine;
mod operators;
mod pattern;
mod program;
mod row_pipeline;
#[cfg(test)]
mod tests;

pub use compile::Parameters;
pub use condition::Condition;
pub use context::Context;
pub use machine::Flow;
pub use program::{Counters, Program, Progress, Run, Shape};

pub(crate) use analysis::{has_aggregate, member_names, mentions_aggregate};
pub(crate) use compile::count;
pub(crate) use context::Meter;
pub(crate) use machine::contains;

//! Fault injection: which requests go wrong, and how.
//!
//! A rule says when it applies and what it does. Deciding is pure: `RuleList::decide` takes what is known
//! of a request and the moment, and returns an effect. Nothing here answers, waits or closes a connection:
//! `account` acts on the effect, and what concerns time and connections it leaves to the endpoint.

mod generator;
mod registry;
mod rule;

pub(crate) use registry::{FaultRegistry, RequestAttributes};
pub use registry::{FaultReport, InvalidFault};
pub use rule::{FaultCondition, FaultEffect, FaultRule, HeaderCondition, Occurrence};

//! Faults on command: which requests go wrong, and how.
//!
//! A rule says when it applies and what it does. Deciding is pure: `RuleBook::decide` takes what is
//! known of a request and the moment, and gives an effect. Nothing here answers, waits or closes a
//! connection; the account and the server act on the effect.

mod book;
mod generator;
mod rule;

pub(crate) use book::{Facts, Faults};
pub use book::{FaultReport, InvalidFault};
pub use rule::{FaultCondition, FaultEffect, FaultRule, HeaderCondition, Occurrence};

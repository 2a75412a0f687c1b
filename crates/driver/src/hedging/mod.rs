//! When a slow attempt is joined by a second one in another region.
//!
//! The threshold follows from the latencies of the last minute (`latency.rs`), how often a hedge may be sent
//! from a token bucket for the whole driver (`budget.rs`), whether a request may be sent twice at once from what
//! it is (`eligibility.rs`), and which of two outcomes counts from what they are (`verdict.rs`). The race itself
//! is the operation pipeline's.

mod budget;
mod eligibility;
mod latency;
mod verdict;

pub(crate) use budget::HedgingBudget;
pub(crate) use eligibility::{HedgingTerms, may_be_hedged};
pub(crate) use latency::{LatencyClass, LatencyTracker};
pub(crate) use verdict::{is_better_informed, is_final};

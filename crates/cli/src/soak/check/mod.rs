//! The checks of a run: pure functions that compare expectations with findings and return violations.

mod activities;
mod history;
mod leftovers;

pub(super) use activities::{Runs, activities, runs};
pub(super) use history::instance;
pub(super) use leftovers::leftovers;

/// A property that every run must have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Check {
    /// Starts and events are taken, at once or when the account is there again.
    Calls,
    /// Every orchestration that was started is there, and no other.
    Population,
    /// Every orchestration ends.
    Ended,
    /// Outputs are those that follow from the inputs.
    Output,
    /// The events of a history are numbered from 1, each number once.
    Numbering,
    /// Executions schedule the steps of their programs, once and in order.
    Steps,
    /// Each scheduled step is completed once.
    Completions,
    /// Every activity of a history was run, and no other.
    Activities,
    /// Activities run again only if a kill met them.
    Reruns,
    /// Nothing is left for dispatchers, workers and deliveries.
    Leftovers,
    /// Processes end only when they are killed.
    Processes,
}

impl Check {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Calls => "calls",
            Self::Population => "population",
            Self::Ended => "ended",
            Self::Output => "output",
            Self::Numbering => "numbering",
            Self::Steps => "steps",
            Self::Completions => "completions",
            Self::Activities => "activities",
            Self::Reruns => "reruns",
            Self::Leftovers => "leftovers",
            Self::Processes => "processes",
        }
    }
}

/// A property that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) check: Check,
    /// None where it is not one instance's.
    pub(super) instance: Option<String>,
    pub(super) sentence: String,
}

impl Violation {
    pub(super) fn of(check: Check, instance: &str, sentence: impl Into<String>) -> Self {
        Self { check, instance: Some(instance.to_owned()), sentence: sentence.into() }
    }
}

/// Instances that are there although no orchestration has started them.
pub(super) fn strangers<'a>(instances: impl Iterator<Item = &'a String>) -> Vec<Violation> {
    let sentence = "it is there, and no orchestration has started it";
    instances.map(|instance| Violation::of(Check::Population, instance, sentence)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_that_no_orchestration_has_started_is_found() {
        assert_eq!(strangers([].iter()), []);
        let found = strangers(["r9".to_owned()].iter());
        assert_eq!((found[0].check, found[0].instance.as_deref()), (Check::Population, Some("r9")));
    }
}

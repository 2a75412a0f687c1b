//! From a question to a decision: the row's steps, in order, while their budgets last.

use std::time::{Duration, Instant};

use super::budgets::JITTER_RATIO;
use super::matrix::{Row, Step, row_of};
use super::{AttemptOutcome, Budget, Budgets, Decision, Manner, Question};

/// The inputs of a decision beside the question and the budgets.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances {
    /// When the operation ends.
    pub deadline: Option<Instant>,
    /// Now.
    pub now: Instant,
    /// A random number from 0 to 1: how much of the jitter is applied.
    pub jitter: f64,
}

/// A decision, and what it costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// The step that follows.
    pub decision: Decision,
    /// The budget that the retry is charged to.
    pub charged: Option<Budget>,
}

impl Verdict {
    pub(crate) const fn finish(reason: &'static str) -> Self {
        Self { decision: Decision::Finish { reason }, charged: None }
    }

    /// The budgets after it.
    #[must_use]
    pub fn spend(&self, budgets: Budgets) -> Budgets {
        match (self.charged, self.decision) {
            (Some(budget), Decision::RetryElsewhere { .. }) => {
                budgets.after(budget, Duration::ZERO).elsewhere()
            }
            (_, Decision::AwaitWriteRegion { .. }) => budgets.with_failovers_left(),
            (Some(budget), decision) => budgets.after(budget, decision.after().unwrap_or_default()),
            (None, _) => budgets,
        }
    }
}

/// The endpoints that an operation has left beside this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OtherEndpoints {
    /// Whether there is one that it has not failed on.
    pub(crate) is_left: bool,
    /// Whether, with no retries left, it waits for a region that accepts writes.
    pub(crate) may_wait: bool,
}

/// Decides whether a request is sent again at the same endpoint, as it is.
#[must_use]
pub fn evaluate_transport_retry(
    question: &Question,
    budgets: &Budgets,
    has_renewable_credential: bool,
    circumstances: &Circumstances,
) -> Verdict {
    let row = row_of(question);
    let mut steps = row.steps.iter().filter(|step| step.budget().is_of_transport());
    let applicable = steps.find(|step| has_renewable_credential || !step.renews_credential());
    match applicable {
        Some(step) => try_step(*step, row, question, budgets, circumstances),
        // What is left is not settled here.
        None => Verdict::finish(match question.outcome {
            AttemptOutcome::Refusal { .. } => "the service refused",
            AttemptOutcome::Loss { .. } if !row.steps.is_empty() => {
                "another connection would not help"
            }
            AttemptOutcome::Loss { .. }
            | AttemptOutcome::Success
            | AttemptOutcome::DeadlinePassed { .. } => row.reason,
        }),
    }
}

/// Decides what an operation does after an attempt that the transport pipeline has finished with, for the
/// reason that it gave.
#[must_use]
pub(crate) fn evaluate_operation_retry(
    question: &Question,
    budgets: &Budgets,
    elsewhere: OtherEndpoints,
    at_endpoint: Decision,
    circumstances: &Circumstances,
) -> Verdict {
    let row = row_of(question);
    let mut steps = row.steps.iter().filter(|step| !step.budget().is_of_transport());
    let left = steps.clone().find(|step| budgets.retries(step.budget()).is_left());
    let step = match left.or(steps.next_back()) {
        // Nothing that another attempt would change.
        None => return Verdict { decision: at_endpoint, charged: None },
        Some(Step::Elsewhere(_, budget)) if !elsewhere.is_left => {
            Step::Here(Manner::Unchanged, *budget)
        }
        Some(step) => *step,
    };
    let is_spent =
        step.budget() == Budget::Failover && !budgets.retries(Budget::Failover).is_left();
    if is_spent && elsewhere.may_wait {
        return Verdict {
            decision: Decision::AwaitWriteRegion { reason: row.reason },
            charged: None,
        };
    }
    try_step(step, row, question, budgets, circumstances)
}

/// One step, if its budget and the deadline allow it.
fn try_step(
    step: Step,
    row: &Row,
    question: &Question,
    budgets: &Budgets,
    circumstances: &Circumstances,
) -> Verdict {
    let budget = step.budget();
    if !budgets.retries(budget).is_left() {
        return Verdict::finish(spent_reason(budget));
    }
    let after = match step {
        Step::Here(..) => wait(budget, question, budgets, circumstances.jitter),
        Step::Elsewhere(..) => Duration::ZERO,
    };
    let throttle = &budgets.throttle;
    if budget == Budget::Throttle && throttle.waited.saturating_add(after) > throttle.max_wait {
        return Verdict::finish("throttled, and the back-off budget is used up");
    }
    // A retry that could only meet the deadline costs the caller its real outcome.
    let is_too_late = |deadline: Instant| match circumstances.now.checked_add(after) {
        Some(then) => then >= deadline,
        None => true,
    };
    if circumstances.deadline.is_some_and(is_too_late) {
        return Verdict::finish("the deadline comes before another attempt could");
    }
    let decision = match step {
        Step::Here(manner, _) => {
            Decision::RetryHere { after, manner, reason: reason_here(row, question) }
        }
        Step::Elsewhere(target, _) => Decision::RetryElsewhere { target, reason: row.reason },
    };
    Verdict { decision, charged: Some(budget) }
}

fn reason_here(row: &Row, question: &Question) -> &'static str {
    match question.outcome {
        AttemptOutcome::Refusal { retry_after: Some(_), .. } if row.steps.contains(&THROTTLED) => {
            "throttled: the service says how long to wait"
        }
        _ => row.reason,
    }
}

const THROTTLED: Step = Step::Here(Manner::Unchanged, Budget::Throttle);

/// The wait before a retry in place.
fn wait(budget: Budget, question: &Question, budgets: &Budgets, jitter: f64) -> Duration {
    let (spent, backoff) = (budgets.retries(budget).spent, &budgets.backoff);
    match budget {
        Budget::Throttle | Budget::RetryWith => {
            let floor = backoff.before(spent, jitter);
            match question.outcome {
                // Jitter is only added here: the service means at least this long. The back-off is a floor:
                // with a wait of next to nothing, all retries would be spent before the partition has
                // recovered.
                AttemptOutcome::Refusal { retry_after: Some(named), .. } => {
                    let jittered = backoff.initial.min(named).mul_f64(JITTER_RATIO * jitter);
                    floor.max(named.saturating_add(jittered))
                }
                _ => floor,
            }
        }
        // At once the first time: a connection that the peer was closing anyway, or ranges that are known
        // by now.
        Budget::Resend | Budget::RangeRefresh => {
            spent.checked_sub(1).map_or(Duration::ZERO, |n| backoff.before(n, jitter))
        }
        Budget::SessionInRegion => budgets.session_in_region_wait,
        Budget::Connection | Budget::Credential | Budget::ContainerRefresh => Duration::ZERO,
        // There is nowhere else to go, so the same endpoint gets time to recover or to catch up.
        Budget::Failover | Budget::Session => backoff.before(budgets.pauses, jitter),
    }
}

/// Why nothing more is tried once a budget is spent.
const fn spent_reason(budget: Budget) -> &'static str {
    match budget {
        Budget::Throttle => "throttled, and the retries are used up",
        Budget::Connection => "another connection failed too",
        Budget::Resend => "the peer keeps refusing the request",
        Budget::Credential => "a new credential was refused too",
        Budget::RetryWith => "the service keeps asking to retry",
        Budget::Failover => "the retries in other regions are used up",
        Budget::SessionInRegion | Budget::Session => {
            "the session has not arrived, and the retries are used up"
        }
        Budget::RangeRefresh => "the partition ranges keep changing",
        Budget::ContainerRefresh => "the container was resolved again, and is still not the same",
    }
}

impl Step {
    const fn renews_credential(self) -> bool {
        matches!(self, Self::Here(Manner::NewCredential, _))
    }
}

#[cfg(test)]
mod tests;

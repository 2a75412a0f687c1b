//! Decides whether an operation of a bulk is finished, repeated or failed, from its result. Pure.

use std::time::Duration;

use sidereal_protocol::{BatchResult, CosmosStatus};

use super::range_queue::Pending;
use crate::query::range_reader::is_gone;
use crate::{Error, ErrorKind};

/// How often an operation is throttled before it fails. A bulk goes on while others of it succeed; this ends one
/// that never will.
const MAX_THROTTLED: u32 = 200;
/// How often an operation is sent again for any other reason. The driver has tried other regions before.
const MAX_RESENT: u32 = 10;

/// The next step of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextStep {
    /// It is over, successfully.
    Done,
    /// It is over; `may_have_been_applied` says whether that is all that is known.
    Failed { may_have_been_applied: bool },
    /// It is sent again.
    Again { why: Again, may_have_been_applied: bool },
}

/// Why an operation is sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Again {
    /// The range has no throughput left.
    Throttled { retry_after: Option<Duration> },
    /// The range was split, merged or moved.
    Moved,
    /// The batch was refused as a whole, or its results were too large: with fewer others.
    Smaller,
    /// The range did not serve.
    Failed,
}

/// Judges an operation by its own result. `was_ambiguous` says that an attempt at its batch was lost before.
pub(super) fn judge_result(
    operation: &Pending,
    result: &BatchResult,
    together: usize,
    was_ambiguous: bool,
) -> NextStep {
    let status = result.status();
    let maybe = was_ambiguous || operation.may_have_been_applied;
    if status.is_success() || status.is_not_modified() {
        return NextStep::Done;
    }
    let again = |why| bounded(operation, why, maybe);
    let retry_after = result.retry_after_milliseconds.map(Duration::from_millis);
    if is_gone(status) {
        return again(Again::Moved);
    }
    match status.code() {
        429 if status != CosmosStatus::SYSTEM_RESOURCE_UNAVAILABLE => {
            again(Again::Throttled { retry_after })
        }
        // Refused before anything was done with it.
        410 | 424 | 429 | 449 | 503 => again(Again::Failed),
        413 if together > 1 => again(Again::Smaller),
        408 if operation.encoded.is_repeatable => bounded(operation, Again::Failed, true),
        408 | 500 => NextStep::Failed { may_have_been_applied: true },
        _ => NextStep::Failed { may_have_been_applied: maybe },
    }
}

/// Judges an operation by the failure of the request that it was in.
pub(super) fn judge_request(operation: &Pending, error: &Error, together: usize) -> NextStep {
    let is_ambiguous = error.may_have_been_applied() && !operation.encoded.is_read;
    let maybe = is_ambiguous || operation.may_have_been_applied;
    let again = |why| bounded(operation, why, maybe);
    let is_unclear = is_ambiguous && !operation.encoded.is_repeatable;
    match (error.kind(), error.status()) {
        // Applied a second time it would do harm.
        _ if is_unclear => NextStep::Failed { may_have_been_applied: true },
        (_, Some(status)) if is_gone(status) => again(Again::Moved),
        // Nothing was sent because too many requests wait here: fewer at once, later, as after a 429.
        (ErrorKind::Throttled | ErrorKind::Overloaded, _) => {
            again(Again::Throttled { retry_after: None })
        }
        // One of them is wrong, and which is not said: halves, until it is alone.
        (ErrorKind::InvalidRequest, Some(status))
            if together > 1 && matches!(status.code(), 400 | 413) =>
        {
            again(Again::Smaller)
        }
        (ErrorKind::Unavailable, _) => again(Again::Failed),
        _ => NextStep::Failed { may_have_been_applied: maybe },
    }
}

fn bounded(operation: &Pending, why: Again, may_have_been_applied: bool) -> NextStep {
    let is_spent = match why {
        Again::Throttled { .. } => operation.throttled >= MAX_THROTTLED,
        // Halves come to an end by themselves.
        Again::Smaller => false,
        Again::Moved | Again::Failed => operation.resent >= MAX_RESENT,
    };
    match is_spent {
        true => NextStep::Failed { may_have_been_applied },
        false => NextStep::Again { why, may_have_been_applied },
    }
}

#[cfg(test)]
mod tests {
    use sidereal_protocol::EffectivePartitionKey;

    use super::super::operation::BulkOperation;
    use super::*;
    use crate::Patch;

    fn pending(operation: BulkOperation) -> Pending {
        Pending::new(0, operation.encoded(true).1.unwrap(), EffectivePartitionKey::MIN)
    }

    fn delete() -> Pending {
        pending(BulkOperation::delete_item("a", "1"))
    }

    fn increment() -> Pending {
        pending(BulkOperation::patch_item("a", "1", Patch::new().increment("/n", 1)))
    }

    fn result(code: u16, sub_status: u32) -> BatchResult {
        let sub_status_code = Some(sub_status).filter(|it| *it != 0);
        BatchResult { status_code: code, sub_status_code, ..BatchResult::default() }
    }

    fn judged(operation: &Pending, code: u16, sub_status: u32) -> NextStep {
        judge_result(operation, &result(code, sub_status), 2, false)
    }

    const fn again(why: Again) -> NextStep {
        NextStep::Again { why, may_have_been_applied: false }
    }

    const FAILED: NextStep = NextStep::Failed { may_have_been_applied: false };
    const UNCLEAR: NextStep = NextStep::Failed { may_have_been_applied: true };

    #[test]
    fn each_status_has_its_consequence() {
        let throttled = again(Again::Throttled { retry_after: None });
        for (code, sub_status, expected) in [
            (201, 0, NextStep::Done),
            (304, 0, NextStep::Done),
            (400, 0, FAILED),
            (404, 0, FAILED),
            (409, 0, FAILED),
            (412, 0, FAILED),
            (410, 1002, again(Again::Moved)),
            (410, 1007, again(Again::Moved)),
            (410, 1008, again(Again::Moved)),
            (410, 0, again(Again::Failed)),
            (413, 3402, again(Again::Smaller)),
            (424, 0, again(Again::Failed)),
            (429, 3200, throttled),
            (429, 3092, again(Again::Failed)),
            (449, 0, again(Again::Failed)),
            (500, 0, UNCLEAR),
            (503, 0, again(Again::Failed)),
        ] {
            assert_eq!(judged(&delete(), code, sub_status), expected, "{code}/{sub_status}");
        }
        let alone = judge_result(&delete(), &result(413, 0), 1, false);
        assert_eq!(alone, FAILED);
    }

    #[test]
    fn a_timeout_is_repeated_only_if_that_is_harmless() {
        let repeated = NextStep::Again { why: Again::Failed, may_have_been_applied: true };
        assert_eq!(judged(&delete(), 408, 0), repeated);
        assert_eq!(judged(&increment(), 408, 0), UNCLEAR);
    }

    #[test]
    fn a_refusal_after_a_lost_attempt_is_unclear_and_a_success_is_one() {
        assert_eq!(judge_result(&delete(), &result(409, 0), 2, true), UNCLEAR);
        assert_eq!(judge_result(&delete(), &result(201, 0), 2, true), NextStep::Done);
        let earlier = Pending { may_have_been_applied: true, ..delete() };
        assert_eq!(judged(&earlier, 404, 0), UNCLEAR);
        assert_eq!(
            judged(&earlier, 410, 1002),
            NextStep::Again { why: Again::Moved, may_have_been_applied: true }
        );
    }

    #[test]
    fn retries_come_to_an_end() {
        let throttled = Pending { throttled: MAX_THROTTLED, ..delete() };
        assert_eq!(judged(&throttled, 429, 3200), FAILED);
        let resent = Pending { resent: MAX_RESENT, ..delete() };
        assert_eq!(judged(&resent, 503, 0), FAILED);
        assert_eq!(judged(&resent, 410, 1002), FAILED);
        assert_eq!(judged(&resent, 413, 0), again(Again::Smaller));
    }

    #[test]
    fn a_request_that_failed_is_judged_for_each_of_its_operations() {
        let of = |kind| Error::new(kind, "x");
        let judge = |operation: &Pending, kind| judge_request(operation, &of(kind), 2);
        assert_eq!(judge(&delete(), ErrorKind::Unavailable), again(Again::Failed));
        assert_eq!(
            judge(&delete(), ErrorKind::Overloaded),
            again(Again::Throttled { retry_after: None })
        );
        assert_eq!(judge(&delete(), ErrorKind::DeadlineExceeded), FAILED);
        assert_eq!(judge(&delete(), ErrorKind::InvalidRequest), FAILED);
        assert_eq!(
            judge(&increment(), ErrorKind::Throttled),
            again(Again::Throttled { retry_after: None })
        );
    }
}

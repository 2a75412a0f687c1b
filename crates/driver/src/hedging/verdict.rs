//! Which of the two outcomes of a race counts. Pure.

use sidereal_protocol::CosmosStatus;

use crate::retry::RequestKind;
use crate::transport::TransportOutcome;

/// Whether an outcome ends a race while the other leg is still open.
///
/// An outcome that says that the region could not serve does not: the other one may. Nor does a session that has not
/// arrived (404/1002). A write that meets 404, 409 or 412 may have met the effect of the other leg, and so may
/// one operation of a batch (207).
pub(crate) fn is_final(kind: RequestKind, outcome: &TransportOutcome) -> bool {
    match outcome {
        TransportOutcome::Success(response) => {
            !(kind.is_write() && response.status.code() == MULTI_STATUS)
        }
        TransportOutcome::HttpError(response) => {
            let status = response.status;
            match status.code() {
                _ if status == CosmosStatus::READ_SESSION_NOT_AVAILABLE => false,
                404 | 409 | 412 => !kind.is_write(),
                400 | 401 | 413 => true,
                // Refusals of the region or of its state of the moment.
                _ => false,
            }
        }
        TransportOutcome::TransportError { .. } | TransportOutcome::DeadlineExceeded { .. } => {
            false
        }
    }
}

/// A response to a batch, some operation of which failed.
const MULTI_STATUS: u16 = 207;

/// Whether the outcome of the hedge says more than that of the attempt it joined, where neither ended the race.
pub(crate) fn is_better_informed(hedge: &TransportOutcome, primary: &TransportOutcome) -> bool {
    rank(hedge) > rank(primary)
}

/// How much an outcome says: of two equals, the attempt in the preferred region counts.
fn rank(outcome: &TransportOutcome) -> u8 {
    match outcome {
        TransportOutcome::Success(_) => 5,
        TransportOutcome::HttpError(response) => match response.status {
            CosmosStatus::READ_SESSION_NOT_AVAILABLE => 2,
            status if matches!(status.code(), 404 | 409 | 412) => 4,
            _ => 3,
        },
        TransportOutcome::TransportError { .. } => 1,
        TransportOutcome::DeadlineExceeded { .. } => 0,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderMap;

    use super::*;
    use crate::exchange::{HttpError, HttpErrorKind, RequestSentStatus};
    use crate::transport::TransportResponse;

    fn answer(code: u16, sub_status: u32) -> TransportOutcome {
        let status = CosmosStatus::with_sub_status(code, sub_status);
        let response = TransportResponse { status, headers: HeaderMap::new(), body: Bytes::new() };
        match code < 400 {
            true => TransportOutcome::Success(response),
            false => TransportOutcome::HttpError(response),
        }
    }

    fn lost() -> TransportOutcome {
        let request_sent = RequestSentStatus::MaybeSent;
        let error = HttpError::new(HttpErrorKind::ConnectionLost, request_sent, "gone");
        TransportOutcome::TransportError { error, request_sent }
    }

    #[test]
    fn a_success_ends_the_race_and_a_region_that_cannot_serve_does_not() {
        for kind in RequestKind::ALL {
            assert!(is_final(kind, &answer(200, 0)));
            for failed in [answer(503, 0), answer(429, 0), answer(410, 0), lost()] {
                assert!(!is_final(kind, &failed));
            }
        }
    }

    #[test]
    fn a_session_that_has_not_arrived_never_wins() {
        assert!(!is_final(RequestKind::Read, &answer(404, 1002)));
        assert!(is_final(RequestKind::Read, &answer(404, 0)));
        assert!(is_better_informed(&answer(404, 0), &answer(404, 1002)));
    }

    #[test]
    fn a_write_may_have_met_the_other_leg() {
        for code in [404, 409, 412, 207] {
            assert!(!is_final(RequestKind::IdempotentWrite, &answer(code, 0)), "{code}");
        }
        assert!(is_final(RequestKind::IdempotentWrite, &answer(400, 0)));
    }

    #[test]
    fn of_two_failures_the_better_informed_counts_and_of_equals_the_first() {
        assert!(is_better_informed(&answer(503, 0), &lost()));
        assert!(!is_better_informed(&lost(), &answer(503, 0)));
        assert!(!is_better_informed(&answer(503, 0), &answer(503, 0)));
        assert!(is_better_informed(&answer(200, 0), &answer(409, 0)), "one leg created it");
    }
}

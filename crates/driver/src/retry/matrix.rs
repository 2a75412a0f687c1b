//! The retry matrix: what each outcome means, as data.
//!
//! The rows are disjoint and cover every outcome, so their order means nothing; a test goes through all of
//! them. A row lists its steps in the order in which they are tried, each while its budget lasts. What an
//! outcome says of the account (effects) is told to the shared state whatever the operation does next, and
//! only the operation pipeline tells it.

use sidereal_protocol::CosmosStatus;

use super::{AttemptOutcome, Budget, Manner, Question, RequestKind, RetryTarget};
use crate::ErrorKind;
use crate::exchange::{HttpErrorKind, RequestSentStatus};

/// One row: a kind of outcome, with the steps and effects that follow from it.
#[derive(Debug)]
pub(crate) struct Row {
    /// The outcomes it is about.
    pub(super) outcome: Pattern,
    /// The requests it is about.
    pub(super) kinds: &'static [RequestKind],
    /// How far the requests got that it is about.
    pub(super) sent: SentFilter,
    /// The steps that are tried next, in this order.
    pub(super) steps: &'static [Step],
    /// The effects on the account's state.
    pub(crate) effects: &'static [Effect],
    /// The kind of the caller's error if nothing is left to try.
    pub(crate) error: ErrorKind,
    /// Whether the request may have been carried out although no response says so.
    pub(crate) is_ambiguous: bool,
    /// The reason for its steps, or for having none.
    pub(super) reason: &'static str,
}

/// Which outcomes a row is about.
#[derive(Debug)]
pub(super) enum Pattern {
    Success,
    /// Exactly these statuses.
    Statuses(&'static [CosmosStatus]),
    /// These codes, with any sub-status but those of the statuses that have rows of their own.
    Codes(&'static [u16]),
    /// All other codes from 400 to 499.
    OtherClientErrors,
    /// All other codes.
    OtherCodes,
    /// No response, for one of these reasons.
    Losses(&'static [HttpErrorKind]),
    DeadlinePassed,
}

/// How far a request got.
#[derive(Clone, Copy, Debug)]
pub(super) enum SentFilter {
    Any,
    /// It was not carried out, for certain.
    Safe,
    /// It may have been carried out.
    Maybe,
}

/// One thing to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Here(Manner, Budget),
    Elsewhere(RetryTarget, Budget),
}

impl Step {
    pub(super) const fn budget(self) -> Budget {
        match self {
            Self::Here(_, budget) | Self::Elsewhere(_, budget) => budget,
        }
    }
}

/// An effect of an outcome on the account's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Its properties are out of date.
    RefreshAccount,
    /// The endpoint does not serve.
    MarkEndpoint(UnavailableReason),
    /// The partition does not serve in the endpoint's region.
    MarkPartition,
    /// The container's partition ranges are out of date.
    RefreshRanges,
    /// The container was recreated under the same name.
    RefreshContainer,
}

/// Why an endpoint does not serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum UnavailableReason {
    /// It refuses writes.
    WriteForbidden,
    /// It does not serve the account.
    AccountNotFound,
    /// It timed out.
    RequestTimeout,
    /// It has no capacity, or no replica.
    ServiceUnavailable,
    /// It failed.
    InternalServerError,
    /// No connection to it works.
    TransportError,
}

/// The row of an outcome.
pub(crate) fn row_of(question: &Question) -> &'static Row {
    // The usual outcome, without a search.
    if question.outcome == AttemptOutcome::Success {
        return &MATRIX[0];
    }
    // The rows cover everything (a test goes through all of it), so the first row is never the fallback.
    MATRIX.iter().find(|row| row.is_about(question)).unwrap_or(&MATRIX[0])
}

// Here and not beside the type: the table knows the answer, and the type is below it.
impl ErrorKind {
    /// The kind that a response's status stands for.
    #[must_use]
    pub fn of_status(status: CosmosStatus) -> Self {
        row_of_status(status).error
    }
}

/// The row of a status, for what does not depend on the request: the kind of the caller's error.
fn row_of_status(status: CosmosStatus) -> &'static Row {
    row_of(&Question { kind: RequestKind::Read, outcome: outcome_of(status) })
}

/// The row of a write's response: whether it may have been carried out all the same.
pub(crate) fn row_of_write(status: CosmosStatus) -> &'static Row {
    row_of(&Question { kind: RequestKind::IdempotentWrite, outcome: outcome_of(status) })
}

fn outcome_of(status: CosmosStatus) -> AttemptOutcome {
    match status.is_success() || status.is_not_modified() {
        true => AttemptOutcome::Success,
        false => AttemptOutcome::Refusal { status, retry_after: None },
    }
}

impl Row {
    pub(super) fn is_about(&self, question: &Question) -> bool {
        let sent = match question.outcome {
            // A response: the service had the request.
            AttemptOutcome::Success | AttemptOutcome::Refusal { .. } => {
                RequestSentStatus::MaybeSent
            }
            AttemptOutcome::Loss { sent, .. } | AttemptOutcome::DeadlinePassed { sent } => sent,
        };
        self.kinds.contains(&question.kind)
            && match self.sent {
                SentFilter::Any => true,
                SentFilter::Safe => sent.is_safe_to_resend(),
                SentFilter::Maybe => !sent.is_safe_to_resend(),
            }
            && self.outcome.matches(&question.outcome)
    }
}

impl Pattern {
    fn matches(&self, outcome: &AttemptOutcome) -> bool {
        match (self, outcome) {
            (Self::Success, AttemptOutcome::Success)
            | (Self::DeadlinePassed, AttemptOutcome::DeadlinePassed { .. }) => true,
            (Self::Statuses(statuses), AttemptOutcome::Refusal { status, .. }) => {
                statuses.contains(status)
            }
            (Self::Codes(codes), AttemptOutcome::Refusal { status, .. }) => {
                codes.contains(&status.code()) && !NAMED_STATUSES.contains(status)
            }
            (Self::OtherClientErrors, AttemptOutcome::Refusal { status, .. }) => {
                is_other(*status) && matches!(status.code(), 400..=499)
            }
            (Self::OtherCodes, AttemptOutcome::Refusal { status, .. }) => {
                is_other(*status) && !matches!(status.code(), 400..=499)
            }
            (Self::Losses(kinds), AttemptOutcome::Loss { kind, .. }) => kinds.contains(kind),
            _ => false,
        }
    }
}

fn is_other(status: CosmosStatus) -> bool {
    !NAMED_STATUSES.contains(&status) && !NAMED_CODES.contains(&status.code())
}

const READS: &[RequestKind] = &[RequestKind::Read];
const WRITES: &[RequestKind] = &[RequestKind::IdempotentWrite, RequestKind::Write];
const REPEATABLE: &[RequestKind] = &[RequestKind::Read, RequestKind::IdempotentWrite];
const UNREPEATABLE: &[RequestKind] = &[RequestKind::Write];

/// Statuses that mean something else than their code alone. 3092: the replica has no resources left, where
/// any other 429 is a spent throughput budget.
const NAMED_STATUSES: &[CosmosStatus] = &[
    CosmosStatus::COLLECTION_RID_MISMATCH,
    CosmosStatus::WRITE_FORBIDDEN,
    CosmosStatus::DATABASE_ACCOUNT_NOT_FOUND,
    CosmosStatus::READ_SESSION_NOT_AVAILABLE,
    CosmosStatus::NAME_CACHE_IS_STALE,
    CosmosStatus::PARTITION_KEY_RANGE_GONE,
    CosmosStatus::COMPLETING_SPLIT_OR_MERGE,
    CosmosStatus::COMPLETING_PARTITION_MIGRATION,
    CosmosStatus::SYSTEM_RESOURCE_UNAVAILABLE,
];

/// Codes that have rows of their own.
const NAMED_CODES: &[u16] = &[401, 403, 404, 408, 409, 410, 412, 429, 449, 500, 502, 503, 504];

const HERE_THROTTLED: Step = Step::Here(Manner::Unchanged, Budget::Throttle);
const HERE_OVER_ANOTHER_CONNECTION: Step =
    Step::Here(Manner::AnotherConnection, Budget::Connection);
const HERE_RESENT: Step = Step::Here(Manner::AnotherConnection, Budget::Resend);
const HERE_WITH_NEW_CREDENTIAL: Step = Step::Here(Manner::NewCredential, Budget::Credential);
const NEXT_PREFERRED: Step = Step::Elsewhere(RetryTarget::NextPreferred, Budget::Failover);

const REFUSED: &str = "the service refused";
const MUST_NOT_BE_TWICE: &str = "the request may have been carried out, and must not be twice";

/// Connections that ended under a request; a request that had not left costs nothing, however often.
const ENDED: &[HttpErrorKind] = &[
    HttpErrorKind::GoneAway,
    HttpErrorKind::StreamRefused,
    HttpErrorKind::ProtocolChanged,
    HttpErrorKind::ConnectionLost,
    HttpErrorKind::Evicted,
];
/// Connections that could not be made, or that fail requests.
const FAILED: &[HttpErrorKind] =
    &[HttpErrorKind::StreamReset, HttpErrorKind::Protocol, HttpErrorKind::Timeout];
/// All of them: what may have happened to a request that was sent.
const LOST: &[HttpErrorKind] = &[
    HttpErrorKind::GoneAway,
    HttpErrorKind::StreamRefused,
    HttpErrorKind::ProtocolChanged,
    HttpErrorKind::ConnectionLost,
    HttpErrorKind::Evicted,
    HttpErrorKind::StreamReset,
    HttpErrorKind::Protocol,
    HttpErrorKind::Timeout,
    HttpErrorKind::Connect,
];

/// The defaults of a row.
const ROW: Row = Row {
    outcome: Pattern::Success,
    kinds: &RequestKind::ALL,
    sent: SentFilter::Any,
    steps: &[],
    effects: &[],
    error: ErrorKind::Unavailable,
    is_ambiguous: false,
    reason: REFUSED,
};

/// A partition, or a whole endpoint, that does not serve.
const fn failing(reason: UnavailableReason) -> &'static [Effect] {
    match reason {
        UnavailableReason::RequestTimeout => {
            &[Effect::MarkPartition, Effect::MarkEndpoint(UnavailableReason::RequestTimeout)]
        }
        UnavailableReason::InternalServerError => {
            &[Effect::MarkPartition, Effect::MarkEndpoint(UnavailableReason::InternalServerError)]
        }
        UnavailableReason::ServiceUnavailable => {
            &[Effect::MarkPartition, Effect::MarkEndpoint(UnavailableReason::ServiceUnavailable)]
        }
        UnavailableReason::WriteForbidden => &[
            Effect::RefreshAccount,
            Effect::MarkEndpoint(UnavailableReason::WriteForbidden),
            Effect::MarkPartition,
        ],
        UnavailableReason::AccountNotFound => &[
            Effect::RefreshAccount,
            Effect::MarkEndpoint(UnavailableReason::AccountNotFound),
            Effect::MarkPartition,
        ],
        UnavailableReason::TransportError => {
            &[Effect::MarkEndpoint(UnavailableReason::TransportError)]
        }
    }
}

/// The table. The row of success comes first, where [`row_of`] finds it.
pub(super) const MATRIX: &[Row] = &[
    Row { reason: "the service answered", ..ROW },
    // Credentials. Whether a fresh one can be fetched is known to the transport pipeline.
    Row {
        outcome: Pattern::Codes(&[401]),
        steps: &[HERE_WITH_NEW_CREDENTIAL],
        error: ErrorKind::Unauthorized,
        reason: "the credential was refused: a new one is fetched",
        ..ROW
    },
    // 403 is about what the identity may do (5300: what exists for Entra at all): a newer token says the same.
    Row { outcome: Pattern::Codes(&[403]), error: ErrorKind::Unauthorized, ..ROW },
    // The region takes no writes, or does not know the account: nothing was done with the request.
    Row {
        outcome: Pattern::Statuses(&[CosmosStatus::WRITE_FORBIDDEN]),
        steps: &[Step::Elsewhere(RetryTarget::WriteRegion, Budget::Failover)],
        effects: failing(UnavailableReason::WriteForbidden),
        reason: "the region does not accept writes",
        ..ROW
    },
    Row {
        outcome: Pattern::Statuses(&[CosmosStatus::DATABASE_ACCOUNT_NOT_FOUND]),
        steps: &[NEXT_PREFERRED],
        effects: failing(UnavailableReason::AccountNotFound),
        reason: "the region does not serve the account",
        ..ROW
    },
    // The session has not arrived. In a multi-write account the region may have it in a moment; in any other
    // the write region has it by definition, and the first budget is empty.
    Row {
        outcome: Pattern::Statuses(&[CosmosStatus::READ_SESSION_NOT_AVAILABLE]),
        steps: &[
            Step::Here(Manner::Unchanged, Budget::SessionInRegion),
            Step::Elsewhere(RetryTarget::WriteRegion, Budget::Session),
        ],
        reason: "the session has not arrived in the region",
        ..ROW
    },
    Row { outcome: Pattern::Codes(&[404]), error: ErrorKind::NotFound, ..ROW },
    Row { outcome: Pattern::Codes(&[409]), error: ErrorKind::Conflict, ..ROW },
    Row { outcome: Pattern::Codes(&[412]), error: ErrorKind::PreconditionFailed, ..ROW },
    // Names and ranges that are out of date here: nothing was done with the request.
    Row {
        outcome: Pattern::Statuses(&[
            CosmosStatus::COLLECTION_RID_MISMATCH,
            CosmosStatus::NAME_CACHE_IS_STALE,
        ]),
        steps: &[Step::Here(Manner::Unchanged, Budget::ContainerRefresh)],
        effects: &[Effect::RefreshContainer],
        error: ErrorKind::InvalidRequest,
        reason: "the container was recreated",
        ..ROW
    },
    Row {
        outcome: Pattern::Statuses(&[
            CosmosStatus::PARTITION_KEY_RANGE_GONE,
            CosmosStatus::COMPLETING_SPLIT_OR_MERGE,
            CosmosStatus::COMPLETING_PARTITION_MIGRATION,
        ]),
        steps: &[Step::Here(Manner::Unchanged, Budget::RangeRefresh)],
        effects: &[Effect::RefreshRanges],
        reason: "the partition range was split, merged or moved",
        ..ROW
    },
    // The replica timed out, and may have finished after that.
    Row {
        outcome: Pattern::Codes(&[408]),
        kinds: REPEATABLE,
        steps: &[NEXT_PREFERRED],
        effects: failing(UnavailableReason::RequestTimeout),
        is_ambiguous: true,
        reason: "the region timed out",
        ..ROW
    },
    Row {
        outcome: Pattern::Codes(&[408]),
        kinds: UNREPEATABLE,
        effects: failing(UnavailableReason::RequestTimeout),
        is_ambiguous: true,
        reason: MUST_NOT_BE_TWICE,
        ..ROW
    },
    // The replica is gone, has no resources, or is not there: nothing was done with the request.
    Row {
        outcome: Pattern::Codes(&[410, 503]),
        steps: &[NEXT_PREFERRED],
        effects: failing(UnavailableReason::ServiceUnavailable),
        reason: "the partition does not serve in the region",
        ..ROW
    },
    Row {
        outcome: Pattern::Statuses(&[CosmosStatus::SYSTEM_RESOURCE_UNAVAILABLE]),
        steps: &[NEXT_PREFERRED],
        effects: failing(UnavailableReason::ServiceUnavailable),
        reason: "the partition does not serve in the region",
        ..ROW
    },
    Row {
        outcome: Pattern::Codes(&[429]),
        steps: &[HERE_THROTTLED],
        error: ErrorKind::Throttled,
        reason: "throttled",
        ..ROW
    },
    // Two writes conflicted inside the service; neither is to blame.
    Row {
        outcome: Pattern::Codes(&[449]),
        steps: &[Step::Here(Manner::Unchanged, Budget::RetryWith)],
        reason: "the service asks to retry",
        ..ROW
    },
    Row {
        outcome: Pattern::Codes(&[500]),
        kinds: READS,
        steps: &[NEXT_PREFERRED],
        effects: failing(UnavailableReason::InternalServerError),
        reason: "the region failed",
        ..ROW
    },
    // A write that fails so may fail everywhere, and for its own sake: the caller decides.
    Row { outcome: Pattern::Codes(&[500]), kinds: WRITES, is_ambiguous: true, ..ROW },
    // A proxy or load balancer before the region got no answer from it.
    Row {
        outcome: Pattern::Codes(&[502, 504]),
        kinds: REPEATABLE,
        steps: &[NEXT_PREFERRED],
        effects: failing(UnavailableReason::ServiceUnavailable),
        is_ambiguous: true,
        reason: "the region's gateway got no answer",
        ..ROW
    },
    Row {
        outcome: Pattern::Codes(&[502, 504]),
        kinds: UNREPEATABLE,
        effects: failing(UnavailableReason::ServiceUnavailable),
        is_ambiguous: true,
        reason: MUST_NOT_BE_TWICE,
        ..ROW
    },
    Row { outcome: Pattern::OtherClientErrors, error: ErrorKind::InvalidRequest, ..ROW },
    Row { outcome: Pattern::OtherCodes, ..ROW },
    // No response. What is wrong with the request or with ourselves is so at every endpoint.
    Row {
        outcome: Pattern::Losses(&[HttpErrorKind::InvalidRequest]),
        error: ErrorKind::InvalidRequest,
        reason: "another connection would not help",
        ..ROW
    },
    Row {
        outcome: Pattern::Losses(&[HttpErrorKind::QueueFull]),
        error: ErrorKind::Overloaded,
        reason: "the application's own limit on waiting requests is reached",
        ..ROW
    },
    Row {
        outcome: Pattern::Losses(&[HttpErrorKind::Closed]),
        reason: "another connection would not help",
        ..ROW
    },
    // The response was there, so the request was carried out.
    Row {
        outcome: Pattern::Losses(&[HttpErrorKind::ResponseTooLarge]),
        is_ambiguous: true,
        reason: "another connection would not help",
        ..ROW
    },
    // Not an outage: the operator has to trust a root, renew a certificate or find out who stands in between. Elsewhere
    // it would only be found later.
    Row {
        outcome: Pattern::Losses(&[HttpErrorKind::Tls]),
        reason: "the certificate was refused: another connection would not help",
        ..ROW
    },
    // The way to the endpoint, which may be another elsewhere.
    Row {
        outcome: Pattern::Losses(&[HttpErrorKind::Proxy]),
        steps: &[NEXT_PREFERRED],
        effects: failing(UnavailableReason::TransportError),
        reason: "the region cannot be reached",
        ..ROW
    },
    Row {
        outcome: Pattern::Losses(ENDED),
        sent: SentFilter::Safe,
        steps: &[HERE_RESENT, NEXT_PREFERRED],
        reason: "the request was not processed",
        ..ROW
    },
    Row {
        outcome: Pattern::Losses(&[HttpErrorKind::Connect]),
        sent: SentFilter::Safe,
        steps: &[HERE_OVER_ANOTHER_CONNECTION, NEXT_PREFERRED],
        effects: failing(UnavailableReason::TransportError),
        reason: "the connection failed: another one is tried",
        ..ROW
    },
    Row {
        outcome: Pattern::Losses(FAILED),
        sent: SentFilter::Safe,
        steps: &[HERE_OVER_ANOTHER_CONNECTION, NEXT_PREFERRED],
        reason: "the connection failed: another one is tried",
        ..ROW
    },
    Row {
        outcome: Pattern::Losses(LOST),
        kinds: REPEATABLE,
        sent: SentFilter::Maybe,
        steps: &[HERE_OVER_ANOTHER_CONNECTION, NEXT_PREFERRED],
        effects: failing(UnavailableReason::TransportError),
        is_ambiguous: true,
        reason: "the connection failed: another one is tried",
        ..ROW
    },
    Row {
        outcome: Pattern::Losses(LOST),
        kinds: UNREPEATABLE,
        sent: SentFilter::Maybe,
        is_ambiguous: true,
        reason: MUST_NOT_BE_TWICE,
        ..ROW
    },
    Row {
        outcome: Pattern::DeadlinePassed,
        sent: SentFilter::Safe,
        error: ErrorKind::DeadlineExceeded,
        reason: "the deadline passed",
        ..ROW
    },
    Row {
        outcome: Pattern::DeadlinePassed,
        sent: SentFilter::Maybe,
        error: ErrorKind::DeadlineExceeded,
        is_ambiguous: true,
        reason: "the deadline passed",
        ..ROW
    },
];

#[cfg(test)]
mod tests;

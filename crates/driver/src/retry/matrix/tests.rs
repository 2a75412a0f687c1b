use super::*;

const SENT: [RequestSentStatus; 3] =
    [RequestSentStatus::NotSent, RequestSentStatus::NotProcessed, RequestSentStatus::MaybeSent];

/// Every kind of error. The match keeps the list complete: a new kind does not compile without a number.
fn all_losses() -> Vec<HttpErrorKind> {
    use HttpErrorKind::*;
    const fn number(kind: HttpErrorKind) -> usize {
        match kind {
            InvalidRequest => 0,
            Connect => 1,
            Tls => 2,
            Proxy => 3,
            ConnectionLost => 4,
            GoneAway => 5,
            StreamRefused => 6,
            StreamReset => 7,
            ProtocolChanged => 8,
            Protocol => 9,
            ResponseTooLarge => 10,
            QueueFull => 11,
            Timeout => 12,
            Evicted => 13,
            Closed => 14,
        }
    }
    let all = [
        InvalidRequest,
        Connect,
        Tls,
        Proxy,
        ConnectionLost,
        GoneAway,
        StreamRefused,
        StreamReset,
        ProtocolChanged,
        Protocol,
        ResponseTooLarge,
        QueueFull,
        Timeout,
        Evicted,
        Closed,
    ];
    assert!(all.iter().enumerate().all(|(position, kind)| number(*kind) == position));
    all.to_vec()
}

fn refused(code: u16, sub_status: u32) -> AttemptOutcome {
    AttemptOutcome::Refusal {
        status: CosmosStatus::with_sub_status(code, sub_status),
        retry_after: None,
    }
}

/// Sub-statuses that some status is told apart by, and one that none is.
fn sub_statuses() -> impl Iterator<Item = u32> {
    let named = NAMED_STATUSES.iter().map(|status| status.sub_status());
    named.chain([0, 1, 1001, 1003, 1022, 3200, 3214, 31_001, u32::MAX])
}

fn rows_about(question: &Question) -> usize {
    MATRIX.iter().filter(|row| row.is_about(question)).count()
}

#[test]
fn every_status_resolves_to_exactly_one_row() {
    let codes = (100..600).filter(|code| !matches!(code, 200..=299 | 304));
    for code in codes {
        for sub_status in sub_statuses() {
            for kind in RequestKind::ALL {
                let question = Question { kind, outcome: refused(code, sub_status) };
                assert_eq!(rows_about(&question), 1, "{question:?}");
            }
        }
    }
}

#[test]
fn every_other_outcome_resolves_to_exactly_one_row() {
    let losses = all_losses().into_iter();
    let losses = losses.flat_map(|kind| SENT.map(|sent| AttemptOutcome::Loss { kind, sent }));
    let late = SENT.map(|sent| AttemptOutcome::DeadlinePassed { sent });
    for outcome in losses.chain(late).chain([AttemptOutcome::Success]) {
        for kind in RequestKind::ALL {
            let question = Question { kind, outcome };
            assert_eq!(rows_about(&question), 1, "{question:?}");
        }
    }
}

#[test]
fn every_row_is_about_something() {
    let codes = 100..600;
    let refusals = codes.flat_map(|code| sub_statuses().map(move |sub| refused(code, sub)));
    let losses = all_losses().into_iter();
    let losses = losses.flat_map(|kind| SENT.map(|sent| AttemptOutcome::Loss { kind, sent }));
    let late = SENT.map(|sent| AttemptOutcome::DeadlinePassed { sent });
    let all: Vec<AttemptOutcome> =
        refusals.chain(losses).chain(late).chain([AttemptOutcome::Success]).collect();
    for (number, row) in MATRIX.iter().enumerate() {
        let is_used = |outcome: &AttemptOutcome| {
            RequestKind::ALL.iter().any(|&kind| row.is_about(&Question { kind, outcome: *outcome }))
        };
        assert!(all.iter().any(is_used), "row {number}");
    }
}

#[test]
fn the_row_of_success_comes_first() {
    assert!(matches!(MATRIX[0].outcome, Pattern::Success));
    assert!(row_of_status(CosmosStatus::NOT_MODIFIED).steps.is_empty());
}

use Effect::{MarkPartition, RefreshAccount, RefreshContainer, RefreshRanges};
use RequestKind::{IdempotentWrite, Read, Write};

const NEXT: Option<RetryTarget> = Some(RetryTarget::NextPreferred);
const WRITE_REGION: Option<RetryTarget> = Some(RetryTarget::WriteRegion);

/// A row in short: the budgets of its steps in order, the target of the last one, and its effects.
type Meaning = (Vec<Budget>, Option<RetryTarget>, Vec<Effect>, bool);

fn meaning(kind: RequestKind, outcome: AttemptOutcome) -> Meaning {
    let row = row_of(&Question { kind, outcome });
    let target = match row.steps.last() {
        Some(Step::Elsewhere(target, _)) => Some(*target),
        Some(Step::Here(..)) | None => None,
    };
    let budgets = row.steps.iter().map(|step| step.budget()).collect();
    (budgets, target, row.effects.to_vec(), row.is_ambiguous)
}

fn mark(reason: UnavailableReason) -> Effect {
    Effect::MarkEndpoint(reason)
}

/// One row of the specification after another: status, requests, and what follows.
#[test]
fn each_status_means_what_the_specification_says() {
    use Budget::{
        ContainerRefresh, Credential, Failover, RangeRefresh, RetryWith, Session, SessionInRegion,
        Throttle,
    };
    let unavailable = || vec![MarkPartition, mark(UnavailableReason::ServiceUnavailable)];
    let timed_out = || vec![MarkPartition, mark(UnavailableReason::RequestTimeout)];
    let failed = || vec![MarkPartition, mark(UnavailableReason::InternalServerError)];
    let left = || vec![RefreshAccount, mark(UnavailableReason::AccountNotFound), MarkPartition];
    let moved = || vec![RefreshAccount, mark(UnavailableReason::WriteForbidden), MarkPartition];
    let all = &RequestKind::ALL[..];
    let (repeatable, unrepeatable) = (&[Read, IdempotentWrite][..], &[Write][..]);
    let writes = &[IdempotentWrite, Write][..];
    let none = Vec::new;
    let cases: Vec<(u16, u32, &[RequestKind], Meaning)> = vec![
        (400, 0, all, (vec![], None, none(), false)),
        (400, 1001, all, (vec![], None, none(), false)),
        (400, 1024, all, (vec![ContainerRefresh], None, vec![RefreshContainer], false)),
        (401, 0, all, (vec![Credential], None, none(), false)),
        (401, 5006, all, (vec![Credential], None, none(), false)),
        (403, 0, all, (vec![], None, none(), false)),
        (403, 3, all, (vec![Failover], WRITE_REGION, moved(), false)),
        (403, 1008, all, (vec![Failover], NEXT, left(), false)),
        (403, 5300, all, (vec![], None, none(), false)),
        (404, 0, all, (vec![], None, none(), false)),
        (404, 1002, all, (vec![SessionInRegion, Session], WRITE_REGION, none(), false)),
        (404, 1003, all, (vec![], None, none(), false)),
        (408, 0, repeatable, (vec![Failover], NEXT, timed_out(), true)),
        (408, 0, unrepeatable, (vec![], None, timed_out(), true)),
        (409, 0, all, (vec![], None, none(), false)),
        (410, 0, all, (vec![Failover], NEXT, unavailable(), false)),
        (410, 1000, all, (vec![ContainerRefresh], None, vec![RefreshContainer], false)),
        (410, 1002, all, (vec![RangeRefresh], None, vec![RefreshRanges], false)),
        (410, 1007, all, (vec![RangeRefresh], None, vec![RefreshRanges], false)),
        (410, 1008, all, (vec![RangeRefresh], None, vec![RefreshRanges], false)),
        (410, 1022, all, (vec![Failover], NEXT, unavailable(), false)),
        (412, 0, all, (vec![], None, none(), false)),
        (413, 0, all, (vec![], None, none(), false)),
        (429, 0, all, (vec![Throttle], None, none(), false)),
        (429, 3200, all, (vec![Throttle], None, none(), false)),
        (429, 3092, all, (vec![Failover], NEXT, unavailable(), false)),
        (449, 0, all, (vec![RetryWith], None, none(), false)),
        (500, 0, &[Read], (vec![Failover], NEXT, failed(), false)),
        (500, 0, writes, (vec![], None, none(), true)),
        (501, 0, all, (vec![], None, none(), false)),
        (502, 0, repeatable, (vec![Failover], NEXT, unavailable(), true)),
        (504, 0, unrepeatable, (vec![], None, unavailable(), true)),
        (503, 0, all, (vec![Failover], NEXT, unavailable(), false)),
        (503, 1007, all, (vec![Failover], NEXT, unavailable(), false)),
    ];
    for (code, sub_status, kinds, expected) in cases {
        for kind in kinds {
            let found = meaning(*kind, refused(code, sub_status));
            assert_eq!(found, expected, "{code}/{sub_status} {kind:?}");
        }
    }
}

/// Rows of requests without a response, by how far they got.
#[test]
fn each_loss_means_what_the_specification_says() {
    use Budget::{Connection, Failover, Resend};
    use HttpErrorKind as Kind;
    use RequestSentStatus::{MaybeSent, NotProcessed, NotSent};
    let unreachable = || vec![mark(UnavailableReason::TransportError)];
    let none = Vec::new;
    for kind in RequestKind::ALL {
        for loss in [Kind::InvalidRequest, Kind::QueueFull, Kind::Closed, Kind::Tls] {
            let found = meaning(kind, AttemptOutcome::Loss { kind: loss, sent: NotSent });
            assert_eq!(found, (vec![], None, none(), false), "{loss:?}");
        }
        let found = meaning(kind, AttemptOutcome::Loss { kind: Kind::Proxy, sent: NotSent });
        assert_eq!(found, (vec![Failover], NEXT, unreachable(), false));
        let found = meaning(kind, AttemptOutcome::Loss { kind: Kind::Connect, sent: NotSent });
        assert_eq!(found, (vec![Connection, Failover], NEXT, unreachable(), false));
        for loss in FAILED {
            let found = meaning(kind, AttemptOutcome::Loss { kind: *loss, sent: NotSent });
            assert_eq!(found, (vec![Connection, Failover], NEXT, none(), false), "{loss:?}");
        }
        for loss in ENDED {
            for sent in [NotSent, NotProcessed] {
                let found = meaning(kind, AttemptOutcome::Loss { kind: *loss, sent });
                assert_eq!(found, (vec![Resend, Failover], NEXT, none(), false), "{loss:?}");
            }
        }
        for loss in LOST {
            let found = meaning(kind, AttemptOutcome::Loss { kind: *loss, sent: MaybeSent });
            let expected = match kind {
                Read | IdempotentWrite => (vec![Connection, Failover], NEXT, unreachable(), true),
                Write => (vec![], None, none(), true),
            };
            assert_eq!(found, expected, "{loss:?} {kind:?}");
        }
        let late = |sent| meaning(kind, AttemptOutcome::DeadlinePassed { sent });
        assert_eq!(late(NotSent), (vec![], None, none(), false));
        assert_eq!(late(MaybeSent), (vec![], None, none(), true));
    }
}

#[test]
fn kinds_follow_the_status() {
    let kind =
        |code, sub_status| ErrorKind::of_status(CosmosStatus::with_sub_status(code, sub_status));
    assert_eq!(kind(404, 0), ErrorKind::NotFound);
    assert_eq!(kind(429, 3200), ErrorKind::Throttled);
    assert_eq!(kind(429, 3092), ErrorKind::Unavailable);
    assert_eq!(kind(409, 0), ErrorKind::Conflict);
    assert_eq!(kind(412, 0), ErrorKind::PreconditionFailed);
    assert_eq!(kind(400, 1001), ErrorKind::InvalidRequest);
    assert_eq!(kind(403, 0), ErrorKind::Unauthorized);
    assert_eq!(kind(503, 0), ErrorKind::Unavailable);
}

/// A caller was told that its item is gone, or its credential refused, where a region was behind or not
/// the write region.
#[test]
fn a_region_that_is_behind_or_takes_no_writes_is_unavailable() {
    for (code, sub_status) in [(404, 1002), (403, 3), (403, 1008)] {
        let status = CosmosStatus::with_sub_status(code, sub_status);
        assert_eq!(ErrorKind::of_status(status), ErrorKind::Unavailable, "{status}");
    }
}

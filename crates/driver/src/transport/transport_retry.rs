//! Retries at the same endpoint: throttling, lost connections, expired credentials.
//!
//! One pure function over values; it takes `now` and the jitter. Which other region to try is not decided
//! here.

use std::time::{Duration, Instant};

use sidereal_protocol::CosmosStatus;
use sidereal_protocol::headers::ResponseHeaders;

use super::{HttpError, HttpErrorKind, RequestSentStatus, TransportOutcome, TransportResponse};
use crate::options::AvailabilityOptionsView;

/// The most times a request is sent again because the peer did not process it. A peer that replaces its
/// connections refuses a request once or twice; one that keeps refusing it is not going to take it.
const MAX_RESENDS: u32 = 5;

/// The largest fraction of a back-off that jitter adds or takes off, so that clients throttled together do
/// not retry together.
const JITTER_RATIO: f64 = 0.25;

/// What happens after an attempt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ThrottleAction {
    /// The same request is sent again.
    Retry {
        /// After this long.
        delay: Duration,
        /// With this state.
        new_state: ThrottleRetryState,
        /// Over another connection than before, where there is one.
        on_another_shard: bool,
        /// With a credential that is fetched anew.
        with_new_credential: bool,
        /// Why.
        why: &'static str,
    },
    /// The outcome is the attempt's.
    Propagate {
        /// Why.
        why: &'static str,
    },
}

/// What the decision depends on beside the outcome.
#[derive(Clone, Copy, Debug)]
pub struct RetryContext {
    /// Whether sending the request twice can do no harm.
    pub is_repeatable: bool,
    /// Whether the credential can be renewed.
    pub has_renewable_credential: bool,
    /// When the operation ends.
    pub deadline: Option<Instant>,
    /// Now.
    pub now: Instant,
    /// A random number from 0 to 1: how much of the jitter is applied.
    pub jitter: f64,
}

/// Decides whether a request is sent again at the same endpoint.
#[must_use]
pub fn evaluate_transport_retry(
    outcome: &TransportOutcome,
    state: &ThrottleRetryState,
    context: &RetryContext,
) -> ThrottleAction {
    let action = match outcome {
        TransportOutcome::Success(_) => return propagate("the service answered"),
        TransportOutcome::DeadlineExceeded { .. } => return propagate("the deadline passed"),
        TransportOutcome::HttpError(response) => after_refusal(response, state, context),
        TransportOutcome::TransportError { error, request_sent } => {
            after_lost_request(error, *request_sent, state, context)
        }
    };
    // A retry that could only meet the deadline costs the caller its real outcome.
    match (action, context.deadline) {
        (ThrottleAction::Retry { delay, .. }, Some(deadline))
            if context.now + delay >= deadline =>
        {
            propagate("the deadline comes before another attempt could")
        }
        (action, _) => action,
    }
}

fn after_refusal(
    response: &TransportResponse,
    state: &ThrottleRetryState,
    context: &RetryContext,
) -> ThrottleAction {
    if response.status.is_throttled() {
        return after_throttling(response, state, context);
    }
    if asks_for_new_credential(response.status) && context.has_renewable_credential {
        return match state.was_reauthorized {
            true => propagate("a new credential was refused too"),
            false => ThrottleAction::Retry {
                delay: Duration::ZERO,
                new_state: ThrottleRetryState { was_reauthorized: true, ..*state },
                on_another_shard: false,
                with_new_credential: true,
                why: "the credential was refused: a new one is fetched",
            },
        };
    }
    propagate("the service refused")
}

fn after_throttling(
    response: &TransportResponse,
    state: &ThrottleRetryState,
    context: &RetryContext,
) -> ThrottleAction {
    if state.attempt_count >= state.max_attempts {
        return propagate("throttled, and the retries are used up");
    }
    let named = ResponseHeaders::new(&response.headers).retry_after();
    let backoff = state.backoff(state.attempt_count, context.jitter);
    let delay = match named {
        // Jitter is only added here: the service means at least this long. The back-off is a floor: with a
        // wait of next to nothing, all retries would be spent before the partition has recovered.
        Some(named) => {
            let jittered = state.initial_backoff.min(named).mul_f64(JITTER_RATIO * context.jitter);
            backoff.max(named + jittered)
        }
        None => backoff,
    };
    if state.cumulative_delay + delay > state.max_wait_time {
        return propagate("throttled, and the back-off budget is used up");
    }
    ThrottleAction::Retry {
        delay,
        new_state: ThrottleRetryState {
            attempt_count: state.attempt_count + 1,
            cumulative_delay: state.cumulative_delay + delay,
            ..*state
        },
        on_another_shard: false,
        with_new_credential: false,
        why: match named {
            Some(_) => "throttled: the service says how long to wait",
            None => "throttled",
        },
    }
}

fn after_lost_request(
    error: &HttpError,
    sent: RequestSentStatus,
    state: &ThrottleRetryState,
    context: &RetryContext,
) -> ThrottleAction {
    match Loss::of(error.kind(), sent) {
        Loss::Final => propagate("another connection would not help"),
        // The peer, or our own pool, guarantees that it did nothing with the request.
        Loss::NotProcessed => match state.resends {
            MAX_RESENDS.. => propagate("the peer keeps refusing the request"),
            resends => again(
                // At once the first time: a connection that the peer was closing anyway.
                resends.checked_sub(1).map_or(Duration::ZERO, |n| state.backoff(n, context.jitter)),
                ThrottleRetryState { resends: resends + 1, ..*state },
                "the request was not processed",
            ),
        },
        Loss::Connectivity => {
            if state.connectivity_retries >= state.max_connectivity_retries {
                return propagate("another connection failed too");
            }
            if !sent.is_safe_to_resend() && !context.is_repeatable {
                return propagate("the request may have been carried out, and must not be twice");
            }
            again(
                Duration::ZERO,
                ThrottleRetryState {
                    connectivity_retries: state.connectivity_retries + 1,
                    ..*state
                },
                "the connection failed: another one is tried",
            )
        }
    }
}

/// What a kind of error says about trying again.
enum Loss {
    /// It would fail again.
    Final,
    /// It was not processed, and can be sent again at once.
    NotProcessed,
    /// Another connection may do better.
    Connectivity,
}

impl Loss {
    fn of(kind: HttpErrorKind, sent: RequestSentStatus) -> Self {
        match kind {
            HttpErrorKind::InvalidRequest
            | HttpErrorKind::Tls
            | HttpErrorKind::Proxy
            | HttpErrorKind::QueueFull
            | HttpErrorKind::ResponseTooLarge
            | HttpErrorKind::Closed => Self::Final,
            HttpErrorKind::Connect
            | HttpErrorKind::StreamReset
            | HttpErrorKind::Protocol
            | HttpErrorKind::Timeout => Self::Connectivity,
            // A connection that had ended before it got the request costs the request nothing, however
            // many of them there are.
            HttpErrorKind::GoneAway
            | HttpErrorKind::StreamRefused
            | HttpErrorKind::ProtocolChanged
            | HttpErrorKind::ConnectionLost
            | HttpErrorKind::Evicted => match sent.is_safe_to_resend() {
                true => Self::NotProcessed,
                false => Self::Connectivity,
            },
        }
    }
}

/// 401/5006 (AadTokenExpired) and 403/5300 (RbacOperationNotSupported), which a new token may pass.
fn asks_for_new_credential(status: CosmosStatus) -> bool {
    matches!((status.code(), status.sub_status()), (401, 5006) | (403, 5300))
}

fn propagate(why: &'static str) -> ThrottleAction {
    ThrottleAction::Propagate { why }
}

fn again(delay: Duration, new_state: ThrottleRetryState, why: &'static str) -> ThrottleAction {
    ThrottleAction::Retry {
        delay,
        new_state,
        on_another_shard: true,
        with_new_credential: false,
        why,
    }
}

/// The retry budgets of an attempt at one endpoint, and what is spent of them.
///
/// Replaced, not changed, from one try to the next. Every hedge has its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ThrottleRetryState {
    /// Throttled responses waited out so far.
    pub attempt_count: u32,
    /// The most of them that are retried.
    pub max_attempts: u32,
    /// The back-off so far, all waits together.
    pub cumulative_delay: Duration,
    /// The most back-off, all waits together.
    pub max_wait_time: Duration,
    /// The first back-off where the service names none.
    pub initial_backoff: Duration,
    /// The longest back-off where the service names none.
    pub max_backoff: Duration,
    /// What the back-off is multiplied by from one retry to the next.
    pub backoff_factor: f64,
    /// Retries on another connection so far.
    pub connectivity_retries: u32,
    /// The most of them.
    pub max_connectivity_retries: u32,
    /// Times the request was sent again because the peer had not processed it.
    pub resends: u32,
    /// Whether the credential was renewed already.
    pub was_reauthorized: bool,
}

impl ThrottleRetryState {
    /// The budgets that the settings give an attempt.
    #[must_use]
    pub fn new(options: &AvailabilityOptionsView<'_>) -> Self {
        Self {
            attempt_count: 0,
            max_attempts: options.max_throttle_retry_count(),
            cumulative_delay: Duration::ZERO,
            max_wait_time: options.max_throttle_wait(),
            initial_backoff: options.retry_initial_backoff(),
            max_backoff: options.retry_max_backoff(),
            backoff_factor: options.retry_backoff_factor().value(),
            connectivity_retries: 0,
            max_connectivity_retries: options.max_connection_retry_count(),
            resends: 0,
            was_reauthorized: false,
        }
    }

    /// Exponential back-off before the n-th retry, up to the longest, less the jitter.
    fn backoff(&self, n: u32, jitter: f64) -> Duration {
        let exponent = i32::try_from(n).unwrap_or(i32::MAX);
        let longest = self.max_backoff.as_secs_f64();
        let wait = self.initial_backoff.as_secs_f64() * self.backoff_factor.powi(exponent);
        Duration::from_secs_f64(wait.min(longest) * (1.0 - JITTER_RATIO * jitter))
    }
}

#[cfg(test)]
mod tests;

//! One attempt at one endpoint, to its end: headers, signature, sending, and retries at the same endpoint.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use sidereal_protocol::CosmosStatus;
use sidereal_protocol::headers::ResponseHeaders;

use super::claims_challenge::claims_of;
use super::headers_policy::DateHeader;
use super::{
    AdaptiveTransport, AnswerTimes, AuthorizationPolicy, CosmosHeadersPolicy, HttpRequest,
    HttpResponse, SendTerms, TransportOutcome, TransportRequest, TransportResponse,
    TransportResult,
};
use crate::diagnostics::{
    Decision, DiagnosticsContextBuilder, ExecutionContext, Manner, RequestDiagnostics,
    RequestEventKind,
};
use crate::exchange::{HttpError, HttpErrorKind};
use crate::retry::{Budgets, Circumstances, Question, Verdict, evaluate_transport_retry, row_of};
use crate::system::Clock;

/// The longest timeout of a request: a year, which every clock can hold. Settings may say more.
const LONGEST_TIMEOUT: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The decision about a success: a constant, because it is the usual outcome and has no other.
const ANSWERED: Decision = Decision::Finish { reason: "the service answered" };

/// Brings requests of one account to their endpoints.
///
/// The steps are a fixed, short list of calls, not a chain of policies. Regions are not
/// known here: an attempt stays at its endpoint.
#[derive(Debug)]
pub struct TransportPipeline {
    headers_policy: Arc<CosmosHeadersPolicy>,
    auth_policy: Arc<AuthorizationPolicy>,
    http_transport: Arc<AdaptiveTransport>,
    /// The longest that one request may take.
    request_timeout: Duration,
    clock: Clock,
    /// How jitter is drawn: random numbers from 0 to 1. A function pointer, so that production pays no
    /// allocation for what only tests replace.
    jitter: fn(&Clock) -> f64,
    /// Told of answers that are not passed on because the request is sent again, such as that of throttling.
    answers: Option<Arc<AnswerTimes>>,
}

impl TransportPipeline {
    /// A pipeline over connections that may be shared with other accounts.
    #[must_use]
    pub fn new(
        headers_policy: impl Into<Arc<CosmosHeadersPolicy>>,
        auth_policy: impl Into<Arc<AuthorizationPolicy>>,
        http_transport: Arc<AdaptiveTransport>,
        request_timeout: Duration,
        clock: Clock,
    ) -> Self {
        let (headers_policy, auth_policy) = (headers_policy.into(), auth_policy.into());
        let request_timeout = request_timeout.min(LONGEST_TIMEOUT);
        let jitter = Clock::random;
        let answers = None;
        Self {
            headers_policy,
            auth_policy,
            http_transport,
            request_timeout,
            clock,
            jitter,
            answers,
        }
    }

    /// Returns the pipeline with a record of when endpoints answer.
    #[must_use]
    pub(crate) fn telling(mut self, answers: Arc<AnswerTimes>) -> Self {
        self.answers = Some(answers);
        self
    }

    /// Replaces the source of jitter.
    #[must_use]
    pub fn with_jitter(mut self, jitter: fn(&Clock) -> f64) -> Self {
        self.jitter = jitter;
        self
    }

    /// The connections.
    #[must_use]
    pub fn http_transport(&self) -> &Arc<AdaptiveTransport> {
        &self.http_transport
    }

    /// Sends a request until it succeeds, is refused, is lost or meets its deadline, and records every
    /// attempt.
    ///
    /// Dropping the future cancels the request.
    pub async fn execute(
        &self,
        request: &TransportRequest,
        diagnostics: &mut DiagnosticsContextBuilder,
    ) -> TransportResult {
        let mut spent: Option<Box<Budgets>> = None;
        let mut execution_context = request.execution_context;
        let mut avoided_shard = None;
        let mut was_ambiguous = false;
        let mut started = request.started;
        loop {
            // Recorded before it is made: a request that is dropped on the way was tried, and perhaps
            // charged.
            let attempt = diagnostics.begin(RequestDiagnostics::new(
                execution_context,
                request.region.clone(),
                request.endpoint.clone(),
                started.take().unwrap_or_else(Clock::now),
            ));
            attempt.partition_range.clone_from(&request.partition_range);
            let mut authorization = None;
            let outcome = self.attempt(request, avoided_shard, attempt, &mut authorization).await;
            // As it was recorded: the clock is read once for both.
            let now = attempt.ended().unwrap_or_else(Clock::now);
            if let TransportOutcome::Success(_) = outcome {
                attempt.decision = Some(ANSWERED);
                return TransportResult {
                    outcome,
                    at: now,
                    was_ambiguous,
                    decision: ANSWERED,
                    budgets: spent,
                };
            }
            if let (TransportOutcome::HttpError(_), Some(answers)) = (&outcome, &self.answers) {
                answers.note(request.slot, now);
            }
            let question = Question { kind: request.kind, outcome: outcome.attempt_outcome() };
            let circumstances = Circumstances {
                deadline: request.deadline,
                now,
                jitter: (self.jitter)(&self.clock),
            };
            let can_renew = self.auth_policy.is_renewable();
            let budgets = spent.as_deref().unwrap_or(&request.budgets);
            let mut verdict =
                evaluate_transport_retry(&question, budgets, can_renew, &circumstances);
            if let Decision::RetryHere { manner: Manner::NewCredential, .. } = verdict.decision
                && !self.auth_policy.renew(authorization.as_ref(), claims_demanded(&outcome))
            {
                verdict = Verdict::finish("a new credential was refused too");
            }
            let decision = verdict.decision;
            attempt.decision = Some(decision);
            let failed_shard = attempt.shard;
            was_ambiguous |= row_of(&question).is_ambiguous;
            spent = Some(Box::new(verdict.spend(*budgets)));
            let Decision::RetryHere { after, manner, .. } = decision else {
                return TransportResult {
                    outcome,
                    at: now,
                    was_ambiguous,
                    decision,
                    budgets: spent,
                };
            };
            // A sleep of zero would still go through the timer wheel and yield.
            if !after.is_zero() {
                tokio::time::sleep(after).await;
            }
            // A throttled request may use the same connection: it works.
            avoided_shard = failed_shard.filter(|_| manner == Manner::AnotherConnection);
            execution_context = ExecutionContext::Retry;
        }
    }

    /// One request on the wire, bounded by the deadline and by the timeout of one request. `authorization` is set to
    /// what it was sent with, if that can be renewed.
    async fn attempt(
        &self,
        request: &TransportRequest,
        avoided_shard: Option<u64>,
        attempt: &mut RequestDiagnostics,
        authorization: &mut Option<HeaderValue>,
    ) -> TransportOutcome {
        attempt.record_after(RequestEventKind::TransportStart, Duration::ZERO);
        // Checked by hand: tokio polls the future once before an expired timer, so the request would leave.
        if request.deadline.is_some_and(|deadline| deadline <= attempt.started) {
            return deadline_exceeded(attempt);
        }
        let terms = SendTerms {
            deadline: request.deadline,
            timeout: Some(self.request_timeout),
            body_bytes: request.body.len(),
            slow_after: request.slow_after,
            avoided_shard,
        };
        match self.authorize_and_send(request, &terms, attempt, authorization).await {
            Ok(response) => response_outcome(response, attempt),
            // The operation's deadline ends it; the timeout of one attempt may be retried.
            Err(error)
                if error.kind() == HttpErrorKind::Timeout
                    && request.deadline.is_some_and(|deadline| deadline <= Clock::now()) =>
            {
                deadline_exceeded(attempt)
            }
            Err(error) => loss_outcome(error, attempt),
        }
    }

    /// Authorizes a request and sends it, once there is a stream for it: a signature that was made before the
    /// wait could be too old by its end.
    async fn authorize_and_send(
        &self,
        request: &TransportRequest,
        terms: &SendTerms,
        attempt: &mut RequestDiagnostics,
        authorization: &mut Option<HeaderValue>,
    ) -> Result<HttpResponse, HttpError> {
        self.auth_policy.check_endpoint(&request.endpoint)?;
        // A token may have to be fetched first, and no stream is held meanwhile.
        let early = match self.auth_policy.is_renewable() {
            true => Some(self.authorized_in_time(request, terms, attempt).await?),
            false => None,
        };
        let stream = self.http_transport.reserve(&request.endpoint, attempt, terms).await?;
        let authorized = match early.filter(|_| !stream.has_waited()) {
            Some(authorized) => authorized,
            None if self.auth_policy.is_renewable() => {
                self.authorized_in_time(request, terms, attempt).await?
            }
            None => self.authorized(request).await?,
        };
        let AuthorizationHeaders { date, header } = authorized;
        // Kept, so that a refusal invalidates this token and not one that was fetched since.
        if self.auth_policy.is_renewable() {
            *authorization = Some(header.clone());
        }
        let mut http_request = HttpRequest::new(request.body.clone());
        *http_request.method_mut() = request.method.clone();
        *http_request.uri_mut() = request.endpoint.uri(request.path.clone());
        *http_request.headers_mut() =
            self.headers_policy.apply(&request.headers, request.activity_id, &date, header);
        self.http_transport.send_over(stream, &mut http_request, attempt, terms).await
    }

    /// The authorization of a request that is sent now.
    async fn authorized(
        &self,
        request: &TransportRequest,
    ) -> Result<AuthorizationHeaders, HttpError> {
        // One reading for the date header and for the token's expiry, so that they cannot disagree.
        let now = self.clock.wall();
        let date = self.headers_policy.date(now);
        let header =
            self.auth_policy.authorize(&request.method, &request.auth_context, &date, now).await?;
        Ok(AuthorizationHeaders { date, header })
    }

    /// Authorizes within the time of an attempt: a token may have to be fetched.
    async fn authorized_in_time(
        &self,
        request: &TransportRequest,
        terms: &SendTerms,
        attempt: &RequestDiagnostics,
    ) -> Result<AuthorizationHeaders, HttpError> {
        let timeout = Clock::now() + self.request_timeout;
        let end = terms.deadline.map_or(timeout, |deadline| deadline.min(timeout));
        match tokio::time::timeout_at(end.into(), self.authorized(request)).await {
            Ok(authorized) => authorized,
            Err(_) => Err(HttpError::new(
                HttpErrorKind::Timeout,
                attempt.request_sent,
                format!("the credential gave no token within {:?}", self.request_timeout),
            )),
        }
    }
}

/// The headers that a request is authorized with.
struct AuthorizationHeaders {
    date: Arc<DateHeader>,
    header: HeaderValue,
}

fn claims_demanded(outcome: &TransportOutcome) -> Option<Arc<str>> {
    match outcome {
        TransportOutcome::HttpError(response) => claims_of(&response.headers),
        TransportOutcome::Success(_)
        | TransportOutcome::TransportError { .. }
        | TransportOutcome::DeadlineExceeded { .. } => None,
    }
}

fn response_outcome(response: HttpResponse, attempt: &mut RequestDiagnostics) -> TransportOutcome {
    let (head, body) = response.into_parts();
    let told = ResponseHeaders::new(&head.headers).accounting();
    let sub_status = told.sub_status.unwrap_or_default();
    let status = CosmosStatus::with_sub_status(head.status.as_u16(), sub_status);
    attempt.answered(&told, status);
    let response = TransportResponse { status, headers: head.headers, body };
    // 304 is what `If-None-Match` asked for, not a failure.
    match status.is_success() || status.is_not_modified() {
        true => TransportOutcome::Success(response),
        false => TransportOutcome::HttpError(response),
    }
}

fn loss_outcome(error: HttpError, attempt: &mut RequestDiagnostics) -> TransportOutcome {
    attempt.failed(&error);
    attempt.status = Some(error.status());
    TransportOutcome::TransportError { request_sent: error.request_sent(), error }
}

fn deadline_exceeded(attempt: &mut RequestDiagnostics) -> TransportOutcome {
    let phase = attempt.phase();
    let outcome = TransportOutcome::DeadlineExceeded { phase, request_sent: attempt.request_sent };
    attempt.failure = Some(format!("the deadline passed while {phase}").into());
    attempt.record(RequestEventKind::TransportFailed);
    attempt.status = Some(outcome.status());
    outcome
}

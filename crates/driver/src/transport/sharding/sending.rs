//! Sending one request over a reserved stream, and recording the outcome in the shard's health.

use std::sync::Arc;
use std::time::Instant;

use super::client_shard::ClientShard;
use super::eviction::Removal;
use super::pool_context::PoolKind;
use super::reservation::ReservedStream;
use super::send_terms::SendTerms;
use super::shard_pool::EndpointShardPool;
use crate::diagnostics::{RequestDiagnostics, RequestEventKind};
use crate::exchange::{HttpError, HttpErrorKind, RequestSentStatus};
use crate::system::Clock;
use crate::transport::{HttpRequest, HttpResponse};

impl EndpointShardPool {
    /// Sends a request over a shard and waits for its whole response, and notes when it came. The request is taken out
    /// of its variable once a stream is reserved for it.
    ///
    /// # Errors
    ///
    /// [`HttpError`]: why no response came; a full wait queue is [`HttpErrorKind::QueueFull`].
    pub async fn send(
        self: &Arc<Self>,
        request: &mut HttpRequest,
        diagnostics: &mut RequestDiagnostics,
        terms: SendTerms,
    ) -> Result<HttpResponse, HttpError> {
        let reserved = self.reserve_stream(diagnostics, &terms).await?;
        self.send_over(&reserved, request, diagnostics, &terms).await
    }

    /// Sends a request over the stream that was reserved for it, as [`send`](Self::send) does.
    ///
    /// # Errors
    ///
    /// As [`send`](Self::send).
    pub(in crate::transport) async fn send_over(
        self: &Arc<Self>,
        reserved: &ReservedStream,
        request: &mut HttpRequest,
        diagnostics: &mut RequestDiagnostics,
        terms: &SendTerms,
    ) -> Result<HttpResponse, HttpError> {
        let shard = reserved.reservation.shard();
        diagnostics.shard = Some(shard.id());
        self.load().record();
        shard.record_start(reserved.reservation.in_use(), self.age_at(reserved.at));
        let end = terms.timeout.and_then(|timeout| reserved.at.checked_add(timeout));
        let end = [end, terms.deadline].into_iter().flatten().min();
        // Armed across the await: if the caller drops this future, only a destructor still runs.
        let from = [end, terms.slow_after].into_iter().flatten().min();
        let mut cut_off = CutOff { shard, from, is_armed: true };
        // Assumed, before the client has the request: one that is dropped on the way may have sent it. A
        // client that knows better says so (`RequestDiagnostics::not_sent_yet`).
        diagnostics.request_sent = RequestSentStatus::MaybeSent;
        let executing = shard.client().execute(std::mem::take(request), diagnostics);
        let outcome = match end {
            None => Some(executing.await),
            Some(end) => tokio::time::timeout_at(end.into(), executing).await.ok(),
        };
        // It stays armed at the end of its time: the connection may hang.
        let Some(outcome) = outcome else { return Err(self.timed_out(diagnostics, terms)) };
        cut_off.is_armed = false;
        match &outcome {
            Ok(_) => {
                let now = Clock::now();
                diagnostics.record_at(RequestEventKind::ResponseBodyReceived, now);
                shard.record_success(self.age_at(now));
            }
            Err(error) => self.record_failure(shard, error),
        }
        outcome
    }

    /// Records an error in the health of the shard it came over.
    fn record_failure(self: &Arc<Self>, shard: &Arc<ClientShard>, error: &HttpError) {
        match error.kind() {
            // The connection has ended, for this request and the next.
            _ if self.kind() == PoolKind::Sharded && shard.is_closed() => {
                shard.record_failure();
                self.remove(shard, Removal::ConnectionClosed);
            }
            // The request is at fault, or the endpoint as a whole.
            HttpErrorKind::InvalidRequest | HttpErrorKind::ProtocolChanged => {}
            _ => shard.record_failure(),
        }
    }
}

/// Counts a request against its shard if it is dropped at its deadline, or once it is slow: the connection
/// may hang. One that is dropped before was cancelled by its caller, which says nothing of the connection.
struct CutOff<'a> {
    shard: &'a ClientShard,
    from: Option<Instant>,
    is_armed: bool,
}

impl Drop for CutOff<'_> {
    fn drop(&mut self) {
        if self.is_armed && self.from.is_some_and(|from| Clock::now() >= from) {
            self.shard.record_failure();
        }
    }
}

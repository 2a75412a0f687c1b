//! A region that answers nothing: when its silence counts, and when an attempt there is given up.

use std::time::{Duration, Instant};

use super::attempt::AttemptRoute;
use super::run::OperationRun;
use crate::diagnostics::Decision;
use crate::exchange::{HttpError, HttpErrorKind, RequestSentStatus};
use crate::retry::RequestKind;
use crate::routing::{CosmosEndpoint, OutageCause, OutageScope};
use crate::system::Clock;
use crate::transport::{TransportOutcome, TransportResult};

/// How long an operation on one item waits before its region counts as silent, if nothing else was answered
/// either since it began.
pub(super) const SILENCE: Duration = Duration::from_secs(2);

/// The reason in the diagnostics of an attempt that was given up for another region.
pub(super) const SILENT: &str = "the region did not answer anything";

impl OperationRun<'_> {
    /// The time from which silence counts: only for operations on one item, which a serving region
    /// answers sooner.
    pub(super) fn silence_counts_at(&self, started: Instant) -> Option<Instant> {
        started.checked_add(SILENCE).filter(|_| self.operation.is_about_one_item())
    }

    /// Watches an attempt whose region has not answered anything for a while. Completes when the attempt is
    /// abandoned for another region: a read, or a write that may be repeated.
    pub(super) async fn abandoned(
        &self,
        route: &AttemptRoute,
        started: Instant,
    ) -> TransportResult {
        let endpoint = &route.endpoint;
        let is_only_writer = self.only_writer().is_some_and(|it| it.endpoint == endpoint.endpoint);
        let mut since = started;
        while !self.core.answers.is_silent_since(endpoint.slot, since) {
            since = Clock::now();
            tokio::time::sleep(SILENCE).await;
        }
        let may_leave = self.kind != RequestKind::Write;
        if is_only_writer && !self.service_moves_partitions() {
            let region = OutageScope::region(endpoint.endpoint.clone());
            self.core.write_gate.close(region, OutageCause::Lost);
            let has_moved = || {
                let snapshot = self.core.locations.snapshot();
                snapshot.account.write_endpoints().iter().all(|it| it.endpoint != endpoint.endpoint)
            };
            // With one write region there is nowhere to go before the account names another.
            self.core.account.until(has_moved).await;
        } else if !may_leave || !self.is_elsewhere(endpoint) {
            return std::future::pending().await;
        }
        if !may_leave {
            return std::future::pending().await;
        }
        // The request was on a connection for the whole time, so the write may have been applied.
        let sent = RequestSentStatus::MaybeSent;
        let error = HttpError::new(HttpErrorKind::Timeout, sent, SILENT);
        TransportResult {
            outcome: TransportOutcome::TransportError { error, request_sent: sent },
            at: Clock::now(),
            was_ambiguous: self.kind.is_write(),
            decision: Decision::Finish { reason: SILENT },
            budgets: None,
        }
    }

    /// Whether another region could serve the operation.
    fn is_elsewhere(&self, endpoint: &CosmosEndpoint) -> bool {
        let snapshot = self.core.locations.snapshot();
        let account = &snapshot.account;
        !self.repeats_in_place()
            && account.read_endpoints().iter().any(|it| it.endpoint != endpoint.endpoint)
    }
}

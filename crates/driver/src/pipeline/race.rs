//! An attempt, and the race with a hedge if it is slow.

use std::borrow::Cow;
use std::pin::Pin;
use std::time::{Duration, Instant};

use super::attempt::{AttemptRoute, OtherLeg, RaceOutcome};
use super::deadline::sleep_until;
use super::run::OperationRun;
use super::silence::SILENT;
use super::{AttemptTerms, OperationRetryState, begin_request, complete_request};
use crate::CosmosOperation;
use crate::diagnostics::{DiagnosticsContextBuilder, ExecutionContext};
use crate::hedging::{HedgingTerms, LatencyClass, is_better_informed, is_final, may_be_hedged};
use crate::routing::{CosmosEndpoint, resolve_hedge};
use crate::system::Clock;
use crate::transport::{TransportRequest, TransportResult};

/// The latency that is assumed while too few are known: the threshold of a hedge.
const UNKNOWN_LATENCY: Duration = Duration::from_secs(1);

impl OperationRun<'_> {
    /// The latency after which an attempt is hedged.
    pub(super) fn hedging_threshold(&self, now: Instant) -> Duration {
        let is_healthy = |slot: usize| {
            let snapshot = self.core.locations.snapshot();
            let account = &snapshot.account;
            let mut endpoints = account.read_endpoints().iter();
            endpoints.any(|it| it.slot == slot && account.is_available(&it.endpoint, false, now))
        };
        let class = self.operation.latency_class();
        let recent = class.and_then(|it| self.core.latencies.percentile(it, now, is_healthy));
        self.availability.hedging_threshold().resolve(Some(recent.unwrap_or(UNKNOWN_LATENCY)))
    }

    fn may_hedge(&self, terms: &AttemptTerms<'_>) -> bool {
        let hedging = HedgingTerms {
            is_enabled: self.availability.hedging_enabled() && !self.is_about_account(),
            hedges_writes: self.availability.hedge_writes(),
            is_disabled_by_account: terms.is_hedging_suppressed,
            is_multi_write: terms.is_multi_write,
            is_conditional: self.operation.is_conditional()
                || terms.write.if_match_etag().is_some(),
        };
        may_be_hedged(self.kind, hedging)
    }

    /// Makes an attempt. If it is slow and may be hedged, a second one joins it in another region, and the first
    /// outcome that is final counts; the other leg is cancelled.
    pub(super) async fn race<'r>(
        &self,
        request: &mut TransportRequest,
        route: &'r AttemptRoute,
        terms: &AttemptTerms<'_>,
        state: &OperationRetryState,
        diagnostics: &mut DiagnosticsContextBuilder,
    ) -> RaceOutcome<'r> {
        let started = state.now;
        let (ratio, burst) =
            (self.availability.hedging_budget_ratio(), self.availability.hedging_budget_burst());
        self.core.hedging_budget.earn(ratio, burst);
        let may_hedge = self.may_hedge(terms);
        // A threshold that no clock can hold is never reached.
        let fires_at = started.checked_add(self.hedging_threshold(started)).filter(|_| may_hedge);
        // So that the shard of a leg that loses to its hedge is held against it (`SendTerms::slow_after`).
        request.slow_after = fires_at;
        let silent_at = self.silence_counts_at(started);
        let joined = {
            // Pinned here, in a block: it writes into the diagnostics until it is dropped.
            let mut primary = std::pin::pin!(self.transport.execute(request, diagnostics));
            tokio::select! {
                // The outcome first: an attempt that has ended needs no hedge.
                biased;
                result = &mut primary => return RaceOutcome::unhedged(result, route, started),
                // One timer: of a write that is not hedged, its region's silence is the first that counts.
                () = sleep_until(fires_at.or(silent_at)) => {
                    let hedge = fires_at.and_then(|_| self.hedge_request(route, terms, state));
                    match hedge {
                        Some(hedge) => Ok(self.join(primary, route, hedge, silent_at).await),
                        None => tokio::select! {
                            biased; // The outcome first, as above.
                            result = &mut primary => return RaceOutcome::unhedged(result, route, started),
                            // On the heap: few attempts meet a silent region.
                            silent = Box::pin(self.silent(route, started, silent_at)) => Err(silent),
                        },
                    }
                }
            }
        };
        let joined = match joined {
            Ok(joined) => joined,
            Err(abandoned) => {
                diagnostics.left(SILENT);
                return RaceOutcome::unhedged(abandoned, route, started);
            }
        };
        joined.into_outcome(route, started, diagnostics)
    }

    /// Completes when an attempt is abandoned because its region is silent; never, if silence does not count.
    async fn silent(
        &self,
        route: &AttemptRoute,
        started: Instant,
        silent_at: Option<Instant>,
    ) -> TransportResult {
        sleep_until(silent_at).await;
        self.abandoned(route, started).await
    }

    /// Waits for the remaining leg of a race, unless its region is silent.
    async fn unless_silent(
        &self,
        leg: Pin<&mut impl Future<Output = TransportResult>>,
        route: &AttemptRoute,
        started: Instant,
        silent_at: Option<Instant>,
    ) -> TransportResult {
        tokio::select! {
            biased; // The outcome first: a region that has answered is not silent.
            result = leg => result,
            silent = self.silent(route, started, silent_at) => silent,
        }
    }

    /// Runs a hedge beside an attempt until one of them wins.
    async fn join(
        &self,
        mut primary: Pin<&mut impl Future<Output = TransportResult>>,
        route: &AttemptRoute,
        hedge: Hedge,
        silent_at: Option<Instant>,
    ) -> FinishedRace {
        let started = Clock::now();
        let mut diagnostics = DiagnosticsContextBuilder::new(hedge.request.activity_id, started);
        // On the heap: few attempts are hedged, and all of them would be larger by it.
        let mut secondary = Box::pin(self.transport.execute(&hedge.request, &mut diagnostics));
        let kind = self.kind;
        let (is_hedge, first) = tokio::select! {
            // The attempt first: of two that have ended, the preferred region counts.
            biased;
            result = &mut primary => (false, result),
            result = &mut secondary => (true, result),
        };
        let decided = match (is_final(kind, &first.outcome), is_hedge) {
            (true, _) => RaceDecision { is_hedge, result: first, other: None },
            (false, false) => {
                let hedged = AttemptRoute::to(hedge.endpoint.clone());
                let silent_at = silent_at.and(self.silence_counts_at(started));
                let other = self.unless_silent(secondary.as_mut(), &hedged, started, silent_at);
                // On the heap: few races go on after their first outcome.
                RaceDecision::of_both(first, Box::pin(other).await)
            }
            (false, true) => {
                let other = self.unless_silent(primary, route, started, silent_at);
                RaceDecision::of_both(Box::pin(other).await, first)
            }
        };
        // Ends the borrow of the diagnostics, and cancels the leg that lost.
        drop(secondary);
        FinishedRace { decided, endpoint: hedge.endpoint, diagnostics }
    }

    /// The request of a hedge, if there is a region for it and the budget allows it.
    fn hedge_request(
        &self,
        route: &AttemptRoute,
        terms: &AttemptTerms<'_>,
        state: &OperationRetryState,
    ) -> Option<Hedge> {
        let endpoint = match &route.probe {
            // A probe is slow: its partition is served elsewhere already.
            Some(moved_to) => moved_to.clone(),
            None => {
                let snapshot = self.core.locations.snapshot();
                let request = self.route_request(state, Some(&route.endpoint.endpoint));
                resolve_hedge(&snapshot, &request, Clock::now())?.clone()
            }
        };
        // Last: a token is spent only if there is a region to hedge to.
        if !self.core.hedging_budget.spend() {
            return None;
        }
        let execution_context = ExecutionContext::Hedging;
        // Another region than the hub is asked for what it has.
        let terms =
            AttemptTerms { execution_context, started: None, is_hub_only: false, ..terms.clone() };
        let mut request = begin_request(self.operation, &endpoint, &terms, state);
        complete_request(&mut request, self.operation, &terms).ok()?;
        Some(Hedge { endpoint, request })
    }
}

/// A second attempt, beside one that is slow.
struct Hedge {
    endpoint: CosmosEndpoint,
    request: TransportRequest,
}

/// The winner of a race.
struct RaceDecision {
    is_hedge: bool,
    result: TransportResult,
    /// The outcome of the other leg, unless that was cancelled.
    other: Option<TransportResult>,
}

impl RaceDecision {
    /// Decides after both legs have ended, where the first outcome was not final.
    fn of_both(primary: TransportResult, hedge: TransportResult) -> Self {
        let is_hedge = is_better_informed(&hedge.outcome, &primary.outcome);
        let (result, other) = if is_hedge { (hedge, primary) } else { (primary, hedge) };
        Self { is_hedge, result, other: Some(other) }
    }
}

/// A race that is over.
struct FinishedRace {
    decided: RaceDecision,
    /// The endpoint of the hedge.
    endpoint: CosmosEndpoint,
    /// The diagnostics of the hedge.
    diagnostics: DiagnosticsContextBuilder,
}

impl FinishedRace {
    /// The outcome of the race, with the hedge's diagnostics added to the attempt's.
    fn into_outcome<'r>(
        mut self,
        route: &'r AttemptRoute,
        started: Instant,
        diagnostics: &mut DiagnosticsContextBuilder,
    ) -> RaceOutcome<'r> {
        let RaceDecision { is_hedge, result, other } = self.decided;
        match is_hedge {
            true => diagnostics.left(LEFT),
            false => self.diagnostics.left(LEFT),
        }
        let hedge_started = self.diagnostics.started();
        diagnostics.absorb(self.diagnostics);
        let (won, lost, started) = match is_hedge {
            true => (Cow::Owned(self.endpoint), route.endpoint.clone(), hedge_started),
            false => (Cow::Borrowed(&route.endpoint), self.endpoint, started),
        };
        let other = Some(Box::new(OtherLeg { endpoint: lost, result: other }));
        RaceOutcome { result, endpoint: won, started, is_hedge, other }
    }
}

/// The reason in the diagnostics of a leg that was cancelled.
const LEFT: &str = "another region answered first";

impl CosmosOperation {
    /// The class of operations with comparable latencies; `None` if there are too few of them.
    pub(super) fn latency_class(&self) -> Option<LatencyClass> {
        match (self.is_about_one_item(), self.is_in_partition()) {
            (true, _) if self.operation_type().is_read_only() => Some(LatencyClass::PointRead),
            (true, _) => Some(LatencyClass::PointWrite),
            (false, true) => Some(LatencyClass::Scan),
            (false, false) => None,
        }
    }
}

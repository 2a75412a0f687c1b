//! One attempt of an operation: where it goes, and the race with a hedge if it is slow.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderValue;
use sidereal_protocol::{OperationType, PartitionKeyRangeId, RegionName, ResourceType};

use super::held_write::SILENT;
use super::{AttemptTerms, OperationRetryState, begin_request, complete_request};
use crate::CosmosOperation;
use crate::diagnostics::{DiagnosticsContextBuilder, ExecutionContext, RetryTarget};
use crate::driver_core::DriverCore;
use crate::hedging::{HedgingTerms, LatencyClass, is_better_informed, is_final, may_be_hedged};
use crate::options::{AmbiguousWriteRetry, AvailabilityOptionsView};
use crate::retry::RequestKind;
use crate::routing::{
    AccountEndpointState, CosmosEndpoint, Partition, Route, Traffic, Wanted, resolve_hedge,
    resolve_route, serving_session_home, session_home,
};
use crate::session::{ReadTerms, SessionHeaders, sends_session_token};
use crate::system::Clock;
use crate::transport::{Endpoint, TransportPipeline, TransportRequest, TransportResult};

/// The longest that a read waits for its session before it is sent. Beyond it, the region that has the session is asked
/// although it is slow.
const LONGEST_SESSION_PAUSE: Duration = Duration::from_millis(100);

/// The longest that a read waits before it is sent while the region that has its session does not serve: that region may
/// be back by then.
const LONGEST_ARRIVAL_PAUSE: Duration = Duration::from_secs(1);

/// What a hedge waits for while too little is known of latencies.
const UNKNOWN_LATENCY: Duration = Duration::from_secs(1);

/// What stays the same from one attempt of an operation to the next.
pub(super) struct Run<'a> {
    pub(super) core: &'a DriverCore,
    pub(super) transport: &'a TransportPipeline,
    pub(super) operation: &'a CosmosOperation,
    /// The effect of repeating it, as far as the settings let it be repeated.
    pub(super) kind: RequestKind,
    pub(super) availability: &'a AvailabilityOptionsView<'a>,
    pub(super) excluded: &'a [RegionName],
    pub(super) deadline: Option<Instant>,
}

/// Where an attempt goes.
#[derive(Debug)]
pub(super) struct Routed {
    pub(super) endpoint: CosmosEndpoint,
    /// If it is a probe of a region that its partition has left: where the partition is served.
    pub(super) probe: Option<CosmosEndpoint>,
    /// How long it waits before it is made: its region is likely to have the session by then.
    pub(super) pause: Duration,
    /// Whether it goes to the region that has its session, instead of the one that serves such reads otherwise.
    pub(super) is_diverted: bool,
}

impl Routed {
    fn to(endpoint: CosmosEndpoint) -> Self {
        Self { endpoint, probe: None, pause: Duration::ZERO, is_diverted: false }
    }
}

/// What an attempt came to, with the hedge that may have joined it.
#[derive(Debug)]
pub(super) struct Raced<'a> {
    /// The outcome that counts.
    pub(super) result: TransportResult,
    /// Where it comes from: where the attempt went, unless a hedge has won.
    pub(super) endpoint: Cow<'a, CosmosEndpoint>,
    /// When the request that has it was made.
    pub(super) started: Instant,
    /// Whether it is the hedge's.
    pub(super) is_hedge: bool,
    /// The other leg, if there was a race.
    // On the heap: few attempts are hedged, and all of them would be larger by it.
    pub(super) other: Option<Box<OtherLeg>>,
}

/// The leg of a race that does not count.
#[derive(Debug)]
pub(super) struct OtherLeg {
    pub(super) endpoint: CosmosEndpoint,
    /// None if it was left because the other one had answered.
    pub(super) result: Option<TransportResult>,
}

impl Run<'_> {
    /// Waits until the account has been read once, if that is needed. Says when the operation goes on, if the
    /// deadline allows it.
    pub(super) async fn until_account_is_read(&self, started: Instant) -> Option<Instant> {
        if self.core.locations.is_known() || self.is_about_account() {
            return Some(started);
        }
        within(self.deadline, self.core.account.until_read()).await.then(Clock::now)
    }

    /// The account itself is read at its global endpoint: a region would tell its own view of it.
    pub(super) fn is_about_account(&self) -> bool {
        self.operation.path().kind() == ResourceType::DatabaseAccount
    }

    /// Whether a repetition must go to the region that may have applied the write: its replica alone can judge the
    /// condition, as long as the regions of a multi-write account have not heard of each other's writes.
    pub(super) fn repeats_in_place(&self) -> bool {
        self.kind == RequestKind::IdempotentWrite
            && self.availability.retry_ambiguous_writes() == AmbiguousWriteRetry::Conditional
            && self.core.locations.snapshot().account.is_multi_write()
    }

    pub(super) fn traffic(&self) -> Traffic {
        Traffic::of(self.kind.is_write())
    }

    /// Where the next attempt goes.
    pub(super) fn route(
        &self,
        state: &mut OperationRetryState,
        terms: &mut AttemptTerms<'_>,
        diagnostics: &mut DiagnosticsContextBuilder,
    ) -> Routed {
        if let Some(partition) = self.resolve_partition(state.now) {
            state.partition = Some(partition);
        }
        let partition = state.partition.as_ref();
        let snapshot = self.core.locations.snapshot();
        let account = &snapshot.account;
        if diagnostics.attempts().is_empty() {
            self.warn_of(account, diagnostics);
        }
        terms.started = Some(state.now);
        terms.is_multi_write = account.is_multi_write();
        terms.is_hedging_suppressed = account.is_hedging_disabled();
        let read = self.read_terms(account, terms);
        terms.strategy = read.effective_strategy();
        terms.container_rid = self.container_rid(partition.map(|it| &**it));
        if state.takes_session_anew {
            terms.session = self.session_headers(read, partition.map(|it| &**it));
        }
        if self.is_about_account() {
            return Routed::to(account.default_endpoint().clone());
        }
        if let Some(endpoint) = &state.pinned {
            return Routed::to(endpoint.clone());
        }
        if !account.has_no_marks() && account.due_for_probe(state.now).next().is_some() {
            self.core.prober.request();
        }
        let wanted = self.wanted(state, None);
        let route = resolve_route(&snapshot, &wanted, self.core.locations.config(), state.now);
        let mut routed = self.claimed(route, state);
        if diagnostics.attempts().is_empty() && routed.probe.is_none() {
            self.look_for_session(&mut routed, terms, &wanted, state.now);
        }
        terms.is_hub_only = state.target == RetryTarget::WriteRegion
            && wanted.traffic == Traffic::Reads
            && session_home(&snapshot, &wanted, self.core.locations.config(), state.now)
                == Some(&routed.endpoint);
        state.asks_hub = terms.is_hub_only;
        state.asks_only_writer = !account.is_multi_write()
            && account.write_endpoints().first().is_some_and(|it| it.slot == routed.endpoint.slot);
        if routed.probe.is_some() {
            terms.execution_context = ExecutionContext::CircuitBreakerProbe;
        }
        if let Some(partition) = partition {
            partition.activity.note(routed.endpoint.slot, self.core.tick(state.now));
        }
        routed
    }

    /// Notes what the application should know of the account and of its settings.
    fn warn_of(&self, account: &AccountEndpointState, diagnostics: &mut DiagnosticsContextBuilder) {
        if account.thin_client_endpoints() > 0 && self.core.tells_of_thin_client() {
            let sentence = format!(
                "the account has a second gateway (thin client) in {} regions, which is not used: \
                 requests go to the first one",
                account.thin_client_endpoints()
            );
            let known = account.warnings().into_iter().flat_map(|it| it.iter().cloned());
            diagnostics.warn(known.chain([sentence]).collect());
        } else if let Some(warnings) = account.warnings() {
            diagnostics.warn(Arc::clone(warnings));
        }
    }

    /// Has a read wait a moment for its session, or go where that is, if its region is likely to be behind: what it would
    /// meet there costs a request and a round trip.
    fn look_for_session(
        &self,
        routed: &mut Routed,
        terms: &AttemptTerms<'_>,
        wanted: &Wanted<'_>,
        now: Instant,
    ) {
        let Some(seen) = terms.session.as_ref().and_then(|it| it.kept) else { return };
        if wanted.traffic == Traffic::Writes || seen.slot == routed.endpoint.slot {
            return;
        }
        let age = now.saturating_duration_since(seen.at);
        let Some(behind) = self.core.lags.behind(routed.endpoint.slot, age) else { return };
        if self.core.lags.claim_trial(routed.endpoint.slot, age, now) {
            return;
        }
        let snapshot = self.core.locations.snapshot();
        let home = serving_session_home(&snapshot, wanted, self.core.locations.config(), now);
        let may_pause = behind <= LONGEST_SESSION_PAUSE;
        match home {
            Some(home)
                if !may_pause || !self.is_sooner_here(behind, &routed.endpoint, home, now) =>
            {
                routed.endpoint = home.clone();
                routed.is_diverted = true;
            }
            _ if may_pause => routed.pause = behind,
            // The region that has the session does not serve: nothing is gained by asking before it has arrived.
            None if !snapshot.account.is_multi_write() => {
                let pause = behind.min(LONGEST_ARRIVAL_PAUSE);
                let has_time = self.deadline.is_none_or(|deadline| now + pause < deadline);
                routed.pause = if has_time { pause } else { Duration::ZERO };
            }
            _ => {}
        }
    }

    /// How long a read waits in a region that did not have its session, where that is sooner than to ask the region that
    /// is certain to have it.
    pub(super) fn session_pause(
        &self,
        sent: Option<&SessionHeaders>,
        met_at: &CosmosEndpoint,
        state: &OperationRetryState,
        now: Instant,
    ) -> Option<Duration> {
        let seen = sent.and_then(|it| it.kept)?;
        let age = now.saturating_duration_since(seen.at);
        let behind = self.core.lags.behind(met_at.slot, age)?;
        let snapshot = self.core.locations.snapshot();
        let wanted = self.wanted(state, None);
        // Also if it was left: as failing it answers soon, as slow it does not.
        let home = session_home(&snapshot, &wanted, self.core.locations.config(), now)?;
        let is_sooner = self.is_sooner_here(behind, met_at, home, now);
        (behind <= LONGEST_SESSION_PAUSE && is_sooner).then_some(behind)
    }

    /// Whether an answer of a region that is behind comes sooner, once it has caught up, than that of another one.
    fn is_sooner_here(
        &self,
        behind: Duration,
        here: &CosmosEndpoint,
        there: &CosmosEndpoint,
        now: Instant,
    ) -> bool {
        let Some(class) = self.operation.latency_class() else { return false };
        let recent = |it: &CosmosEndpoint| self.core.latencies.recent(class, it.slot, now);
        let Some(there) = recent(there) else { return false };
        // Of a region of which nothing is known: it would not be preferred if it were much slower.
        let here = recent(here).unwrap_or(there / 2).saturating_add(behind);
        // By more than the width of a histogram's bucket.
        here + here / 2 < there
    }

    /// A route, once it is known whether this operation is the one that probes.
    fn claimed(&self, route: Route<'_>, state: &OperationRetryState) -> Routed {
        let (home, moved_to) = match route {
            Route::To(endpoint) => return Routed::to(endpoint.clone()),
            Route::ProbeOr { home, moved_to } => (home, moved_to),
        };
        let is_claimed = state.partition.as_ref().is_some_and(|partition| {
            self.core.locations.claim_probe(&partition.id, self.traffic(), state.now)
        });
        match is_claimed {
            true => Routed { probe: Some(moved_to.clone()), ..Routed::to(home.clone()) },
            false => Routed::to(moved_to.clone()),
        }
    }

    /// The partition that the operation is about, as far as it is known.
    pub(super) fn resolve_partition(&self, now: Instant) -> Option<Arc<Partition>> {
        if !self.operation.is_in_partition() {
            return None;
        }
        let container = self.operation.encoded().container.as_ref()?;
        self.core.containers.partition(container, self.operation.target(), now)
    }

    /// What decides how current a read must be.
    fn read_terms(&self, account: &AccountEndpointState, terms: &AttemptTerms<'_>) -> ReadTerms {
        let options = self.core.options.account();
        ReadTerms {
            strategy: terms.options.read_consistency_strategy(),
            level: terms.options.consistency_level(),
            account: account.default_consistency(),
            is_multi_write: account.is_multi_write(),
            upgrades_to_local_quorum: options.enable_upgrade_consistency_to_local_quorum(),
        }
    }

    /// The RID of the container that the operation is meant for, where it is known.
    fn container_rid(&self, partition: Option<&Partition>) -> Option<HeaderValue> {
        if !self.operation.is_in_partition() {
            return None;
        }
        match partition {
            Some(partition) => partition.container_rid_header.clone(),
            None => {
                let container = self.operation.encoded().container.as_ref()?;
                self.core.containers.rid_header(container)
            }
        }
    }

    /// What the driver's session has seen, where the request is to carry it.
    fn session_headers(
        &self,
        read: ReadTerms,
        partition: Option<&Partition>,
    ) -> Option<SessionHeaders> {
        let container = self.operation.encoded().container.as_ref()?;
        let (operation, resource) = (self.operation.operation_type(), self.operation.path().kind());
        if !sends_session_token(operation, resource, read) {
            return None;
        }
        match partition {
            Some(it) => self.core.sessions.token_for(container, Some((it.range(), &it.parents))),
            None => match self.core.containers.known(container) {
                Some(known) => {
                    let ranges = known.partitions_within(self.operation.target()).iter();
                    let ranges = ranges.map(|it| (it.range(), it.parents.as_slice()));
                    let knows = |id: &PartitionKeyRangeId| {
                        let ranges = known.ranges();
                        ranges.by_id(id.as_str()).is_some() || ranges.is_gone(id.as_str())
                    };
                    self.core.sessions.token_for_ranges(container, ranges, knows)
                }
                None => self.core.sessions.token_for(container, None),
            },
        }
    }

    pub(super) fn wanted<'a>(
        &'a self,
        state: &'a OperationRetryState,
        current: Option<&'a Endpoint>,
    ) -> Wanted<'a> {
        Wanted {
            traffic: self.traffic(),
            partition: state.partition.as_ref().map(|it| &it.id),
            may_probe: state.is_first_failure(),
            is_repeatable: self.kind != RequestKind::Write,
            excluded_regions: self.excluded,
            failed_endpoints: &state.failed_endpoints,
            current,
            target: state.target,
        }
    }

    /// How slow an attempt is before it is hedged, if it may be.
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
        routed: &'r Routed,
        terms: &AttemptTerms<'_>,
        state: &OperationRetryState,
        diagnostics: &mut DiagnosticsContextBuilder,
    ) -> Raced<'r> {
        let started = state.now;
        let (ratio, burst) =
            (self.availability.hedging_budget_ratio(), self.availability.hedging_budget_burst());
        self.core.hedging_budget.earn(ratio, burst);
        let may_hedge = self.may_hedge(terms);
        // A threshold that no clock can hold is never reached.
        let fires_at = started.checked_add(self.hedging_threshold(started)).filter(|_| may_hedge);
        request.slow_after = fires_at;
        let silent_at = self.silence_counts_at(started);
        let joined = {
            // Pinned here, in a block: it writes into the diagnostics until it is dropped.
            let mut primary = std::pin::pin!(self.transport.execute(request, diagnostics));
            tokio::select! {
                // The outcome first: an attempt that has ended needs no hedge.
                biased;
                result = &mut primary => return Raced::alone(result, routed, started),
                // One timer: of a write that is not hedged, its region's silence is the first that counts.
                () = until(fires_at.or(silent_at)) => {
                    let hedge = fires_at.and_then(|_| self.hedge_request(routed, terms, state));
                    match hedge {
                        Some(hedge) => Ok(self.join(primary, routed, hedge, silent_at).await),
                        None => tokio::select! {
                            biased; // The outcome first, as above.
                            result = &mut primary => return Raced::alone(result, routed, started),
                            // On the heap: few attempts meet a silent region.
                            silent = Box::pin(self.silent(routed, started, silent_at)) => Err(silent),
                        },
                    }
                }
            }
        };
        let joined = match joined {
            Ok(joined) => joined,
            Err(abandoned) => {
                diagnostics.left(SILENT);
                return Raced::alone(abandoned, routed, started);
            }
        };
        joined.raced(routed, started, diagnostics)
    }

    /// Waits until an attempt is given up because its region is silent; for ever, if its silence does not count.
    async fn silent(
        &self,
        routed: &Routed,
        started: Instant,
        silent_at: Option<Instant>,
    ) -> TransportResult {
        until(silent_at).await;
        self.abandoned(routed, started).await
    }

    /// Waits for the leg of a race that is left, unless its region is silent.
    async fn unless_silent(
        &self,
        leg: Pin<&mut impl Future<Output = TransportResult>>,
        routed: &Routed,
        started: Instant,
        silent_at: Option<Instant>,
    ) -> TransportResult {
        tokio::select! {
            biased; // The outcome first: a region that has answered is not silent.
            result = leg => result,
            silent = self.silent(routed, started, silent_at) => silent,
        }
    }

    /// Runs a hedge beside an attempt until it is known whose outcome counts.
    async fn join(
        &self,
        mut primary: Pin<&mut impl Future<Output = TransportResult>>,
        routed: &Routed,
        hedge: Hedge,
        silent_at: Option<Instant>,
    ) -> Joined {
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
            (true, _) => Decided { is_hedge, result: first, other: None },
            (false, false) => {
                let hedged = Routed::to(hedge.endpoint.clone());
                let silent_at = silent_at.and(self.silence_counts_at(started));
                let other = self.unless_silent(secondary.as_mut(), &hedged, started, silent_at);
                Decided::of_both(first, Box::pin(other).await)
            }
            (false, true) => {
                let other = self.unless_silent(primary, routed, started, silent_at);
                Decided::of_both(Box::pin(other).await, first)
            }
        };
        drop(secondary);
        Joined { decided, endpoint: hedge.endpoint, diagnostics }
    }

    /// The request of a hedge, if there is a region for it and the budget allows it.
    fn hedge_request(
        &self,
        routed: &Routed,
        terms: &AttemptTerms<'_>,
        state: &OperationRetryState,
    ) -> Option<Hedge> {
        let endpoint = match &routed.probe {
            // A probe is slow: its partition is served elsewhere already.
            Some(moved_to) => moved_to.clone(),
            None => {
                let snapshot = self.core.locations.snapshot();
                let wanted = self.wanted(state, Some(&routed.endpoint.endpoint));
                resolve_hedge(&snapshot, &wanted, Clock::now())?.clone()
            }
        };
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

/// Which leg of a race counts.
struct Decided {
    is_hedge: bool,
    result: TransportResult,
    /// The outcome of the other leg, unless that was cancelled.
    other: Option<TransportResult>,
}

impl Decided {
    /// Both legs have ended, and the first of them did not end the race.
    fn of_both(primary: TransportResult, hedge: TransportResult) -> Self {
        let is_hedge = is_better_informed(&hedge.outcome, &primary.outcome);
        let (result, other) = if is_hedge { (hedge, primary) } else { (primary, hedge) };
        Self { is_hedge, result, other: Some(other) }
    }
}

/// A race that is over.
struct Joined {
    decided: Decided,
    /// Where the hedge went.
    endpoint: CosmosEndpoint,
    /// What happened to it.
    diagnostics: DiagnosticsContextBuilder,
}

impl Joined {
    /// What the race came to, with the hedge's part of the story added to the attempt's.
    fn raced<'r>(
        mut self,
        routed: &'r Routed,
        started: Instant,
        diagnostics: &mut DiagnosticsContextBuilder,
    ) -> Raced<'r> {
        let Decided { is_hedge, result, other } = self.decided;
        match is_hedge {
            true => diagnostics.left(LEFT),
            false => self.diagnostics.left(LEFT),
        }
        let hedge_started = self.diagnostics.started();
        diagnostics.absorb(self.diagnostics);
        let (won, lost, started) = match is_hedge {
            true => (Cow::Owned(self.endpoint), routed.endpoint.clone(), hedge_started),
            false => (Cow::Borrowed(&routed.endpoint), self.endpoint, started),
        };
        let other = Some(Box::new(OtherLeg { endpoint: lost, result: other }));
        Raced { result, endpoint: won, started, is_hedge, other }
    }
}

impl<'a> Raced<'a> {
    /// An attempt that no hedge has joined.
    #[inline] // So that the outcome is not copied once more.
    fn alone(result: TransportResult, routed: &'a Routed, started: Instant) -> Self {
        let endpoint = Cow::Borrowed(&routed.endpoint);
        Self { result, endpoint, started, is_hedge: false, other: None }
    }
}

/// What diagnostics say of a leg that was cancelled.
const LEFT: &str = "another region answered first";

/// Waits until a moment; without one, for ever.
async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

impl CosmosOperation {
    /// Whether it is about one partition, so that it can be routed around it: items, and procedures when they
    /// are executed.
    fn is_in_partition(&self) -> bool {
        match self.path().kind() {
            ResourceType::Document => true,
            ResourceType::StoredProcedure => self.operation_type() == OperationType::Execute,
            _ => false,
        }
    }

    /// Whether it is about one item.
    pub(super) fn is_about_one_item(&self) -> bool {
        self.path().kind() == ResourceType::Document
            && !matches!(
                self.operation_type(),
                OperationType::Query
                    | OperationType::QueryPlan
                    | OperationType::ReadFeed
                    | OperationType::Batch
            )
    }

    /// Which operations it takes about as long as; none if there are too few to compare with.
    pub(super) fn latency_class(&self) -> Option<LatencyClass> {
        match (self.is_about_one_item(), self.is_in_partition()) {
            (true, _) if self.operation_type().is_read_only() => Some(LatencyClass::PointRead),
            (true, _) => Some(LatencyClass::PointWrite),
            (false, true) => Some(LatencyClass::Scan),
            (false, false) => None,
        }
    }
}

/// Waits for something until the deadline; says whether it came.
pub(super) async fn within(deadline: Option<Instant>, something: impl Future<Output = ()>) -> bool {
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline.into(), something).await.is_ok(),
        None => {
            something.await;
            true
        }
    }
}

pub(super) fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

//! Where an attempt goes: the endpoint, whether it is a probe, and how long it waits for its session there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::HeaderValue;
use sidereal_protocol::PartitionKeyRangeId;

use super::attempt::AttemptRoute;
use super::run::OperationRun;
use super::{AttemptTerms, OperationRetryState};
use crate::diagnostics::{DiagnosticsContextBuilder, ExecutionContext, RetryTarget};
use crate::exchange::Endpoint;
use crate::retry::RequestKind;
use crate::routing::{
    AccountEndpointState, CosmosEndpoint, Partition, Route, RouteRequest, Traffic, resolve_route,
    serving_session_home, session_home,
};
use crate::session::{ReadTerms, SessionHeaders, sends_session_token};

/// The longest that a read waits for its session before it is sent. Beyond it, the region that has the session is asked
/// although it is slow.
const LONGEST_SESSION_PAUSE: Duration = Duration::from_millis(100);

/// The longest that a read waits before it is sent while the region that has its session is out: that region may
/// be back by then.
const LONGEST_ARRIVAL_PAUSE: Duration = Duration::from_secs(1);

impl OperationRun<'_> {
    /// Chooses the route of the next attempt.
    pub(super) fn route(
        &self,
        state: &mut OperationRetryState,
        terms: &mut AttemptTerms<'_>,
        diagnostics: &mut DiagnosticsContextBuilder,
    ) -> AttemptRoute {
        // Resolved for each attempt: a split may have replaced the range since the last one.
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
        if state.refresh_session_token {
            terms.session = self.session_headers(read, partition.map(|it| &**it));
        }
        // The account is read at its global endpoint: a region would describe its own view of it.
        if self.is_about_account() {
            return AttemptRoute::to(account.default_endpoint().clone());
        }
        if let Some(endpoint) = &state.pinned {
            return AttemptRoute::to(endpoint.clone());
        }
        // The common case first, without looking at any endpoint: nothing is marked.
        if !account.has_no_marks() && account.due_for_probe(state.now).next().is_some() {
            self.core.prober.request();
        }
        let request = self.route_request(state, None);
        let route = resolve_route(&snapshot, &request, self.core.locations.config(), state.now);
        let mut attempt_route = self.claimed(route, state);
        // First attempts alone: a retry goes where the retry matrix sends it.
        if diagnostics.attempts().is_empty() && attempt_route.probe.is_none() {
            self.look_for_session(&mut attempt_route, terms, &request, state.now);
        }
        // A read that looks for its session in the write region asks for the hub: a region that has lost that role since
        // refuses (403/3), where it would else answer with what it has.
        terms.is_hub_only = state.target == RetryTarget::WriteRegion
            && request.traffic == Traffic::Reads
            && session_home(&snapshot, &request, self.core.locations.config(), state.now)
                == Some(&attempt_route.endpoint);
        state.asks_hub = terms.is_hub_only;
        state.asks_only_writer = !account.is_multi_write()
            && account
                .write_endpoints()
                .first()
                .is_some_and(|it| it.slot == attempt_route.endpoint.slot);
        if attempt_route.probe.is_some() {
            terms.execution_context = ExecutionContext::CircuitBreakerProbe;
        }
        if let Some(partition) = partition {
            partition.activity.note(attempt_route.endpoint.slot, self.core.tick(state.now));
        }
        attempt_route
    }

    /// Adds warnings about the account and its settings to the diagnostics.
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

    /// Delays a read, or diverts it to the region that has its session, if its region is likely to be behind: a 404/1002
    /// there costs a request and a round trip.
    fn look_for_session(
        &self,
        attempt_route: &mut AttemptRoute,
        terms: &AttemptTerms<'_>,
        request: &RouteRequest<'_>,
        now: Instant,
    ) {
        let Some(seen) = terms.session.as_ref().and_then(|it| it.kept) else { return };
        if request.traffic == Traffic::Writes || seen.slot == attempt_route.endpoint.slot {
            return;
        }
        // The age of the newest progress in the session: a region with a longer lag does not have it yet.
        let age = now.saturating_duration_since(seen.at);
        let Some(behind) = self.core.lags.behind(attempt_route.endpoint.slot, age) else { return };
        if self.core.lags.claim_trial(attempt_route.endpoint.slot, age, now) {
            return;
        }
        let snapshot = self.core.locations.snapshot();
        let home = serving_session_home(&snapshot, request, self.core.locations.config(), now);
        let may_pause = behind <= LONGEST_SESSION_PAUSE;
        match home {
            Some(home)
                if !may_pause
                    || !self.is_sooner_here(behind, &attempt_route.endpoint, home, now) =>
            {
                attempt_route.endpoint = home.clone();
                attempt_route.is_diverted = true;
            }
            _ if may_pause => attempt_route.pause = behind,
            // The region that has the session does not serve: nothing is gained by asking before it has arrived.
            None if !snapshot.account.is_multi_write() => {
                let pause = behind.min(LONGEST_ARRIVAL_PAUSE);
                let has_time = self.deadline.is_none_or(|deadline| now + pause < deadline);
                attempt_route.pause = if has_time { pause } else { Duration::ZERO };
            }
            _ => {}
        }
    }

    /// The pause of a read in a region that did not have its session, if that is sooner than asking the region that
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
        let request = self.route_request(state, None);
        // Also if it was left: as failing it answers soon, as slow it does not.
        let home = session_home(&snapshot, &request, self.core.locations.config(), now)?;
        let is_sooner = self.is_sooner_here(behind, met_at, home, now);
        (behind <= LONGEST_SESSION_PAUSE && is_sooner).then_some(behind)
    }

    /// Whether a region that is behind answers sooner, once it has caught up, than another one.
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

    /// Resolves a route that may be a probe: exactly one operation claims it.
    fn claimed(&self, route: Route<'_>, state: &OperationRetryState) -> AttemptRoute {
        let (home, moved_to) = match route {
            Route::To(endpoint) => return AttemptRoute::to(endpoint.clone()),
            Route::ProbeOr { home, moved_to } => (home, moved_to),
        };
        let is_claimed = state.partition.as_ref().is_some_and(|partition| {
            self.core.locations.claim_probe(&partition.id, self.traffic(), state.now)
        });
        match is_claimed {
            true => {
                AttemptRoute { probe: Some(moved_to.clone()), ..AttemptRoute::to(home.clone()) }
            }
            false => AttemptRoute::to(moved_to.clone()),
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

    /// The inputs of the decision how current a read must be.
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

    /// The session token from the driver's session, if the request is to carry one.
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

    pub(super) fn route_request<'a>(
        &'a self,
        state: &'a OperationRetryState,
        current: Option<&'a Endpoint>,
    ) -> RouteRequest<'a> {
        RouteRequest {
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
}

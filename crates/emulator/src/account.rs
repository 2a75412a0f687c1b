//! The account: a service with two layers around it, counters inside and fault rules outside.
//!
//! Synchronous and without background work. The layers know the service and not the other way round: a
//! handler cannot tell whether its response will be counted, delayed or lost. What a fault rule wants of
//! time or of a connection is returned as a [`Disposition`], for [`AccountEndpoint`] to carry out.
//!
//! [`AccountEndpoint`]: crate::AccountEndpoint

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use sidereal_protocol::headers::names;
use sidereal_protocol::{CosmosStatus, RegionName};
use tokio::sync::watch;

use crate::clock::Timestamp;
use crate::counters::{CounterKey, CounterRow, Counters, Totals};
use crate::disguise::disguise;
use crate::error::ServiceError;
use crate::faults::{
    FaultEffect, FaultRegistry, FaultReport, FaultRule, InvalidFault, RequestAttributes,
};
use crate::grease::{Draw, Grease};
use crate::options::AccountOptions;
use crate::outcome::ConnectionOutcome;
use crate::reply::Reply;
use crate::request::{Arrival, ClassifiedRequest};
use crate::service;
use crate::state::AccountState;
use crate::store::persistence::{DataDirectoryError, Storage};

/// The body that replaces a response's where a rule does not give one.
const WRONG_BODY: &str = "<html><body>This is not the answer that was asked for.</body></html>";

/// An account, free of any transport.
#[derive(Debug)]
pub struct Account {
    state: AccountState,
    faults: FaultRegistry,
    counters: Counters,
    /// The latitudes that answers use.
    grease: Option<Arc<Grease>>,
    /// Requests so far, where they are numbered for their draws.
    requests: AtomicU64,
    /// Wakes the tasks that wait for a commit.
    pub(crate) committed: watch::Sender<()>,
}

/// How a request is to be disposed of; time and connections are the endpoint's to act on.
#[derive(Debug)]
pub(crate) enum Disposition {
    /// It is over.
    Finished(ConnectionOutcome),
    /// It waits, and is processed then.
    DelayedBefore(Duration, Box<ClassifiedRequest>),
    /// It was processed, and its response waits.
    DelayedAfter(Duration, Response<Bytes>),
    /// It is never answered.
    Hanging,
}

impl Account {
    /// An empty account.
    #[must_use]
    pub fn new(options: AccountOptions) -> Self {
        Self::of_state(AccountState::new(options))
    }

    /// The account that a directory keeps: a new one where there is none yet, otherwise the one that was, with
    /// everything that it had answered.
    ///
    /// The regions of a kept account are its own: those of the options are the same, or the default.
    ///
    /// # Errors
    ///
    /// The directory cannot be used: another process has it open, it holds an account of other regions or of
    /// another format, or it cannot be read or written.
    pub fn open(options: AccountOptions, directory: &Path) -> Result<Self, DataDirectoryError> {
        AccountState::open(options, Storage::open(directory)?).map(Self::of_state)
    }

    /// An account on storage of another kind, for tests of what a loss of power leaves behind: a database, and a
    /// write-ahead log of so many bytes.
    #[doc(hidden)]
    pub fn open_on(
        options: AccountOptions,
        database: impl redb::StorageBackend,
        log: impl redb::StorageBackend,
        log_bytes: usize,
    ) -> Result<Self, DataDirectoryError> {
        let storage = Storage::on_backends(database, log, log_bytes)?;
        AccountState::open(options, storage).map(Self::of_state)
    }

    fn of_state(state: AccountState) -> Self {
        Self {
            grease: state.options.grease.clone().map(Arc::new),
            requests: AtomicU64::new(0),
            state,
            faults: FaultRegistry::default(),
            counters: Counters::default(),
            committed: watch::Sender::new(()),
        }
    }

    /// The options of the account.
    #[must_use]
    pub fn options(&self) -> &AccountOptions {
        &self.state.options
    }

    /// Answers a request to the account's global endpoint.
    ///
    /// It answers reads of the account whatever region is down, and forwards everything else to the
    /// region that accepts writes. The URLs that the response advertises carry the scheme and authority
    /// of the request's URI, or of its `host` header where the URI has none, unless
    /// [`AccountOptions::advertised_urls`] says otherwise.
    ///
    /// Nothing waits here: delays of fault rules are skipped, and where the connection would be reset or
    /// hang the response is an empty 503. [`AccountEndpoint`](crate::AccountEndpoint) carries them out.
    #[must_use]
    pub fn handle(&self, request: Request<Bytes>) -> Response<Bytes> {
        self.handle_without_waiting(None, request).unwrap_or_else(|| {
            let mut response = Response::new(Bytes::new());
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            response
        })
    }

    /// Answers a request to the endpoint of one region; `None` is a refused connection, or one that a
    /// fault rule resets or lets hang.
    #[must_use]
    pub fn handle_in(
        &self,
        region: &RegionName,
        request: Request<Bytes>,
    ) -> Option<Response<Bytes>> {
        self.handle_without_waiting(Some(region), request)
    }

    fn handle_without_waiting(
        &self,
        region: Option<&RegionName>,
        request: Request<Bytes>,
    ) -> Option<Response<Bytes>> {
        let response = match self.dispose(self.classify(region, request)?) {
            Disposition::Finished(ConnectionOutcome::Response(response))
            | Disposition::DelayedAfter(_, response) => Some(response),
            Disposition::DelayedBefore(_, request) => Some(self.process(&request)),
            Disposition::Finished(_) | Disposition::Hanging => None,
        };
        self.commit();
        self.checkpoint();
        response.map(|response| self.durable_or_failed(response))
    }

    /// Classifies a request to the global endpoint or to that of a region; none if the region is offline.
    pub(crate) fn classify(
        &self,
        region: Option<&RegionName>,
        request: Request<Bytes>,
    ) -> Option<ClassifiedRequest> {
        let arrival = self.arrival(region)?;
        let mut request = ClassifiedRequest::new(request, arrival, &self.state.catalog);
        request.draw = self.draw();
        Some(request)
    }

    /// The draw for the next request.
    fn draw(&self) -> Option<Draw> {
        let grease = self.grease.as_ref()?;
        // Relaxed: a number that is not to be given twice, nothing more.
        Some(Draw::new(grease, self.requests.fetch_add(1, Ordering::Relaxed)))
    }

    /// Processes a request unless a fault rule wants otherwise.
    pub(crate) fn dispose(&self, request: ClassifiedRequest) -> Disposition {
        match self.fault_for(&request) {
            None => Disposition::Finished(ConnectionOutcome::Response(self.process(&request))),
            Some(effect) => self.inject(effect, request),
        }
    }

    /// Processes a request whose delay is over, as it finds the account now.
    pub(crate) fn process_delayed(
        &self,
        region: Option<&RegionName>,
        request: ClassifiedRequest,
    ) -> ConnectionOutcome {
        match self.arrival(region) {
            Some(arrival) => {
                let request = request.arriving(arrival, &self.state.catalog);
                ConnectionOutcome::Response(self.process(&request))
            }
            // Its region went offline meanwhile and took the connection with it.
            None => ConnectionOutcome::Reset { processed: false },
        }
    }

    /// Time, region and topology for a request that arrives now; `None` where the region's endpoint is
    /// offline. The global endpoint forwards to the write region.
    fn arrival(&self, region: Option<&RegionName>) -> Option<Arrival> {
        let since_epoch = self.state.options.clock.since_epoch();
        let now = Timestamp::at(since_epoch);
        let topology = self.state.topology.current();
        let region = match region {
            None => topology.write_region(now),
            // A removed region still answers, with 403/1008.
            Some(name) => {
                topology.regions.iter().position(|region| region.name == *name && region.online)?
            }
        };
        Some(Arrival { now, since_epoch, region, topology })
    }

    /// Layer 1, counters: processes a request and counts its response.
    fn process(&self, request: &ClassifiedRequest) -> Response<Bytes> {
        let reply = match self.commits().and_then(|commits| commits.failure()) {
            None => service::answer(&self.state, request),
            Some(reason) => service::error_reply(request, ServiceError::not_durable(reason)),
        };
        self.respond(request, reply)
    }

    fn respond(&self, request: &ClassifiedRequest, reply: Reply) -> Response<Bytes> {
        self.count(request, Some(&reply));
        let durability = self.durability_of(&reply);
        let now = self.state.options.clock.since_epoch();
        // A clock that was set back meanwhile counts as one that stood still.
        let took = now.saturating_sub(request.arrived);
        let mut response = reply.into_timed_response(&request.activity_id, took);
        if let Some(durability) = durability {
            response.extensions_mut().insert(durability);
        }
        if let Some(draw) = &request.draw {
            disguise(draw, request.operation(), &mut response);
        }
        response
    }

    /// Counts a request, with its response if it gets one.
    fn count(&self, request: &ClassifiedRequest, reply: Option<&Reply>) {
        // The partition that answered is in the response; otherwise the one that was asked for counts.
        let answered = reply.and_then(|reply| reply.headers.get(names::PARTITION_KEY_RANGE_ID));
        let answered = answered.and_then(|value| value.to_str().ok());
        let addressed = if answered.is_none() { request.addressed_range() } else { None };
        let status = reply.map_or(CosmosStatus::new(0), |reply| reply.status);
        let key = CounterKey {
            region: request.region,
            operation: request.operation(),
            resource: request.resource(),
            container: request.container_names(),
            range: answered.or(addressed.as_deref()),
            status: status.code(),
            sub_status: status.sub_status(),
        };
        let totals = Totals {
            requests: 1,
            charge: reply.map_or(0.0, |reply| reply.charge),
            request_bytes: request.body.len() as u64,
            response_bytes: reply.map_or(0, |reply| reply.body.len() as u64),
        };
        self.counters.record(key, totals);
    }

    /// The effect of the first fault rule that applies to a request.
    fn fault_for(&self, request: &ClassifiedRequest) -> Option<FaultEffect> {
        // One atomic load is all that requests pay while there are no rules.
        if self.faults.is_empty() {
            return None;
        }
        let attributes = RequestAttributes {
            region: &request.topology.regions[request.region].name,
            operation: request.operation(),
            resource: request.resource(),
            container: request.container_names(),
            range: request.addressed_range(),
            item: request.item_id(),
            headers: &request.headers,
        };
        self.faults.decide(&attributes, request.now)
    }

    /// Layer 2, fault rules: does to a request what a rule wants.
    fn inject(&self, effect: FaultEffect, request: ClassifiedRequest) -> Disposition {
        let outcome = match effect {
            FaultEffect::DelayBefore { wait } => {
                return Disposition::DelayedBefore(wait, Box::new(request));
            }
            FaultEffect::DelayAfter { wait } => {
                return Disposition::DelayedAfter(wait, self.process(&request));
            }
            FaultEffect::Hang => {
                self.count(&request, None);
                return Disposition::Hanging;
            }
            FaultEffect::Answer { status, sub_status, retry_after } => {
                let status = CosmosStatus::with_sub_status(status, sub_status);
                let error = ServiceError::new(status, "A fault rule of this account answers so.");
                let error = ServiceError { retry_after, ..error };
                let reply = service::error_reply(&request, error);
                ConnectionOutcome::Response(self.respond(&request, reply))
            }
            FaultEffect::TruncatedBody { keep } => {
                ConnectionOutcome::Response(self.process(&request).map(|body| {
                    let keep = keep.unwrap_or(body.len() / 2).min(body.len());
                    body.slice(..keep)
                }))
            }
            FaultEffect::WrongBody { body } => {
                let body = body.as_deref().unwrap_or(WRONG_BODY);
                let body = Bytes::copy_from_slice(body.as_bytes());
                ConnectionOutcome::Response(self.process(&request).map(|_| body))
            }
            FaultEffect::ResetBefore => {
                self.count(&request, None);
                ConnectionOutcome::Reset { processed: false }
            }
            FaultEffect::ResetAfter => {
                let _ = self.process(&request); // The rule is that the response is lost.
                ConnectionOutcome::Reset { processed: true }
            }
            FaultEffect::ResetMidBody => {
                let response = self.process(&request);
                match response.body().is_empty() {
                    // An empty body has no middle.
                    true => ConnectionOutcome::Reset { processed: true },
                    false => ConnectionOutcome::ResetMidBody(response),
                }
            }
        };
        Disposition::Finished(outcome)
    }

    /// Adds a fault rule and returns its name. Rules are evaluated in the order in which they were added.
    ///
    /// # Errors
    ///
    /// The rule contradicts itself or is about a region that the account does not have, or there is one of that
    /// name.
    pub fn add_fault(&self, rule: FaultRule) -> Result<String, InvalidFault> {
        // Regions are given when the account starts, so such a rule would never match. A container or a range may
        // still come.
        if let Some(region) = &rule.condition.region {
            self.known_region(region).map_err(|error| InvalidFault(error.to_string()))?;
        }
        self.faults.add(rule)
    }

    /// Removes a fault rule; `false` where there is none of that name.
    pub fn remove_fault(&self, name: &str) -> bool {
        self.faults.remove(name)
    }

    /// Removes all fault rules and returns how many there were.
    pub fn clear_faults(&self) -> usize {
        self.faults.clear()
    }

    /// The fault rules in the order in which they are evaluated, with their matches and hits.
    #[must_use]
    pub fn faults(&self) -> Vec<FaultReport> {
        self.faults.reports()
    }

    /// The requests to the account since it began or since the counters were reset.
    #[must_use]
    pub fn counters(&self) -> Vec<CounterRow> {
        let topology = self.state.topology.current();
        self.counters.rows(|region| topology.regions[region].name.clone())
    }

    /// Sets all counters to zero.
    pub fn reset_counters(&self) {
        self.counters.reset();
    }

    pub(crate) fn state(&self) -> &AccountState {
        &self.state
    }
}

//! Faults and counters at work: what an account's rules make of a request, and what is kept of it.
//!
//! Which rule applies is decided in `faults`; here its effect is put beside the work. Nothing here knows
//! a connection: what is to happen to one is a value for the server.

use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use serde_json::Value;
use sidereal_protocol::headers::names as headers;
use sidereal_protocol::{
    Addressing, CosmosStatus, RegionName, RequestPath, ResourceLink, ResourceType,
};

use crate::account::Account;
use crate::counters::{Counted, CounterRow, Totals};
use crate::error::ServiceError;
use crate::faults::{Facts, FaultEffect, FaultReport, FaultRule, InvalidFault};
use crate::handlers::{container_of, place_of};
use crate::operation::Operation;
use crate::outcome::Outcome;
use crate::reply::Reply;
use crate::request::Incoming;
use crate::store::Container;

/// What stands in for a body where a rule does not say.
const WRONG_BODY: &str = "<html><body>This is not the answer that was asked for.</body></html>";

impl Account {
    /// Puts a fault rule in force; answers with its name. Of several rules, the one added first is
    /// asked first.
    ///
    /// # Errors
    ///
    /// The rule means nothing, or there is one of that name.
    pub fn add_fault(&self, rule: FaultRule) -> Result<String, InvalidFault> {
        self.fault_rules().add(rule)
    }

    /// Takes a fault rule out; `false` where there is none of that name.
    pub fn remove_fault(&self, name: &str) -> bool {
        self.fault_rules().remove(name)
    }

    /// Takes all fault rules out; answers with how many there were.
    pub fn clear_faults(&self) -> usize {
        self.fault_rules().clear()
    }

    /// The fault rules, in the order in which they are asked, with what became of them.
    #[must_use]
    pub fn faults(&self) -> Vec<FaultReport> {
        self.fault_rules().reports()
    }

    /// What was asked of the account since it began or since the counters were reset.
    #[must_use]
    pub fn counters(&self) -> Vec<CounterRow> {
        let topology = self.regions().current();
        self.counted().rows(|region| topology.regions[region].name.clone())
    }

    /// Starts the counters again from nothing.
    pub fn reset_counters(&self) {
        self.counted().reset();
    }

    /// What becomes of a request to the global endpoint, or to that of a region; `None` is a refused
    /// connection.
    pub(crate) fn outcome(
        self: &Arc<Self>,
        door: Option<&RegionName>,
        request: Request<Bytes>,
    ) -> Option<Outcome> {
        let incoming = self.enter(door, request)?;
        let Some(effect) = self.fault_of(&incoming) else {
            return Some(Outcome::Answer(self.answer(&incoming)));
        };
        Some(match effect {
            FaultEffect::DelayBefore { wait } => {
                let (account, regional) = (Arc::clone(self), door.is_some());
                let work = move || account.answer(&account.entering_now(incoming, regional));
                Outcome::Later(wait, Box::new(work))
            }
            FaultEffect::DelayAfter { wait } => {
                let response = self.answer(&incoming);
                Outcome::Later(wait, Box::new(move || response))
            }
            FaultEffect::ResetMidBody => Outcome::ResetMidBody(self.answer(&incoming)),
            FaultEffect::Hang => {
                self.count_unanswered(&incoming);
                Outcome::Hang
            }
            other => match self.interfere(&other, &incoming) {
                Some(response) => Outcome::Answer(response),
                None => Outcome::Reset,
            },
        })
    }

    /// The answer to a request without a connection: delays pass at once, and where a connection would
    /// break or hang there is none.
    pub(crate) fn at_once(&self, incoming: &Incoming) -> Option<Response<Bytes>> {
        match self.fault_of(incoming) {
            None => Some(self.answer(incoming)),
            Some(effect) => self.interfere(&effect, incoming),
        }
    }

    fn fault_of(&self, incoming: &Incoming) -> Option<FaultEffect> {
        if !self.fault_rules().any() {
            return None;
        }
        self.fault_rules().decide(&self.facts_of(incoming), incoming.now)
    }

    fn interfere(&self, effect: &FaultEffect, incoming: &Incoming) -> Option<Response<Bytes>> {
        match effect {
            FaultEffect::Answer { status, sub_status, retry_after } => {
                let status = CosmosStatus::with_sub_status(*status, *sub_status);
                let error = ServiceError::new(status, "A fault rule of this account answers so.");
                let error = ServiceError { retry_after: *retry_after, ..error };
                Some(self.conclude(incoming, |_| Err(error)))
            }
            FaultEffect::DelayBefore { .. } | FaultEffect::DelayAfter { .. } => {
                Some(self.answer(incoming))
            }
            FaultEffect::TruncatedBody { keep } => Some(self.answer(incoming).map(|body| {
                let keep = keep.unwrap_or(body.len() / 2).min(body.len());
                body.slice(..keep)
            })),
            FaultEffect::WrongBody { body } => Some(self.answer(incoming).map(|_| {
                let body = body.as_deref().unwrap_or(WRONG_BODY);
                Bytes::copy_from_slice(body.as_bytes())
            })),
            FaultEffect::ResetAfter | FaultEffect::ResetMidBody => {
                let _ = self.answer(incoming); // Done, and nobody hears of it.
                None
            }
            FaultEffect::ResetBefore | FaultEffect::Hang => {
                self.count_unanswered(incoming);
                None
            }
        }
    }

    /// Counts a request that got this reply.
    pub(crate) fn count(
        &self,
        incoming: &Incoming,
        path: Option<&RequestPath>,
        reply: Option<&Reply>,
    ) {
        let by_rid = path.and_then(|path| self.container_by_rid(path.link()));
        let container = names_of(by_rid.as_deref(), path);
        let stamped = reply.and_then(|reply| reply.headers.get(headers::PARTITION_KEY_RANGE_ID));
        let stamped = stamped.and_then(|value| value.to_str().ok());
        let addressed = match stamped {
            Some(_) => None,
            None => path.and_then(|path| self.range_of(incoming, path)),
        };
        let status = reply.map_or(CosmosStatus::new(0), |reply| reply.status);
        let counted = Counted {
            region: incoming.region,
            operation: Operation::of(&incoming.method, &incoming.headers, path),
            resource: path.map(RequestPath::kind),
            container,
            range: stamped.or(addressed.as_deref()),
            status: status.code(),
            sub_status: status.sub_status(),
        };
        let totals = Totals {
            requests: 1,
            charge: reply.map_or(0.0, |reply| reply.charge),
            request_bytes: incoming.body.len() as u64,
            response_bytes: reply.map_or(0, |reply| reply.body.len() as u64),
        };
        self.counted().record(counted, totals);
    }

    fn count_unanswered(&self, incoming: &Incoming) {
        self.count(incoming, incoming.uri.path().parse().ok().as_ref(), None);
    }

    /// What is known of a request before it is worked on.
    fn facts_of<'a>(&self, incoming: &'a Incoming) -> Facts<'a> {
        let path: Option<RequestPath> = incoming.uri.path().parse().ok();
        let path = path.as_ref();
        let by_rid = path.and_then(|path| self.container_by_rid(path.link()));
        let container = names_of(by_rid.as_deref(), path);
        let operation = Operation::of(&incoming.method, &incoming.headers, path);
        Facts {
            region: &incoming.topology.regions[incoming.region].name,
            operation,
            resource: path.map(RequestPath::kind),
            container: container.map(|(database, container)| format!("{database}/{container}")),
            range: path.and_then(|path| self.range_of(incoming, path)),
            item: path.and_then(|path| item_of(incoming, operation, path)),
            headers: &incoming.headers,
        }
    }

    /// The container of a link that is made of RIDs, which say nothing to people.
    fn container_by_rid(&self, link: &ResourceLink) -> Option<Arc<Container>> {
        match link.addressing() {
            Addressing::Rids => container_of(self, link).ok(),
            Addressing::Names => None,
        }
    }

    /// The partition range that a request about items names, by its id or by a whole partition key.
    fn range_of(&self, incoming: &Incoming, path: &RequestPath) -> Option<String> {
        if let Some(range) = incoming.typed().text(&headers::PARTITION_KEY_RANGE_ID).ok()? {
            return Some(range.rsplit(',').next().unwrap_or(range).to_owned());
        }
        if path.kind().is_metadata() {
            return None;
        }
        let key = incoming.partition_key().ok()??;
        let container = container_of(self, path.link()).ok()?;
        let place = place_of(&container.definition(), &key).ok()?;
        Some(container.partition_at(&place).id.to_string())
    }
}

/// Database and container of a request, by name.
fn names_of<'a>(
    by_rid: Option<&'a Container>,
    path: Option<&'a RequestPath>,
) -> Option<(&'a str, &'a str)> {
    if let Some(container) = by_rid {
        return Some((&container.database, &container.id));
    }
    let link = path?.link();
    let database = link.ancestor_id(ResourceType::Database)?;
    Some((database, link.ancestor_id(ResourceType::DocumentCollection)?))
}

/// The id of the item that a request is about: in its path, or in the body of one that creates it.
fn item_of(incoming: &Incoming, operation: Operation, path: &RequestPath) -> Option<String> {
    if path.kind() != ResourceType::Document {
        return None;
    }
    if !path.is_feed() {
        return Some(path.link().id().to_owned());
    }
    if !matches!(operation, Operation::Create | Operation::Upsert) {
        return None;
    }
    let body: Value = serde_json::from_slice(&incoming.body).ok()?;
    Some(body.get("id")?.as_str()?.to_owned())
}

/// What [`Account::handle`] says where a connection would break or hang.
pub(crate) fn no_answer() -> Response<Bytes> {
    let mut response = Response::new(Bytes::new());
    *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
    response
}

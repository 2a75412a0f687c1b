//! Offers: the throughput of databases and containers.

use std::sync::Arc;

use serde_json::Value;
use sidereal_protocol::headers::names;
use sidereal_protocol::{CosmosStatus, ThroughputProperties};

use super::{containers, metadata_feed};
use crate::charge;
use crate::error::{Result, ServiceError};
use crate::reply::Reply;
use crate::request::ClassifiedRequest;
use crate::state::AccountState;
use crate::store::{Container, Offer};

const FEED: &str = "Offers";

/// The least fixed throughput, and the least maximum of a scaled one.
const MANUAL_MINIMUM: u32 = 400;
const AUTOSCALE_MINIMUM: u32 = 1_000;
/// The most of both, as the service grants it without being asked in person.
const MAXIMUM: u32 = 1_000_000;
/// The throughput that one physical partition can carry.
const MOST_PER_PARTITION: u32 = 10_000;
/// Throughput comes in steps: rules of the service.
const MANUAL_STEP: u32 = 100;
const AUTOSCALE_STEP: u32 = 1_000;

/// `GET /offers`.
pub(crate) fn list(account: &AccountState, request: &ClassifiedRequest) -> Result<Reply> {
    metadata_feed::list(request, None, FEED, resources(account))
}

/// `POST /offers` with a query: how SDKs find the offer of a container.
pub(crate) fn query(account: &AccountState, request: &ClassifiedRequest) -> Result<Reply> {
    metadata_feed::query(request, None, FEED, &resources(account))
}

/// `GET /offers/{rid}`.
pub(crate) fn read(account: &AccountState, request: &ClassifiedRequest) -> Result<Reply> {
    Ok(reply(&*addressed(account, request)?))
}

/// `PUT /offers/{rid}`.
pub(crate) fn replace(account: &AccountState, request: &ClassifiedRequest) -> Result<Reply> {
    let offer = addressed(account, request)?;
    metadata_feed::check_version(request, &offer.etag)?;
    let throughput = replacement(request, offer.throughput)?;
    let split = to_split(account, &offer, throughput)?;
    let replaced = account.catalog.replace_offer(&offer, throughput, request.now);
    if let Some((container, partitions)) = split {
        container.split_into_at_least(partitions, request.now);
    }
    Ok(reply(&replaced).charged(charge::METADATA_WRITE))
}

/// The container whose partitions cannot carry its new throughput, and how many can. None where the number of
/// partitions was given: then it is what somebody tests with.
fn to_split(
    account: &AccountState,
    offer: &Offer,
    throughput: ThroughputProperties,
) -> Result<Option<(Arc<Container>, usize)>> {
    let wanted = throughput.ceiling().div_ceil(MOST_PER_PARTITION) as usize;
    let container = account.catalog.container_by_rid(offer.resource_rid);
    let Some(container) = container.filter(|_| account.options.partitions.is_none()) else {
        return Ok(None);
    };
    let more = wanted.saturating_sub(container.partitions().len());
    containers::check_partitions(account, more)?;
    Ok((more > 0).then_some((container, wanted)))
}

fn addressed(account: &AccountState, request: &ClassifiedRequest) -> Result<Arc<Offer>> {
    let offer = request.link().rid().and_then(|rid| account.catalog.offer(rid));
    offer.ok_or_else(ServiceError::not_found)
}

fn resources(account: &AccountState) -> Vec<Value> {
    account.catalog.offers().iter().map(|offer| offer.resource()).collect()
}

/// The throughput that a creation asks for in its headers.
pub(super) fn requested(request: &ClassifiedRequest) -> Result<Option<ThroughputProperties>> {
    let headers = &request.headers;
    if headers.contains_key(names::OFFER_THROUGHPUT)
        && headers.contains_key(names::OFFER_AUTOPILOT_SETTINGS)
    {
        return Err(ServiceError::bad_request(
            "Both offerThroughput and offerAutopilotSettings are specified; specify one of them.",
        ));
    }
    match request.typed().throughput()? {
        Some(throughput) => check(throughput).map(Some),
        None => Ok(None),
    }
}

/// The throughput of an offer after its replacement. Between fixed throughput and autoscale it migrates by a header
/// alone, and the service chooses the number then; another replacement sets it.
fn replacement(
    request: &ClassifiedRequest,
    current: ThroughputProperties,
) -> Result<ThroughputProperties> {
    let body = request.json()?;
    let content = &body["content"];
    let has_settings = !content["offerAutopilotSettings"].is_null();
    let is_autoscale = current.autoscale_max_throughput().is_some();
    let to_autoscale = request.typed().migrates_to_autopilot()?;
    let to_manual = request.typed().migrates_to_manual_throughput()?;
    match (is_autoscale, to_autoscale, to_manual) {
        (false, true, false) if !has_settings && !content["offerThroughput"].is_null() => {
            // The next maximum that is sold; what the body says of it does not count.
            let maximum = current.ceiling().next_multiple_of(AUTOSCALE_STEP);
            check(ThroughputProperties::autoscale(maximum, None))
        }
        (true, false, true) if has_settings => Ok(ThroughputProperties::manual(current.ceiling())),
        (false, false, false) if !has_settings => parse_content(&body),
        (true, false, false) if has_settings => parse_content(&body),
        (false, ..) => Err(ServiceError::bad_request(
            "x-ms-cosmos-migrate-offer-to-autopilot must be supplied and offercontent must not contain \
             autopilotSettings for migration from manual throughput to autoscale.",
        )),
        (true, ..) => Err(ServiceError::bad_request(
            "x-ms-cosmos-migrate-offer-to-manual-throughput must be supplied and offercontent must contain \
             autopilotSettings for migration from autoscale to manual throughput.",
        )),
    }
}

fn parse_content(offer: &Value) -> Result<ThroughputProperties> {
    let offer: sidereal_protocol::Offer = serde_json::from_value(offer.clone())
        .map_err(|error| ServiceError::bad_request(format!("The offer is invalid: {error}.")))?;
    let throughput = offer.throughput().ok_or_else(|| {
        ServiceError::bad_request(
            "The offer's content has neither offerThroughput nor offerAutopilotSettings.",
        )
    })?;
    check(throughput)
}

/// The service sells throughput from a minimum to a maximum, in steps.
fn check(throughput: ThroughputProperties) -> Result<ThroughputProperties> {
    let (minimum, step) = match throughput.autoscale_max_throughput() {
        Some(_) => (AUTOSCALE_MINIMUM, AUTOSCALE_STEP),
        None => (MANUAL_MINIMUM, MANUAL_STEP),
    };
    let units = throughput.ceiling();
    if !(minimum..=MAXIMUM).contains(&units) || !units.is_multiple_of(step) {
        return Err(ServiceError::bad_request(format!(
            "The offer should have valid throughput values between {minimum} and {MAXIMUM} inclusive in \
             increments of {step}."
        )));
    }
    Ok(throughput)
}

fn reply(offer: &Offer) -> Reply {
    Reply::json(CosmosStatus::OK, &offer.resource())
        .with_etag(&offer.etag)
        .with(names::OFFER_REPLACE_PENDING, "False")
}

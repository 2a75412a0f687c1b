//! Offers: the throughput of databases and containers.

use http::Method;
use serde_json::Value;
use sidereal_protocol::{CosmosStatus, ResourceLink, ThroughputProperties};

use super::{feed as pages, is_query, unsupported};
use crate::account::Account;
use crate::charge;
use crate::error::{Result, ServiceError};
use crate::reply::Reply;
use crate::request::Incoming;
use crate::store::Offer;
use sidereal_protocol::headers::names;

const FEED: &str = "Offers";

/// The least fixed throughput, and the least maximum of a scaled one.
const MANUAL_MINIMUM: u32 = 400;
const AUTOSCALE_MINIMUM: u32 = 1_000;
/// Throughput comes in steps.
const MANUAL_STEP: u32 = 100;
const AUTOSCALE_STEP: u32 = 1_000;

/// `/offers`: list, query.
pub(super) fn feed(account: &Account, incoming: &Incoming) -> Result<Reply> {
    let all: Vec<Value> = account.catalog().offers().iter().map(|offer| offer.resource()).collect();
    match incoming.method {
        Method::GET => pages::list(incoming, None, FEED, all),
        Method::POST if is_query(incoming)? => pages::query(incoming, None, FEED, &all),
        ref method => unsupported(method),
    }
}

/// `/offers/{rid}`: read, replace.
pub(super) fn one(account: &Account, incoming: &Incoming, link: &ResourceLink) -> Result<Reply> {
    let offer = link.rid().and_then(|rid| account.catalog().offer(rid));
    let offer = offer.ok_or_else(ServiceError::not_found)?;
    match incoming.method {
        Method::GET => Ok(answer(&offer)),
        Method::PUT => {
            let throughput = parse_content(&incoming.json()?)?;
            let replaced = account.catalog().replace_offer(&offer, throughput, incoming.now);
            Ok(answer(&replaced).charged(charge::METADATA_WRITE))
        }
        ref method => unsupported(method),
    }
}

/// The throughput that a creation asks for in its headers.
pub(super) fn requested(incoming: &Incoming) -> Result<Option<ThroughputProperties>> {
    let headers = &incoming.headers;
    if headers.contains_key(names::OFFER_THROUGHPUT)
        && headers.contains_key(names::OFFER_AUTOPILOT_SETTINGS)
    {
        return Err(ServiceError::bad_request(
            "Both offerThroughput and offerAutopilotSettings are specified; specify one of them.",
        ));
    }
    match incoming.typed().throughput()? {
        Some(throughput) => check(throughput).map(Some),
        None => Ok(None),
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

/// The service sells throughput from a minimum on and in steps.
fn check(throughput: ThroughputProperties) -> Result<ThroughputProperties> {
    let (minimum, step) = match throughput.autoscale_max_throughput() {
        Some(_) => (AUTOSCALE_MINIMUM, AUTOSCALE_STEP),
        None => (MANUAL_MINIMUM, MANUAL_STEP),
    };
    let units = throughput.ceiling();
    if units < minimum || !units.is_multiple_of(step) {
        return Err(ServiceError::bad_request(format!(
            "The value of offer throughput specified ({units}) is invalid. Please specify a value of at \
             least {minimum} in multiples of {step}."
        )));
    }
    Ok(throughput)
}

fn answer(offer: &Offer) -> Reply {
    Reply::json(CosmosStatus::OK, &offer.resource())
        .with_etag(&offer.etag)
        .with(names::OFFER_REPLACE_PENDING, "False")
}

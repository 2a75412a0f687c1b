//! Throughput: a header when something is created, a resource of its own afterwards.

use std::sync::Arc;

use http::{HeaderName, HeaderValue};
use sidereal_driver::{CosmosDriver, CosmosOperation, OperationOptions, OperationTarget};
use sidereal_protocol::headers::names;
use sidereal_protocol::{
    AutopilotSettings, Feed, Offer, OperationType, QueryRequest, RequestPath, ResourceLink,
    ResourceType, Rid, ThroughputProperties,
};

use crate::call::execute;
use crate::item_body::encode;
use crate::response::decode;
use crate::{Error, ErrorKind, Item, Response, Result};

/// The creation of something with throughput of its own.
pub(super) fn with_throughput(
    create: CosmosOperation,
    throughput: Option<ThroughputProperties>,
) -> Result<CosmosOperation> {
    let Some(throughput) = throughput else { return Ok(create) };
    if let Some(settings) = AutopilotSettings::of(throughput) {
        let value = HeaderValue::try_from(settings.header_value())
            .map_err(|_| Error::invalid("the throughput cannot be sent as a header"))?;
        return Ok(create.with_header(names::OFFER_AUTOPILOT_SETTINGS, value));
    }
    Ok(create.with_header(names::OFFER_THROUGHPUT, HeaderValue::from(throughput.ceiling())))
}

/// The throughput of a resource, if it has its own.
pub(super) async fn read(
    driver: &Arc<CosmosDriver>,
    rid: Option<String>,
    options: &OperationOptions<'_>,
) -> Result<Option<ThroughputProperties>> {
    Ok(find(driver, rid, options).await?.and_then(|offer| offer.throughput()))
}

/// Gives a resource another throughput.
pub(super) async fn replace(
    driver: &Arc<CosmosDriver>,
    rid: Option<String>,
    throughput: ThroughputProperties,
    options: &OperationOptions<'_>,
) -> Result<ThroughputProperties> {
    let mut offer = find(driver, rid, options).await?.ok_or_else(|| {
        Error::new(
            ErrorKind::NotFound,
            "there is no throughput to replace: it shares its database's, or the account is serverless",
        )
    })?;
    // Between manual and autoscale the service chooses the number itself, and takes ours only afterwards.
    if let Some(header) = migration(&offer, throughput) {
        offer = put(driver, &offer, Some(header), options).await?;
    }
    if offer.throughput() != Some(throughput) {
        offer.set_throughput(throughput);
        offer = put(driver, &offer, None, options).await?;
    }
    offer.throughput().ok_or_else(|| {
        let sentence = "the service answered with an offer without throughput";
        Error::new(ErrorKind::InvalidResponse, sentence)
    })
}

/// The header that moves an offer to the kind of throughput that is wanted, unless it is of that kind.
fn migration(offer: &Offer, wanted: ThroughputProperties) -> Option<HeaderName> {
    let is_scaled = offer.content.offer_autopilot_settings.is_some();
    match (is_scaled, wanted.autoscale_max_throughput().is_some()) {
        (false, true) => Some(names::MIGRATE_OFFER_TO_AUTOPILOT),
        (true, false) => Some(names::MIGRATE_OFFER_TO_MANUAL_THROUGHPUT),
        (false, false) | (true, true) => None,
    }
}

async fn put(
    driver: &Arc<CosmosDriver>,
    offer: &Offer,
    header: Option<HeaderName>,
    options: &OperationOptions<'_>,
) -> Result<Offer> {
    let rid: Rid = offer.id.parse()?;
    let path = RequestPath::of(ResourceLink::offer(rid)?);
    let mut replace = CosmosOperation::new(OperationType::Replace, path).with_body(encode(offer)?);
    if let Some(header) = header {
        replace = replace.with_header(header, HeaderValue::from_static("true"));
    }
    let replaced: Response<Item> = execute(driver, &replace, options).await?;
    replaced.model()
}

async fn find(
    driver: &Arc<CosmosDriver>,
    rid: Option<String>,
    options: &OperationOptions<'_>,
) -> Result<Option<Offer>> {
    let rid = rid.ok_or_else(|| {
        Error::new(ErrorKind::InvalidResponse, "the service answered with a resource without _rid")
    })?;
    let query = QueryRequest::new("SELECT * FROM c WHERE c.offerResourceId = @rid")
        .with_parameter("@rid", rid);
    let path = RequestPath::feed(ResourceLink::ACCOUNT, ResourceType::Offer)?;
    let query = CosmosOperation::new(OperationType::Query, path)
        .with_target(OperationTarget::Feed)
        .with_body(encode(&query)?);
    let found: Response<Item> = execute(driver, &query, options).await?;
    let offers: Feed<Offer> = decode(found.body())?;
    Ok(offers.items.into_iter().next())
}

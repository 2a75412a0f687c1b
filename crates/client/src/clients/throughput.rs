//! Throughput: a header when something is created, a resource of its own afterwards.

use std::sync::Arc;

use http::HeaderValue;
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
    let is_migration = offer.content.offer_autopilot_settings.is_some()
        != throughput.autoscale_max_throughput().is_some();
    offer.set_throughput(throughput);
    let rid: Rid = offer.id.parse()?;
    let path = RequestPath::of(ResourceLink::offer(rid)?);
    let mut replace = CosmosOperation::new(OperationType::Replace, path).with_body(encode(&offer)?);
    if is_migration {
        let name = match throughput.autoscale_max_throughput() {
            Some(_) => names::MIGRATE_OFFER_TO_AUTOPILOT,
            None => names::MIGRATE_OFFER_TO_MANUAL_THROUGHPUT,
        };
        replace = replace.with_header(name, HeaderValue::from_static("true"));
    }
    let replaced: Response<Item> = execute(driver, &replace, options).await?;
    let offer: Offer = replaced.model()?;
    offer.throughput().ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidResponse,
            "the service answered with an offer without throughput",
        )
    })
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

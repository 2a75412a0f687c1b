//! One file per resource, and the table that sends a request to its handler.

mod account;
mod batch;
mod change_feed;
mod containers;
mod continuation;
mod databases;
mod feed;
mod items;
mod offers;
mod page;
mod partition_delete;
mod query;
mod query_plan;
mod ranges;
mod sorted;
mod target;

use std::sync::Arc;

use http::Method;
use sidereal_protocol::{
    Addressing, CosmosStatus, EffectivePartitionKey, PartitionKey, RequestPath, ResourceLink,
    ResourceType,
};

use crate::account::Account;
use crate::error::{Result, ServiceError};
use crate::reply::Reply;
use crate::request::Incoming;
use crate::store::{Container, Database, Definition};

/// Sends an authorized request to its handler.
pub(crate) fn dispatch(
    account: &Account,
    incoming: &Incoming,
    path: &RequestPath,
) -> Result<Reply> {
    check_forwarding(incoming, path)?;
    check_consistency(account, incoming)?;
    check_known_values(incoming)?;
    check_metadata_write(incoming, path)?;
    match (path.kind(), path.is_feed()) {
        (ResourceType::DatabaseAccount, _) => account::read(account, incoming),
        (ResourceType::Database, true) => databases::feed(account, incoming),
        (ResourceType::Database, false) => databases::one(account, incoming, path.link()),
        (ResourceType::DocumentCollection, true) => {
            containers::feed(account, incoming, path.link())
        }
        (ResourceType::DocumentCollection, false) => {
            containers::one(account, incoming, path.link())
        }
        (ResourceType::PartitionKeyRange, true) => ranges::feed(account, incoming, path.link()),
        (ResourceType::PartitionKey, _) => partition_delete::run(account, incoming, path.link()),
        (ResourceType::Document, true) => items::feed(account, incoming, path.link()),
        (ResourceType::Document, false) => items::one(account, incoming, path.link()),
        (ResourceType::Offer, true) => offers::feed(account, incoming),
        (ResourceType::Offer, false) => offers::one(account, incoming, path.link()),
        (kind, _) => Err(ServiceError::bad_request(format!(
            "This emulator has no resources of the kind {}: databases, containers, items, partition \
             ranges and offers are what it holds.",
            kind.path_segment()
        ))),
    }
}

/// The global endpoint answers reads of the account by itself, and forwards everything else to a region,
/// which may be behind a closed door. A request to that region's own endpoint does not get this far.
fn check_forwarding(incoming: &Incoming, path: &RequestPath) -> Result<()> {
    let region = &incoming.topology.regions[incoming.region];
    if region.online || path.kind() == ResourceType::DatabaseAccount {
        return Ok(());
    }
    let message = format!("The region that accepts writes, {}, cannot be reached.", region.name);
    Err(ServiceError::new(CosmosStatus::SERVICE_UNAVAILABLE, message))
}

/// A request may ask for weaker consistency than the account's, never for stronger.
fn check_consistency(account: &Account, incoming: &Incoming) -> Result<()> {
    let Some(asked) = incoming.typed().consistency_level()? else { return Ok(()) };
    let offered = account.options().consistency;
    if asked > offered {
        return Err(ServiceError::bad_request(format!(
            "ConsistencyLevel {asked} specified in the request is invalid when service is configured \
             with consistency level {offered}. Ensure the request consistency level is not stronger \
             than the service consistency level."
        )));
    }
    Ok(())
}

/// Databases, containers and offers are written where the account writes.
fn check_metadata_write(incoming: &Incoming, path: &RequestPath) -> Result<()> {
    let reads = incoming.method == Method::GET || is_query(incoming)?;
    let at_writer =
        incoming.topology.multi_write || incoming.region == incoming.topology.writer(incoming.now);
    if path.kind().is_metadata() && !reads && !at_writer {
        return Err(ServiceError::write_forbidden());
    }
    Ok(())
}

/// Headers that change nothing here still have to hold a value that the service knows.
fn check_known_values(incoming: &Incoming) -> Result<()> {
    let headers = incoming.typed();
    headers.read_consistency_strategy()?;
    headers.priority_level()?;
    headers.throughput_bucket()?;
    headers.indexing_directive()?;
    Ok(())
}

/// The database of a link.
fn database_of(account: &Account, link: &ResourceLink) -> Option<Arc<Database>> {
    let id = link.ancestor_id(ResourceType::Database)?;
    match link.addressing() {
        Addressing::Names => account.catalog().database(id),
        Addressing::Rids => account.catalog().database_by_rid(id.parse().ok()?),
    }
}

/// The container of a link, together with its database; missing ones are errors about the owner.
pub(crate) fn container_of(account: &Account, link: &ResourceLink) -> Result<Arc<Container>> {
    let database = database_of(account, link).ok_or_else(ServiceError::owner_not_found)?;
    find_container(&database, link).ok_or_else(ServiceError::owner_not_found)
}

fn find_container(database: &Database, link: &ResourceLink) -> Option<Arc<Container>> {
    let id = link.ancestor_id(ResourceType::DocumentCollection)?;
    match link.addressing() {
        Addressing::Names => database.container(id),
        Addressing::Rids => database.container_by_rid(id.parse().ok()?),
    }
}

/// The container of a request about items, which must be the one the client means.
fn intended_container(
    account: &Account,
    incoming: &Incoming,
    link: &ResourceLink,
) -> Result<Arc<Container>> {
    let container = container_of(account, link)?;
    match incoming.typed().intended_collection_rid()? {
        Some(rid) if rid != container.rid.to_string() => Err(ServiceError::new(
            CosmosStatus::COLLECTION_RID_MISMATCH,
            "The container's RID is not the one the request was meant for: it was deleted and created again.",
        )),
        _ => Ok(container),
    }
}

/// The partition key that a request must name.
fn required_key(incoming: &Incoming) -> Result<PartitionKey> {
    incoming.partition_key()?.ok_or_else(|| {
        ServiceError::bad_request("PartitionKey value must be supplied for this operation.")
    })
}

/// Where a complete partition key falls.
pub(crate) fn place_of(
    definition: &Definition,
    key: &PartitionKey,
) -> Result<EffectivePartitionKey> {
    definition.key.effective_key(key).map_err(key_refused)
}

/// A partition key that the container's definition has no place for.
fn key_refused(error: sidereal_protocol::Error) -> ServiceError {
    ServiceError::bad_request(format!("The partition key does not fit the container: {error}"))
}

/// Whether a POST to a feed is a query rather than a creation.
fn is_query(incoming: &Incoming) -> Result<bool> {
    let content_type = incoming.typed().text(&http::header::CONTENT_TYPE)?.unwrap_or_default();
    Ok(incoming.typed().is_query()? || content_type.starts_with("application/query+json"))
}

/// Refuses a verb that a resource does not have.
fn unsupported(_method: &Method) -> Result<Reply> {
    Err(ServiceError::method_not_allowed())
}

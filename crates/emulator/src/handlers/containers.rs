//! Containers.

use http::Method;
use serde_json::Value;
use sidereal_protocol::{CosmosStatus, ResourceLink, ThroughputProperties};

use super::{database_of, feed as pages, find_container, is_query, offers, unsupported};
use crate::account::Account;
use crate::charge;
use crate::error::{Result, ServiceError};
use crate::reply::Reply;
use crate::request::Incoming;
use crate::store::{Container, Database, Definition};
use sidereal_protocol::headers::names as headers;

const FEED: &str = "DocumentCollections";

/// The throughput of a container that names none and has no database to share with.
const DEFAULT_THROUGHPUT: ThroughputProperties = ThroughputProperties::manual(400);

/// What one physical partition begins with, as the service provisions them.
const THROUGHPUT_PER_PARTITION: u32 = 6_000;

/// `/dbs/{db}/colls`: list, query, create.
pub(super) fn feed(account: &Account, incoming: &Incoming, link: &ResourceLink) -> Result<Reply> {
    let database = database_of(account, link).ok_or_else(ServiceError::owner_not_found)?;
    let all = || database.containers().iter().map(|container| container.resource()).collect();
    match incoming.method {
        Method::GET => pages::list(incoming, Some(database.rid), FEED, all()),
        Method::POST if is_query(incoming)? => {
            let entries: Vec<Value> = all();
            pages::query(incoming, Some(database.rid), FEED, &entries)
        }
        Method::POST => create(account, incoming, &database),
        ref method => unsupported(method),
    }
}

/// `/dbs/{db}/colls/{coll}`: read, replace, delete.
pub(super) fn one(account: &Account, incoming: &Incoming, link: &ResourceLink) -> Result<Reply> {
    let database = database_of(account, link).ok_or_else(ServiceError::owner_not_found)?;
    let container = find_container(&database, link).ok_or_else(ServiceError::not_found)?;
    match incoming.method {
        Method::GET => Ok(answer(CosmosStatus::OK, &container)),
        Method::PUT => {
            let definition = parse_definition(account, incoming)?;
            container.replace(definition).map_err(ServiceError::bad_request)?;
            Ok(answer(CosmosStatus::OK, &container).charged(charge::METADATA_WRITE))
        }
        Method::DELETE => {
            account.catalog().delete_container(&database, &container);
            Ok(Reply::empty(CosmosStatus::NO_CONTENT).charged(charge::METADATA_WRITE))
        }
        ref method => unsupported(method),
    }
}

fn create(account: &Account, incoming: &Incoming, database: &Database) -> Result<Reply> {
    let definition = parse_definition(account, incoming)?;
    let shares = account.catalog().offer_of(database.rid).is_some();
    let own = match offers::requested(incoming)? {
        None if !shares => Some(DEFAULT_THROUGHPUT),
        requested => requested,
    };
    let by_throughput =
        own.map_or(1, |own| own.ceiling().div_ceil(THROUGHPUT_PER_PARTITION).max(1));
    let partitions = account.options().partitions.unwrap_or(by_throughput);
    let container = account
        .catalog()
        .create_container(database, definition, partitions, incoming.topology.replication())
        .map_err(|_| ServiceError::conflict())?;
    if let Some(own) = own {
        account.catalog().create_offer(container.rid, container.link.clone(), own, incoming.now);
    }
    Ok(answer(CosmosStatus::CREATED, &container).charged(charge::METADATA_WRITE))
}

fn parse_definition(account: &Account, incoming: &Incoming) -> Result<Definition> {
    let etag = account.catalog().new_etag(incoming.now);
    Definition::parse(incoming.json()?, etag, incoming.now).map_err(ServiceError::bad_request)
}

fn answer(status: CosmosStatus, container: &Container) -> Reply {
    let definition = container.definition();
    Reply::json(status, &container.resource())
        .with_etag(&definition.etag)
        .with(headers::OWNER_FULL_NAME, format!("dbs/{}", container.database))
        .with(headers::INDEX_TRANSFORMATION_PROGRESS, 100)
}

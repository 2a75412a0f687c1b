//! Containers.

use std::sync::Arc;

use serde_json::Value;
use sidereal_protocol::headers::names as headers;
use sidereal_protocol::{CosmosStatus, ThroughputProperties};

use super::{metadata_feed, metadata_write, offers};
use crate::error::{Result, ServiceError};
use crate::reply::Reply;
use crate::request::ClassifiedRequest;
use crate::state::AccountState;
use crate::store::{Container, Database, Definition, ITEM_LIMIT};

const FEED: &str = "DocumentCollections";

/// The throughput of a container that names none and has no database to share with.
const DEFAULT_THROUGHPUT: ThroughputProperties = ThroughputProperties::manual(400);

/// The initial throughput of one physical partition, as the service provisions them.
const THROUGHPUT_PER_PARTITION: u32 = 6_000;

/// The most data that one physical partition may hold: a documented limit of the service.
const PARTITION_KIBIBYTES: u64 = 20 * 1024 * 1024;

/// Physical partitions that an account may have in all. Each is a log, and a replica per region, of which an
/// empty one takes about a kilobyte.
const MAX_ACCOUNT_PARTITIONS: usize = 25_000;

/// `GET /dbs/{db}/colls`.
pub(crate) fn list(account: &AccountState, request: &ClassifiedRequest) -> Result<Reply> {
    let database = owner(account, request)?;
    metadata_feed::list(request, Some(database.rid), FEED, resources(&database))
}

/// `POST /dbs/{db}/colls` with a query.
pub(crate) fn query(account: &AccountState, request: &ClassifiedRequest) -> Result<Reply> {
    let database = owner(account, request)?;
    metadata_feed::query(request, Some(database.rid), FEED, &resources(&database))
}

/// `GET /dbs/{db}/colls/{coll}`.
pub(crate) fn read(account: &AccountState, request: &ClassifiedRequest) -> Result<Reply> {
    let (_, container) = addressed(account, request)?;
    let reply = reply(CosmosStatus::OK, &container);
    Ok(match request.typed().populates_quota_info()? {
        true => with_quota(reply, request, &container),
        false => reply,
    })
}

/// Adds the quota of a container and what it uses of it, in KiB.
fn with_quota(reply: Reply, request: &ClassifiedRequest, container: &Container) -> Reply {
    let partitions = container.partitions();
    let (mut bytes, mut count) = (0, 0);
    for partition in partitions.iter() {
        let replica = request.view(partition);
        bytes += replica.bytes();
        count += replica.len();
    }
    let used = bytes.div_ceil(1024);
    let most = partitions.len() as u64 * PARTITION_KIBIBYTES;
    let item = ITEM_LIMIT / 1024;
    // Indexes are built on demand and belong to the process: the container's size is that of its items.
    let usage = format!(
        "documentSize=0;documentsSize={used};documentsCount={count};collectionSize={used};"
    );
    let quota = format!(
        "documentSize={item};documentsSize={most};documentsCount=-1;collectionSize={most};"
    );
    reply.with(headers::RESOURCE_QUOTA, quota).with(headers::RESOURCE_USAGE, usage)
}

/// `PUT /dbs/{db}/colls/{coll}`.
pub(crate) fn replace(account: &AccountState, request: &ClassifiedRequest) -> Result<Reply> {
    let (_, container) = addressed(account, request)?;
    metadata_feed::check_version(request, &container.definition().etag)?;
    let definition = parse_definition(account, request)?;
    container.replace(definition).map_err(ServiceError::bad_request)?;
    metadata_write::of_container(request, &container, reply(CosmosStatus::OK, &container))
}

/// `DELETE /dbs/{db}/colls/{coll}`.
pub(crate) fn delete(account: &AccountState, request: &ClassifiedRequest) -> Result<Reply> {
    let (database, container) = addressed(account, request)?;
    metadata_feed::check_version(request, &container.definition().etag)?;
    account.catalog.delete_container(&database, &container);
    metadata_write::of_container(request, &container, Reply::empty(CosmosStatus::NO_CONTENT))
}

/// `POST /dbs/{db}/colls`.
pub(crate) fn create(account: &AccountState, request: &ClassifiedRequest) -> Result<Reply> {
    let database = &owner(account, request)?;
    let definition = parse_definition(account, request)?;
    let shares = account.catalog.offer_of(database.rid).is_some();
    let own = match offers::requested(request)? {
        None if !shares => Some(DEFAULT_THROUGHPUT),
        requested => requested,
    };
    let by_throughput =
        own.map_or(1, |own| own.ceiling().div_ceil(THROUGHPUT_PER_PARTITION).max(1));
    let partitions = account.options.partitions.unwrap_or(by_throughput);
    check_partitions(account, partitions as usize)?;
    let container = account
        .catalog
        .create_container(database, definition, partitions, request.topology.replica_set())
        .map_err(|_| ServiceError::conflict())?;
    if let Some(own) = own {
        account.catalog.create_offer(container.rid, container.link.clone(), own, request.now);
    }
    metadata_write::of_container(request, &container, reply(CosmosStatus::CREATED, &container))
}

/// Refuses what would give the account more partitions than it may have.
pub(super) fn check_partitions(account: &AccountState, more: usize) -> Result<()> {
    let present = account.catalog.partition_count();
    if more == 0 || present.saturating_add(more) <= MAX_ACCOUNT_PARTITIONS {
        return Ok(());
    }
    let message = format!(
        "The account has {present} physical partitions and may have {MAX_ACCOUNT_PARTITIONS}: delete containers \
         that are not needed, or ask for less throughput."
    );
    Err(ServiceError::new(CosmosStatus::FORBIDDEN, message))
}

fn parse_definition(account: &AccountState, request: &ClassifiedRequest) -> Result<Definition> {
    let etag = account.catalog.new_etag(request.now);
    Definition::parse(request.json()?, etag, request.now).map_err(ServiceError::bad_request)
}

fn reply(status: CosmosStatus, container: &Container) -> Reply {
    let definition = container.definition();
    Reply::json(status, &container.resource())
        .with_etag(&definition.etag)
        .with(headers::OWNER_FULL_NAME, format!("dbs/{}", container.database))
        // Indexes are rebuilt in the write itself, so the transformation is always complete.
        .with(headers::INDEX_TRANSFORMATION_PROGRESS, 100)
}

/// The database that the path names.
fn owner(account: &AccountState, request: &ClassifiedRequest) -> Result<Arc<Database>> {
    account.catalog.database_of(request.link()).ok_or_else(ServiceError::owner_not_found)
}

/// The container that the path names, and its database. A missing database is told from a missing
/// container by its sub-status.
fn addressed(
    account: &AccountState,
    request: &ClassifiedRequest,
) -> Result<(Arc<Database>, Arc<Container>)> {
    let database = owner(account, request)?;
    let container = database.container_of(request.link()).ok_or_else(ServiceError::not_found)?;
    Ok((database, container))
}

fn resources(database: &Database) -> Vec<Value> {
    database.containers().iter().map(|container| container.resource()).collect()
}

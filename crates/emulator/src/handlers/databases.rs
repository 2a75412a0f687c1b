//! Databases.

use serde_json::Value;
use sidereal_protocol::{CosmosStatus, ResourceType, check_id};

use super::{metadata_feed, metadata_write, offers};
use crate::error::{Result, ServiceError};
use crate::reply::Reply;
use crate::request::ClassifiedRequest;
use crate::state::AccountState;
use crate::store::Database;

const FEED: &str = "Databases";

/// `GET /dbs`.
pub(crate) fn list(account: &AccountState, request: &ClassifiedRequest) -> Result<Reply> {
    metadata_feed::list(request, None, FEED, resources(account))
}

/// `POST /dbs` with a query.
pub(crate) fn query(account: &AccountState, request: &ClassifiedRequest) -> Result<Reply> {
    metadata_feed::query(request, None, FEED, &resources(account))
}

/// `GET /dbs/{db}`.
pub(crate) fn read(account: &AccountState, request: &ClassifiedRequest) -> Result<Reply> {
    let database = account.catalog.database_of(request.link());
    let database = database.ok_or_else(ServiceError::not_found)?;
    Ok(reply(CosmosStatus::OK, &database))
}

/// `DELETE /dbs/{db}`.
pub(crate) fn delete(account: &AccountState, request: &ClassifiedRequest) -> Result<Reply> {
    let database = account.catalog.database_of(request.link());
    let database = database.ok_or_else(ServiceError::not_found)?;
    metadata_feed::check_version(request, &database.etag)?;
    account.catalog.delete_database(&database);
    metadata_write::of_database(request, Reply::empty(CosmosStatus::NO_CONTENT))
}

/// `POST /dbs`.
pub(crate) fn create(account: &AccountState, request: &ClassifiedRequest) -> Result<Reply> {
    let body = request.json()?;
    let id = body.get("id").and_then(Value::as_str).ok_or_else(|| {
        let message =
            "The input content is invalid because the required properties - 'id; ' - are missing";
        ServiceError::bad_request(message)
    })?;
    check_id(ResourceType::Database, id)?;
    let throughput = offers::requested(request)?;
    let database =
        account.catalog.create_database(id, request.now).map_err(|_| ServiceError::conflict())?;
    if let Some(throughput) = throughput {
        account.catalog.create_offer(database.rid, database.link(), throughput, request.now);
    }
    metadata_write::of_database(request, reply(CosmosStatus::CREATED, &database))
}

fn reply(status: CosmosStatus, database: &Database) -> Reply {
    Reply::json(status, &database.resource()).with_etag(&database.etag)
}

fn resources(account: &AccountState) -> Vec<Value> {
    account.catalog.databases().iter().map(|database| database.resource()).collect()
}

//! Databases.

use http::Method;
use serde_json::Value;
use sidereal_protocol::{CosmosStatus, ResourceLink, ResourceType, check_id};

use super::{database_of, feed as pages, is_query, offers, unsupported};
use crate::account::Account;
use crate::charge;
use crate::error::{Result, ServiceError};
use crate::reply::Reply;
use crate::request::Incoming;
use crate::store::Database;

const FEED: &str = "Databases";

/// `/dbs`: list, query, create.
pub(super) fn feed(account: &Account, incoming: &Incoming) -> Result<Reply> {
    let all = || account.catalog().databases().iter().map(|database| database.resource()).collect();
    match incoming.method {
        Method::GET => pages::list(incoming, None, FEED, all()),
        Method::POST if is_query(incoming)? => {
            let entries: Vec<Value> = all();
            pages::query(incoming, None, FEED, &entries)
        }
        Method::POST => create(account, incoming),
        ref method => unsupported(method),
    }
}

/// `/dbs/{db}`: read, delete.
pub(super) fn one(account: &Account, incoming: &Incoming, link: &ResourceLink) -> Result<Reply> {
    let database = database_of(account, link).ok_or_else(ServiceError::not_found)?;
    match incoming.method {
        Method::GET => Ok(answer(CosmosStatus::OK, &database)),
        Method::DELETE => {
            account.catalog().delete_database(&database);
            Ok(Reply::empty(CosmosStatus::NO_CONTENT).charged(charge::METADATA_WRITE))
        }
        ref method => unsupported(method),
    }
}

fn create(account: &Account, incoming: &Incoming) -> Result<Reply> {
    let body = incoming.json()?;
    let id = body.get("id").and_then(Value::as_str).ok_or_else(|| {
        let message =
            "The input content is invalid because the required properties - 'id; ' - are missing";
        ServiceError::bad_request(message)
    })?;
    check_id(ResourceType::Database, id)?;
    let throughput = offers::requested(incoming)?;
    let database = account
        .catalog()
        .create_database(id, incoming.now)
        .map_err(|_| ServiceError::conflict())?;
    if let Some(throughput) = throughput {
        account.catalog().create_offer(database.rid, database.link(), throughput, incoming.now);
    }
    Ok(answer(CosmosStatus::CREATED, &database).charged(charge::METADATA_WRITE))
}

fn answer(status: CosmosStatus, database: &Database) -> Reply {
    Reply::json(status, &database.resource()).with_etag(&database.etag)
}

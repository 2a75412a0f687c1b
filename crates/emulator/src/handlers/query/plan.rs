//! Query plans: what a client that merges partitions by itself asks for first.

use sidereal_protocol::CosmosStatus;
use sidereal_protocol::headers::names as headers;
use sidereal_query::Features;

use super::parsed_query::{ParsedQuery, plan_to_json};
use crate::error::Result;
use crate::handlers::items::effective_key_of;
use crate::reply::Reply;
use crate::request::ClassifiedRequest;

/// `POST …/docs` with `x-ms-cosmos-is-query-plan-request`.
pub(crate) fn answer(request: &ClassifiedRequest) -> Result<Reply> {
    let container = request.intended_container()?;
    let definition = container.definition();
    let query = ParsedQuery::from_body(&request.body)?;
    let plan = match request.partition_key()? {
        Some(key) if key.components().len() == definition.key.paths().len() => {
            query.plan_within(effective_key_of(&definition, &key)?)?
        }
        // A prefix of a hierarchical key spans partitions like no key at all.
        _ => {
            let listed = request.typed().text(&headers::SUPPORTED_QUERY_FEATURES)?;
            query.plan(&definition.key, Features::parse(listed.unwrap_or_default()))?
        }
    };
    Ok(Reply::json(CosmosStatus::OK, &plan_to_json(&plan)?))
}

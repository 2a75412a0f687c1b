//! Items: the point operations.

use std::sync::Arc;

use http::header;
use serde_json::Value;
use sidereal_protocol::headers::names as headers;
use sidereal_protocol::{
    CosmosStatus, EffectivePartitionKey, PartitionKey, PartitionKeyValue, PatchDocument,
    check_item_id,
};
use sidereal_query::Condition;

use super::query::condition_context;
use crate::charge;
use crate::clock::Timestamp;
use crate::error::{Result, ServiceError};
use crate::reply::Reply;
use crate::request::{ClassifiedRequest, parse_item};
use crate::state::AccountState;
use crate::store::{
    Container, Decided, Definition, Expiry, Item, ItemDraft, ItemName, ItemResult, Outcome,
    Partition, PatchOf, Refusal, ReplicaProgress, Transaction, WriteCondition,
};

/// The longest partition key, in bytes of its strings: a documented limit of the service.
const MAX_KEY_BYTES: usize = 2048;

/// `GET …/docs/{id}`.
pub(crate) fn read(account: &AccountState, request: &ClassifiedRequest) -> Result<Reply> {
    let container = request.intended_container()?;
    let definition = container.definition();
    let name = named_item(request, container, &definition)?;
    let partition = &container.partition_of(&name.effective_key);
    account.admit(request, container, partition)?;
    // The only condition that a read has.
    let if_none_match = request.typed().if_none_match()?;
    let expiry = Expiry::new(definition.default_ttl, request.now);
    let (progress, durability, outcome) = {
        // The replica's read lock is held for the lookup alone, not while the response is made.
        let replica = request.view(partition);
        let outcome = replica.read(&name, if_none_match.as_ref(), expiry);
        (ReplicaProgress::of(&replica), partition.durability(), outcome)
    };
    account.check_session(request, partition, &progress)?;
    let headers = PartitionHeaders { request, container, partition, progress };
    let found = matches!(outcome, Ok(_) | Err(Refusal::NotModified(_)));
    let reply = finish(account, &headers, outcome).durable_at(durability);
    Ok(if found { reply.with_text(header::CONTENT_LOCATION, request.full_url()) } else { reply })
}

/// `POST …/docs`.
pub(crate) fn create(account: &AccountState, request: &ClassifiedRequest) -> Result<Reply> {
    // Nothing exists that conditions could be compared with.
    write_draft(account, request, |transaction, draft, _conditions| transaction.create(draft))
}

/// `POST …/docs` with `x-ms-documentdb-is-upsert`.
pub(crate) fn upsert(account: &AccountState, request: &ClassifiedRequest) -> Result<Reply> {
    write_draft(account, request, |transaction, draft, conditions| {
        transaction.upsert(draft, &conditions)
    })
}

/// `PUT …/docs/{id}`.
pub(crate) fn replace(account: &AccountState, request: &ClassifiedRequest) -> Result<Reply> {
    let container = request.intended_container()?;
    let definition = container.definition();
    let name = named_item(request, container, &definition)?;
    let draft = draft_of(&definition, request.item()?, &name.key)?;
    let conditions = request.conditions()?;
    write(account, request, container, &name, |transaction| {
        transaction.replace(&name, draft, &conditions)
    })
}

/// `PATCH …/docs/{id}`.
pub(crate) fn patch(account: &AccountState, request: &ClassifiedRequest) -> Result<Reply> {
    let container = request.intended_container()?;
    let definition = container.definition();
    let name = named_item(request, container, &definition)?;
    let body = PatchDocument::from_json(&request.json_body()?)?;
    let conditions = request.conditions()?;
    write(account, request, container, &name, |transaction| {
        patch_item(transaction, &name, &body, &definition, &conditions, request.now)
    })
}

/// `DELETE …/docs/{id}`.
pub(crate) fn delete(account: &AccountState, request: &ClassifiedRequest) -> Result<Reply> {
    let container = request.intended_container()?;
    let name = named_item(request, container, &container.definition())?;
    let conditions = request.conditions()?;
    write(account, request, container, &name, |transaction| transaction.delete(&name, &conditions))
}

/// The effective partition key of a complete partition key.
pub(super) fn effective_key_of(
    definition: &Definition,
    key: &PartitionKey,
) -> Result<EffectivePartitionKey> {
    check_size(key)?;
    // All else that can be wrong with a key is the number of its components.
    definition.key.effective_key(key).map_err(|_| ServiceError::partition_key_mismatch())
}

/// Refuses a partition key that is longer than the service takes.
pub(super) fn check_size(key: &PartitionKey) -> Result<()> {
    let bytes = key.components().iter().map(|component| match component {
        PartitionKeyValue::String(text) => text.len(),
        _ => 0,
    });
    let bytes: usize = bytes.sum();
    if bytes > MAX_KEY_BYTES {
        return Err(ServiceError::bad_request(format!(
            "The partition key value is {bytes} bytes long: at most {MAX_KEY_BYTES} are supported."
        )));
    }
    Ok(())
}

/// The name of an item, whose key must be complete.
pub(super) fn name_of(
    definition: &Definition,
    key: PartitionKey,
    id: Arc<str>,
) -> Result<ItemName> {
    let effective_key = effective_key_of(definition, &key)?;
    Ok(ItemName { effective_key, key, id })
}

/// The name of the item that a request's path and partition key address.
fn named_item(
    request: &ClassifiedRequest,
    container: &Container,
    definition: &Definition,
) -> Result<ItemName> {
    let key = request.required_partition_key()?;
    name_of(definition, key, item_id(request, container)?)
}

/// A document as a client sends it; the key in the header must be the one in the document.
pub(super) fn draft_of(
    definition: &Definition,
    document: Value,
    header: &PartitionKey,
) -> Result<ItemDraft> {
    let Value::Object(fields) = document else {
        return Err(ServiceError::bad_request("The item must be a JSON object."));
    };
    let id = match fields.get("id") {
        Some(Value::String(id)) => id,
        Some(_) => return Err(ServiceError::bad_request("The item's id must be a string.")),
        None => {
            return Err(ServiceError::bad_request(
                "The input content is invalid because the required properties - 'id; ' - are missing",
            ));
        }
    };
    check_item_id(id)?;
    // One allocation, shared by the item, its indexes and the log.
    let id: Arc<str> = id.as_str().into();
    let document = Value::Object(fields);
    let key = definition.key.extract(&document);
    if *header != key {
        return Err(ServiceError::new(
            CosmosStatus::PARTITION_KEY_MISMATCH,
            "PartitionKey extracted from document doesn't match the one specified in the header. \
             Learn more: https://aka.ms/CosmosDB/sql/errors/wrong-pk-value",
        ));
    }
    let ItemName { effective_key, key, id } = name_of(definition, key, id)?;
    let Value::Object(document) = document else { unreachable!("an object was put in above") };
    Ok(ItemDraft { id, key, effective_key, document })
}

/// The id that a link ends in: a name, or the RID of an item whose id is then looked up.
fn item_id(request: &ClassifiedRequest, container: &Container) -> Result<Arc<str>> {
    let link = request.link();
    let Some(rid) = link.rid() else { return Ok(link.id().into()) };
    let ordinal = rid.document_order().ok_or_else(ServiceError::not_found)?;
    // By RID, which does not say in which partition the item is: seldom used, so all are searched.
    let found = container.partitions().iter().find_map(|partition| {
        request.view(partition).by_ordinal(ordinal).map(|item| item.id.clone())
    });
    found.ok_or_else(ServiceError::not_found)
}

/// Creates or upserts the item in a request's body.
fn write_draft(
    account: &AccountState,
    request: &ClassifiedRequest,
    decide: impl FnOnce(&mut Transaction<'_>, ItemDraft, WriteCondition) -> Result<ItemResult, Refusal>,
) -> Result<Reply> {
    let container = request.intended_container()?;
    let key = request.required_partition_key()?;
    let draft = draft_of(&container.definition(), request.item()?, &key)?;
    let conditions = request.conditions()?;
    let name = draft.name();
    write(account, request, container, &name, |transaction| decide(transaction, draft, conditions))
}

/// Patches an item within a transaction.
pub(super) fn patch_item(
    transaction: &mut Transaction<'_>,
    name: &ItemName,
    body: &PatchDocument,
    definition: &Definition,
    conditions: &WriteCondition,
    now: Timestamp,
) -> Result<ItemResult, Refusal> {
    let condition = match &body.condition {
        Some(text) => {
            Some(Condition::parse(text).map_err(|error| Refusal::Invalid(error.to_string()))?)
        }
        None => None,
    };
    let context = condition_context(now);
    let patch = PatchOf {
        operations: &body.operations,
        condition: condition.as_ref(),
        context: &context,
        key: &definition.key,
    };
    transaction.patch(name, &patch, conditions)
}

/// Runs one write: decide, commit, respond.
fn write(
    account: &AccountState,
    request: &ClassifiedRequest,
    container: &Container,
    name: &ItemName,
    decide: impl FnOnce(&mut Transaction<'_>) -> Result<ItemResult, Refusal>,
) -> Result<Reply> {
    // A split may come between this and `transact`, which looks the partition up again under its lock.
    let partition = container.partition_of(&name.effective_key);
    account.admit(request, container, &partition)?;
    let definition = container.definition();
    let context = account.write_context(request, &partition)?;
    let Decided { decision, partition, progress } =
        container.transact(&name.effective_key, &definition, &context, decide);
    let headers = PartitionHeaders { request, container, partition: &partition, progress };
    let minimal = decision.is_ok() && request.typed().prefers_minimal()?;
    Ok(finish(account, &headers, decision).without_body(minimal))
}

/// Charges an operation and makes its response.
fn finish(
    account: &AccountState,
    headers: &PartitionHeaders<'_>,
    outcome: Result<ItemResult, Refusal>,
) -> Reply {
    let charge = outcome.as_ref().map_or(charge::MINIMUM, |written| written.charge);
    account.spend(headers.partition, headers.request.now, charge);
    let reply = match outcome {
        Ok(written) => reply_to(&written),
        Err(Refusal::NotModified(etag)) => {
            Reply::empty(CosmosStatus::NOT_MODIFIED).with_etag(&etag)
        }
        Err(refusal) => ServiceError::from(refusal).into_reply(),
    };
    // A refusal carries them too: a client's session advances with a 404 as with a 200.
    headers.add_to(reply)
}

/// Status, item and charge of an operation that happened.
fn reply_to(written: &ItemResult) -> Reply {
    let item: &Item = &written.item;
    let reply = match written.outcome {
        Outcome::Created => Reply::bytes(CosmosStatus::CREATED, item.text.clone()),
        Outcome::Replaced | Outcome::Read => Reply::bytes(CosmosStatus::OK, item.text.clone()),
        Outcome::Deleted => return Reply::empty(CosmosStatus::NO_CONTENT).charged(written.charge),
    };
    reply.charged(written.charge).with_etag(&item.etag).with_number(headers::ITEM_LSN, item.lsn)
}

/// The headers that say which partition answered and how far its replica has applied the log.
#[derive(Clone)]
pub(super) struct PartitionHeaders<'a> {
    pub(super) request: &'a ClassifiedRequest,
    pub(super) container: &'a Container,
    pub(super) partition: &'a Partition,
    pub(super) progress: ReplicaProgress,
}

impl PartitionHeaders<'_> {
    pub(super) fn add_to(&self, reply: Reply) -> Reply {
        let Self { request, container, partition, progress } = self;
        let version = request.topology.version;
        reply
            .with(headers::SESSION_TOKEN, partition.session_token(version, progress))
            .with_number(headers::LSN, progress.lsn)
            .with_number(headers::GLOBAL_COMMITTED_LSN, progress.lsn)
            .with(headers::PARTITION_KEY_RANGE_ID, partition.id.as_str())
            .with_shared(headers::OWNER_FULL_NAME, &container.full_name)
            .with_shared(headers::OWNER_ID, &container.rid_text)
    }
}

/// JSON of an operation within a batch.
pub(super) fn parse_body(body: Option<&serde_json::value::RawValue>) -> Result<Value> {
    let body =
        body.ok_or_else(|| ServiceError::bad_request("The operation has no resourceBody."))?;
    parse_item(body.get().as_bytes())
}

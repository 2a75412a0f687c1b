//! Items: point operations, and which handler a request to the feed of items is for.

use std::sync::Arc;

use http::Method;
use serde_json::Value;
use sidereal_protocol::{
    CosmosStatus, PartitionKey, PatchDocument, ResourceLink, ResourceType, check_id,
};
use sidereal_query::Condition;

use super::target::check_session;
use super::{
    batch, change_feed, intended_container, is_query, place_of, query, query_plan, required_key,
    unsupported,
};
use crate::account::Account;
use crate::error::{Result, ServiceError};
use crate::reply::Reply;
use crate::request::{Incoming, parse_json};
use crate::store::{
    Container, Decided, Definition, Item, ItemDraft, ItemName, Outcome, Partition, PatchOf,
    Refusal, Seen, Transaction, WriteCondition, Written,
};
use sidereal_protocol::headers::names as headers;

/// `/dbs/{db}/colls/{coll}/docs`. What a POST is, its headers tell.
pub(super) fn feed(account: &Account, incoming: &Incoming, link: &ResourceLink) -> Result<Reply> {
    let container = intended_container(account, incoming, link)?;
    match incoming.method {
        Method::POST if incoming.typed().is_query_plan_request()? => {
            query_plan::answer(incoming, &container)
        }
        Method::POST if is_query(incoming)? => query::run(account, incoming, &container),
        Method::POST if incoming.typed().is_batch_request()? => {
            batch::run(account, incoming, &container)
        }
        Method::POST => create(account, incoming, &container),
        Method::GET if incoming.headers.contains_key(headers::A_IM) => {
            change_feed::read(account, incoming, &container)
        }
        Method::GET => query::read_feed(account, incoming, &container),
        ref method => unsupported(method),
    }
}

/// `/dbs/{db}/colls/{coll}/docs/{id}`: read, replace, patch, delete.
pub(super) fn one(account: &Account, incoming: &Incoming, link: &ResourceLink) -> Result<Reply> {
    let container = intended_container(account, incoming, link)?;
    let definition = container.definition();
    let key = required_key(incoming)?;
    let item = Addressed { container: &container, definition: &definition };
    let name = item.name(key, item_id(incoming, &container, link)?)?;
    match incoming.method {
        Method::GET => read(account, incoming, &item, &name),
        Method::PUT => {
            let draft = item.draft(incoming.json()?, Some(&name.key))?;
            let conditions = incoming.conditions()?;
            write(account, incoming, &container, &name, |transaction| {
                transaction.replace(&name, draft, &conditions)
            })
        }
        Method::PATCH => patch(account, incoming, &item, &name),
        Method::DELETE => {
            let conditions = incoming.conditions()?;
            write(account, incoming, &container, &name, |transaction| {
                transaction.delete(&name, &conditions)
            })
        }
        ref method => unsupported(method),
    }
}

/// A container as point operations see it.
#[derive(Clone, Copy)]
pub(super) struct Addressed<'a> {
    pub(super) container: &'a Container,
    pub(super) definition: &'a Definition,
}

impl Addressed<'_> {
    /// The name of an item, whose key must be complete.
    pub(super) fn name(&self, key: PartitionKey, id: Arc<str>) -> Result<ItemName> {
        let place = place_of(self.definition, &key)?;
        Ok(ItemName { place, key, id })
    }

    /// A document as a client sends it; the key in the header must be the one in the document.
    pub(super) fn draft(
        &self,
        document: Value,
        header: Option<&PartitionKey>,
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
        check_id(ResourceType::Document, id)?;
        let id: Arc<str> = id.as_str().into();
        let document = Value::Object(fields);
        let key = self.definition.key.extract(&document);
        if header.is_some_and(|header| *header != key) {
            return Err(ServiceError::new(
                CosmosStatus::PARTITION_KEY_MISMATCH,
                "PartitionKey extracted from document doesn't match the one specified in the header. \
                 Learn more: https://aka.ms/CosmosDB/sql/errors/wrong-pk-value",
            ));
        }
        let ItemName { place, key, id } = self.name(key, id)?;
        let Value::Object(document) = document else { unreachable!("an object was put in above") };
        Ok(ItemDraft { id, key, place, document })
    }
}

/// The id that a link ends in: a name, or the RID of an item whose id is then looked up.
fn item_id(incoming: &Incoming, container: &Container, link: &ResourceLink) -> Result<Arc<str>> {
    let Some(rid) = link.rid() else { return Ok(link.id().into()) };
    let ordinal = rid.document_order().ok_or_else(ServiceError::not_found)?;
    let found = container.partitions().iter().find_map(|partition| {
        incoming.view(partition).by_ordinal(ordinal).map(|item| item.id.clone())
    });
    found.ok_or_else(ServiceError::not_found)
}

fn read(
    account: &Account,
    incoming: &Incoming,
    item: &Addressed<'_>,
    name: &ItemName,
) -> Result<Reply> {
    let partition = &item.container.partition_at(&name.place);
    account.admit(item.container, partition, incoming.now)?;
    let conditions = incoming.conditions()?;
    let (seen, outcome) = {
        let replica = incoming.view(partition);
        let rules = item.container.rules(item.definition, incoming.now);
        let transaction = Transaction::new(&replica, rules);
        (Seen::of(&replica), transaction.read(name, &conditions))
    };
    check_session(account, incoming, partition, &seen)?;
    let progress = Progress { incoming, container: item.container, partition, seen };
    match outcome {
        Ok(read) => {
            account.spend(partition, incoming.now, read.charge);
            Ok(progress.stamp(answer(&read)))
        }
        Err(refusal) => {
            account.spend(partition, incoming.now, crate::charge::MINIMUM);
            progress.refuse(refusal)
        }
    }
}

fn create(account: &Account, incoming: &Incoming, container: &Container) -> Result<Reply> {
    let definition = container.definition();
    let item = Addressed { container, definition: &definition };
    let key = incoming.partition_key()?;
    let draft = item.draft(incoming.json()?, key.as_ref())?;
    let name =
        ItemName { place: draft.place.clone(), key: draft.key.clone(), id: draft.id.clone() };
    let conditions = incoming.conditions()?;
    let upsert = incoming.typed().is_upsert()?;
    write(account, incoming, container, &name, |transaction| match upsert {
        true => transaction.upsert(draft, &conditions),
        false => transaction.create(draft),
    })
}

fn patch(
    account: &Account,
    incoming: &Incoming,
    item: &Addressed<'_>,
    name: &ItemName,
) -> Result<Reply> {
    let body = PatchDocument::from_json(&incoming.body)?;
    let conditions = incoming.conditions()?;
    let definition = item.definition;
    let now = incoming.now;
    write(account, incoming, item.container, name, |transaction| {
        patch_item(transaction, name, &body, definition, &conditions, now)
    })
}

/// Patches an item within a transaction.
pub(super) fn patch_item(
    transaction: &mut Transaction<'_>,
    name: &ItemName,
    body: &PatchDocument,
    definition: &Definition,
    conditions: &WriteCondition,
    now: crate::Timestamp,
) -> Result<Written, Refusal> {
    let condition = match &body.condition {
        Some(text) => {
            Some(Condition::parse(text).map_err(|error| Refusal::Invalid(error.to_string()))?)
        }
        None => None,
    };
    let context = query::evaluation_context(now);
    let patch = PatchOf {
        operations: &body.operations,
        condition: condition.as_ref(),
        context: &context,
        key: &definition.key,
    };
    transaction.patch(name, &patch, conditions)
}

/// Runs one write: decide, commit, answer.
fn write(
    account: &Account,
    incoming: &Incoming,
    container: &Container,
    name: &ItemName,
    decide: impl FnOnce(&mut Transaction<'_>) -> Result<Written, Refusal>,
) -> Result<Reply> {
    let partition = container.partition_at(&name.place);
    account.admit(container, &partition, incoming.now)?;
    let definition = container.definition();
    let at = account.write_place(incoming, &partition)?;
    let Decided { decision, partition, seen } =
        container.transact(&name.place, &definition, &at, decide);
    let progress = Progress { incoming, container, partition: &partition, seen };
    match decision {
        Ok(written) => {
            account.spend(&partition, incoming.now, written.charge);
            let minimal = incoming.typed().prefers_minimal()?;
            Ok(progress.stamp(answer(&written)).without_body(minimal))
        }
        Err(refusal) => {
            account.spend(&partition, incoming.now, crate::charge::MINIMUM);
            progress.refuse(refusal)
        }
    }
}

/// Of a write, the status and the item.
fn answer(written: &Written) -> Reply {
    let item: &Item = &written.item;
    let reply = match written.outcome {
        Outcome::Created => Reply::bytes(CosmosStatus::CREATED, item.text.clone()),
        Outcome::Replaced | Outcome::Read => Reply::bytes(CosmosStatus::OK, item.text.clone()),
        Outcome::Deleted => return Reply::empty(CosmosStatus::NO_CONTENT).charged(written.charge),
    };
    reply.charged(written.charge).with_etag(&item.etag).with(headers::ITEM_LSN, item.lsn)
}

/// Where in a partition's history an answer stands.
#[derive(Clone)]
pub(super) struct Progress<'a> {
    pub(super) incoming: &'a Incoming,
    pub(super) container: &'a Container,
    pub(super) partition: &'a Partition,
    pub(super) seen: Seen,
}

impl Progress<'_> {
    /// Adds the headers that say which partition answered and how far it had come.
    pub(super) fn stamp(&self, reply: Reply) -> Reply {
        let Self { incoming, container, partition, seen } = self;
        let version = incoming.topology.version;
        reply
            .with(headers::SESSION_TOKEN, partition.session_token(version, seen))
            .with(headers::LSN, seen.lsn)
            .with(headers::GLOBAL_COMMITTED_LSN, seen.lsn)
            .with(headers::PARTITION_KEY_RANGE_ID, partition.id.as_str())
            .with(headers::OWNER_FULL_NAME, container.full_name())
            .with(headers::OWNER_ID, container.rid)
    }

    /// A refusal also tells how far the partition had come: a client learns from a 404 too.
    fn refuse(&self, refusal: Refusal) -> Result<Reply> {
        if refusal == Refusal::NotModified {
            return Ok(self.stamp(Reply::empty(CosmosStatus::NOT_MODIFIED)));
        }
        Ok(self.stamp(ServiceError::from(refusal).into_reply()))
    }
}

/// JSON of an operation within a batch.
pub(super) fn parse_body(body: Option<&serde_json::value::RawValue>) -> Result<Value> {
    let body =
        body.ok_or_else(|| ServiceError::bad_request("The operation has no resourceBody."))?;
    parse_json(body.get().as_bytes())
}

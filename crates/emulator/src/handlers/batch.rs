//! Batches: several operations in one request, all or nothing (transactional) or each for itself (bulk).

use std::sync::Arc;

use serde_json::value::RawValue;
use sidereal_protocol::{
    BatchOperation, BatchOperationType, BatchResult, CosmosStatus, MAX_BATCH_BYTES, PartitionKey,
    PatchDocument, parse_batch,
};

use super::items::{Addressed, Progress, parse_body, patch_item};
use super::target::Target;
use super::{place_of, required_key};
use crate::account::Account;
use crate::charge;
use crate::error::{Result, ServiceError};
use crate::reply::Reply;
use crate::request::Incoming;
use crate::store::{
    Container, Definition, ItemName, Outcome, Partition, Seen, Transaction, WriteCondition, Written,
};
use sidereal_protocol::headers::names as headers;

/// Runs a batch.
pub(super) fn run(account: &Account, incoming: &Incoming, container: &Container) -> Result<Reply> {
    if incoming.body.len() > MAX_BATCH_BYTES {
        return Err(ServiceError::too_large());
    }
    let operations = parse_batch(&incoming.body)?;
    let definition = container.definition();
    let batch =
        Batch { account, incoming, container, definition: &definition, operations: &operations };
    if incoming.typed().is_batch_atomic()? { batch.together() } else { batch.one_by_one() }
}

struct Batch<'a> {
    account: &'a Account,
    incoming: &'a Incoming,
    container: &'a Container,
    definition: &'a Definition,
    operations: &'a [BatchOperation],
}

/// What became of one operation.
type Fate = std::result::Result<Written, ServiceError>;

impl Batch<'_> {
    /// All operations or none, under one partition key and one sequence number.
    fn together(&self) -> Result<Reply> {
        let key = required_key(self.incoming)?;
        let place = place_of(self.definition, &key)?;
        let partition = self.container.partition_at(&place);
        self.account.admit(self.container, &partition, self.incoming.now)?;
        let at = self.account.write_place(self.incoming, &partition)?;
        let mut fates: Vec<Fate> = Vec::with_capacity(self.operations.len());
        let decided = self.container.transact(&place, self.definition, &at, |transaction| {
            for operation in self.operations {
                fates.push(self.decide(transaction, operation, &key));
                if fates.last().is_some_and(Result::is_err) {
                    return Err(());
                }
            }
            Ok(())
        });
        let failed = decided.decision.is_err();
        let results = if failed { self.rolled_back(&fates) } else { self.results(&fates) };
        let status = if failed { CosmosStatus::MULTI_STATUS } else { CosmosStatus::OK };
        self.answer(status, results, &decided.partition, decided.seen)
    }

    /// Each operation for itself, under the key it names.
    fn one_by_one(&self) -> Result<Reply> {
        let target = Target::of(self.incoming, self.container, self.definition)?;
        let addressed = target.slices().first().map(|slice| slice.partition.clone());
        let go_on = self.incoming.typed().batch_continues_on_error()?;
        let header_key = self.incoming.partition_key()?;
        let mut fates: Vec<Fate> = Vec::with_capacity(self.operations.len());
        for operation in self.operations {
            let stop = !go_on && fates.last().is_some_and(Result::is_err);
            fates.push(match stop {
                true => Err(ServiceError::new(
                    CosmosStatus::FAILED_DEPENDENCY,
                    "An operation before failed.",
                )),
                false => self.single(operation, header_key.as_ref(), &target),
            });
        }
        let partition = addressed.unwrap_or_else(|| self.container.partitions()[0].clone());
        let seen = Seen::of(&self.incoming.view(&partition));
        let failed = fates.iter().any(Result::is_err);
        let status = if failed { CosmosStatus::MULTI_STATUS } else { CosmosStatus::OK };
        self.answer(status, self.results(&fates), &partition, seen)
    }

    /// One operation of a bulk request, as a transaction of its own.
    fn single(
        &self,
        operation: &BatchOperation,
        header: Option<&PartitionKey>,
        target: &Target,
    ) -> Fate {
        let key = operation.partition_key.as_ref().or(header).ok_or_else(|| {
            ServiceError::bad_request(
                "The operation names no partitionKey and the request has none.",
            )
        })?;
        let place = place_of(self.definition, key)?;
        let partition = self.container.partition_at(&place);
        let addressed = target.slices().iter().any(|slice| slice.partition.id == partition.id);
        if !addressed {
            let message = "The operation's partition key belongs to another partition key range.";
            return Err(ServiceError::new(CosmosStatus::PARTITION_KEY_RANGE_GONE, message));
        }
        let now = self.incoming.now;
        self.account.admit(self.container, &partition, now)?;
        let at = self.account.write_place(self.incoming, &partition)?;
        let decided = self.container.transact(&place, self.definition, &at, |transaction| {
            self.decide(transaction, operation, key)
        });
        self.account.spend(&decided.partition, now, charge_of(&decided.decision));
        decided.decision
    }

    fn decide(
        &self,
        transaction: &mut Transaction<'_>,
        operation: &BatchOperation,
        key: &PartitionKey,
    ) -> Fate {
        let item = Addressed { container: self.container, definition: self.definition };
        let body = || parse_body(operation.resource_body.as_deref());
        let name = || -> Result<ItemName> {
            let id = operation.id.as_deref().ok_or_else(|| {
                ServiceError::bad_request("The operation has no id; name the item it is about.")
            })?;
            item.name(key.clone(), id.into())
        };
        let conditions = WriteCondition {
            if_match: operation.if_match.clone(),
            if_none_match: operation.if_none_match.clone(),
        };
        let outcome = match operation.operation_type {
            BatchOperationType::Create => transaction.create(item.draft(body()?, Some(key))?),
            BatchOperationType::Upsert => {
                transaction.upsert(item.draft(body()?, Some(key))?, &conditions)
            }
            BatchOperationType::Replace => {
                transaction.replace(&name()?, item.draft(body()?, Some(key))?, &conditions)
            }
            BatchOperationType::Read => transaction.read(&name()?, &conditions),
            BatchOperationType::Delete => transaction.delete(&name()?, &conditions),
            BatchOperationType::Patch => {
                let patch = self.patch_of(operation)?;
                patch_item(
                    transaction,
                    &name()?,
                    &patch,
                    self.definition,
                    &conditions,
                    self.incoming.now,
                )
            }
        };
        outcome.map_err(ServiceError::from)
    }

    fn patch_of(&self, operation: &BatchOperation) -> Result<PatchDocument> {
        let body = operation.resource_body.as_deref().map_or("", RawValue::get);
        PatchDocument::from_json(body.as_bytes())
            .map_err(|error| ServiceError::bad_request(error.to_string()))
    }

    fn results(&self, fates: &[Fate]) -> Vec<BatchResult> {
        fates.iter().map(result_of).collect()
    }

    /// The failed operation keeps its status, all others failed because of it.
    fn rolled_back(&self, fates: &[Fate]) -> Vec<BatchResult> {
        let dependent = || BatchResult {
            status_code: CosmosStatus::FAILED_DEPENDENCY.code(),
            ..BatchResult::default()
        };
        let culprit = fates.len().saturating_sub(1);
        (0..self.operations.len())
            .map(|index| match fates.get(index) {
                Some(fate) if index == culprit => result_of(fate),
                _ => dependent(),
            })
            .collect()
    }

    /// `Prefer: return=minimal` leaves out what the client wrote itself; reads keep their items.
    fn drop_written_bodies(&self, results: &mut [BatchResult]) {
        for (operation, result) in self.operations.iter().zip(results) {
            if operation.operation_type != BatchOperationType::Read {
                result.resource_body = None;
            }
        }
    }

    fn answer(
        &self,
        status: CosmosStatus,
        mut results: Vec<BatchResult>,
        partition: &Arc<Partition>,
        seen: Seen,
    ) -> Result<Reply> {
        let charge: f64 = results.iter().map(|result| result.request_charge).sum();
        if self.incoming.typed().is_batch_atomic()? {
            self.account.spend(partition, self.incoming.now, charge);
        }
        if self.incoming.typed().prefers_minimal()? {
            self.drop_written_bodies(&mut results);
        }
        let body = serde_json::to_vec(&results).unwrap_or_default();
        let progress =
            Progress { incoming: self.incoming, container: self.container, partition, seen };
        let reply = Reply::bytes(status, body.into()).charged(charge.max(charge::MINIMUM));
        Ok(progress.stamp(reply).with(headers::ITEM_COUNT, results.len()))
    }
}

fn charge_of(fate: &Fate) -> f64 {
    fate.as_ref().map_or(charge::MINIMUM, |written| written.charge)
}

fn result_of(fate: &Fate) -> BatchResult {
    match fate {
        Ok(written) => {
            let (code, with_item) = match written.outcome {
                Outcome::Created => (CosmosStatus::CREATED, true),
                Outcome::Replaced | Outcome::Read => (CosmosStatus::OK, true),
                Outcome::Deleted => (CosmosStatus::NO_CONTENT, false),
            };
            let text = std::str::from_utf8(&written.item.text).unwrap_or_default();
            BatchResult {
                status_code: code.code(),
                request_charge: rounded(written.charge),
                e_tag: with_item.then(|| written.item.etag.clone()),
                resource_body: with_item
                    .then(|| RawValue::from_string(text.to_owned()).ok())
                    .flatten(),
                ..BatchResult::default()
            }
        }
        Err(error) => BatchResult {
            status_code: error.status.code(),
            sub_status_code: Some(error.status.sub_status()).filter(|sub| *sub != 0),
            request_charge: charge::MINIMUM,
            retry_after_milliseconds: error.retry_after.map(|wait| wait.as_millis() as u64),
            ..BatchResult::default()
        },
    }
}

fn rounded(charge: f64) -> f64 {
    (charge * 100.0).round() / 100.0
}

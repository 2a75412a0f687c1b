//! Batches: several operations in one request, atomic (transactional batch) or independent (bulk).

use std::sync::Arc;

use serde_json::value::RawValue;
use sidereal_protocol::{
    BatchOperation, BatchOperationType, BatchResult, CosmosStatus, MAX_BATCH_BYTES, PartitionKey,
    PatchDocument, parse_batch,
};

use super::items::{PartitionHeaders, draft_of, effective_key_of, name_of, parse_body, patch_item};
use super::target::Target;
use crate::charge;
use crate::error::{Result, ServiceError};
use crate::reply::Reply;
use crate::request::ClassifiedRequest;
use crate::state::AccountState;
use crate::store::{
    Container, Definition, ItemName, ItemResult, Outcome, Partition, ReplicaProgress, Transaction,
    WriteCondition,
};
use sidereal_protocol::headers::names as headers;

/// The most bytes of the items in a batch's answer: as many as in a page. A batch of reads, or of patches of
/// large items, would be answered with a hundred times the largest item otherwise.
const MAX_ANSWER_BYTES: usize = 4 * 1024 * 1024;

/// Runs a batch.
pub(crate) fn run(account: &AccountState, request: &ClassifiedRequest) -> Result<Reply> {
    let container = request.intended_container()?;
    if request.body.len() > MAX_BATCH_BYTES {
        return Err(ServiceError::too_large());
    }
    let operations = parse_batch(&request.json_body()?)?;
    let definition = container.definition();
    let batch = Batch {
        account,
        request,
        container,
        definition: &definition,
        operations: &operations,
        prefers_minimal: request.typed().prefers_minimal()?,
    };
    if request.typed().is_batch_atomic()? { batch.transactional() } else { batch.bulk() }
}

struct Batch<'a> {
    account: &'a AccountState,
    request: &'a ClassifiedRequest,
    container: &'a Container,
    definition: &'a Definition,
    operations: &'a [BatchOperation],
    /// `Prefer: return=minimal` of the request.
    prefers_minimal: bool,
}

/// The outcome of one operation.
type OperationResult = std::result::Result<ItemResult, ServiceError>;

impl Batch<'_> {
    /// All operations or none, under one partition key and one log sequence number.
    fn transactional(&self) -> Result<Reply> {
        let key = self.request.required_partition_key()?;
        let effective_key = effective_key_of(self.definition, &key)?;
        let partition = self.container.partition_of(&effective_key);
        self.account.admit(self.request, self.container, &partition)?;
        let context = self.account.write_context(self.request, &partition)?;
        let mut outcomes: Vec<OperationResult> = Vec::with_capacity(self.operations.len());
        let mut room = MAX_ANSWER_BYTES;
        let decided =
            self.container.transact(&effective_key, self.definition, &context, |transaction| {
                for operation in self.operations {
                    outcomes.push(self.decide(transaction, operation, &key, &mut room));
                    if outcomes.last().is_some_and(Result::is_err) {
                        // The transaction is dropped, and with it what the operations before wrote.
                        return Err(());
                    }
                }
                Ok(())
            });
        if let Some(Err(error)) = outcomes.last()
            && error.status == CosmosStatus::BATCH_RESPONSE_SIZE_EXCEEDED
        {
            return Err(ServiceError::batch_response_too_large());
        }
        // 207 tells a failed batch from a committed one; SDKs look for the operation that is not 424.
        let failed = decided.decision.is_err();
        let results = if failed { self.rolled_back(&outcomes) } else { results_of(&outcomes) };
        let status = if failed { CosmosStatus::MULTI_STATUS } else { CosmosStatus::OK };
        self.reply(status, results, &decided.partition, decided.progress)
    }

    /// Each operation as a transaction of its own, under the key it names.
    fn bulk(&self) -> Result<Reply> {
        let target = Target::of(self.request, self.container, self.definition)?;
        let addressed = target.slices().first().map(|slice| slice.partition.clone());
        let go_on = self.request.typed().batch_continues_on_error()?;
        let header_key = self.request.partition_key()?;
        let mut outcomes: Vec<OperationResult> = Vec::with_capacity(self.operations.len());
        let mut room = MAX_ANSWER_BYTES;
        for operation in self.operations {
            let stop = !go_on && outcomes.last().is_some_and(Result::is_err);
            outcomes.push(match stop {
                true => Err(ServiceError::new(
                    CosmosStatus::FAILED_DEPENDENCY,
                    "An operation before failed.",
                )),
                false => self.single(operation, header_key.as_ref(), &target, &mut room),
            });
        }
        let partition = addressed.unwrap_or_else(|| self.container.partitions()[0].clone());
        let progress = ReplicaProgress::of(&self.request.view(&partition));
        let failed = outcomes.iter().any(Result::is_err);
        let status = if failed { CosmosStatus::MULTI_STATUS } else { CosmosStatus::OK };
        self.reply(status, results_of(&outcomes), &partition, progress)
    }

    /// One operation of a bulk request, as a transaction of its own.
    fn single(
        &self,
        operation: &BatchOperation,
        header: Option<&PartitionKey>,
        target: &Target,
        room: &mut usize,
    ) -> OperationResult {
        let key = operation.partition_key.as_ref().or(header).ok_or_else(|| {
            ServiceError::bad_request(
                "The operation names no partitionKey and the request has none.",
            )
        })?;
        let effective_key = effective_key_of(self.definition, key)?;
        let partition = self.container.partition_of(&effective_key);
        // Bulk clients group operations by range; a stale routing map puts some into the wrong group.
        let addressed = target.slices().iter().any(|slice| slice.partition.id == partition.id);
        if !addressed {
            let message = "The operation's partition key belongs to another partition key range.";
            return Err(ServiceError::new(CosmosStatus::PARTITION_KEY_RANGE_GONE, message));
        }
        let now = self.request.now;
        self.account.admit(self.request, self.container, &partition)?;
        let context = self.account.write_context(self.request, &partition)?;
        let decided =
            self.container.transact(&effective_key, self.definition, &context, |transaction| {
                self.decide(transaction, operation, key, room)
            });
        self.account.spend(&decided.partition, now, charge_of(&decided.decision));
        decided.decision
    }

    /// Decides on an operation whose item fits into what is left of the answer. Refused within the transaction,
    /// so that what cannot be answered is not written either.
    fn decide(
        &self,
        transaction: &mut Transaction<'_>,
        operation: &BatchOperation,
        key: &PartitionKey,
        room: &mut usize,
    ) -> OperationResult {
        let written = self.decide_freely(transaction, operation, key)?;
        let answered = match written.outcome {
            Outcome::Deleted => 0,
            Outcome::Created | Outcome::Replaced if self.is_minimal(operation) => 0,
            Outcome::Created | Outcome::Replaced | Outcome::Read => written.item.size(),
        };
        *room = room.checked_sub(answered).ok_or_else(ServiceError::batch_response_too_large)?;
        Ok(written)
    }

    fn decide_freely(
        &self,
        transaction: &mut Transaction<'_>,
        operation: &BatchOperation,
        key: &PartitionKey,
    ) -> OperationResult {
        let body = || parse_body(operation.resource_body.as_deref());
        let name = || -> Result<ItemName> {
            let id = operation.id.as_deref().ok_or_else(|| {
                ServiceError::bad_request("The operation has no id; name the item it is about.")
            })?;
            name_of(self.definition, key.clone(), id.into())
        };
        let conditions = WriteCondition {
            if_match: operation.if_match.clone(),
            if_none_match: operation.if_none_match.clone(),
        };
        let outcome = match operation.operation_type {
            BatchOperationType::Create => {
                transaction.create(draft_of(self.definition, body()?, key)?)
            }
            BatchOperationType::Upsert => {
                transaction.upsert(draft_of(self.definition, body()?, key)?, &conditions)
            }
            BatchOperationType::Replace => {
                transaction.replace(&name()?, draft_of(self.definition, body()?, key)?, &conditions)
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
                    self.request.now,
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

    /// The failed operation keeps its status, all others failed because of it.
    fn rolled_back(&self, outcomes: &[OperationResult]) -> Vec<BatchResult> {
        let dependent = || BatchResult {
            status_code: CosmosStatus::FAILED_DEPENDENCY.code(),
            ..BatchResult::default()
        };
        let failed = outcomes.len().saturating_sub(1);
        (0..self.operations.len())
            .map(|index| match outcomes.get(index) {
                Some(result) if index == failed => result_of(result),
                _ => dependent(),
            })
            .collect()
    }

    /// Whether the item of a write is left out: .NET says so of an operation, JavaScript of the request.
    fn is_minimal(&self, operation: &BatchOperation) -> bool {
        self.prefers_minimal || operation.minimal_return_preference
    }

    /// Leaves out the items of writes that prefer it; reads keep theirs.
    fn drop_written_bodies(&self, results: &mut [BatchResult]) {
        for (operation, result) in self.operations.iter().zip(results) {
            let is_read = operation.operation_type == BatchOperationType::Read;
            if self.is_minimal(operation) && !is_read {
                result.resource_body = None;
            }
        }
    }

    fn reply(
        &self,
        status: CosmosStatus,
        mut results: Vec<BatchResult>,
        partition: &Arc<Partition>,
        progress: ReplicaProgress,
    ) -> Result<Reply> {
        let charge: f64 = results.iter().map(|result| result.request_charge).sum();
        if self.request.typed().is_batch_atomic()? {
            self.account.spend(partition, self.request.now, charge);
        }
        self.drop_written_bodies(&mut results);
        let body = serde_json::to_vec(&results).unwrap_or_default();
        let partition_headers = PartitionHeaders {
            request: self.request,
            container: self.container,
            partition,
            progress,
        };
        let reply = Reply::bytes(status, body.into()).charged(charge.max(charge::MINIMUM));
        Ok(partition_headers.add_to(reply).with(headers::ITEM_COUNT, results.len()))
    }
}

fn results_of(outcomes: &[OperationResult]) -> Vec<BatchResult> {
    outcomes.iter().map(result_of).collect()
}

fn charge_of(result: &OperationResult) -> f64 {
    result.as_ref().map_or(charge::MINIMUM, |written| written.charge)
}

fn result_of(result: &OperationResult) -> BatchResult {
    match result {
        Ok(written) => {
            let (code, with_item) = match written.outcome {
                Outcome::Created => (CosmosStatus::CREATED, true),
                Outcome::Replaced | Outcome::Read => (CosmosStatus::OK, true),
                Outcome::Deleted => (CosmosStatus::NO_CONTENT, false),
            };
            let text = std::str::from_utf8(&written.item.text).unwrap_or_default();
            BatchResult {
                status_code: code.code(),
                request_charge: charge::rounded(written.charge),
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

//! Several operations on one partition key, all or none of them.

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use sidereal_driver::diagnostics::DiagnosticsContext;
use sidereal_driver::{CosmosOperation, CosmosResponse};
use sidereal_protocol::headers::ResponseHeaders;
use sidereal_protocol::{
    BatchOperation, BatchOperationType, BatchResult, CosmosStatus, Etag, MAX_BATCH_BYTES,
    MAX_BATCH_OPERATIONS, PartitionKey, RegionName, ResourceLink, ResourceType, SessionToken,
    check_id,
};

use crate::batch_failure::BatchFailure;
use crate::item_body::{encode, encode_item};
use crate::response::decode;
use crate::{Error, Patch, Response, Result};

/// Operations on the items of one partition key that are applied together, all or none. At most a hundred, of
/// two megabytes together.
///
/// ```no_run
/// # async fn move_money(accounts: sidereal::ContainerClient) -> sidereal::Result<()> {
/// use serde_json::json;
/// use sidereal::prelude::*;
///
/// let batch = TransactionalBatch::new("contoso")
///     .patch_item("giro", Patch::new().increment("/balance", -10), None)
///     .patch_item("savings", Patch::new().increment("/balance", 10), None)
///     .create_item(json!({"id": "transfer-1", "customer": "contoso", "amount": 10}));
/// let response = accounts.execute_batch(batch, None).await?;
/// println!("{} RU for {} operations", response.request_charge(), response.results().len());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use]
pub struct TransactionalBatch {
    key: PartitionKey,
    operations: Vec<BatchOperation>,
    /// The first operation that cannot be sent; told when the batch is.
    refused: Option<Error>,
}

/// Conditions of one operation of a batch.
#[derive(Clone, Debug, Default)]
pub struct BatchItemOptions {
    /// The operation is applied only if the item still has this version.
    pub if_match_etag: Option<Etag>,
    /// The operation is applied only if the item no longer has this version.
    pub if_none_match_etag: Option<Etag>,
}

impl TransactionalBatch {
    /// A batch on the items of a partition key, without operations yet.
    pub fn new(key: impl Into<PartitionKey>) -> Self {
        Self { key: key.into(), operations: Vec::new(), refused: None }
    }

    /// Creates an item; there must be none of its id.
    pub fn create_item(self, item: impl Serialize) -> Self {
        self.with(BatchOperationType::Create, None, Some(encode_item(&item)), None)
    }

    /// Creates an item, or replaces the one of its id.
    pub fn upsert_item(self, item: impl Serialize, options: Option<BatchItemOptions>) -> Self {
        self.with(BatchOperationType::Upsert, None, Some(encode_item(&item)), options)
    }

    /// Replaces an item.
    pub fn replace_item(
        self,
        id: &str,
        item: impl Serialize,
        options: Option<BatchItemOptions>,
    ) -> Self {
        self.with(BatchOperationType::Replace, Some(id), Some(encode_item(&item)), options)
    }

    /// Reads an item.
    pub fn read_item(self, id: &str, options: Option<BatchItemOptions>) -> Self {
        self.with(BatchOperationType::Read, Some(id), None, options)
    }

    /// Deletes an item.
    pub fn delete_item(self, id: &str, options: Option<BatchItemOptions>) -> Self {
        self.with(BatchOperationType::Delete, Some(id), None, options)
    }

    /// Changes parts of an item.
    pub fn patch_item(self, id: &str, patch: Patch, options: Option<BatchItemOptions>) -> Self {
        self.with(BatchOperationType::Patch, Some(id), Some(patch.encode()), options)
    }

    /// How many operations it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.operations.len()
    }

    /// Whether it has no operations.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    fn with(
        mut self,
        operation_type: BatchOperationType,
        id: Option<&str>,
        body: Option<Result<Bytes>>,
        options: Option<BatchItemOptions>,
    ) -> Self {
        let mut operation = BatchOperation::new(operation_type);
        let options = options.unwrap_or_default();
        operation.id = id.map(str::to_owned);
        (operation.if_match, operation.if_none_match) =
            (options.if_match_etag, options.if_none_match_etag);
        let id = id.map_or(Ok(()), |id| check_id(ResourceType::Document, id).map_err(Error::from));
        let body = body.transpose().and_then(|body| body.as_deref().map(raw).transpose());
        match (id, body) {
            (Ok(()), Ok(body)) => operation.resource_body = body,
            (Err(error), _) | (_, Err(error)) => {
                let sentence = format!("operation {} of the batch: {error}", self.operations.len());
                self.refused.get_or_insert(Error::invalid(sentence));
            }
        }
        self.operations.push(operation);
        self
    }

    /// The request, and what it is about.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest) if the batch is empty, has too many operations, is too
    /// large, or one of its operations is malformed.
    pub(crate) fn into_operation(
        mut self,
        container: &ResourceLink,
        wants_items: bool,
    ) -> Result<(CosmosOperation, Vec<BatchOperation>)> {
        for operation in &mut self.operations {
            let has_item = is_answered_with_item(operation.operation_type);
            operation.minimal_return_preference = has_item && !wants_items;
        }
        if let Some(refused) = self.refused {
            return Err(refused);
        }
        match self.operations.len() {
            0 => return Err(Error::invalid("the batch has no operations: give it at least one")),
            1..=MAX_BATCH_OPERATIONS => {}
            count => {
                return Err(Error::invalid(format!(
                    "the batch has {count} operations: the service takes at most \
                     {MAX_BATCH_OPERATIONS} that are applied together"
                )));
            }
        }
        let body = encode(&self.operations)?;
        if body.len() > MAX_BATCH_BYTES {
            return Err(Error::invalid(format!(
                "the batch is {} bytes long: the service takes at most {MAX_BATCH_BYTES} that are applied \
                 together",
                body.len()
            )));
        }
        let mut operation = CosmosOperation::execute_batch(container, self.key, body)?;
        if self.operations.iter().all(BatchOperation::is_idempotent) {
            operation = operation.repeatable();
        }
        // All or none are applied, so one condition guards them all.
        if self.operations.iter().any(BatchOperation::is_conditional) {
            operation = operation.conditional();
        }
        Ok((operation, self.operations))
    }
}

/// Whether a write is answered with its item, unless it says that it is not to be.
pub(crate) fn is_answered_with_item(operation: BatchOperationType) -> bool {
    match operation {
        BatchOperationType::Create
        | BatchOperationType::Upsert
        | BatchOperationType::Replace
        | BatchOperationType::Patch => true,
        BatchOperationType::Read | BatchOperationType::Delete => false,
    }
}

fn raw(json: &[u8]) -> Result<Box<RawValue>> {
    decode(json)
}

/// The results of a batch that was applied.
#[derive(Debug)]
pub struct BatchResponse {
    response: Response,
    results: Vec<BatchOperationResult>,
}

impl BatchResponse {
    /// Reads the response to a batch.
    pub(crate) fn of(response: CosmosResponse, operations: &[BatchOperation]) -> Result<Self> {
        let is_write = operations.iter().any(|it| it.operation_type != BatchOperationType::Read);
        let unreadable =
            |message: String| Error::unreadable(message, is_write, response.diagnostics());
        let results: Vec<BatchResult> =
            decode(response.body()).map_err(|error| unreadable(error.to_string()))?;
        if results.len() != operations.len() {
            return Err(unreadable(format!(
                "the service answered a batch of {} operations with {} results",
                operations.len(),
                results.len()
            )));
        }
        // Those that were not carried out because of another are told apart by their code, 424.
        let failed = |result: &BatchResult| {
            !result.status().is_success()
                && !result.status().is_not_modified()
                && result.status_code != http::StatusCode::FAILED_DEPENDENCY.as_u16()
        };
        if let Some(index) = results.iter().position(failed) {
            let diagnostics = response.diagnostics().clone();
            return Err(Error::of_batch(BatchFailure {
                index,
                of: operations.len(),
                operation: operations[index].operation_type,
                id: operations[index].id.clone(),
                status: results[index].status(),
                diagnostics,
            }));
        }
        let results = results.into_iter().map(BatchOperationResult).collect();
        Ok(Self { response: Response::new(response), results })
    }

    /// The results, in the order of the operations.
    #[must_use]
    pub fn results(&self) -> &[BatchOperationResult] {
        &self.results
    }

    /// The results, taken.
    #[must_use]
    pub fn into_results(self) -> Vec<BatchOperationResult> {
        self.results
    }

    /// The cost in request units, of every attempt that was made.
    #[must_use]
    pub fn request_charge(&self) -> f64 {
        self.response.request_charge()
    }

    /// The session token after this response.
    #[must_use]
    pub fn session_token(&self) -> Option<SessionToken> {
        self.response.session_token()
    }

    /// The id by which the service knows the request.
    #[must_use]
    pub fn activity_id(&self) -> Option<&str> {
        self.response.activity_id()
    }

    /// The region that served the batch.
    #[must_use]
    pub fn region(&self) -> Option<&RegionName> {
        self.response.region()
    }

    /// The headers, read as what they mean.
    #[must_use]
    pub fn headers(&self) -> ResponseHeaders<'_> {
        self.response.headers()
    }

    /// The attempts of the call, with their regions, statuses and times.
    #[must_use]
    pub fn diagnostics(&self) -> &DiagnosticsContext {
        self.response.diagnostics()
    }
}

/// The result of one operation of a batch.
#[derive(Clone, Debug)]
pub struct BatchOperationResult(pub(crate) BatchResult);

impl BatchOperationResult {
    /// Code and sub-status.
    #[must_use]
    pub fn status(&self) -> CosmosStatus {
        self.0.status()
    }

    /// Its part of the cost, in request units.
    #[must_use]
    pub fn request_charge(&self) -> f64 {
        self.0.request_charge
    }

    /// The version of the item.
    #[must_use]
    pub fn etag(&self) -> Option<&Etag> {
        self.0.e_tag.as_ref()
    }

    /// The item, where it came back: a read's always, a write's with `content_response_on_write`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidResponse`](crate::ErrorKind::InvalidResponse) if the result has no item, or the item does not deserialize
    /// as `M`.
    pub fn model<M: DeserializeOwned>(&self) -> Result<M> {
        decode(self.0.resource_body.as_ref().map_or(&[], |body| body.get().as_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ErrorKind;

    fn orders() -> ResourceLink {
        ResourceLink::container("store", "orders").unwrap()
    }

    fn of(count: usize) -> TransactionalBatch {
        (0..count).fold(TransactionalBatch::new("contoso"), |batch, n| {
            batch.upsert_item(json!({"id": n.to_string()}), None)
        })
    }

    #[test]
    fn a_batch_beyond_the_limits_is_refused_before_it_is_sent() {
        assert!(of(100).into_operation(&orders(), true).is_ok());
        let large = json!({"id": "1", "text": "x".repeat(1_500_000)});
        let large = of(0).create_item(&large).create_item(&large);
        for (batch, expected) in [(of(0), "no operations"), (of(101), "101"), (large, "2097152")] {
            let error = batch.into_operation(&orders(), true).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidRequest);
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn an_operation_that_cannot_be_sent_is_named_by_its_position() {
        for batch in [
            of(2).read_item("a/b", None),
            of(2).create_item(json!({"no": "id"})),
            of(2).patch_item("1", Patch::new(), None),
        ] {
            let error = batch.into_operation(&orders(), true).unwrap_err();
            assert!(error.to_string().starts_with("operation 2 of the batch"), "{error}");
        }
    }

    #[test]
    fn a_batch_is_repeatable_unless_a_patch_in_it_is_not_idempotent() {
        let repeatable = |batch: TransactionalBatch| {
            batch.into_operation(&orders(), true).unwrap().0.is_repeatable()
        };
        assert!(repeatable(of(2).delete_item("7", None)));
        assert!(!repeatable(of(1).patch_item("1", Patch::new().increment("/n", 1), None)));
    }
}

//! The container: reads, queries and batches, with the patience that the runtime does not have.
//!
//! The driver below retries, fails over and keeps the session. What is left is here: waiting on when its budgets
//! are used up, and telling a commit that may have happened from one that did not.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use sidereal::prelude::*;
use sidereal::{BatchItemOptions, BatchOperationResult};

use crate::clock::ProviderClock;
use crate::failure::{Cause, Failure};
use crate::meter;
use crate::region::RequestTerms;
use crate::telemetry::{Retried, Telemetry};
use crate::write::{Change, Write, asks_for_version};

/// The first pause after a request that did not happen; each next one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The container that everything is stored in.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    container: ContainerClient,
    clock: ProviderClock,
    terms: Arc<ArcSwap<RequestTerms>>,
    /// How many batches were written, or may have been.
    written: Arc<AtomicU64>,
    /// What the application sees of the provider.
    pub(crate) telemetry: Telemetry,
}

/// What a query is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scope<'a> {
    /// The documents of one instance or session.
    Partition(&'a str),
    /// All documents.
    Everything,
}

impl Store {
    pub(crate) fn new(
        container: ContainerClient,
        clock: ProviderClock,
        terms: RequestTerms,
    ) -> Self {
        let terms = Arc::new(ArcSwap::from_pointee(terms));
        let (written, telemetry) = (Arc::default(), Telemetry::default());
        Self { container, clock, terms, written, telemetry }
    }

    /// How many batches this process has written: if it has not changed, nothing was.
    pub(crate) fn written(&self) -> u64 {
        // Relaxed: the batch that a caller knows to be written was counted before it was told.
        self.written.load(Ordering::Relaxed)
    }

    /// Has the next requests ask for something else.
    pub(crate) fn set_terms(&self, terms: RequestTerms) {
        self.terms.store(Arc::new(terms));
    }

    pub(crate) fn clock(&self) -> &ProviderClock {
        &self.clock
    }

    pub(crate) fn now(&self) -> i64 {
        self.clock.now()
    }

    /// Reads a document; none if there is none.
    pub(crate) async fn read<T: DeserializeOwned>(
        &self,
        partition: &str,
        id: &str,
    ) -> Result<Option<T>, Failure> {
        let (sent, options) = (self.clock.machine_time(), self.terms.load().item());
        let response = self.container.read_item(partition, id, options).await;
        match self.counted(response) {
            Ok(response) => {
                self.clock.observe_response(sent, &response);
                response.into_model().map(Some).map_err(Failure::of_read)
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Failure::of_read(error)),
        }
    }

    /// Changes a document. Says what it is then.
    pub(crate) async fn patch<T: DeserializeOwned>(
        &self,
        partition: &str,
        id: &str,
        patch: Patch,
    ) -> Result<T, Failure> {
        let mut options = self.terms.load().item().unwrap_or_default();
        options.write.content_response_on_write = Some(true);
        let sent = self.clock.machine_time();
        let response = self.container.patch_item(partition, id, patch, Some(options)).await;
        let response = self.counted(response).map_err(Failure::of_write)?;
        self.clock.observe_response(sent, &response);
        response.into_model().map_err(Failure::of_read)
    }

    /// Creates a document.
    pub(crate) async fn create(
        &self,
        partition: &str,
        document: &impl serde::Serialize,
    ) -> Result<(), Failure> {
        let options = self.terms.load().item();
        let response = self.container.create_item(partition, document, options).await;
        self.counted(response).map(drop).map_err(Failure::of_write)
    }

    /// A page of a query, with what it cost taken note of.
    pub(crate) fn counted_page<T>(
        &self,
        page: sidereal::Result<QueryPage<T>>,
    ) -> Result<QueryPage<T>, Failure> {
        match page {
            Ok(page) => {
                self.count_page(&page);
                Ok(page)
            }
            Err(error) => {
                meter::count_error(&error);
                Err(Failure::of_read(error))
            }
        }
    }

    pub(crate) fn count_page<T>(&self, page: &QueryPage<T>) {
        meter::count(page.requests(), page.request_charge());
    }

    fn counted<T>(
        &self,
        response: sidereal::Result<sidereal::Response<T>>,
    ) -> sidereal::Result<sidereal::Response<T>> {
        match &response {
            Ok(response) => {
                meter::count(response.diagnostics().attempts().len(), response.request_charge());
            }
            Err(error) => meter::count_error(error),
        }
        response
    }

    /// A query, to be run.
    pub(crate) fn query(
        &self,
        scope: Scope<'_>,
        text: &str,
        parameters: &[(&str, Value)],
    ) -> sidereal::query::Query {
        let mut query = self.container.query(text).with_options(self.terms.load().query());
        for (name, value) in parameters {
            query = query.with_parameter(name, value);
        }
        match scope {
            Scope::Partition(partition) => query.with_partition_key(partition),
            Scope::Everything => query,
        }
    }

    /// The rows of a query that are documents of a type. One that cannot be read is told and left out: it must not
    /// stop the others.
    pub(crate) async fn documents<T: DeserializeOwned>(
        &self,
        scope: Scope<'_>,
        text: &str,
        parameters: &[(&str, Value)],
    ) -> Result<Vec<T>, Failure> {
        let rows: Vec<Value> = self.values(scope, text, parameters).await?;
        Ok(rows.into_iter().filter_map(|row| self.readable(row)).collect())
    }

    /// A document, if it is one of the type; if not, that is told.
    pub(crate) fn readable<T: DeserializeOwned>(&self, row: Value) -> Option<T> {
        let text =
            |name: &str| row.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (id, instance) = (text("id"), text("instanceId"));
        match serde_json::from_value(row) {
            Ok(document) => Some(document),
            Err(error) => {
                tracing::error!(id, instance, %error, "a document cannot be read and is left out");
                None
            }
        }
    }

    /// The rows of a query.
    pub(crate) async fn values<T: DeserializeOwned>(
        &self,
        scope: Scope<'_>,
        text: &str,
        parameters: &[(&str, Value)],
    ) -> Result<Vec<T>, Failure> {
        let mut pages = self.query(scope, text, parameters).pages::<T>();
        let mut rows = Vec::new();
        while let Some(page) = pages.next().await {
            rows.extend(self.counted_page(page)?.into_items());
        }
        Ok(rows)
    }

    /// Applies changes to a partition, all or none, once: no waiting.
    pub(crate) async fn write_once(
        &self,
        partition: &str,
        writes: &[Write],
    ) -> Result<Vec<BatchOperationResult>, Failure> {
        self.execute(writes, || writes.iter().fold(TransactionalBatch::new(partition), add)).await
    }

    /// The same, and reads a document of the partition, which must be there. It is none if it cannot be read.
    pub(crate) async fn write_and_read<T: DeserializeOwned>(
        &self,
        partition: &str,
        writes: &[Write],
        id: &str,
    ) -> Result<(Vec<BatchOperationResult>, Option<T>), Failure> {
        let batch = || {
            let batch = writes.iter().fold(TransactionalBatch::new(partition), add);
            batch.read_item(id, None)
        };
        let results = self.execute(writes, batch).await?;
        let document = results.last().and_then(|read| read.model().ok());
        Ok((results, document))
    }

    /// Sends a batch, and once more if its answer was lost and it cannot be applied twice: mostly it was not applied.
    async fn execute(
        &self,
        writes: &[Write],
        batch: impl Fn() -> TransactionalBatch,
    ) -> Result<Vec<BatchOperationResult>, Failure> {
        match self.send(batch()).await {
            Err(failure) if failure.cause == Cause::Ambiguous && asks_for_version(writes) => {
                // Whatever the second one is refused for, the first one may have done.
                self.send(batch()).await.map_err(|_| failure)
            }
            sent => sent,
        }
    }

    async fn send(&self, batch: TransactionalBatch) -> Result<Vec<BatchOperationResult>, Failure> {
        let response = self.container.execute_batch(batch, self.terms.load().item()).await;
        self.written.fetch_add(1, Ordering::Relaxed);
        match &response {
            Ok(response) => {
                meter::count(response.diagnostics().attempts().len(), response.request_charge());
            }
            Err(error) => meter::count_error(error),
        }
        response.map(sidereal::BatchResponse::into_results).map_err(Failure::of_write)
    }

    /// Applies changes to a partition, all or none. What did not happen is tried again until a moment has come.
    pub(crate) async fn write(
        &self,
        partition: &str,
        writes: &[Write],
        until: i64,
    ) -> Result<Vec<BatchOperationResult>, Failure> {
        let mut pause = FIRST_PAUSE;
        loop {
            let failure = match self.write_once(partition, writes).await {
                Ok(results) => return Ok(results),
                Err(failure) => failure,
            };
            let is_over = self.now().saturating_add(millis(pause)) >= until;
            if failure.cause != Cause::Transient || is_over {
                return Err(failure);
            }
            self.telemetry.retried(Retried::Write);
            tracing::debug!(partition, error = %failure.error(), "a batch is tried again");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// A duration as the documents count.
pub(crate) fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

fn add(batch: TransactionalBatch, write: &Write) -> TransactionalBatch {
    let matching = |etag: &Option<Etag>| {
        etag.clone()
            .map(|etag| BatchItemOptions { if_match_etag: Some(etag), ..Default::default() })
    };
    match &write.change {
        Change::Create(document) => batch.create_item(raw(document)),
        Change::Upsert(document) => batch.upsert_item(raw(document), None),
        Change::Replace { document, if_match } => {
            batch.replace_item(&write.id, raw(document), matching(if_match))
        }
        Change::Lock { token, until, attempts, visible_at, if_match } => {
            let patch = Patch::new().set("/lockToken", token).set("/lockedUntil", until);
            let patch = match attempts {
                0 => patch,
                attempts => patch.increment("/attemptCount", *attempts),
            };
            let patch = match visible_at {
                Some(visible_at) => patch.set("/visibleAt", visible_at),
                None => patch,
            };
            batch.patch_item(&write.id, patch, matching(if_match))
        }
        Change::Delete { if_match } => batch.delete_item(&write.id, matching(if_match)),
    }
}

fn raw(document: &str) -> &RawValue {
    serde_json::from_str(document).expect("what was written as JSON is JSON")
}

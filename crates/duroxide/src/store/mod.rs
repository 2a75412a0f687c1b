//! The container: reads, queries and batches, retried for longer than the runtime would.
//!
//! The driver below retries, fails over and keeps the session. What is left is here: waiting on when its budgets
//! are used up, and telling a commit that may have happened from one that did not.

mod events;
mod instances;
mod payloads;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use sidereal::driver::diagnostics::DiagnosticsContext;
use sidereal::prelude::*;
use sidereal::query::PageStream;
use sidereal::{BatchItemOptions, BatchOperationResult};
use tokio::sync::Notify;

use crate::clock::ProviderClock;
use crate::failure::{Cause, Failure};
use crate::meter;
use crate::outage::Outages;
use crate::region::RequestTerms;
use crate::telemetry::{Retried, Telemetry};
use crate::write::{Change, Write, asks_for_version};

/// The first pause after a request that did not happen; each next one is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
// Below the grace that holders of locks have after an outage.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The container that everything is stored in.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    container: ContainerClient,
    clock: ProviderClock,
    terms: Arc<ArcSwap<RequestTerms>>,
    /// Whether requests other than writes are brief too.
    is_brief: bool,
    outages: Arc<Outages>,
    /// A request failed that the driver has not sent.
    not_sent: Arc<Notify>,
    /// How many batches were written, or may have been.
    written: Arc<AtomicU64>,
    /// The instruments of the provider.
    pub(crate) telemetry: Telemetry,
}

/// The documents that a query covers.
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
        let (outages, not_sent, is_brief) = (Arc::default(), Arc::default(), false);
        Self { container, clock, terms, is_brief, outages, not_sent, written, telemetry }
    }

    pub(crate) fn container(&self) -> &ContainerClient {
        &self.container
    }

    /// Waits until a request fails that the driver has not sent: perhaps the account is not what the provider expects.
    pub(crate) async fn request_was_not_sent(&self) {
        self.not_sent.notified().await;
    }

    /// A store for requests that hold up a lock: the driver gives up soon.
    pub(crate) fn brief(&self) -> Self {
        Self { is_brief: true, ..self.clone() }
    }

    fn terms(&self) -> RequestTerms {
        let terms = self.terms.load();
        if self.is_brief { terms.brief() } else { RequestTerms::clone(&terms) }
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

    /// The time by which locks of others are judged: it stands still while the account does not answer.
    pub(crate) fn lock_time(&self) -> i64 {
        self.outages.lock_time(self.now())
    }

    /// Records what a response says of the clock, and that the account answers. It may have taken the driver several
    /// attempts, which tells of an outage too.
    fn answered(&self, sent: i64, date: Option<SystemTime>, diagnostics: &[&DiagnosticsContext]) {
        self.clock.observe(sent, date);
        let has_failed = |it: &&DiagnosticsContext| {
            it.attempts().len() > 1 && it.attempts().iter().any(|it| it.failure.is_some())
        };
        if diagnostics.iter().any(has_failed) {
            self.outage(sent);
        }
        self.outages.succeeded(self.now());
    }

    /// Records that a request failed which was sent at a machine time.
    fn outage(&self, sent: i64) {
        let (took, now) = (self.clock.machine_time().saturating_sub(sent), self.now());
        self.outages.failed(now.saturating_sub(took), now);
    }

    /// Records whether the account has answered with an error, or not at all.
    fn failed(&self, sent: i64, failure: &Failure) {
        if failure.cause == Cause::Transient && failure.was_not_sent() {
            self.not_sent.notify_one();
        }
        match failure.cause {
            Cause::Transient | Cause::Ambiguous => self.outage(sent),
            Cause::Conflict | Cause::NotFound | Cause::PreconditionFailed | Cause::Refused => {
                self.outages.succeeded(self.now());
            }
        }
    }

    /// Reads a document; none if there is none.
    pub(crate) async fn read<T: DeserializeOwned>(
        &self,
        partition: &str,
        id: &str,
    ) -> Result<Option<T>, Failure> {
        let (sent, options) = (self.clock.machine_time(), self.terms().item());
        let response = self.container.read_item(partition, id, options).await;
        match self.counted(sent, response, Failure::of_read) {
            Ok(response) => response.into_model().map(Some).map_err(Failure::of_read),
            Err(failure) if failure.cause == Cause::NotFound => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Repeats something until it succeeds or is refused, or a moment has come.
    pub(crate) async fn patiently<T, F>(
        &self,
        until: i64,
        run: impl Fn() -> F,
    ) -> Result<T, Failure>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let mut pauses = self.pauses();
        loop {
            match run().await {
                Err(failure) if failure.cause == Cause::Transient && self.now() < until => {
                    self.telemetry.retried(Retried::Write);
                    pauses.pause().await;
                }
                done => return done,
            }
        }
    }

    /// The pauses between attempts of something.
    pub(crate) fn pauses(&self) -> Pauses<'_> {
        Pauses { clock: &self.clock, next: FIRST_PAUSE }
    }

    /// Changes a document. Says what it is then.
    pub(crate) async fn patch<T: DeserializeOwned>(
        &self,
        partition: &str,
        id: &str,
        patch: Patch,
    ) -> Result<T, Failure> {
        let mut options = self.terms().item().unwrap_or_default();
        options.write.content_response_on_write = Some(true);
        let sent = self.clock.machine_time();
        let response = self.container.patch_item(partition, id, patch, Some(options)).await;
        let response = self.counted(sent, response, Failure::of_write)?;
        response.into_model().map_err(Failure::of_read)
    }

    /// Creates a document.
    pub(crate) async fn create(
        &self,
        partition: &str,
        document: &impl serde::Serialize,
    ) -> Result<(), Failure> {
        let (sent, options) = (self.clock.machine_time(), self.terms().item());
        let response = self.container.create_item(partition, document, options).await;
        self.counted(sent, response, Failure::of_write).map(drop)
    }

    fn counted<T>(
        &self,
        sent: i64,
        response: sidereal::Result<sidereal::Response<T>>,
        failure: fn(sidereal::Error) -> Failure,
    ) -> Result<sidereal::Response<T>, Failure> {
        match response {
            Ok(response) => {
                meter::count(response.diagnostics().attempts().len(), response.request_charge());
                self.answered(sent, response.headers().date(), &[response.diagnostics()]);
                Ok(response)
            }
            Err(error) => {
                meter::count_error(&error);
                let failure = failure(error);
                self.failed(sent, &failure);
                Err(failure)
            }
        }
    }

    /// A query, page by page.
    pub(crate) fn pages<T: DeserializeOwned>(
        &self,
        scope: Scope<'_>,
        text: &str,
        parameters: &[(&str, Value)],
        page_size: Option<u32>,
    ) -> Pages<T> {
        let mut query = self.query(scope, text, parameters);
        if let Some(page_size) = page_size {
            query = query.with_page_size(page_size);
        }
        let (store, sent) = (self.clone(), self.clock.machine_time());
        Pages { store, sent, pages: query.pages() }
    }

    fn query(
        &self,
        scope: Scope<'_>,
        text: &str,
        parameters: &[(&str, Value)],
    ) -> sidereal::query::Query {
        let mut query = self.container.query(text).with_options(self.terms().query());
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
        let mut pages = self.pages::<T>(scope, text, parameters, None);
        let mut rows = Vec::new();
        while let Some(page) = pages.next().await {
            rows.extend(page?.into_items());
        }
        Ok(rows)
    }

    /// Applies changes to a partition, all or none, once: no waiting.
    pub(crate) async fn write_once(
        &self,
        partition: &str,
        writes: &[Write],
    ) -> Result<Vec<BatchOperationResult>, Failure> {
        let terms = self.terms.load().brief();
        let batch = || writes.iter().fold(TransactionalBatch::new(partition), add);
        self.execute(writes, batch, &terms).await
    }

    /// Renews a lock, once: a request that is not answered is given up soon.
    pub(crate) async fn renew_once(
        &self,
        partition: &str,
        writes: &[Write],
    ) -> Result<Vec<BatchOperationResult>, Failure> {
        let terms = self.terms.load().of_renewal();
        let batch = || writes.iter().fold(TransactionalBatch::new(partition), add);
        self.execute(writes, batch, &terms).await
    }

    /// Applies changes like [`write_once`](Self::write_once), and reads a document of the partition by the same batch. The document
    /// must exist; it is `None` if it cannot be decoded.
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
        let results = self.execute(writes, batch, &self.terms.load().brief()).await?;
        let document = results.last().and_then(|read| read.model().ok());
        Ok((results, document))
    }

    /// Sends a batch, and once more if its answer was lost and it cannot be applied twice: mostly it was not applied.
    async fn execute(
        &self,
        writes: &[Write],
        batch: impl Fn() -> TransactionalBatch,
        terms: &RequestTerms,
    ) -> Result<Vec<BatchOperationResult>, Failure> {
        match self.send(batch(), terms).await {
            Err(failure) if failure.cause == Cause::Ambiguous && asks_for_version(writes) => {
                // Whatever the second one is refused for, the first one may have done.
                self.send(batch(), terms).await.map_err(|_| failure)
            }
            sent => sent,
        }
    }

    async fn send(
        &self,
        batch: TransactionalBatch,
        terms: &RequestTerms,
    ) -> Result<Vec<BatchOperationResult>, Failure> {
        let (sent, options) = (self.clock.machine_time(), terms.item());
        let response = self.container.execute_batch(batch, options).await;
        // Counted before the caller is answered, failed or not. Relaxed: readers compare two values of this counter alone.
        self.written.fetch_add(1, Ordering::Relaxed);
        match response {
            Ok(response) => {
                meter::count(response.diagnostics().attempts().len(), response.request_charge());
                self.answered(sent, response.headers().date(), &[response.diagnostics()]);
                Ok(response.into_results())
            }
            Err(error) => {
                meter::count_error(&error);
                let failure = Failure::of_write(error);
                self.failed(sent, &failure);
                Err(failure)
            }
        }
    }

    /// Applies changes to a partition, all or none. What did not happen is tried again until a moment has come.
    pub(crate) async fn write(
        &self,
        partition: &str,
        writes: &[Write],
        until: i64,
    ) -> Result<Vec<BatchOperationResult>, Failure> {
        self.patiently(until, || self.write_once(partition, writes)).await
    }
}

/// The pages of a query, with their cost counted.
#[derive(Debug)]
pub(crate) struct Pages<T> {
    store: Store,
    /// The machine's time before the first request.
    sent: i64,
    pages: PageStream<T>,
}

impl<T: DeserializeOwned> Pages<T> {
    pub(crate) async fn next(&mut self) -> Option<Result<QueryPage<T>, Failure>> {
        let (store, sent) = (&self.store, self.sent);
        match self.pages.next().await? {
            Ok(page) => {
                meter::count(page.requests(), page.request_charge());
                store.answered(sent, page.date(), &page.diagnostics().iter().collect::<Vec<_>>());
                Some(Ok(page))
            }
            Err(error) => {
                meter::count_error(&error);
                let failure = Failure::of_read(error);
                store.failed(sent, &failure);
                Some(Err(failure))
            }
        }
    }
}

/// Exponential back-off with jitter.
#[derive(Debug)]
pub(crate) struct Pauses<'a> {
    clock: &'a ProviderClock,
    next: Duration,
}

impl Pauses<'_> {
    pub(crate) async fn pause(&mut self) {
        tokio::time::sleep(self.clock.backoff(self.next)).await;
        self.next = (self.next * 2).min(LONGEST_PAUSE);
    }
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
        Change::Lock { token, until, owner, attempts, visible_at, if_match } => {
            let patch = Patch::new().set("/lockToken", token).set("/lockedUntil", until);
            let patch = patch.set("/lockOwner", owner);
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
        Change::Postpone { until, if_match } => {
            let patch = Patch::new().set("/retryAt", until);
            batch.patch_item(&write.id, patch, matching(if_match))
        }
        Change::Delete { if_match } => batch.delete_item(&write.id, matching(if_match)),
    }
}

fn raw(document: &str) -> &RawValue {
    serde_json::from_str(document).expect("what was written as JSON is JSON")
}

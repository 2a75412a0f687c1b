//! Building a bulk: its limits, its callbacks, and the calls that execute it.

use std::fmt;

use futures_core::Stream;
use sidereal_driver::options::ItemOptions;

use super::engine::Engine;
use super::results::ResultHandler;
use super::source::{Iterated, Source};
use super::{BulkOperation, BulkProgress, BulkReport, BulkResult};
use crate::long_call::Call;
use crate::{ContainerClient, Result};

/// Batches under way at once, over all partition ranges.
const MAX_CONCURRENCY: usize = 32;
/// Batches of one partition range under way at once.
const MAX_CONCURRENCY_PER_RANGE: usize = 8;
/// Bytes of operations that were taken and are not over.
const MAX_HELD_BYTES: usize = 32 * 1024 * 1024;

impl ContainerClient {
    /// Many operations on items of any partition keys, each by itself, in as few requests as they fit into.
    ///
    /// ```no_run
    /// # async fn example(orders: sidereal::ContainerClient) -> sidereal::Result<()> {
    /// use sidereal::prelude::*;
    ///
    /// let outdated = ["1", "2", "3"].map(|id| BulkOperation::delete_item("contoso", id));
    /// let report = orders.bulk().execute(outdated).await?;
    /// assert!(report.is_success());
    /// # Ok(())
    /// # }
    /// ```
    pub fn bulk(&self) -> Bulk {
        Bulk::new(self.clone())
    }
}

/// Many operations on the items of a container, of any partition keys: see [`ContainerClient::bulk`].
///
/// Operations are sent in batches of up to a hundred, grouped by partition range, several at once. Each is by itself:
/// one that fails leaves the others as they are. For operations that are applied together or not at all there is
/// [`TransactionalBatch`](crate::TransactionalBatch). Two operations on the same item may be applied in any order.
///
/// ```no_run
/// # async fn load(orders: sidereal::ContainerClient) -> sidereal::Result<()> {
/// use sidereal::prelude::*;
///
/// let operations = (0..10_000).map(|n| {
///     let customer = format!("customer {}", n % 100);
///     let order = serde_json::json!({"id": n.to_string(), "customer": customer, "total": n});
///     BulkOperation::upsert_item(customer, &order)
/// });
/// let report = orders.bulk().execute(operations).await?;
/// println!("{} requests, {} RU", report.requests(), report.request_charge());
/// for failure in report.failures() {
///     println!("{:?}: {:?}", failure.id(), failure.outcome().err());
/// }
/// # Ok(())
/// # }
/// ```
#[must_use = "a bulk does nothing until it is executed"]
pub struct Bulk {
    pub(super) container: ContainerClient,
    pub(super) call: Call,
    pub(super) limits: Limits,
    pub(super) progress: Option<ProgressCallback>,
    pub(super) results: Option<ResultHandler>,
}

pub(super) type ProgressCallback = Box<dyn FnMut(BulkProgress) + Send>;

/// Bounds of a bulk: concurrency and bytes in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) concurrency: usize,
    pub(super) per_range: usize,
    pub(super) held_bytes: usize,
}

impl Bulk {
    pub(crate) fn new(container: ContainerClient) -> Self {
        let limits = Limits {
            concurrency: MAX_CONCURRENCY,
            per_range: MAX_CONCURRENCY_PER_RANGE,
            held_bytes: MAX_HELD_BYTES,
        };
        Self { container, call: Call::default(), limits, progress: None, results: None }
    }

    /// Deadline, cancellation, and what requests ask for. A deadline or timeout is that of the bulk as a whole; when it
    /// passes, what was not sent fails, and nothing more is taken from the input. Conditions are each operation's own.
    pub fn with_options(mut self, options: ItemOptions<'_>) -> Self {
        self.call = Call::on_items(options);
        self
    }

    /// The most batches under way at once: 32 unless set.
    pub fn with_max_concurrency(mut self, batches: usize) -> Self {
        self.limits.concurrency = batches.max(1);
        self
    }

    /// The most batches of one partition range under way at once: 8 unless set. It begins with 2, grows with every
    /// batch that is not throttled and is halved by throttling.
    pub fn with_max_concurrency_per_range(mut self, batches: usize) -> Self {
        self.limits.per_range = batches.max(1);
        self
    }

    /// The most bytes of operations that were taken from the input and are not over: 32 MB unless set. Nothing more is
    /// taken while there are as many.
    pub fn with_max_held_bytes(mut self, bytes: usize) -> Self {
        self.limits.held_bytes = bytes;
        self
    }

    /// Is told how far the bulk is, after each request.
    ///
    /// ```no_run
    /// # async fn load(orders: sidereal::ContainerClient, operations: Vec<sidereal::BulkOperation>) {
    /// let bulk = orders.bulk().with_progress(|progress| {
    ///     println!("{} of {}", progress.succeeded + progress.failed, progress.taken);
    /// });
    /// # let _ = bulk.execute(operations).await;
    /// # }
    /// ```
    pub fn with_progress(mut self, progress: impl FnMut(BulkProgress) + Send + 'static) -> Self {
        self.progress = Some(Box::new(progress));
        self
    }

    /// Gives the result of each operation to a handler when the operation is over, in no order. The report then has the
    /// counters and the first 10,000 failures, and memory is used for what is in flight alone: for inputs of any size.
    ///
    /// ```no_run
    /// # async fn load(orders: sidereal::ContainerClient, operations: Vec<sidereal::BulkOperation>) {
    /// let bulk = orders.bulk().with_results(|result| {
    ///     if let Err(error) = result.outcome() {
    ///         println!("{}: {error}", result.index());
    ///     }
    /// });
    /// # let _ = bulk.execute(operations).await;
    /// # }
    /// ```
    pub fn with_results(mut self, handler: impl FnMut(BulkResult) + Send + 'static) -> Self {
        self.results = Some(Box::new(handler));
        self
    }

    /// Executes operations, which are taken one by one as there is room for them.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if the container does not exist. A failed operation is not an error of
    /// the bulk: it is in that operation's result.
    pub async fn execute(
        self,
        operations: impl IntoIterator<Item = BulkOperation>,
    ) -> Result<BulkReport> {
        self.execute_stream(Iterated(operations.into_iter())).await
    }

    /// Executes the operations of a stream. A batch is sent before it is full when the stream has nothing ready.
    ///
    /// ```no_run
    /// # async fn load(orders: sidereal::ContainerClient) -> sidereal::Result<()> {
    /// # use futures_util::StreamExt;
    /// # use sidereal::prelude::*;
    /// # let lines = futures_util::stream::empty::<serde_json::Value>();
    /// let operations = lines.map(|line| BulkOperation::create_item("contoso", &line));
    /// let report = orders.bulk().execute_stream(operations).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The errors of [`execute`](Self::execute).
    pub async fn execute_stream(
        self,
        operations: impl Stream<Item = BulkOperation>,
    ) -> Result<BulkReport> {
        Engine::new(self, Source::new(operations)).await?.run().await
    }
}

impl fmt::Debug for Bulk {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let container = self.container.id();
        formatter.debug_struct("Bulk").field("container", &container).finish_non_exhaustive()
    }
}

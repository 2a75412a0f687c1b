//! Building a change feed processor, and its handle while it works.

use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use sidereal_driver::ContainerMetadata;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::config::Config;
use super::handler::{Changes, Handler, HandlerError};
use super::lag::estimate;
use super::lease::{LeaseDocument, PROCESSOR_ID, ProcessorDocument};
use super::lease_store::LeaseStore;
use super::partition_processor::WorkerContext;
use super::progress::{Board, RangeLag, RangeProgress};
use super::worker::Worker;
use crate::change_feed::ChangeFeedStart;
use crate::change_feed::request::{NoPage, PageReader};
use crate::change_feed::start::Position;
use crate::long_call::Call;
use crate::query::targets::targets_of;
use crate::{ContainerClient, Error, ErrorKind, Result};

/// How often the ranges of the feed are looked up again because they were split or merged meanwhile.
const MAX_MOVES: usize = 10;

impl ContainerClient {
    /// A processor of the change feed: several workers, each with a part of the container, that take over from each
    /// other. Their leases are in a container of their own, partitioned by `/processor`.
    ///
    /// ```no_run
    /// # async fn example(orders: sidereal::ContainerClient, leases: sidereal::ContainerClient) -> sidereal::Result<()> {
    /// use sidereal::change_feed::processor::Changes;
    ///
    /// let processor = orders.change_feed_processor("billing", &leases);
    /// let worker = processor.start(|changes: Changes<serde_json::Value>| async move {
    ///     println!("{} changes", changes.items().len());
    ///     Ok::<_, std::io::Error>(())
    /// });
    /// let worker = worker.await?;
    /// # worker.stop().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn change_feed_processor(
        &self,
        processor: &str,
        leases: &Self,
    ) -> ChangeFeedProcessorBuilder {
        ChangeFeedProcessorBuilder::new(self.clone(), processor, leases.clone())
    }
}

/// A processor before it starts: see
/// [`ContainerClient::change_feed_processor`].
///
/// ```no_run
/// # async fn bill(order: &serde_json::Value) -> std::io::Result<()> { Ok(()) }
/// # async fn follow(orders: sidereal::ContainerClient, leases: sidereal::ContainerClient) -> sidereal::Result<()> {
/// use sidereal::change_feed::processor::Changes;
///
/// let processor = orders
///     .change_feed_processor("billing", &leases)
///     .start(|changes: Changes<serde_json::Value>| async move {
///         for order in changes.items() {
///             bill(order).await?;
///         }
///         Ok::<_, std::io::Error>(())
///     })
///     .await?;
/// // …
/// processor.stop().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a processor does nothing until it is started"]
pub struct ChangeFeedProcessorBuilder {
    feed: ContainerClient,
    leases: ContainerClient,
    config: Config,
}

impl ChangeFeedProcessorBuilder {
    pub(crate) fn new(feed: ContainerClient, processor: &str, leases: ContainerClient) -> Self {
        Self { feed, leases, config: Config::new(processor.to_owned()) }
    }

    /// The application that the lease container belongs to; the processor's name unless set. Processors of one
    /// application may share a lease container.
    pub fn with_application(mut self, application: &str) -> Self {
        application.clone_into(&mut self.config.application);
        self
    }

    /// The name of this worker, which no other worker of the processor may have while it works; a random one unless
    /// set. A worker that is started again under its name goes on with its leases at once.
    pub fn with_instance(mut self, instance: &str) -> Self {
        instance.clone_into(&mut self.config.instance);
        self
    }

    /// Where a processor begins that has no leases yet: at the beginning unless set.
    pub fn with_start(mut self, start: ChangeFeedStart) -> Self {
        self.config.start = start;
        self
    }

    /// How long a lease is held without being renewed: a minute unless set. The ranges of a worker that is gone are
    /// taken over after that.
    pub fn with_lease_duration(mut self, duration: Duration) -> Self {
        self.config.lease_duration = duration.max(Duration::from_millis(10));
        self
    }

    /// How often a worker looks at the leases of all workers: every ten seconds unless set.
    pub fn with_acquire_interval(mut self, interval: Duration) -> Self {
        self.config.acquire_interval = interval.max(Duration::from_millis(1));
        self
    }

    /// How often a range that had nothing new is read again: every second unless set.
    pub fn with_poll_interval(mut self, interval: Duration) -> Self {
        self.config.poll_interval = interval.max(Duration::from_millis(1));
        self
    }

    /// How long the handler may take for one call: five minutes unless set. It is then dropped and called again.
    pub fn with_handler_timeout(mut self, timeout: Duration) -> Self {
        self.config.handler_timeout = timeout;
        self
    }

    /// How long a range waits after its handler failed, the first time and at most: a second and a minute unless set.
    pub fn with_backoff(mut self, first: Duration, longest: Duration) -> Self {
        self.config.backoff = (first, longest.max(first));
        self
    }

    /// About how many changes the handler is given at most.
    pub fn with_page_size(mut self, changes: u32) -> Self {
        self.config.page_size = Some(changes.max(1));
        self
    }

    /// Starts a worker. The handler is given the changes of one range at a time, oldest first, and the next of that
    /// range when it has handled them; ranges are handled side by side. What it fails, panics or hangs at is given to
    /// it again, after a while, and no other range waits for that.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest) if the lease container belongs to another application or is not
    /// partitioned by `/processor`, or the processor follows another container; [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if
    /// one of the two containers does not exist.
    pub async fn start<T, H, F, E>(self, handler: H) -> Result<ChangeFeedProcessor>
    where
        T: DeserializeOwned + Send + 'static,
        H: Fn(Changes<T>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<HandlerError>,
    {
        let Self { feed, leases, config } = self;
        let store = LeaseStore::new(leases, config.processor.clone());
        store.claim(&config.application).await?;
        let metadata = feed.driver().container(feed.link()?).await?;
        let document = match store.processor_document().await? {
            Some(document)
                if document.pending.is_empty() && document.container == metadata.rid() =>
            {
                document
            }
            Some(_) | None => store.initialise(&planned(&feed, &config).await?).await?,
        };
        let reader = reader(&feed, &metadata, document.start(config.start), config.page_size)?;
        let shared = Arc::new(WorkerContext {
            feed,
            reader,
            leases: store,
            handler: Handler::new(handler),
            config,
            board: Board::default(),
            stopping: CancellationToken::new(),
        });
        let worker = tokio::spawn(Worker::new(Arc::clone(&shared)).run());
        Ok(ChangeFeedProcessor { shared, worker: Some(worker) })
    }

    /// Estimates how many changes are not handled, range by range, without working on any: for a process that watches
    /// the others.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if the feed's container or the lease container does not exist.
    pub async fn estimate_lag(&self) -> Result<Vec<RangeLag>> {
        let store = LeaseStore::new(self.leases.clone(), self.config.processor.clone());
        lag(&self.feed, &store, &self.config).await
    }
}

async fn lag(feed: &ContainerClient, store: &LeaseStore, config: &Config) -> Result<Vec<RangeLag>> {
    let document = store.processor_document().await?;
    let start = document.map_or((config.start, None), |it| it.start(config.start));
    let metadata = feed.driver().container(feed.link()?).await?;
    let reader = reader(feed, &metadata, start, Some(1))?;
    estimate(feed, store, &reader).await
}

fn reader(
    feed: &ContainerClient,
    metadata: &ContainerMetadata,
    start: (ChangeFeedStart, Option<u64>),
    page_size: Option<u32>,
) -> Result<PageReader> {
    let driver = Arc::clone(feed.driver());
    let container = (feed.link()?, metadata);
    PageReader::new(driver, container, start, page_size, Call::default())
}

/// The documents of a processor that begins: a lease for each partition range.
async fn planned(feed: &ContainerClient, config: &Config) -> Result<ProcessorDocument> {
    let link = feed.link()?;
    let mut metadata = feed.driver().container(link).await?;
    'moved: for _ in 0..MAX_MOVES {
        let mut pending = Vec::new();
        let reader = reader(feed, &metadata, (config.start, None), Some(1))?;
        let full = sidereal_protocol::EffectivePartitionKeyRange::FULL;
        for (range, target) in targets_of(&full, metadata.ranges()) {
            // "Now" is when the processor is first started, not when a worker comes to read the range.
            let position = match config.start {
                ChangeFeedStart::Now => match reader.fetch(&target, &Position::Start).await {
                    Ok(page) => page.position,
                    Err(NoPage::Gone(_)) => {
                        metadata = feed.driver().refresh_container(link).await?;
                        continue 'moved;
                    }
                    Err(NoPage::Failed(error)) => return Err(error),
                },
                ChangeFeedStart::Beginning | ChangeFeedStart::At(_) => Position::Start,
            };
            pending.push(LeaseDocument::new(&config.processor, &range, &position));
        }
        return Ok(ProcessorDocument {
            id: PROCESSOR_ID.to_owned(),
            processor: config.processor.clone(),
            container: metadata.rid().to_owned(),
            since: config.start.since()?,
            is_from_now: Some(config.start == ChangeFeedStart::Now),
            pending,
            etag: None,
        });
    }
    Err(Error::new(ErrorKind::Unavailable, "the partition ranges of the container keep changing"))
}

/// A worker of a processor: see [`ChangeFeedProcessorBuilder::start`].
///
/// Dropping it ends it at once: its leases expire, and other workers take them over. [`stop`](Self::stop) gives them
/// back.
#[derive(Debug)]
pub struct ChangeFeedProcessor {
    shared: Arc<WorkerContext>,
    worker: Option<JoinHandle<()>>,
}

impl ChangeFeedProcessor {
    /// The name of this worker.
    #[must_use]
    pub fn instance(&self) -> &str {
        &self.shared.config.instance
    }

    /// How far this worker is with each of its ranges.
    #[must_use]
    pub fn progress(&self) -> Vec<RangeProgress> {
        self.shared.board.all()
    }

    /// Estimates how many changes are not handled, range by range, of all workers. It asks each range.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if the feed's container or the lease container does not exist.
    pub async fn estimate_lag(&self) -> Result<Vec<RangeLag>> {
        lag(&self.shared.feed, &self.shared.leases, &self.shared.config).await
    }

    /// Stops: handlers that are at work are waited for, what they handled is noted, and the leases are given back.
    pub async fn stop(mut self) {
        self.shared.stopping.cancel();
        if let Some(worker) = self.worker.take() {
            let _ = worker.await; // A panic was told when it happened; there is nothing left to stop.
        }
    }
}

impl Drop for ChangeFeedProcessor {
    fn drop(&mut self) {
        if let Some(worker) = &self.worker {
            worker.abort();
        }
    }
}

//! Building a change feed: its start, its part of the container, its page size.

use std::time::Duration;

use sidereal_driver::ContainerMetadata;
use sidereal_driver::options::QueryOptions;
use sidereal_protocol::{EffectivePartitionKeyRange, PartitionKey};

use super::{ChangeFeedStart, ChangeFeedToken};
use crate::long_call::Call;
use crate::query::targets::Target;
use crate::{ContainerClient, FeedRange, Result};

/// Partition ranges that are read at once.
const PARALLELISM: usize = 8;

impl ContainerClient {
    /// The change feed of the container: every item that is created or replaced.
    ///
    /// ```no_run
    /// # async fn example(orders: sidereal::ContainerClient) -> sidereal::Result<()> {
    /// let mut changes = orders.change_feed().items::<serde_json::Value>();
    /// while let Some(order) = changes.next().await {
    ///     println!("{}", order?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn change_feed(&self) -> ChangeFeed {
        ChangeFeed::new(self.clone())
    }
}

/// The change feed of a container, or of a part of it: see [`ContainerClient::change_feed`].
///
/// It has the latest version of every item that was created or replaced; deletions are not in it. Changes of one
/// partition key come in the order in which they were made.
///
/// ```no_run
/// # async fn follow(orders: sidereal::ContainerClient) -> sidereal::Result<()> {
/// use std::time::Duration;
/// use sidereal::change_feed::ChangeFeedStart;
///
/// let mut changes = orders
///     .change_feed()
///     .with_start(ChangeFeedStart::Now)
///     .with_poll_interval(Duration::from_secs(1))
///     .items::<serde_json::Value>();
/// while let Some(order) = changes.next().await {
///     println!("{}", order?);
/// }
/// # Ok(())
/// # }
/// ```
///
/// Without a poll interval the stream ends when it has caught up. Nothing is sent before a stream is read.
#[derive(Clone, Debug)]
#[must_use = "a feed does nothing until its items or pages are read"]
pub struct ChangeFeed {
    pub(super) container: ContainerClient,
    pub(super) scope: Scope,
    pub(super) start: ChangeFeedStart,
    pub(super) continuation: Option<ChangeFeedToken>,
    pub(super) page_size: Option<u32>,
    pub(super) parallelism: usize,
    pub(super) poll_interval: Option<Duration>,
    pub(super) call: Call,
}

/// The part of a container that a feed is of.
#[derive(Clone, Debug)]
pub(super) enum Scope {
    Everything,
    Key(PartitionKey),
    Range(EffectivePartitionKeyRange),
}

impl Scope {
    /// The text whose hash identifies the scope in a token.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Everything => String::new(),
            Self::Key(key) => key.to_header(),
            Self::Range(range) => range.to_string(),
        }
    }

    /// The part of the key space.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest) if the key does not fit the container's partition key definition.
    pub(super) fn window(
        &self,
        container: &ContainerMetadata,
    ) -> Result<EffectivePartitionKeyRange> {
        Ok(match self {
            Self::Everything => EffectivePartitionKeyRange::FULL,
            Self::Range(range) => range.clone(),
            Self::Key(key) => container.partition_key_definition().effective_range(key)?,
        })
    }

    /// The target of a request if the scope is a whole partition key: the gateway finds its range.
    pub(super) fn key_target(&self, container: &ContainerMetadata) -> Option<Target> {
        let Self::Key(key) = self else { return None };
        let paths = container.partition_key_definition().paths().len();
        (key.components().len() == paths).then(|| Target::Key(key.clone()))
    }
}

impl ChangeFeed {
    pub(crate) fn new(container: ContainerClient) -> Self {
        Self {
            container,
            scope: Scope::Everything,
            start: ChangeFeedStart::default(),
            continuation: None,
            page_size: None,
            parallelism: PARALLELISM,
            poll_interval: None,
            call: Call::default(),
        }
    }

    /// Begins elsewhere than at the beginning.
    pub fn with_start(mut self, start: ChangeFeedStart) -> Self {
        self.start = start;
        self
    }

    /// Goes on where a page of the same feed ended: see
    /// [`ChangeFeedPage::continuation`](super::ChangeFeedPage::continuation). It takes the place of a start.
    pub fn with_continuation(mut self, token: ChangeFeedToken) -> Self {
        self.continuation = Some(token);
        self
    }

    /// Reads only the changes of a partition key, or of the first levels of a hierarchical one.
    pub fn with_partition_key(mut self, key: impl Into<PartitionKey>) -> Self {
        self.scope = Scope::Key(key.into());
        self
    }

    /// Reads only the changes of a part of the container. It takes the place of a partition key.
    pub fn with_feed_range(mut self, range: FeedRange) -> Self {
        self.scope = Scope::Range(range.0);
        self
    }

    /// About how many changes a page has at most. One that ends within a transactional batch has all of the batch.
    pub fn with_page_size(mut self, changes: u32) -> Self {
        self.page_size = Some(changes.max(1));
        self
    }

    /// How many partition ranges are read at once, a page of each: 8 unless set.
    pub fn with_max_parallelism(mut self, ranges: usize) -> Self {
        self.parallelism = ranges.max(1);
        self
    }

    /// Waits for changes where there are none, and asks again after so long. The stream then has no end.
    pub fn with_poll_interval(mut self, interval: Duration) -> Self {
        self.poll_interval = Some(interval);
        self
    }

    /// Deadline, cancellation, and what requests ask for. A deadline or timeout is that of the stream as a whole.
    pub fn with_options(mut self, options: QueryOptions<'_>) -> Self {
        self.call = Call::of(options);
        self
    }
}

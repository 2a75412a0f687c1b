//! Building a query: text, parameters, scope, limits.

use serde::Serialize;
use serde_json::Value;
use sidereal_driver::options::QueryOptions;
use sidereal_protocol::{EffectivePartitionKeyRange, PartitionKey, SessionToken};

use super::limits::DEFAULT_PARALLELISM;
use super::request::{RequestOptions, parameter};
use super::{ContinuationToken, QueryLimits};
use crate::long_call::Call;
use crate::{ContainerClient, Error, ErrorKind, FeedRange, Result};

impl ContainerClient {
    /// A query over the container's items, to be given parameters and run.
    ///
    /// ```no_run
    /// # async fn example(orders: sidereal::ContainerClient) -> sidereal::Result<()> {
    /// let open = orders.query("SELECT * FROM c WHERE c.status = @status");
    /// let mut open = open.with_parameter("@status", "open").items::<serde_json::Value>();
    /// while let Some(order) = open.next().await {
    ///     println!("{}", order?);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn query(&self, text: impl Into<String>) -> Query {
        Query::new(self.clone(), text.into())
    }
}

/// A query over a container's items: see [`ContainerClient::query`].
///
/// ```no_run
/// # async fn list(orders: sidereal::ContainerClient) -> sidereal::Result<()> {
/// # #[derive(serde::Deserialize)]
/// # struct Order { id: String, total: u32 }
/// let mut expensive = orders
///     .query("SELECT * FROM c WHERE c.total > @least ORDER BY c.total DESC")
///     .with_parameter("@least", 100)
///     .items::<Order>();
/// while let Some(order) = expensive.next().await {
///     let order = order?;
///     println!("{}: {}", order.id, order.total);
/// }
///
/// // One value, of one customer.
/// let spent = orders.query("SELECT VALUE SUM(c.total) FROM c").with_partition_key("contoso");
/// let spent: Option<u32> = spent.first().await?;
/// # Ok(())
/// # }
/// ```
///
/// A query without a partition key spans partitions: every partition range that can have results is asked, several
/// at once, and what they answer is merged as the query says. Nothing is sent before its stream is read.
#[derive(Clone, Debug)]
#[must_use = "a query does nothing until its items or pages are read"]
pub struct Query {
    pub(super) container: ContainerClient,
    pub(super) text: String,
    pub(super) parameters: Vec<(String, Result<Value>)>,
    pub(super) scope: Scope,
    pub(super) call: Call,
    pub(super) options: RequestOptions,
    pub(super) parallelism: usize,
    pub(super) limits: QueryLimits,
    pub(super) continuation: Option<ContinuationToken>,
    pub(super) is_passed_through: bool,
}

/// The part of a container that a query is about.
#[derive(Clone, Debug)]
pub(super) enum Scope {
    Everything,
    Key(PartitionKey),
    Range(EffectivePartitionKeyRange),
}

impl Query {
    pub(crate) fn new(container: ContainerClient, text: String) -> Self {
        Self {
            container,
            text,
            parameters: Vec::new(),
            scope: Scope::Everything,
            call: Call::default(),
            options: RequestOptions::default(),
            parallelism: DEFAULT_PARALLELISM,
            limits: QueryLimits::default(),
            continuation: None,
            is_passed_through: false,
        }
    }

    /// The value of a parameter of the text, with or without its `@`. A value that cannot be written as JSON is
    /// told when the query runs.
    pub fn with_parameter(mut self, name: &str, value: impl Serialize) -> Self {
        let parameter = parameter(name, Value::Null);
        let value = serde_json::to_value(value).map_err(|error| {
            let sentence = format!("the value of {} cannot be written as JSON", parameter.name);
            Error::caused_by(ErrorKind::InvalidRequest, sentence, error)
        });
        self.parameters.retain(|(name, _)| *name != parameter.name);
        self.parameters.push((parameter.name, value));
        self
    }

    /// Asks only for the items of a partition key, or of the first levels of a hierarchical one.
    ///
    /// With a whole key every query is served by one partition range, without planning and merging.
    pub fn with_partition_key(mut self, key: impl Into<PartitionKey>) -> Self {
        self.scope = Scope::Key(key.into());
        self
    }

    /// Asks only for the items of a part of the container. It takes the place of a partition key.
    pub fn with_feed_range(mut self, range: FeedRange) -> Self {
        self.scope = Scope::Range(range.0);
        self
    }

    /// Deadline, cancellation, and what requests ask for. A deadline or timeout is that of the query as a whole:
    /// all its requests, and the time between them.
    pub fn with_options(mut self, options: QueryOptions<'_>) -> Self {
        self.call = Call::of(options);
        self
    }

    /// Uses the options of a call of which the query is a part.
    pub(crate) fn with_call(mut self, call: Call) -> Self {
        self.call = call;
        self
    }

    /// The most rows of a page; the service gives 100 unless it is told otherwise.
    pub fn with_page_size(mut self, rows: u32) -> Self {
        self.options.page_size = Some(rows.max(1));
        self
    }

    /// How many partition ranges are asked at once: 32 unless set.
    pub fn with_max_parallelism(mut self, ranges: usize) -> Self {
        self.parallelism = ranges.max(1);
        self
    }

    /// Bounds the memory that the query holds, and how long it runs.
    pub fn with_limits(mut self, limits: QueryLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Reads what a session has seen: the token of another client's write.
    pub fn with_session_token(mut self, token: SessionToken) -> Self {
        self.options.session_token = Some(token);
        self
    }

    /// Sends the text as it is, without reading it: to the partition key, or to every partition range that is asked.
    ///
    /// Rows come as the service gives them, range by range, and nothing is merged: an aggregate, a `TOP` or an order is
    /// that of each page or range. For texts that this client refuses and the service understands.
    pub fn with_pass_through(mut self) -> Self {
        self.is_passed_through = true;
        self
    }

    /// Goes on where a page of the same query ended: see [`QueryPage::continuation`](super::QueryPage::continuation).
    pub fn with_continuation(mut self, token: ContinuationToken) -> Self {
        self.continuation = Some(token);
        self
    }

    /// Asks how the query uses the index: see [`QueryPage::index_metrics`](super::QueryPage::index_metrics).
    pub fn with_index_metrics(mut self) -> Self {
        self.options.index_metrics = true;
        self
    }

    /// Asks what each request measures: see [`QueryPage::query_metrics`](super::QueryPage::query_metrics).
    pub fn with_query_metrics(mut self) -> Self {
        self.options.query_metrics = true;
        self
    }
}

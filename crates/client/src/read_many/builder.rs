//! Reading many items: the builder, and the requests that it sends.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use sidereal_driver::options::ItemOptions;
use sidereal_driver::{ContainerMetadata, CosmosOperation};
use sidereal_protocol::{CosmosStatus, PartitionKey};
use tokio::task::JoinSet;

use super::plan::{Ask, Name, PAGE_ROWS, Scope, name_of, plan, positions};
use crate::long_call::Call;
use crate::query::Query;
use crate::response::decode;
use crate::telemetry::in_current_context;
use crate::{ContainerClient, Error, ErrorKind, FeedRange, Result};

/// Requests under way at once.
const PARALLELISM: usize = 32;

impl ContainerClient {
    /// Reads many items by partition key and id, in as few requests as they fit into.
    ///
    /// ```no_run
    /// # async fn example(orders: sidereal::ContainerClient) -> sidereal::Result<()> {
    /// let wanted = [("contoso", "4711"), ("contoso", "4712"), ("fabrikam", "1")];
    /// let response = orders.read_many(wanted).execute::<serde_json::Value>().await?;
    /// for ((_, id), order) in wanted.iter().zip(response.items()) {
    ///     println!("{id}: {}", order.is_some());
    /// }
    /// println!("{} requests, {} RU", response.requests(), response.request_charge());
    /// # Ok(())
    /// # }
    /// ```
    pub fn read_many(
        &self,
        items: impl IntoIterator<Item = (impl Into<PartitionKey>, impl Into<String>)>,
    ) -> ReadMany {
        ReadMany::new(self.clone(), items)
    }
}

/// Many items, by partition key and id: see [`ContainerClient::read_many`].
///
/// Items are grouped by partition range: a hundred of one range take one request. An item that is alone in its range is
/// read as [`read_item`](ContainerClient::read_item) would.
#[derive(Clone, Debug)]
#[must_use = "nothing is read until it is executed"]
pub struct ReadMany {
    container: ContainerClient,
    names: Vec<Name>,
    call: Call,
    parallelism: usize,
}

/// Items that were read: see [`ReadMany::execute`].
#[derive(Debug)]
pub struct ReadManyResponse<T> {
    items: Vec<Option<T>>,
    requests: usize,
    charge: f64,
}

/// The answer to one request.
#[derive(Default)]
struct Answer {
    rows: Vec<(Name, Box<RawValue>)>,
    requests: usize,
    charge: f64,
}

impl ReadMany {
    pub(crate) fn new(
        container: ContainerClient,
        items: impl IntoIterator<Item = (impl Into<PartitionKey>, impl Into<String>)>,
    ) -> Self {
        let name = |(key, id): (_, _)| Name { key: Into::into(key), id: Into::into(id) };
        let names = items.into_iter().map(name).collect();
        Self { container, names, call: Call::default(), parallelism: PARALLELISM }
    }

    /// Deadline, cancellation, and what requests ask for. A deadline or timeout is that of all requests together.
    pub fn with_options(mut self, options: ItemOptions<'_>) -> Self {
        self.call = Call::on_items(options);
        self
    }

    /// The most requests under way at once: 32 unless set.
    pub fn with_max_parallelism(mut self, requests: usize) -> Self {
        self.parallelism = requests.max(1);
        self
    }

    /// Reads the items.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest) if a key or an id is not valid; [`ErrorKind::InvalidResponse`](crate::ErrorKind::InvalidResponse)
    /// if an item does not deserialize as `T`; otherwise the first error of a request. A missing item is not an error.
    pub async fn execute<T: DeserializeOwned>(self) -> Result<ReadManyResponse<T>> {
        let Self { container, names, call, parallelism } = self;
        let (call, count) = (call.started(), names.len());
        let metadata = container.driver().container(container.link()?);
        let metadata = call.bounded("the container was being read", metadata).await??;
        let definition = metadata.partition_key_definition();
        let positions = positions(names, definition);
        // In the order of the input, so that the same input makes the same requests.
        let mut wanted: Vec<(&Name, usize)> =
            positions.iter().map(|(name, at)| (name, at[0])).collect();
        wanted.sort_unstable_by_key(|(_, at)| *at);
        let asks = plan(wanted.into_iter().map(|(name, _)| name), definition, metadata.ranges())?;

        let mut response = ReadManyResponse { items: Vec::new(), requests: 0, charge: 0.0 };
        response.items.resize_with(count, || None);
        let mut answers = asked(container, Arc::clone(&metadata), call, asks, parallelism);
        while let Some(answer) = answers.next().await {
            let Answer { rows, requests, charge } = answer?;
            response.requests += requests;
            response.charge += charge;
            for (name, row) in rows {
                // A row that was not asked for, or comes again after a split, changes nothing.
                for at in positions.get(&name).into_iter().flatten() {
                    response.items[*at] = Some(decode(row.get().as_bytes())?);
                }
            }
        }
        Ok(response)
    }
}

/// Requests under way, and those that are to follow. Dropping it ends them.
struct Answers {
    tasks: JoinSet<Result<Answer>>,
    rest: std::vec::IntoIter<Ask>,
    shared: Arc<(ContainerClient, Arc<ContainerMetadata>, Call)>,
}

fn asked(
    container: ContainerClient,
    metadata: Arc<ContainerMetadata>,
    call: Call,
    asks: Vec<Ask>,
    parallelism: usize,
) -> Answers {
    let shared = Arc::new((container, metadata, call));
    let mut answers = Answers { tasks: JoinSet::new(), rest: asks.into_iter(), shared };
    (0..parallelism).for_each(|_| answers.ask_next());
    answers
}

impl Answers {
    fn ask_next(&mut self) {
        if let Some(ask) = self.rest.next() {
            let shared = Arc::clone(&self.shared);
            self.tasks.spawn(in_current_context(async move {
                let (container, metadata, call) = &*shared;
                match ask {
                    Ask::Read(name) => read(container, call, name).await,
                    Ask::Query { scope, text, parameters } => {
                        let query = parameters.into_iter().fold(
                            container.query(text).with_page_size(PAGE_ROWS),
                            |query, (name, value)| query.with_parameter(&name, value),
                        );
                        let query = match scope {
                            Scope::Key(key) => query.with_partition_key(key),
                            Scope::Range(range) => query.with_feed_range(FeedRange(range)),
                        };
                        rows_of(query.with_call(call.clone()), metadata).await
                    }
                }
            }));
        }
    }

    async fn next(&mut self) -> Option<Result<Answer>> {
        let answer = match self.tasks.join_next().await? {
            Ok(answer) => answer,
            // The tasks only wait for the driver: one that panics is a defect, and is passed on.
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        };
        self.ask_next();
        Some(answer)
    }
}

async fn read(container: &ContainerClient, call: &Call, name: Name) -> Result<Answer> {
    let operation = CosmosOperation::read_item(container.link()?, name.key.clone(), &name.id)?;
    let response = container.driver().execute_operation(&operation, &call.options()).await;
    let (rows, diagnostics) = match response {
        Ok(response) => {
            let row = decode::<Box<RawValue>>(response.body())?;
            (vec![(name, row)], Some(response.diagnostics().clone()))
        }
        Err(error) if error.status() == Some(CosmosStatus::new(404)) => {
            (Vec::new(), error.diagnostics().cloned())
        }
        Err(error) => return Err(error.into()),
    };
    let (requests, charge) = diagnostics
        .map_or((0, 0.0), |it| (it.attempts().len() + it.attempts_left_out(), it.charge()));
    Ok(Answer { rows, requests, charge })
}

async fn rows_of(query: Query, metadata: &ContainerMetadata) -> Result<Answer> {
    let (mut answer, mut pages) = (Answer::default(), query.pages::<Box<RawValue>>());
    while let Some(page) = pages.next().await {
        let page = page?;
        answer.requests += page.requests();
        answer.charge += page.request_charge();
        for row in page.into_items() {
            let name = name_of(row.get(), metadata.partition_key_definition());
            let name = name.ok_or_else(|| {
                Error::new(ErrorKind::InvalidResponse, "the service gave an item without an id")
            })?;
            answer.rows.push((name, row));
        }
    }
    Ok(answer)
}

impl<T> ReadManyResponse<T> {
    /// The items, in the order in which they were named; none where there is no such item.
    #[must_use]
    pub fn items(&self) -> &[Option<T>] {
        &self.items
    }

    /// The items, taken.
    #[must_use]
    pub fn into_items(self) -> Vec<Option<T>> {
        self.items
    }

    /// How many requests were made.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.requests
    }

    /// The charge of all requests, in request units.
    #[must_use]
    pub fn request_charge(&self) -> f64 {
        self.charge
    }
}

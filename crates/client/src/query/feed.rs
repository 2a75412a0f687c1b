//! Feeds of resources that are no items: databases, containers. A page after the other, with the same protection
//! against a server that never comes to an end.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures_core::Stream;
use serde::de::DeserializeOwned;
use sidereal_driver::options::ClientMethodOptions;
use sidereal_driver::{CosmosDriver, CosmosOperation};
use sidereal_protocol::OperationType;
use sidereal_protocol::headers::names;
use sidereal_protocol::{Feed, QueryRequest, RequestPath};

use super::QueryLimits;
use super::fetch::continuation_of;
use super::plan::ParsedQuery;
use super::range_reader::Watch;
use super::request::continuation_header;
use crate::item_body::encode;
use crate::long_call::Call;
use crate::{Error, ErrorKind, Result};

/// Resources of an account or a database, one by one: see
/// [`CosmosClient::query_databases`](crate::CosmosClient::query_databases).
///
/// It is a [`Stream`], and has [`next`](Self::next) and [`collect`](Self::collect) for programs that use no crate
/// for streams. After an error there are no more.
#[must_use = "a stream does nothing until it is read"]
pub struct FeedStream<T> {
    ready: VecDeque<T>,
    state: FeedState<T>,
}

enum FeedState<T> {
    /// Not begun, or refused before it begins.
    Idle(Result<Box<FeedPages>>),
    Working(NextPage<T>),
    Over,
}

/// The next page of a feed, with what brings the one after it.
type NextPage<T> = Pin<Box<dyn Future<Output = (Box<FeedPages>, Result<Vec<T>>)> + Send>>;

/// The pages of a feed.
struct FeedPages {
    driver: Arc<CosmosDriver>,
    operation: CosmosOperation,
    call: Call,
    watch: Watch,
    is_over: bool,
}

impl FeedPages {
    async fn next<T: DeserializeOwned>(&mut self) -> Result<Vec<T>> {
        let response = self.driver.execute_operation(&self.operation, &self.call.options()).await?;
        let feed: Feed<T> = serde_json::from_slice(response.body()).map_err(|error| {
            let sentence = format!("the service answered with no page of resources: {error}");
            Error::new(ErrorKind::InvalidResponse, sentence)
        })?;
        let continuation = continuation_of(&response);
        self.watch.observe(feed.items.len(), continuation.as_deref())?;
        match continuation {
            Some(continuation) => {
                let value = continuation_header(&continuation)?;
                self.operation = self.operation.clone().with_header(names::CONTINUATION, value);
            }
            None => self.is_over = true,
        }
        Ok(feed.items)
    }
}

impl<T: DeserializeOwned + Send + 'static> FeedStream<T> {
    /// The resources of a feed that a query selects.
    pub(crate) fn of_query(
        driver: &Arc<CosmosDriver>,
        path: Result<RequestPath>,
        text: &str,
        options: ClientMethodOptions<'_>,
    ) -> Self {
        let pages = path.and_then(|path| {
            ParsedQuery::new(text, Vec::new())?;
            let body = encode(&QueryRequest::new(text))?;
            Ok(CosmosOperation::new(OperationType::Query, path).with_body(body))
        });
        let pages = pages.map(|operation| {
            let options = sidereal_driver::options::QueryOptions {
                method_options: options,
                ..Default::default()
            };
            Box::new(FeedPages {
                driver: Arc::clone(driver),
                operation,
                call: Call::of(options),
                watch: Watch::new(QueryLimits::default()),
                is_over: false,
            })
        });
        Self { ready: VecDeque::new(), state: FeedState::Idle(pages) }
    }

    /// The next resource; none after the last.
    pub async fn next(&mut self) -> Option<Result<T>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// All resources that are left.
    ///
    /// # Errors
    ///
    /// The first error of the feed's requests.
    pub async fn collect(mut self) -> Result<Vec<T>> {
        let mut resources = Vec::new();
        while let Some(resource) = self.next().await {
            resources.push(resource?);
        }
        Ok(resources)
    }
}

/// Nothing in it is pinned but what is boxed.
impl<T> Unpin for FeedStream<T> {}

impl<T: DeserializeOwned + Send + 'static> Stream for FeedStream<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(resource) = self.ready.pop_front() {
                return Poll::Ready(Some(Ok(resource)));
            }
            match std::mem::replace(&mut self.state, FeedState::Over) {
                FeedState::Over => return Poll::Ready(None),
                FeedState::Idle(Err(error)) => return Poll::Ready(Some(Err(error))),
                FeedState::Idle(Ok(mut pages)) => {
                    self.state = FeedState::Working(Box::pin(async move {
                        let page = pages.next().await;
                        (pages, page)
                    }));
                }
                FeedState::Working(mut working) => {
                    let Poll::Ready((pages, page)) = working.as_mut().poll(context) else {
                        self.state = FeedState::Working(working);
                        return Poll::Pending;
                    };
                    match page {
                        Ok(page) => self.ready.extend(page),
                        Err(error) => return Poll::Ready(Some(Err(error))),
                    }
                    if !pages.is_over {
                        self.state = FeedState::Idle(Ok(pages));
                    }
                }
            }
        }
    }
}

impl<T> fmt::Debug for FeedStream<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("FeedStream").finish_non_exhaustive()
    }
}

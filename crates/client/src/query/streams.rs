//! A query's rows and pages as streams.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use futures_core::stream::FusedStream;
use serde::de::DeserializeOwned;

use super::QueryPage;
use super::engine::Engine;
use super::page::{RawPage, Rows};
use crate::Result;

/// Pages as they come, before their rows are decoded.
struct RawPages(State);

/// The next page, with the engine that brings the one after it.
type NextPage = Pin<Box<dyn Future<Output = (Box<Engine>, Result<Option<RawPage>>)> + Send>>;

enum State {
    Idle(Box<Engine>),
    Working(NextPage),
    Over,
}

impl RawPages {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RawPage>>> {
        loop {
            match std::mem::replace(&mut self.0, State::Over) {
                State::Over => return Poll::Ready(None),
                State::Idle(mut engine) => {
                    self.0 = State::Working(Box::pin(async move {
                        let page = engine.next_page().await;
                        (engine, page)
                    }));
                }
                State::Working(mut working) => {
                    let Poll::Ready((engine, page)) = working.as_mut().poll(context) else {
                        self.0 = State::Working(working);
                        return Poll::Pending;
                    };
                    // After an error or the end there is nothing more: the engine goes, and its tasks with it.
                    if let Ok(Some(_)) = page {
                        self.0 = State::Idle(engine);
                    }
                    return Poll::Ready(page.transpose());
                }
            }
        }
    }
}

/// The pages of a query's result: see [`Query::pages`](super::Query::pages).
///
/// It is a [`Stream`], and has [`next`](Self::next) for programs that use no crate for streams. After an error
/// there are no more pages. Pages are requested ahead while the program works on one; dropping it ends that.
#[must_use = "a stream does nothing until it is read"]
pub struct PageStream<T> {
    pages: RawPages,
    rows: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> PageStream<T> {
    pub(super) fn new(engine: Engine) -> Self {
        Self { pages: RawPages(State::Idle(Box::new(engine))), rows: PhantomData }
    }

    /// The next page; none after the last.
    pub async fn next(&mut self) -> Option<Result<QueryPage<T>>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl<T: DeserializeOwned> Stream for PageStream<T> {
    type Item = Result<QueryPage<T>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let page = ready!(self.pages.poll_next(context));
        Poll::Ready(page.map(|page| page.and_then(QueryPage::decoded)))
    }
}

impl<T: DeserializeOwned> FusedStream for PageStream<T> {
    fn is_terminated(&self) -> bool {
        matches!(self.pages.0, State::Over)
    }
}

/// The rows of a query's result: see [`Query::items`](super::Query::items).
///
/// It is a [`Stream`], and has [`next`](Self::next) and [`collect`](Self::collect) for programs that use no crate
/// for streams. A row that does not deserialize as `T` is an error, and the rows after it follow; after any other error there are
/// none. Pages are requested ahead while the program works on a row; dropping the stream ends that.
#[must_use = "a stream does nothing until it is read"]
pub struct ItemStream<T> {
    pages: RawPages,
    rows: Rows,
    given: usize,
    items: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> ItemStream<T> {
    pub(super) fn new(engine: Engine) -> Self {
        let pages = RawPages(State::Idle(Box::new(engine)));
        Self { pages, rows: Rows::Merged(Vec::new()), given: 0, items: PhantomData }
    }

    /// The next row; none after the last.
    pub async fn next(&mut self) -> Option<Result<T>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }

    /// All rows that are left, in memory.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidResponse`](crate::ErrorKind::InvalidResponse) if a row does not deserialize as `T`; otherwise the error of the query.
    pub async fn collect(mut self) -> Result<Vec<T>> {
        let mut rows = Vec::new();
        while let Some(row) = self.next().await {
            rows.push(row?);
        }
        Ok(rows)
    }
}

impl<T: DeserializeOwned> Stream for ItemStream<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let at = self.given;
            if let Some(row) = self.rows.decode(at) {
                self.given += 1;
                return Poll::Ready(Some(row));
            }
            match ready!(self.pages.poll_next(context)) {
                Some(Ok(page)) => (self.rows, self.given) = (page.rows, 0),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl<T: DeserializeOwned> FusedStream for ItemStream<T> {
    fn is_terminated(&self) -> bool {
        matches!(self.pages.0, State::Over) && self.given >= self.rows.len()
    }
}

impl<T> fmt::Debug for PageStream<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PageStream").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for ItemStream<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("ItemStream").finish_non_exhaustive()
    }
}

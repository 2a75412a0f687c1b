//! Changes as streams.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use serde::de::DeserializeOwned;

use super::ChangeFeedPage;
use super::engine::Engine;
use super::page::RawPage;
use crate::Result;
use crate::query::fetch::RawRows;

/// Pages as they come.
enum RawPages {
    Idle(Box<Engine>),
    Working(NextPage),
    /// Between the two.
    Moving,
}

/// The next page, with the engine that brings the one after it.
type NextPage = Pin<Box<dyn Future<Output = (Box<Engine>, Result<Option<RawPage>>)> + Send>>;

impl RawPages {
    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<RawPage>>> {
        loop {
            match std::mem::replace(self, Self::Moving) {
                Self::Moving => return Poll::Ready(None),
                Self::Idle(mut engine) => {
                    *self = Self::Working(Box::pin(async move {
                        let page = engine.next_page().await;
                        (engine, page)
                    }));
                }
                Self::Working(mut working) => {
                    let Poll::Ready((engine, page)) = working.as_mut().poll(context) else {
                        *self = Self::Working(working);
                        return Poll::Pending;
                    };
                    // Also after an error: asked again, the feed goes on where it was.
                    *self = Self::Idle(engine);
                    return Poll::Ready(page.transpose());
                }
            }
        }
    }
}

/// The pages of a change feed: see [`ChangeFeed::pages`](super::ChangeFeed::pages).
///
/// It is a [`Stream`], and has [`next`](Self::next) for programs that use no crate for streams. An error does not end
/// it: asked again, it goes on where it was. Pages are requested ahead while the program works on one, at most one of
/// each partition range; dropping it ends that.
#[must_use = "a stream does nothing until it is read"]
pub struct ChangePageStream<T> {
    pages: RawPages,
    items: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> ChangePageStream<T> {
    pub(super) fn new(engine: Engine) -> Self {
        Self { pages: RawPages::Idle(Box::new(engine)), items: PhantomData }
    }

    /// The next page; none after the reader has caught up, if it does not wait for more.
    pub async fn next(&mut self) -> Option<Result<ChangeFeedPage<T>>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl<T: DeserializeOwned> Stream for ChangePageStream<T> {
    type Item = Result<ChangeFeedPage<T>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let page = ready!(self.pages.poll_next(context));
        Poll::Ready(page.map(|page| page.and_then(ChangeFeedPage::decoded)))
    }
}

impl<T> fmt::Debug for ChangePageStream<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ChangePageStream")
    }
}

/// The items of a change feed: see [`ChangeFeed::items`](super::ChangeFeed::items).
///
/// It is a [`Stream`], and has [`next`](Self::next) for programs that use no crate for streams. An item that does not deserialize as `T`
/// is an error, and those after it follow.
#[must_use = "a stream does nothing until it is read"]
pub struct ChangeStream<T> {
    pages: RawPages,
    rows: RawRows,
    given: usize,
    items: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> ChangeStream<T> {
    pub(super) fn new(engine: Engine) -> Self {
        let (pages, rows) = (RawPages::Idle(Box::new(engine)), RawRows::default());
        Self { pages, rows, given: 0, items: PhantomData }
    }

    /// The next item; none after the reader has caught up, if it does not wait for more.
    pub async fn next(&mut self) -> Option<Result<T>> {
        std::future::poll_fn(|context| Pin::new(&mut *self).poll_next(context)).await
    }
}

impl<T: DeserializeOwned> Stream for ChangeStream<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(item) = self.rows.decode(self.given) {
                self.given += 1;
                return Poll::Ready(Some(item));
            }
            match ready!(self.pages.poll_next(context)) {
                Some(Ok(page)) => (self.rows, self.given) = (page.rows, 0),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

impl<T> fmt::Debug for ChangeStream<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ChangeStream")
    }
}

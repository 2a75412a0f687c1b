//! Where operations come from: taken one by one, as there is room for them.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

/// An iterator as a stream that is always ready.
pub(super) struct Iterated<I>(pub(super) I);

// The iterator is never pinned: it is only reached by `&mut`.
impl<I> Unpin for Iterated<I> {}

impl<I: Iterator> Stream for Iterated<I> {
    type Item = I::Item;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<I::Item>> {
        Poll::Ready(self.0.next())
    }
}

/// A source, until it ends.
pub(super) struct Source<S> {
    stream: Option<Pin<Box<S>>>,
}

impl<S: Stream> Source<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream: Some(Box::pin(stream)) }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.stream.is_none()
    }

    /// Takes no more of it.
    pub(super) fn end(&mut self) {
        self.stream = None;
    }

    /// The next element; none at the end.
    pub(super) fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<S::Item>> {
        let Some(stream) = &mut self.stream else { return Poll::Ready(None) };
        let polled = stream.as_mut().poll_next(context);
        if let Poll::Ready(None) = polled {
            self.end();
        }
        polled
    }
}

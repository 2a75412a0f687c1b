//! The body of an answer: whole as a rule, or cut where the connection is to break in its middle.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::Sleep;

use super::breaker::{Breaker, Broken};

/// How long the part of a cut body has to get out before the connection breaks.
const PART_ON_ITS_WAY: Duration = Duration::from_millis(20);

/// The body of an answer.
pub(super) enum AnswerBody {
    Whole(Full<Bytes>),
    Cut(Box<Cut>),
}

/// A body of which a part goes out before the connection breaks.
pub(super) struct Cut {
    part: Option<Bytes>,
    /// What the whole would have been.
    length: u64,
    pause: Pin<Box<Sleep>>,
    breaker: Breaker,
}

impl AnswerBody {
    pub(super) fn whole(body: Bytes) -> Self {
        Self::Whole(Full::new(body))
    }

    /// The first half of a body; then the connection breaks.
    pub(super) fn cut(body: &Bytes, breaker: Breaker) -> Self {
        Self::Cut(Box::new(Cut {
            part: Some(body.slice(..body.len() / 2)),
            length: body.len() as u64,
            pause: Box::pin(tokio::time::sleep(PART_ON_ITS_WAY)),
            breaker,
        }))
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Broken;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Broken>>> {
        let cut = match &mut *self {
            Self::Whole(body) => {
                let frame = Pin::new(body).poll_frame(context);
                return frame.map_err(|never| match never {});
            }
            Self::Cut(cut) => cut,
        };
        if let Some(part) = cut.part.take() {
            return Poll::Ready(Some(Ok(Frame::data(part))));
        }
        ready!(cut.pause.as_mut().poll(context));
        Poll::Ready(Some(Err(cut.breaker.reset())))
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Cut(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Cut(cut) => SizeHint::with_exact(cut.length),
        }
    }
}

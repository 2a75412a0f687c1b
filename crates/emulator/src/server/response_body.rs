//! The body of a response: whole as a rule, or cut where the connection is to be reset in its middle.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::{Body, Frame, SizeHint};
use tokio::time::Sleep;

use super::limits::FLUSH_BEFORE_RESET;
use super::reset::{ConnectionReset, ResetHandle};

/// The body of a response.
pub(super) enum ResponseBody {
    Whole(Full<Bytes>),
    Cut(Box<Cut>),
}

/// A body of which a part is written before the connection is reset.
pub(super) struct Cut {
    part: Option<Bytes>,
    /// The length of the whole: what `content-length` says.
    length: u64,
    pause: Pin<Box<Sleep>>,
    reset: ResetHandle,
}

impl ResponseBody {
    pub(super) fn whole(body: Bytes) -> Self {
        Self::Whole(Full::new(body))
    }

    /// The first half of a body; then the connection is reset.
    pub(super) fn cut(body: &Bytes, reset: ResetHandle) -> Self {
        Self::Cut(Box::new(Cut {
            part: Some(body.slice(..body.len() / 2)),
            length: body.len() as u64,
            pause: Box::pin(tokio::time::sleep(FLUSH_BEFORE_RESET)),
            reset,
        }))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = ConnectionReset;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ConnectionReset>>> {
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
        Poll::Ready(Some(Err(cut.reset.reset())))
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

//! Reading a request's body whole, within its bounds of size and time.

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Incoming};
use tokio::time::timeout;

use super::limits::Limits;

/// Why there is no body to hand on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyError {
    TooLarge,
    TooSlow,
    Incomplete,
}

/// Reads a body of at most `max` bytes.
///
/// One that is larger is still read, up to a bound, and discarded: a client that is busy sending does not
/// read the response, and closing the connection on unread data would reset it (RFC 9112, section 9.6).
pub(super) async fn read(body: Incoming, max: usize, limits: &Limits) -> Result<Bytes, BodyError> {
    if body.is_end_stream() {
        return Ok(Bytes::new());
    }
    // `content-length`, or 0 where the body is chunked.
    let declared = body.size_hint().lower();
    if declared > (max + limits.max_discarded_bytes) as u64 {
        return Err(BodyError::TooLarge);
    }
    let read = collect(body, max, limits.max_discarded_bytes);
    timeout(limits.body, read).await.unwrap_or(Err(BodyError::TooSlow))
}

async fn collect(mut body: Incoming, max: usize, discard: usize) -> Result<Bytes, BodyError> {
    let mut whole = Pieces::default();
    let mut total = 0_usize;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| BodyError::Incomplete)?;
        let Ok(data) = frame.into_data() else { continue }; // Trailers are not used by the protocol.
        total = total.saturating_add(data.len());
        if total > max.saturating_add(discard) {
            return Err(BodyError::TooLarge);
        }
        if total <= max {
            whole.push(data);
        }
    }
    if total > max { Err(BodyError::TooLarge) } else { Ok(whole.finish()) }
}

/// The pieces of a body; a body of one piece, as most are, is not copied.
#[derive(Default)]
struct Pieces {
    first: Bytes,
    joined: BytesMut,
}

impl Pieces {
    fn push(&mut self, data: Bytes) {
        if self.joined.is_empty() && self.first.is_empty() {
            self.first = data;
            return;
        }
        if self.joined.is_empty() {
            self.joined.extend_from_slice(&self.first);
        }
        self.joined.extend_from_slice(&data);
    }

    fn finish(self) -> Bytes {
        if self.joined.is_empty() { self.first } else { self.joined.freeze() }
    }
}

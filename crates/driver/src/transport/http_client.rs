//! The seam below sharding: one client, one independent set of connections to one endpoint.
//!
//! Everything above (shards, health checks, retries, diagnostics) is written against [`HttpClient`]; what
//! speaks HTTP, or simulates it, is behind it.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;

use crate::diagnostics::RequestDiagnostics;
use crate::exchange::{HttpError, HttpProtocol};

/// A request with an absolute URI and its whole body.
pub type HttpRequest = http::Request<Bytes>;

/// A response with its whole body.
pub type HttpResponse = http::Response<Bytes>;

/// A boxed future that borrows its client.
pub type HttpFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, HttpError>> + Send + 'a>>;

/// Sends requests to one endpoint over connections of its own.
///
/// Dropping a future cancels its request: the stream is reset, or the connection closed.
pub trait HttpClient: fmt::Debug + Send + Sync {
    /// Sends a request and waits for the whole response, whatever its status.
    ///
    /// An error says how far the request got. What is known earlier (the moment it was sent, the headers'
    /// arrival) goes into `diagnostics`, which outlives a future that is dropped at its deadline. A future
    /// that is dropped counts as *maybe sent*, unless the client has said that the request is
    /// [not sent yet](RequestDiagnostics::not_sent_yet) and not that it was [sent](RequestDiagnostics::sent).
    fn execute<'a>(
        &'a self,
        request: HttpRequest,
        diagnostics: &'a mut RequestDiagnostics,
    ) -> HttpFuture<'a, HttpResponse>;

    /// Makes the first connection ready and says what it speaks; `None` where the client decides by
    /// itself and does not tell.
    fn connect(&self) -> HttpFuture<'_, Option<HttpProtocol>> {
        Box::pin(async { Ok(None) })
    }

    /// How many requests it takes at once, as far as it knows now. It can change at any time.
    fn stream_limit(&self) -> StreamLimit {
        StreamLimit::Unknown
    }

    /// Registers a callback for whenever [`stream_limit`](Self::stream_limit) rises; called once, before
    /// the client connects. A client that does not know its limit never calls it.
    fn on_stream_limit_raised(&self, _notify: Arc<dyn Fn() + Send + Sync>) {}

    /// Closes connections that have been idle for too long. Called at each health sweep.
    fn sweep(&self) {}

    /// Ends all requests in flight; those that were sent fail as *maybe sent*.
    fn close(&self) {}
}

/// How many requests a client takes at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamLimit {
    /// The client cannot tell; the settings decide alone.
    Unknown,
    /// The peer allows this many.
    Known(u32),
    /// None any more: the connection is closing, or over.
    Closed,
}

impl StreamLimit {
    /// The limit in force, given the settings' own.
    #[must_use]
    pub fn within(self, own: u32) -> u32 {
        match self {
            Self::Unknown => own,
            Self::Known(limit) => limit.min(own),
            Self::Closed => 0,
        }
    }
}

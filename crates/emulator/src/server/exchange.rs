//! One request and its response: the body is read whole, the URI made absolute, the handler asked.

use std::future::poll_fn;
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri, Version};
use hyper::body::{Body, Incoming};
use serde_json::json;
use sidereal_protocol::headers::names;
use tokio::sync::Notify;

use super::body::{self, BodyError};
use super::compression;
use super::connection::Connections;
use super::limits::Limits;
use super::reset::{ConnectionReset, ResetHandle};
use super::response_body::ResponseBody;
use crate::outcome::{ClientOrigin, ConnectionOutcome, LastOfConnection};

/// Turns a whole request, with an absolute URI, into what its client sees of it.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Handles one request. Dropping the future cancels it: the client is gone.
    fn handle(&self, request: Request<Bytes>) -> impl Future<Output = ConnectionOutcome> + Send;
}

/// The state that the requests of one connection share.
pub(super) struct Exchange<H> {
    connections: Arc<Connections<H>>,
    scheme: Scheme,
    /// Stands in for the authority of a request that names none.
    local: Authority,
    origin: ClientOrigin,
    reset: ResetHandle,
    /// A response is the last one of the connection.
    closing: Notify,
}

/// Facts about a connection's two ends.
pub(super) struct Ends {
    pub(super) scheme: Scheme,
    pub(super) local: SocketAddr,
    pub(super) origin: ClientOrigin,
}

impl<H: Handler> Exchange<H> {
    pub(super) fn new(
        connections: Arc<Connections<H>>,
        Ends { scheme, local, origin }: Ends,
        reset: ResetHandle,
    ) -> Self {
        let local = Authority::try_from(local.to_string())
            .unwrap_or_else(|_| Authority::from_static("localhost"));
        Self { connections, scheme, local, origin, reset, closing: Notify::new() }
    }

    /// Waits for a response that is the last one of the connection.
    pub(super) async fn until_closing(&self) {
        self.closing.notified().await;
    }

    pub(super) fn limits(&self) -> &Limits {
        &self.connections.limits
    }

    /// Responds to a request, unless its connection is to be reset.
    pub(super) async fn respond(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<ResponseBody>, ConnectionReset> {
        let (mut parts, incoming) = request.into_parts();
        let is_head = parts.method == Method::HEAD;
        let takes_gzip = compression::takes_gzip(&parts.headers);
        if !incoming.is_end_stream() && parts.version == Version::HTTP_2 {
            // It may be a batch or a large item: this moves it from the connection's task to one of its
            // own (`InlineExecutor`), so that other streams do not wait for it (head-of-line blocking). A
            // connection of HTTP/1.1 has no others, and yielding would wake a second worker for nothing.
            tokio::task::yield_now().await;
        }
        let outcome = match body::read(incoming, self.body_limit(&parts), self.limits()).await {
            Ok(body) => {
                parts.uri = self.absolute(&parts);
                // Loopback is what a request without the extension counts as: it saves the usual one an
                // allocation.
                if self.origin != ClientOrigin::default() {
                    parts.extensions.insert(self.origin);
                }
                self.handle_guarded(Request::from_parts(parts, body)).await
            }
            Err(refused) => refusal(refused).into(),
        };
        let outcome = match outcome {
            ConnectionOutcome::Response(response) if takes_gzip => {
                compression::compressed(response).await.into()
            }
            outcome => outcome,
        };
        match outcome {
            ConnectionOutcome::Response(response) => {
                if response.extensions().get::<LastOfConnection>().is_some() {
                    self.closing.notify_one();
                }
                Ok(finish(response, is_head).map(ResponseBody::whole))
            }
            ConnectionOutcome::ResetMidBody(response) => {
                let response = finish(response, is_head);
                if response.body().is_empty() {
                    return Err(self.reset.reset()); // HEAD, 204 and 304 have no middle.
                }
                Ok(response.map(|body| ResponseBody::cut(&body, self.reset.clone())))
            }
            // The listener of an offline region is closed already; a connection that was accepted before
            // can only be reset.
            ConnectionOutcome::Reset { .. } | ConnectionOutcome::ConnectionRefused => {
                Err(self.reset.reset())
            }
        }
    }

    /// Asks the handler; a panic is answered with 500 and goes no further than its request.
    async fn handle_guarded(&self, request: Request<Bytes>) -> ConnectionOutcome {
        let mut handling = pin!(self.connections.handler.handle(request));
        poll_fn(|context| {
            // Unwind safety: the future is not polled again, and the state that a handler shares with other
            // requests is behind locks that ignore poisoning.
            let poll = catch_unwind(AssertUnwindSafe(|| handling.as_mut().poll(context)));
            poll.unwrap_or_else(|_| {
                Poll::Ready(ConnectionOutcome::Response(error(
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "InternalServerError",
                    "The request made the emulator fail; the reason is on its standard error.",
                )))
            })
        })
        .await
    }

    fn body_limit(&self, parts: &Parts) -> usize {
        if parts.headers.contains_key(names::IS_BATCH_REQUEST) {
            self.limits().max_batch_body_bytes
        } else {
            self.limits().max_body_bytes
        }
    }

    /// The URI with the scheme of the connection and the authority that the client used.
    fn absolute(&self, parts: &Parts) -> Uri {
        // HTTP/2 has the authority in `:authority`, HTTP/1.1 in `host` (RFC 9110, section 7.2).
        let named = parts.uri.authority().cloned();
        let from_header = || Authority::try_from(parts.headers.get(HOST)?.as_bytes()).ok();
        let authority = named.or_else(from_header).unwrap_or_else(|| self.local.clone());
        let path = parts.uri.path_and_query().cloned();
        Uri::builder()
            .scheme(self.scheme.clone())
            .authority(authority)
            .path_and_query(path.unwrap_or_else(|| PathAndQuery::from_static("/")))
            .build()
            .unwrap_or_else(|_| parts.uri.clone())
    }
}

fn refusal(refused: BodyError) -> Response<Bytes> {
    match refused {
        BodyError::TooLarge => error(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            // As the service words it, an object in a text.
            r#"Message: {"Errors":["Request size is too large"]}"#,
        ),
        BodyError::TooSlow => error(
            StatusCode::REQUEST_TIMEOUT,
            "RequestTimeout",
            "The request's body did not arrive in time.",
        ),
        // Seldom read by anyone: the connection that it would go to has failed.
        BodyError::Incomplete => error(
            StatusCode::BAD_REQUEST,
            "BadRequest",
            "The request's body could not be read to its end.",
        ),
    }
}

/// A response of the server itself, in the service's format.
fn error(status: StatusCode, code: &str, message: &str) -> Response<Bytes> {
    let body = json!({ "code": code, "message": message }).to_string();
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Sets the content length. The response to HEAD has the length of a body that it does not have, and 204 and
/// 304 have neither (RFC 9110, sections 8.6 and 9.3.2).
fn finish(response: Response<Bytes>, is_head: bool) -> Response<Bytes> {
    let (mut parts, body) = response.into_parts();
    let has_none =
        parts.status == StatusCode::NO_CONTENT || parts.status == StatusCode::NOT_MODIFIED;
    if has_none {
        parts.headers.remove(CONTENT_LENGTH);
    } else {
        parts.headers.insert(CONTENT_LENGTH, HeaderValue::from(body.len()));
    }
    let body = if is_head || has_none { Bytes::new() } else { body };
    Response::from_parts(parts, body)
}

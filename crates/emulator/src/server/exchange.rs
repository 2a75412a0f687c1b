//! One request and its answer: the body is read whole, the URI made absolute, the handler asked.

use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST};
use http::request::Parts;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use hyper::body::{Body, Incoming};
use serde_json::json;
use sidereal_protocol::headers::names;

use super::answer_body::AnswerBody;
use super::body::{self, BodyError};
use super::breaker::{Breaker, Broken};
use super::limits::Limits;
use crate::outcome::Outcome;

/// Turns a whole request, with an absolute URI, into what becomes of it: a whole answer as a rule.
pub(crate) type Handler = Arc<dyn Fn(Request<Bytes>) -> Outcome + Send + Sync>;

/// What the requests of one connection have in common.
pub(super) struct Exchange {
    handler: Handler,
    limits: Limits,
    scheme: Scheme,
    /// What stands in for the authority of a request that names none.
    local: Authority,
    breaker: Breaker,
}

impl Exchange {
    pub(super) fn new(
        handler: Handler,
        limits: Limits,
        (scheme, local): (Scheme, SocketAddr),
        breaker: Breaker,
    ) -> Self {
        let local = Authority::try_from(local.to_string())
            .unwrap_or_else(|_| Authority::from_static("localhost"));
        Self { handler, limits, scheme, local, breaker }
    }

    /// Answers a request, whatever becomes of it, unless its connection is to break.
    pub(super) async fn answer(
        &self,
        request: Request<Incoming>,
    ) -> Result<Response<AnswerBody>, Broken> {
        let (mut parts, incoming) = request.into_parts();
        let is_head = parts.method == Method::HEAD;
        if !incoming.is_end_stream() {
            // It may be a query that takes long: others of its connection need not wait for it.
            tokio::task::yield_now().await;
        }
        let outcome = match body::read(incoming, self.body_limit(&parts), &self.limits).await {
            Ok(body) => {
                parts.uri = self.absolute(&parts);
                guarded(|| (self.handler)(Request::from_parts(parts, body)))
            }
            Err(refused) => refusal(refused).into(),
        };
        match outcome {
            Outcome::Answer(response) => Ok(finish(response, is_head).map(AnswerBody::whole)),
            // Boxed, so that the many that are answered do not carry the room for it.
            other => Box::pin(self.carry_out(other, is_head)).await,
        }
    }

    /// Does what a fault wants.
    async fn carry_out(
        &self,
        outcome: Outcome,
        is_head: bool,
    ) -> Result<Response<AnswerBody>, Broken> {
        match outcome {
            Outcome::Answer(response) => Ok(finish(response, is_head).map(AnswerBody::whole)),
            Outcome::Later(wait, rest) => {
                tokio::time::sleep(wait).await;
                Ok(finish(guarded(rest), is_head).map(AnswerBody::whole))
            }
            Outcome::ResetMidBody(response) => {
                let response = finish(response, is_head);
                if response.body().is_empty() {
                    return Err(self.breaker.reset()); // There is no middle of it.
                }
                Ok(response.map(|body| AnswerBody::cut(&body, self.breaker.clone())))
            }
            Outcome::Reset => Err(self.breaker.reset()),
            Outcome::Hang => {
                self.breaker.stopped().await;
                Err(self.breaker.reset())
            }
        }
    }

    fn body_limit(&self, parts: &Parts) -> usize {
        if parts.headers.contains_key(names::IS_BATCH_REQUEST) {
            self.limits.max_batch_body_bytes
        } else {
            self.limits.max_body_bytes
        }
    }

    /// The URI with the scheme of the connection and the authority that the client used.
    fn absolute(&self, parts: &Parts) -> Uri {
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

/// What the work gives, or 500 if it panics.
fn guarded<T: From<Response<Bytes>>>(work: impl FnOnce() -> T) -> T {
    // Whatever a handler has half done is behind its own locks; the request is gone with it.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        T::from(error(
            StatusCode::INTERNAL_SERVER_ERROR,
            "InternalServerError",
            "The request made the emulator fail; the reason is on its standard error.",
        ))
    })
}

fn refusal(refused: BodyError) -> Response<Bytes> {
    match refused {
        BodyError::TooLarge => error(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            "Request size is too large",
        ),
        BodyError::TooSlow => error(
            StatusCode::REQUEST_TIMEOUT,
            "RequestTimeout",
            "The request's body did not arrive in time.",
        ),
        // Seldom read by anyone: the connection that it would go to is broken.
        BodyError::Broken => error(
            StatusCode::BAD_REQUEST,
            "BadRequest",
            "The request's body could not be read to its end.",
        ),
    }
}

/// An answer of the server itself, in the service's shape.
fn error(status: StatusCode, code: &str, message: &str) -> Response<Bytes> {
    let body = json!({ "code": code, "message": message }).to_string();
    let mut response = Response::new(Bytes::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// Says how long the body is; the answer to HEAD says it and has none.
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

//! The admin API: what can be done to a running account, over HTTP.
//!
//! Everything is under one path prefix of the global endpoint, takes and returns JSON, and asks for the
//! account key in a header. The key itself is sent, not a signature: the API is for a terminal on the
//! same machine, and a header that no browser sends by itself keeps web pages out. What the routes do is
//! in the account's own methods; here they are only named.

mod requests;
mod routes;

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode, header};
use serde_json::{Value, json};
use sidereal_protocol::AccountKey;

use crate::account::Account;
use crate::region_listeners::RegionListeners;

/// The prefix of every path of the admin API.
pub const ADMIN_PATH_PREFIX: &str = "/_sidereal/";

/// The header that carries the account key to the admin API.
pub const ADMIN_KEY_HEADER: &str = "x-sidereal-key";

/// The admin API of one account.
#[derive(Debug)]
pub(crate) struct Admin {
    account: Arc<Account>,
    listeners: Arc<RegionListeners>,
}

impl Admin {
    pub(crate) fn new(account: Arc<Account>, listeners: Arc<RegionListeners>) -> Self {
        Self { account, listeners }
    }

    /// Whether a request is for the API.
    pub(crate) fn is_for(request: &Request<Bytes>) -> bool {
        request.uri().path().starts_with(ADMIN_PATH_PREFIX)
    }

    /// Does what a request asks for.
    pub(crate) fn handle(&self, request: &Request<Bytes>) -> Response<Bytes> {
        let done = self.authorize(request.headers()).and_then(|()| self.route(request));
        match done {
            Ok(body) => json_response(StatusCode::OK, &body),
            Err(error) => error.into_response(),
        }
    }

    fn authorize(&self, headers: &HeaderMap) -> Result<(), AdminError> {
        let sent = headers.get(ADMIN_KEY_HEADER).and_then(|value| value.to_str().ok());
        let sent = sent.and_then(|text| AccountKey::from_base64(text).ok());
        // Keys are compared in constant time: no timing side channel.
        if sent.is_some_and(|sent| sent == self.account.options().key) {
            return Ok(());
        }
        let message = format!("Send the account key in the header {ADMIN_KEY_HEADER}.");
        Err(AdminError::new(StatusCode::UNAUTHORIZED, "Unauthorized", message))
    }
}

/// A request that is answered with an error; the message says what to change.
#[derive(Debug)]
struct AdminError {
    status: StatusCode,
    code: &'static str,
    message: String,
}

impl AdminError {
    fn new(status: StatusCode, code: &'static str, message: impl Into<String>) -> Self {
        Self { status, code, message: message.into() }
    }

    fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NotFound", message)
    }

    fn into_response(self) -> Response<Bytes> {
        json_response(self.status, &json!({ "code": self.code, "message": self.message }))
    }
}

fn json_response(status: StatusCode, body: &Value) -> Response<Bytes> {
    let mut response = Response::new(Bytes::from(body.to_string()));
    *response.status_mut() = status;
    let json = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

//! Clients of the Azure SDK behind the seam, with proxies, certificates and telemetry of their own.
//!
//! Such a client does not expose its connections. So it reports no protocol and no stream limit, and how far
//! a failed request got is not known: every error after the hand-over is *maybe sent*.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;

use azure_core::error::ErrorKind;
use azure_core::http::{AsyncResponseBody, HttpClient as AzureClient, Method, Request, Url};
use bytes::{Bytes, BytesMut};
use futures_core::Stream;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use percent_encoding::percent_decode_str;
use tokio_util::sync::CancellationToken;

use super::{
    HttpClient, HttpClientConfig, HttpClientFactory, HttpFuture, HttpRequest, HttpResponse,
};
use crate::diagnostics::{RequestDiagnostics, RequestEventKind};
use crate::exchange::{Endpoint, HttpError, HttpErrorKind, RequestSentStatus};

/// The most bytes a response may have. The service sends a few megabytes at most.
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;

/// Makes clients out of those of the Azure SDK.
///
/// How they connect (timeouts, proxies, certificates, versions of HTTP) is settled where they are made;
/// of the configuration that the driver has for its own clients they learn nothing.
pub struct AzureCoreHttpClientFactory(Box<dyn Fn() -> Arc<dyn AzureClient> + Send + Sync>);

impl AzureCoreHttpClientFactory {
    /// A factory that calls a closure for each client. It must give a fresh one each time: clients that
    /// share connections also share what is wrong with them.
    pub fn new(make: impl Fn() -> Arc<dyn AzureClient> + Send + Sync + 'static) -> Self {
        Self(Box::new(make))
    }
}

impl HttpClientFactory for AzureCoreHttpClientFactory {
    fn create(&self, _: &Endpoint, _: &HttpClientConfig) -> Arc<dyn HttpClient> {
        Arc::new(AzureCoreHttpClient { inner: (self.0)(), closed: CancellationToken::new() })
    }
}

impl fmt::Debug for AzureCoreHttpClientFactory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("AzureCoreHttpClientFactory")
    }
}

#[derive(Debug)]
struct AzureCoreHttpClient {
    inner: Arc<dyn AzureClient>,
    closed: CancellationToken,
}

impl AzureCoreHttpClient {
    async fn send(
        &self,
        request: HttpRequest,
        diagnostics: &mut RequestDiagnostics,
    ) -> Result<HttpResponse, HttpError> {
        let request = azure_request(request)?;
        // Checked before the hand-over: after it a request can only be *maybe sent*.
        if self.closed.is_cancelled() {
            return Err(evicted(RequestSentStatus::NotSent));
        }
        // Before the first poll: a future that is dropped at its deadline may have sent the request.
        diagnostics.sent();
        tokio::select! {
            // The response first: one that is there when the client is closed is not ambiguous.
            biased;
            answer = self.exchange(&request, diagnostics) => answer,
            () = self.closed.cancelled() => Err(evicted(RequestSentStatus::MaybeSent)),
        }
    }

    async fn exchange(
        &self,
        request: &Request,
        diagnostics: &mut RequestDiagnostics,
    ) -> Result<HttpResponse, HttpError> {
        let answer = self.inner.execute_request(request).await.map_err(sdk_error)?;
        diagnostics.record(RequestEventKind::ResponseHeadersReceived);
        let (status, headers, body) = answer.deconstruct();
        let body = whole(body, MAX_RESPONSE_BYTES).await?;
        let mut response = HttpResponse::new(body);
        *response.status_mut() = StatusCode::from_u16(status.into())
            .map_err(|_| unreadable("the answer has no status of HTTP"))?;
        *response.headers_mut() = http_headers(headers)?;
        if request.method() != Method::Head && is_truncated(&response) {
            return Err(unreadable("the response body is truncated"));
        }
        Ok(response)
    }
}

impl HttpClient for AzureCoreHttpClient {
    fn execute<'a>(
        &'a self,
        request: HttpRequest,
        diagnostics: &'a mut RequestDiagnostics,
    ) -> HttpFuture<'a, HttpResponse> {
        Box::pin(self.send(request, diagnostics))
    }

    fn close(&self) {
        self.closed.cancel();
    }
}

/// The request in the terms of the Azure SDK.
fn azure_request(request: HttpRequest) -> Result<Request, HttpError> {
    let (head, body) = request.into_parts();
    let method = azure_method(&head.method).ok_or_else(|| refused("its method is not known"))?;
    let url =
        Url::parse(&head.uri.to_string()).map_err(|_| refused("its address is not absolute"))?;
    // `Url` resolves dot segments, also percent-encoded ones (WHATWG URL), and would address another
    // resource: an item may be called "..".
    if !percent_decode_str(url.path()).eq(percent_decode_str(head.uri.path())) {
        return Err(refused("its path would be changed"));
    }
    let mut request = Request::new(url, method);
    for name in head.headers.keys() {
        let value = one_value(&head.headers, name).ok_or_else(|| refused("a header is no text"))?;
        request.insert_header(name.as_str().to_owned(), value);
    }
    request.set_body(body);
    Ok(request)
}

fn azure_method(method: &http::Method) -> Option<Method> {
    Some(match *method {
        http::Method::DELETE => Method::Delete,
        http::Method::GET => Method::Get,
        http::Method::HEAD => Method::Head,
        http::Method::PATCH => Method::Patch,
        http::Method::POST => Method::Post,
        http::Method::PUT => Method::Put,
        _ => return None,
    })
}

/// The values of a header in one, as HTTP allows; the Azure SDK keeps one for each name.
fn one_value(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    let mut values = headers.get_all(name).iter().map(HeaderValue::to_str);
    let mut text = values.next()?.ok()?.to_owned();
    for value in values {
        text.push_str(", ");
        text.push_str(value.ok()?);
    }
    Some(text)
}

fn http_headers(headers: azure_core::http::headers::Headers) -> Result<HeaderMap, HttpError> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let name = HeaderName::try_from(name.as_str());
        let value = HeaderValue::try_from(value.as_str());
        let (Ok(name), Ok(value)) = (name, value) else {
            return Err(unreadable("the answer has a malformed header"));
        };
        map.insert(name, value);
    }
    Ok(map)
}

/// The whole body, unless it is over the limit. A body in one piece is not copied.
async fn whole(body: AsyncResponseBody, limit: usize) -> Result<Bytes, HttpError> {
    let mut body = pin!(body);
    let mut only = Bytes::new();
    let mut joined = BytesMut::new();
    while let Some(piece) = poll_fn(|context| body.as_mut().poll_next(context)).await {
        let piece = piece.map_err(sdk_error)?;
        if only.len() + joined.len() + piece.len() > limit {
            return Err(too_long(limit));
        }
        // Copied only from the second piece on: most responses are one piece.
        if only.is_empty() && joined.is_empty() {
            only = piece;
        } else {
            joined.unsplit(BytesMut::from(std::mem::take(&mut only)));
            joined.extend_from_slice(&piece);
        }
    }
    Ok(if joined.is_empty() { only } else { joined.freeze() })
}

/// Whether a body is truncated: shorter than its content-length.
///
/// A peer may end a stream early without an error, which some clients take for the end of the body. One
/// that is longer was compressed on its way.
fn is_truncated(response: &HttpResponse) -> bool {
    let length = response.headers().get(CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    // A 304 carries the content-length of the response it stands for, and no body (RFC 9110, section 8.6).
    let has_body = response.status() != StatusCode::NOT_MODIFIED;
    has_body && length.is_some_and(|length| response.body().len() < length)
}

/// A request that cannot be expressed; it is not handed over.
fn refused(why: &'static str) -> HttpError {
    let message = format!("the request cannot be sent through the Azure SDK: {why}");
    HttpError::new(HttpErrorKind::InvalidRequest, RequestSentStatus::NotSent, message)
}

fn unreadable(what: &'static str) -> HttpError {
    HttpError::new(HttpErrorKind::Protocol, RequestSentStatus::MaybeSent, what)
}

fn too_long(limit: usize) -> HttpError {
    let message = format!("the answer is longer than {limit} bytes");
    HttpError::new(HttpErrorKind::ResponseTooLarge, RequestSentStatus::MaybeSent, message)
}

fn evicted(request_sent: RequestSentStatus) -> HttpError {
    HttpError::new(HttpErrorKind::Evicted, request_sent, "the client was evicted")
}

/// An error of the client. Its text stays in the source, for it may quote the request.
fn sdk_error(error: azure_core::Error) -> HttpError {
    let (kind, message) = match error.kind() {
        ErrorKind::Connection => (HttpErrorKind::Connect, "no connection could be made"),
        ErrorKind::Io => (HttpErrorKind::ConnectionLost, "the connection ended before the answer"),
        ErrorKind::HttpResponse { .. }
        | ErrorKind::DataConversion
        | ErrorKind::Credential
        | ErrorKind::Other => (HttpErrorKind::Protocol, "the client could not make the exchange"),
    };
    HttpError::new(kind, RequestSentStatus::MaybeSent, message).caused_by(error)
}

#[cfg(test)]
mod tests;

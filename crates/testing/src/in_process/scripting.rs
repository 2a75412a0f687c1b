//! A server that answers requests as a script says, and everything else as an account does.

use std::fmt;
use std::sync::Arc;

use http::StatusCode;
use sidereal_driver::diagnostics::RequestDiagnostics;
use sidereal_driver::transport::{
    Endpoint, HttpClient, HttpClientConfig, HttpClientFactory, HttpFuture, HttpProtocol,
    HttpRequest, HttpResponse, StreamLimit,
};

/// The answer of a script; `None` leaves the request to the account.
type Script = dyn Fn(&HttpRequest) -> Option<HttpResponse> + Send + Sync;

/// Asks a script first, and then the account.
#[derive(Clone)]
pub struct ScriptedFactory {
    account: Arc<dyn HttpClientFactory>,
    script: Arc<Script>,
}

impl ScriptedFactory {
    /// Puts a script for requests to `…/docs` before an account.
    pub fn before(
        account: Arc<dyn HttpClientFactory>,
        script: impl Fn(&HttpRequest) -> Option<HttpResponse> + Send + Sync + 'static,
    ) -> Arc<dyn HttpClientFactory> {
        Self::before_all(account, move |request| {
            let is_about_items = request.uri().path().ends_with("/docs");
            is_about_items.then(|| script(request)).flatten()
        })
    }

    /// Puts a script for all requests before an account.
    pub fn before_all(
        account: Arc<dyn HttpClientFactory>,
        script: impl Fn(&HttpRequest) -> Option<HttpResponse> + Send + Sync + 'static,
    ) -> Arc<dyn HttpClientFactory> {
        Arc::new(Self { account, script: Arc::new(script) })
    }
}

impl fmt::Debug for ScriptedFactory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ScriptedFactory")
    }
}

impl HttpClientFactory for ScriptedFactory {
    fn create(&self, endpoint: &Endpoint, config: &HttpClientConfig) -> Arc<dyn HttpClient> {
        let client = self.account.create(endpoint, config);
        Arc::new(ScriptedClient { client, factory: self.clone() })
    }
}

#[derive(Debug)]
struct ScriptedClient {
    client: Arc<dyn HttpClient>,
    factory: ScriptedFactory,
}

impl HttpClient for ScriptedClient {
    fn execute<'a>(
        &'a self,
        request: HttpRequest,
        diagnostics: &'a mut RequestDiagnostics,
    ) -> HttpFuture<'a, HttpResponse> {
        match (self.factory.script)(&request) {
            Some(answer) => {
                diagnostics.sent();
                Box::pin(async move { Ok(answer) })
            }
            None => self.client.execute(request, diagnostics),
        }
    }

    fn connect(&self) -> HttpFuture<'_, Option<HttpProtocol>> {
        self.client.connect()
    }

    fn stream_limit(&self) -> StreamLimit {
        self.client.stream_limit()
    }
}

/// A header of a request, as text.
#[must_use]
pub fn header<'a>(request: &'a HttpRequest, name: &str) -> Option<&'a str> {
    request.headers().get(name)?.to_str().ok()
}

/// A page of rows, which write themselves as JSON, with the continuation of the next one.
#[must_use]
pub fn page(rows: &[impl fmt::Display], continuation: Option<&str>) -> HttpResponse {
    let texts: Vec<String> = rows.iter().map(ToString::to_string).collect();
    let (count, rows) = (rows.len(), texts.join(","));
    let body = format!(r#"{{"_rid":"","Documents":[{rows}],"_count":{count}}}"#);
    answer(StatusCode::OK, &body, continuation)
}

/// Any other answer.
///
/// # Panics
///
/// The continuation makes no header.
#[must_use]
pub fn answer(status: StatusCode, body: &str, continuation: Option<&str>) -> HttpResponse {
    let mut response = http::Response::builder().status(status);
    if let Some(continuation) = continuation {
        response = response.header("x-ms-continuation", continuation);
    }
    response.body(body.to_owned().into()).unwrap()
}

/// A refusal with a sub-status.
///
/// # Panics
///
/// The status is not an HTTP status.
#[must_use]
pub fn refusal(status: u16, sub_status: u32) -> HttpResponse {
    let response = http::Response::builder().status(status);
    let response = response.header("x-ms-substatus", sub_status.to_string());
    response.body(r#"{"code":"x","message":"x"}"#.into()).unwrap()
}

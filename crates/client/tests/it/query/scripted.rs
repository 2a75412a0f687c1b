//! A server that answers requests about items as a script says, and everything else as an account does.

use std::fmt;
use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;
use sidereal::driver::diagnostics::RequestDiagnostics;
use sidereal::driver::transport::{
    Endpoint, HttpClient, HttpClientConfig, HttpClientFactory, HttpFuture, HttpProtocol,
    HttpRequest, HttpResponse, StreamLimit,
};

/// What a script answers; none leaves the request to the account.
type Script = dyn Fn(&HttpRequest) -> Option<HttpResponse> + Send + Sync;

#[derive(Clone)]
pub(super) struct ScriptedFactory {
    account: Arc<dyn HttpClientFactory>,
    script: Arc<Script>,
}

impl ScriptedFactory {
    /// Asks a script first about requests to `…/docs`.
    pub(super) fn before(
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
        let is_about_items = request.uri().path().ends_with("/docs");
        let answer = is_about_items.then(|| (self.factory.script)(&request)).flatten();
        match answer {
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
pub(super) fn header<'a>(request: &'a HttpRequest, name: &str) -> Option<&'a str> {
    request.headers().get(name)?.to_str().ok()
}

/// A page of rows, with the continuation of the next one.
pub(super) fn page(rows: &[Value], continuation: Option<&str>) -> HttpResponse {
    let body = serde_json::json!({"_rid": "", "Documents": rows, "_count": rows.len()});
    answer(StatusCode::OK, &body.to_string(), continuation)
}

/// Any other answer.
pub(super) fn answer(status: StatusCode, body: &str, continuation: Option<&str>) -> HttpResponse {
    let mut response = http::Response::builder().status(status);
    if let Some(continuation) = continuation {
        response = response.header("x-ms-continuation", continuation);
    }
    response.body(body.to_owned().into()).unwrap()
}

/// A refusal with a sub-status.
pub(super) fn refusal(status: u16, sub_status: u32) -> HttpResponse {
    let response = http::Response::builder().status(status);
    let response = response.header("x-ms-substatus", sub_status.to_string());
    response.body(r#"{"code":"x","message":"x"}"#.into()).unwrap()
}

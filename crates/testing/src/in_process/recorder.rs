//! Records the requests that a driver sends.

use std::sync::{Arc, Mutex};

use http::HeaderMap;
use sidereal_driver::diagnostics::RequestDiagnostics;
use sidereal_driver::transport::{
    Endpoint, HttpClient, HttpClientConfig, HttpClientFactory, HttpFuture, HttpProtocol,
    HttpRequest, HttpResponse, StreamLimit,
};

/// A request as it was sent: its path and headers.
pub type SentRequest = (String, HeaderMap);

/// Notes the requests on their way to an account, and what clients are made with.
#[derive(Debug)]
pub struct RecordingFactory {
    account: Arc<dyn HttpClientFactory>,
    requests: Arc<Mutex<Vec<SentRequest>>>,
    configs: Mutex<Vec<HttpClientConfig>>,
}

impl RecordingFactory {
    /// Notes what goes to an account.
    #[must_use]
    pub fn before(account: Arc<dyn HttpClientFactory>) -> Arc<Self> {
        let (requests, configs) = Default::default();
        Arc::new(Self { account, requests, configs })
    }

    /// The requests so far.
    #[must_use]
    pub fn requests(&self) -> Vec<SentRequest> {
        self.requests.lock().unwrap().clone()
    }

    /// The configurations that clients were made with so far.
    #[must_use]
    pub fn configs(&self) -> Vec<HttpClientConfig> {
        self.configs.lock().unwrap().clone()
    }

    /// The headers of the last request about items.
    ///
    /// # Panics
    ///
    /// There was none.
    #[must_use]
    pub fn last_about_items(&self) -> HeaderMap {
        let requests = self.requests.lock().unwrap();
        let (_, headers) = requests.iter().rfind(|(path, _)| path.contains("/docs")).unwrap();
        headers.clone()
    }
}

impl HttpClientFactory for RecordingFactory {
    fn create(&self, endpoint: &Endpoint, config: &HttpClientConfig) -> Arc<dyn HttpClient> {
        self.configs.lock().unwrap().push(config.clone());
        let client = self.account.create(endpoint, config);
        Arc::new(RecordingClient { client, requests: Arc::clone(&self.requests) })
    }
}

#[derive(Debug)]
struct RecordingClient {
    client: Arc<dyn HttpClient>,
    requests: Arc<Mutex<Vec<SentRequest>>>,
}

impl HttpClient for RecordingClient {
    fn execute<'a>(
        &'a self,
        request: HttpRequest,
        diagnostics: &'a mut RequestDiagnostics,
    ) -> HttpFuture<'a, HttpResponse> {
        let noted = (request.uri().path().to_owned(), request.headers().clone());
        self.requests.lock().unwrap().push(noted);
        self.client.execute(request, diagnostics)
    }

    fn connect(&self) -> HttpFuture<'_, Option<HttpProtocol>> {
        self.client.connect()
    }

    fn stream_limit(&self) -> StreamLimit {
        self.client.stream_limit()
    }
}

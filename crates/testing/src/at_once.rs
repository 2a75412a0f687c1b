//! An account that answers at once, with what the service says beside an item: for benchmarks of everything above
//! the HTTP client.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use sidereal_driver::diagnostics::RequestDiagnostics;
use sidereal_driver::transport::{
    Endpoint, HttpClient, HttpClientConfig, HttpClientFactory, HttpFuture, HttpRequest,
    HttpResponse,
};

/// The bytes of an item.
pub const ITEM: &[u8] = &[b' '; 1024];

/// An account with three regions.
const ACCOUNT: &str = r#"{
    "writableLocations": [
        {"name": "West US", "databaseAccountEndpoint": "https://contoso-westus.documents.azure.com/"}
    ],
    "readableLocations": [
        {"name": "West US", "databaseAccountEndpoint": "https://contoso-westus.documents.azure.com/"},
        {"name": "East US", "databaseAccountEndpoint": "https://contoso-eastus.documents.azure.com/"},
        {"name": "UK South", "databaseAccountEndpoint": "https://contoso-uksouth.documents.azure.com/"}
    ]
}"#;

const CONTAINER: &str = r#"{"id":"orders","_rid":"rid","partitionKey":{"paths":["/customer"],"kind":"Hash","version":2}}"#;

/// Two ranges, so that a key has to be hashed.
const RANGES: &str = r#"{"_rid":"rid","PartitionKeyRanges":[
    {"id":"0","minInclusive":"","maxExclusive":"1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF","parents":[]},
    {"id":"1","minInclusive":"1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF","maxExclusive":"FF","parents":[]}
],"_count":2}"#;

/// The headers of the service beside an item.
const HEADERS: [(&str, &str); 10] = [
    ("x-ms-request-charge", "1.00"),
    ("x-ms-activity-id", "6f3c8a1e-52b0-4d0f-9c55-0123456789ab"),
    ("x-ms-session-token", "0:-1#4711"),
    ("x-ms-documentdb-partitionkeyrangeid", "0"),
    ("x-ms-content-path", "rid"),
    ("lsn", "4711"),
    ("x-ms-global-committed-lsn", "4710"),
    ("x-ms-request-duration-ms", "0.42"),
    ("etag", "\"0000-1111\""),
    ("content-type", "application/json"),
];

/// Answers at once.
#[derive(Clone, Debug)]
pub struct AtOnce(HeaderMap);

impl Default for AtOnce {
    fn default() -> Self {
        let header = |(name, value): (&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        Self(HEADERS.map(header).into_iter().collect())
    }
}

impl HttpClientFactory for AtOnce {
    fn create(&self, _: &Endpoint, _: &HttpClientConfig) -> Arc<dyn HttpClient> {
        Arc::new(self.clone())
    }
}

impl HttpClient for AtOnce {
    fn execute<'a>(
        &'a self,
        request: HttpRequest,
        _: &'a mut RequestDiagnostics,
    ) -> HttpFuture<'a, HttpResponse> {
        let (path, headers) = (request.uri().path(), request.headers());
        let body = match path {
            "/" => ACCOUNT.as_bytes(),
            _ if path.contains("/docs/") => ITEM,
            _ if path.ends_with("/pkranges") => RANGES.as_bytes(),
            _ => CONTAINER.as_bytes(),
        };
        let is_known = path.ends_with("/pkranges") && headers.contains_key("if-none-match");
        Box::pin(async move {
            let mut response = HttpResponse::new(Bytes::from_static(body));
            if is_known {
                *response.status_mut() = http::StatusCode::NOT_MODIFIED;
            }
            *response.headers_mut() = self.0.clone();
            Ok(response)
        })
    }
}

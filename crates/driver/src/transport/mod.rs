//! One endpoint, as fast and as sturdy as HTTP allows.

mod endpoint;
mod http_client;
mod http_client_factory;
mod http_error;
mod proxy_config;

pub use endpoint::Endpoint;
pub use http_client::{
    HttpClient, HttpFuture, HttpProtocol, HttpRequest, HttpResponse, StreamLimit,
};
pub use http_client_factory::{HttpClientConfig, HttpClientFactory, HttpVersions};
pub use http_error::{HttpError, HttpErrorKind, RequestSentStatus};
pub use proxy_config::{InvalidProxy, ProxyConfig};

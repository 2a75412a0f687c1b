//! One HTTP exchange, in values: the endpoint, the version of HTTP, and why no response came.
//!
//! Below every module that sends requests, decides about them or reports them: nothing here sends or waits.
//! [`transport`](crate::transport) exports what is public of it.

mod endpoint;
mod http_error;
mod http_protocol;

pub use endpoint::Endpoint;
pub(crate) use endpoint::MAX_ENDPOINT_SLOTS;
pub use http_error::{HttpError, HttpErrorKind, RequestSentStatus};
pub use http_protocol::HttpProtocol;

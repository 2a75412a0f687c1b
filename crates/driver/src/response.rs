//! The response to an operation.

use bytes::Bytes;
use http::HeaderMap;
use sidereal_protocol::CosmosStatus;
use sidereal_protocol::headers::ResponseHeaders;

use crate::diagnostics::DiagnosticsContext;

/// A response, with what it took to get it.
#[derive(Clone, Debug)]
pub struct CosmosResponse {
    pub(crate) status: CosmosStatus,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) diagnostics: DiagnosticsContext,
}

impl CosmosResponse {
    /// Code and sub-status.
    #[must_use]
    pub fn status(&self) -> CosmosStatus {
        self.status
    }

    /// The headers, read as what they mean.
    #[must_use]
    pub fn headers(&self) -> ResponseHeaders<'_> {
        ResponseHeaders::new(&self.headers)
    }

    /// The headers as they came.
    #[must_use]
    pub fn raw_headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// The body.
    #[must_use]
    pub fn body(&self) -> &Bytes {
        &self.body
    }

    /// The body, taken.
    #[must_use]
    pub fn into_body(self) -> Bytes {
        self.body
    }

    /// The diagnostics: every attempt with its endpoint, times and outcome.
    #[must_use]
    pub fn diagnostics(&self) -> &DiagnosticsContext {
        &self.diagnostics
    }
}

//! What becomes of a request: an answer as a rule, and what a fault makes of it otherwise.
//!
//! A value that the account gives and the server acts on, so that the account knows no connection and
//! the server no faults.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::Response;

/// What becomes of a request.
pub(crate) enum Outcome {
    /// It is answered.
    Answer(Response<Bytes>),
    /// It is answered after a while; what is left to do is done then.
    Later(Duration, Box<dyn FnOnce() -> Response<Bytes> + Send>),
    /// The connection is reset without an answer.
    Reset,
    /// The connection is reset when the answer's head and a part of its body are out.
    ResetMidBody(Response<Bytes>),
    /// Nothing, until the client gives up or the server stops.
    Hang,
}

impl From<Response<Bytes>> for Outcome {
    fn from(response: Response<Bytes>) -> Self {
        Self::Answer(response)
    }
}

impl fmt::Debug for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Answer(response) => formatter.debug_tuple("Answer").field(response).finish(),
            Self::Later(wait, _) => formatter.debug_tuple("Later").field(wait).finish(),
            Self::Reset => formatter.write_str("Reset"),
            Self::ResetMidBody(response) => {
                formatter.debug_tuple("ResetMidBody").field(response).finish()
            }
            Self::Hang => formatter.write_str("Hang"),
        }
    }
}

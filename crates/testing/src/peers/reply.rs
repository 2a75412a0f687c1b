//! Replies of a served peer.

use std::sync::Arc;

use bytes::Bytes;
use h2::Reason;
use tokio::sync::watch;

/// The reply of a served peer to a request. Replies that do something first and something else
/// later contain the later one.
#[derive(Clone, Debug)]
pub enum Reply {
    /// Answers, and ends the stream.
    Answer(Answer),
    /// Sends the head and the body, does not end the stream, and goes on with the other reply.
    Begin(Answer, Box<Reply>),
    /// Ends a begun answer with the last piece of its body.
    Finish(Bytes),
    /// Keeps the request until the test releases it, then goes on.
    Hold(Box<Reply>),
    /// Waits until the gate is open, then goes on.
    When(Gate, Box<Reply>),
    /// Resets the stream. On HTTP/1.1, which has no streams, resets the connection.
    Reset(Reason),
    /// Announces the end of the connection (GOAWAY), then goes on. HTTP/2 only.
    GoAway {
        /// No stream above this one is served.
        last_stream: u32,
        /// The error code.
        reason: Reason,
        /// The reply that follows.
        then: Box<Reply>,
    },
    /// Never answers.
    Hang,
    /// Ends the connection in order (FIN), under whatever else is going on there.
    Close,
    /// Ends the connection with a TCP reset.
    Abort,
}

/// A response.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The fields, in order.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
}

impl Answer {
    /// A response without fields.
    pub fn new(status: u16, body: impl Into<Bytes>) -> Self {
        Self { status, headers: Vec::new(), body: body.into() }
    }

    /// Adds a field to the response.
    pub fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }
}

impl From<u16> for Answer {
    fn from(status: u16) -> Self {
        Self::new(status, Bytes::new())
    }
}

impl From<Answer> for Reply {
    fn from(answer: Answer) -> Self {
        Self::Answer(answer)
    }
}

impl Reply {
    /// Answers with success.
    pub fn ok(body: impl Into<Bytes>) -> Self {
        Self::Answer(Answer::new(200, body))
    }

    /// Answers with a status and nothing else.
    pub fn status(status: u16) -> Self {
        Self::Answer(Answer::new(status, Bytes::new()))
    }

    /// Succeeds when the test releases it.
    pub fn hold() -> Self {
        Self::Hold(Box::new(Self::ok(Bytes::new())))
    }

    /// Goes on with `self` when the gate is open.
    pub fn when(self, gate: &Gate) -> Self {
        Self::When(gate.clone(), Box::new(self))
    }

    /// Begins an answer and goes on with `then`, most often `Hang`, `Abort` or `Finish`.
    pub fn begin(answer: Answer, then: Self) -> Self {
        Self::Begin(answer, Box::new(then))
    }

    /// Announces the end of the connection and goes on with `then`.
    pub fn go_away(last_stream: u32, reason: Reason, then: Self) -> Self {
        Self::GoAway { last_stream, reason, then: Box::new(then) }
    }
}

/// Something that is opened once and stays open.
///
/// Unlike a notification it cannot come too early: who asks after it was opened goes straight on.
#[derive(Clone, Debug)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    /// A gate that is closed.
    pub fn new() -> Self {
        Self(Arc::new(watch::Sender::new(false)))
    }

    /// Opens it, for good.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    /// Waits until it is open.
    pub async fn opened(&self) {
        let mut state = self.0.subscribe();
        state.wait_for(|&open| open).await.expect("the gate itself keeps its state alive");
    }
}

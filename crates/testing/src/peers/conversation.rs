//! Conversations of a served peer, over HTTP/1.1 or HTTP/2.

use std::io;

use h2::Reason;

use super::frame::Frame;
use super::reply::Answer;
use super::request::PeerRequest;
use super::wire::Buffers;

/// One connection's protocol, as a state machine over [`Buffers`].
pub(crate) trait Conversation: Send {
    fn buffers(&mut self) -> &mut Buffers;

    /// The next thing that the client did, as far as it has arrived.
    fn next_event(&mut self) -> io::Result<Option<Event>>;

    /// How many requests are neither answered to the end nor reset.
    fn open_streams(&self) -> usize;

    fn answer(&mut self, stream: u32, answer: &Answer);

    /// Sends the head and the first of the body; more is to follow.
    fn begin(&mut self, stream: u32, answer: &Answer);

    fn finish(&mut self, stream: u32, rest: &[u8]);

    /// Gives the stream up. `false` if only giving up the connection does it.
    fn reset(&mut self, stream: u32, reason: Reason) -> bool;

    /// Sends a frame of HTTP/2; an HTTP/1.1 conversation has none.
    fn send_frame(&mut self, frame: &Frame);

    fn answer_pings(&mut self, answers: bool);
}

/// An event of a client.
#[derive(Debug)]
pub(crate) enum Event {
    /// The head of a request came.
    Arrived {
        stream: u32,
        path: String,
    },
    /// The request is whole.
    Complete(PeerRequest),
    /// The client gave a request up.
    Reset {
        stream: u32,
        reason: Reason,
    },
    Pinged,
}

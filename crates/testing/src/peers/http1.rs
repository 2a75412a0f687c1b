//! One HTTP/1.1 connection from the peer's side, as a state machine over buffers.
//!
//! Bodies have a `content-length`; a begun answer is chunked, because its length is not known. One
//! request is answered before the next one is read, which no client without pipelining notices.

use std::collections::VecDeque;
use std::fmt::Write;
use std::io;

use bytes::{Buf, BufMut};
use h2::Reason;

use super::conversation::{Conversation, Event};
use super::frame::{Frame, expect, violation};
use super::reply::Answer;
use super::request::PeerRequest;
use super::wire::Buffers;

const END_OF_HEAD: &[u8] = b"\r\n\r\n";

/// A head longer than this is no test's intention.
pub(crate) const MAX_HEAD: usize = 64 * 1024;

/// The state of one connection.
#[derive(Default)]
pub(crate) struct Http1Session {
    buffers: Buffers,
    requests: u32,
    state: State,
    events: VecDeque<Event>,
}

#[derive(Default)]
enum State {
    #[default]
    Idle,
    /// The head is here, and so many bytes of body make the request whole.
    Receiving(Box<PeerRequest>, usize),
    Answering,
}

impl Http1Session {
    fn receive(&mut self) -> io::Result<()> {
        if let State::Idle = self.state
            && let Some(head) = take_head(&mut self.buffers)?
        {
            self.requests += 1;
            let (request, length) = read_head(self.requests, &head)?;
            let arrived = Event::Arrived { stream: self.requests, path: request.path.clone() };
            self.events.push_back(arrived);
            self.state = State::Receiving(Box::new(request), length);
        }
        if let State::Receiving(request, length) = &mut self.state
            && self.buffers.incoming.len() >= *length
        {
            let body = self.buffers.incoming.split_to(*length).freeze();
            self.events.push_back(Event::Complete(PeerRequest { body, ..(**request).clone() }));
            self.state = State::Answering;
        }
        Ok(())
    }

    fn write_head(&mut self, answer: &Answer, framing: &str) {
        let mut head = format!("HTTP/1.1 {} Reason\r\n{framing}\r\n", answer.status);
        for (name, value) in &answer.headers {
            write!(head, "{name}: {value}\r\n").expect("a string takes everything");
        }
        head.push_str("\r\n");
        self.buffers.outgoing.put_slice(head.as_bytes());
    }

    fn write_chunk(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.buffers.outgoing.put_slice(format!("{:x}\r\n", bytes.len()).as_bytes());
            self.buffers.outgoing.put_slice(bytes);
            self.buffers.outgoing.put_slice(b"\r\n");
        }
    }
}

impl Conversation for Http1Session {
    fn buffers(&mut self) -> &mut Buffers {
        &mut self.buffers
    }

    fn next_event(&mut self) -> io::Result<Option<Event>> {
        self.receive()?;
        Ok(self.events.pop_front())
    }

    fn open_streams(&self) -> usize {
        usize::from(!matches!(self.state, State::Idle))
    }

    fn answer(&mut self, _: u32, answer: &Answer) {
        self.write_head(answer, &format!("content-length: {}", answer.body.len()));
        self.buffers.outgoing.put_slice(&answer.body);
        self.state = State::Idle;
    }

    fn begin(&mut self, _: u32, answer: &Answer) {
        self.write_head(answer, "transfer-encoding: chunked");
        self.write_chunk(&answer.body);
    }

    fn finish(&mut self, _: u32, rest: &[u8]) {
        self.write_chunk(rest);
        self.buffers.outgoing.put_slice(b"0\r\n\r\n");
        self.state = State::Idle;
    }

    fn reset(&mut self, _: u32, _: Reason) -> bool {
        false
    }

    fn send_frame(&mut self, frame: &Frame) {
        panic!("HTTP/1.1 has no frames, so {frame:?} cannot be sent");
    }

    fn answer_pings(&mut self, _: bool) {}
}

/// Takes the head of a message, without the empty line that ends it, if it is there.
pub(crate) fn take_head(buffers: &mut Buffers) -> io::Result<Option<String>> {
    let incoming = &mut buffers.incoming;
    let end = incoming.windows(END_OF_HEAD.len()).position(|window| window == END_OF_HEAD);
    let Some(end) = end else {
        expect(incoming.len() <= MAX_HEAD, "an endless head")?;
        return Ok(None);
    };
    let head = String::from_utf8_lossy(&incoming.split_to(end)).into_owned();
    incoming.advance(END_OF_HEAD.len());
    Ok(Some(head))
}

/// Reads a request and the length of its body.
pub(crate) fn read_head(ordinal: u32, head: &str) -> io::Result<(PeerRequest, usize)> {
    let mut request = PeerRequest::without_fields(ordinal);
    let mut lines = head.split("\r\n");
    let mut start = lines.next().unwrap_or_default().split(' ');
    request.method = start.next().unwrap_or_default().to_owned();
    request.path = start.next().unwrap_or_default().to_owned();
    expect(start.next() == Some("HTTP/1.1"), "not a request of HTTP/1.1")?;
    for line in lines {
        let (name, value) = line.split_once(':').ok_or_else(|| violation("a field, no value"))?;
        request.add_header(name, value.trim());
    }
    request.authority = request.header("host").unwrap_or_default().to_owned();
    // The driver knows its bodies: chunked requests would be a mistake worth finding.
    expect(request.header("transfer-encoding").is_none(), "a body of unknown length")?;
    let length = request.header("content-length").unwrap_or("0").parse();
    Ok((request, length.map_err(|_| violation("a content-length that is not a number"))?))
}

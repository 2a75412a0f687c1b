//! One HTTP/2 connection from the peer's side, as a state machine over buffers.
//!
//! It keeps what a peer must keep to be understood: whole requests, flow control in both directions,
//! acknowledgements. It enforces none of its own limits: a client that opens more streams than
//! it was allowed is served, and counted.

use std::collections::{BTreeMap, VecDeque};
use std::io;

use bytes::{Buf, Bytes, BytesMut};
use h2::Reason;

use super::conversation::{Conversation, Event};
use super::frame::{Frame, FrameReader, MAX_FRAME_SIZE, PeerSettings, expect};
use super::reply::Answer;
use super::request::PeerRequest;
use super::wire::Buffers;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// The flow-control window that both sides begin with (RFC 9113, section 6.9.2).
const DEFAULT_WINDOW: i64 = 65_535;

/// The state of one connection.
pub(crate) struct Http2Session {
    pub(crate) buffers: Buffers,
    reader: FrameReader,
    preface_seen: bool,
    streams: BTreeMap<u32, Stream>,
    last_stream: u32,
    /// How much DATA the client takes, on the connection and on a new stream.
    window: i64,
    initial_window: i64,
    events: VecDeque<Event>,
    answers_pings: bool,
    gives_credit: bool,
}

/// A request that is not over.
struct Stream {
    request: PeerRequest,
    body: BytesMut,
    /// The client has said all.
    received: bool,
    /// The peer has said all, or all but what the client has no room for.
    answered: bool,
    unsent: BytesMut,
    window: i64,
}

impl Http2Session {
    /// Begins with the peer's SETTINGS.
    pub(crate) fn new(settings: PeerSettings) -> Self {
        let mut session = Self::without_settings();
        session.send(&Frame::Settings(settings));
        session
    }

    /// Begins with nothing at all.
    pub(crate) fn without_settings() -> Self {
        Self {
            buffers: Buffers::default(),
            reader: FrameReader::new(),
            preface_seen: false,
            streams: BTreeMap::new(),
            last_stream: 0,
            window: DEFAULT_WINDOW,
            initial_window: DEFAULT_WINDOW,
            events: VecDeque::new(),
            answers_pings: true,
            gives_credit: true,
        }
    }

    /// The client's next frame, if it is there. What it calls for by itself is on its way already.
    pub(crate) fn receive(&mut self) -> io::Result<Option<Frame>> {
        if !self.preface_seen {
            let seen = self.buffers.incoming.len().min(PREFACE.len());
            // As far as it has come: a client of HTTP/1.1 is found out by its first bytes.
            expect(self.buffers.incoming[..seen] == PREFACE[..seen], "not the preface of HTTP/2")?;
            if seen < PREFACE.len() {
                return Ok(None);
            }
            self.buffers.incoming.advance(PREFACE.len());
            self.preface_seen = true;
        }
        let frame = self.reader.next(&mut self.buffers.incoming)?;
        if let Some(frame) = &frame {
            self.react(frame)?;
        }
        Ok(frame)
    }

    /// Sends a frame as it is, whether it makes sense or not.
    pub(crate) fn send(&mut self, frame: &Frame) {
        frame.write(&mut self.buffers.outgoing);
    }

    pub(crate) fn send_head(&mut self, stream: u32, answer: &Answer, end: bool) {
        let mut fields = vec![(":status".to_owned(), answer.status.to_string())];
        fields.extend(answer.headers.iter().cloned());
        self.send(&Frame::Headers { stream, fields, end });
        if end {
            self.note_answered(stream);
        }
    }

    /// Sends as much as the client has room for, if it still wants it, and keeps the rest until it makes room.
    pub(crate) fn send_data(&mut self, stream: u32, bytes: &[u8], end: bool) {
        if let Some(open) = self.streams.get_mut(&stream)
            && !open.answered
        {
            open.unsent.extend_from_slice(bytes);
            open.answered = end;
            self.send_what_fits(stream);
        }
    }

    pub(crate) fn reset(&mut self, stream: u32, reason: Reason) {
        self.streams.remove(&stream);
        self.send(&Frame::Reset { stream, reason });
    }

    fn is_open(&self, stream: u32) -> bool {
        self.streams.contains_key(&stream)
    }

    /// Whether the client has yet to make room for something.
    pub(crate) fn has_unsent(&self) -> bool {
        self.streams.values().any(|stream| !stream.unsent.is_empty())
    }

    pub(crate) fn give_credit(&mut self, gives: bool) {
        self.gives_credit = gives;
    }

    /// The highest stream that the client opened.
    pub(crate) fn last_stream(&self) -> u32 {
        self.last_stream
    }

    pub(crate) fn take_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn react(&mut self, frame: &Frame) -> io::Result<()> {
        match frame {
            Frame::Headers { stream, fields, end } => self.on_headers(*stream, fields, *end)?,
            Frame::Data { stream, bytes, end } => self.on_data(*stream, bytes, *end),
            Frame::Reset { stream, reason } => {
                self.streams.remove(stream);
                self.events.push_back(Event::Reset { stream: *stream, reason: *reason });
            }
            Frame::Settings(settings) => self.on_settings(settings),
            Frame::Ping(payload) => {
                if self.answers_pings {
                    self.send(&Frame::Pong(*payload));
                }
                self.events.push_back(Event::Pinged);
            }
            Frame::WindowUpdate { stream, increment } => self.on_credit(*stream, *increment),
            Frame::SettingsAck | Frame::Pong(_) | Frame::GoAway { .. } | Frame::Other { .. } => {}
        }
        Ok(())
    }

    fn on_headers(
        &mut self,
        stream: u32,
        fields: &[(String, String)],
        end: bool,
    ) -> io::Result<()> {
        // Numbers only rise (section 5.1.1): HEADERS of an older stream are its trailers.
        if stream > self.last_stream {
            expect(stream % 2 == 1, "a client's stream with an even number")?;
            self.last_stream = stream;
            let request = PeerRequest::from_fields(stream, fields);
            self.events.push_back(Event::Arrived { stream, path: request.path.clone() });
            self.streams.insert(stream, Stream::new(request, self.initial_window));
        }
        if end {
            self.note_received(stream);
        }
        Ok(())
    }

    fn on_data(&mut self, stream: u32, bytes: &Bytes, end: bool) {
        if self.gives_credit && !bytes.is_empty() {
            let increment = u32::try_from(bytes.len()).expect("a frame is small");
            // The connection has a window of its own (section 5.2.1), also for streams that are gone.
            self.send(&Frame::WindowUpdate { stream: 0, increment });
            if self.streams.contains_key(&stream) && !end {
                self.send(&Frame::WindowUpdate { stream, increment });
            }
        }
        if let Some(open) = self.streams.get_mut(&stream) {
            open.body.extend_from_slice(bytes);
        }
        if end {
            self.note_received(stream);
        }
    }

    fn on_settings(&mut self, settings: &PeerSettings) {
        if let Some(window) = settings.initial_window_size.map(i64::from) {
            // Section 6.9.2: a new initial size applies to open streams by the difference, which can make
            // their windows negative.
            let wider = window - self.initial_window;
            self.initial_window = window;
            self.streams.values_mut().for_each(|stream| stream.window += wider);
        }
        self.send(&Frame::SettingsAck);
        self.send_what_fits_anywhere();
    }

    fn on_credit(&mut self, stream: u32, increment: u32) {
        if stream == 0 {
            self.window += i64::from(increment);
            self.send_what_fits_anywhere();
        } else if let Some(open) = self.streams.get_mut(&stream) {
            open.window += i64::from(increment);
            self.send_what_fits(stream);
        }
    }

    fn send_what_fits_anywhere(&mut self) {
        let streams: Vec<u32> = self.streams.keys().copied().collect();
        streams.into_iter().for_each(|stream| self.send_what_fits(stream));
    }

    fn send_what_fits(&mut self, stream: u32) {
        while let Some(open) = self.streams.get_mut(&stream) {
            // A negative window is no room.
            let room = usize::try_from(self.window.min(open.window)).unwrap_or(0);
            let size = open.unsent.len().min(room).min(MAX_FRAME_SIZE);
            let bytes = open.unsent.split_to(size).freeze();
            let end = open.answered && open.unsent.is_empty();
            if size == 0 && !end {
                return;
            }
            let sent = i64::try_from(size).expect("a frame is small");
            open.window -= sent;
            self.window -= sent;
            self.send(&Frame::Data { stream, bytes, end });
            if end {
                return self.note_answered(stream);
            }
        }
    }

    fn note_answered(&mut self, stream: u32) {
        if let Some(open) = self.streams.get_mut(&stream) {
            open.answered = true;
            if open.received {
                self.streams.remove(&stream);
            }
        }
    }

    fn note_received(&mut self, stream: u32) {
        let Some(open) = self.streams.get_mut(&stream) else {
            return;
        };
        open.received = true;
        let body = open.body.split().freeze();
        let request = PeerRequest { body, ..open.request.clone() };
        if open.answered && open.unsent.is_empty() {
            self.streams.remove(&stream);
        }
        self.events.push_back(Event::Complete(request));
    }
}

impl Stream {
    fn new(request: PeerRequest, window: i64) -> Self {
        let (body, unsent) = (BytesMut::new(), BytesMut::new());
        Self { request, body, received: false, answered: false, unsent, window }
    }
}

impl Conversation for Http2Session {
    fn buffers(&mut self) -> &mut Buffers {
        &mut self.buffers
    }

    fn next_event(&mut self) -> io::Result<Option<Event>> {
        while self.events.is_empty() {
            if self.receive()?.is_none() {
                break;
            }
        }
        Ok(self.take_event())
    }

    fn open_streams(&self) -> usize {
        self.streams.len()
    }

    // A served request that the client has cancelled in the meantime gets no frames: they could
    // cost it the whole connection.

    fn answer(&mut self, stream: u32, answer: &Answer) {
        if self.is_open(stream) {
            self.send_head(stream, answer, answer.body.is_empty());
            self.send_data(stream, &answer.body, true);
        }
    }

    fn begin(&mut self, stream: u32, answer: &Answer) {
        if self.is_open(stream) {
            self.send_head(stream, answer, false);
            self.send_data(stream, &answer.body, false);
        }
    }

    fn finish(&mut self, stream: u32, rest: &[u8]) {
        self.send_data(stream, rest, true);
    }

    fn reset(&mut self, stream: u32, reason: Reason) -> bool {
        if self.is_open(stream) {
            Self::reset(self, stream, reason);
        }
        true
    }

    fn send_frame(&mut self, frame: &Frame) {
        self.send(frame);
    }

    fn answer_pings(&mut self, answers: bool) {
        self.answers_pings = answers;
    }
}

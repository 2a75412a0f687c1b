//! One HTTP/2 connection in the hands of a test, frame by frame.

use std::collections::VecDeque;
use std::io;

use bytes::Bytes;
use h2::Reason;

use super::conversation::{Conversation, Event};
use super::frame::{Frame, PeerSettings};
use super::http2::Http2Session;
use super::reply::Answer;
use super::request::PeerRequest;
use super::stream::PeerStream;
use super::wire::{Traffic, Wire, is_loss};
use crate::within_timeout;

/// An accepted connection.
///
/// Nothing happens on it except while one of its methods runs. Acknowledgements, pings and credit
/// are taken care of whenever frames are read, unless the test says otherwise.
pub struct PeerConnection {
    wire: Wire,
    session: Http2Session,
    /// Frames that came while something else was waited for.
    received: VecDeque<Frame>,
}

impl PeerConnection {
    pub(super) fn new(stream: PeerStream, session: Http2Session) -> Self {
        Self { wire: Wire::new(stream), session, received: VecDeque::new() }
    }

    /// The client's next frame, or nothing once it has closed the connection. No frame is lost if
    /// this is dropped before it is done.
    pub async fn recv(&mut self) -> Option<Frame> {
        if self.received.is_empty() {
            self.keep_next("a frame").await;
        }
        self.received.pop_front()
    }

    /// The client's next whole request.
    pub async fn next_request(&mut self) -> PeerRequest {
        loop {
            while let Some(event) = self.session.take_event() {
                if let Event::Complete(request) = event {
                    return request;
                }
            }
            let frame = self.recv().await;
            assert!(frame.is_some(), "the client closed the connection without a request");
        }
    }

    /// Waits for the first frame of which `pick` makes something, and forgets those before it.
    pub async fn recv_until<T>(&mut self, pick: impl Fn(&Frame) -> Option<T>) -> T {
        loop {
            let frame = self.recv().await.expect("the frame comes before the client closes");
            if let Some(found) = pick(&frame) {
                return found;
            }
        }
    }

    /// Waits until the client resets the stream, and returns why it did.
    pub async fn recv_reset(&mut self, stream: u32) -> Reason {
        self.recv_until(|frame| match frame {
            Frame::Reset { stream: reset, reason } if *reset == stream => Some(*reason),
            _ => None,
        })
        .await
    }

    /// Waits until the client has closed the connection.
    pub async fn until_closed(&mut self) {
        while self.recv().await.is_some() {}
    }

    /// Answers a request to its end.
    pub async fn respond(&mut self, stream: u32, answer: impl Into<Answer>) {
        self.session.answer(stream, &answer.into());
        self.flush().await;
    }

    /// Sends the head of a response, and its body as far as given, with more to come.
    pub async fn respond_head(&mut self, stream: u32, answer: impl Into<Answer>) {
        self.session.begin(stream, &answer.into());
        self.flush().await;
    }

    /// Sends a piece of a response, as far as the client has room for it. The rest goes as the
    /// client makes room, while frames are read.
    pub async fn send_data(&mut self, stream: u32, bytes: impl Into<Bytes>, end: bool) {
        self.session.send_data(stream, &bytes.into(), end);
        self.flush().await;
    }

    /// Waits until the client has made room for everything that was to be sent.
    pub async fn until_sent(&mut self) {
        while self.session.has_unsent() {
            let came = self.keep_next("room to send").await;
            assert!(came, "the client closed the connection before it made room");
        }
    }

    /// Resets a stream (RST_STREAM).
    pub async fn reset(&mut self, stream: u32, reason: Reason) {
        self.session.reset(stream, reason);
        self.flush().await;
    }

    /// Announces the end of the connection (GOAWAY).
    pub async fn go_away(&mut self, last_stream: u32, reason: Reason) {
        self.send(Frame::GoAway { last_stream, reason }).await;
    }

    /// Changes the settings in the middle of the connection.
    pub async fn send_settings(&mut self, settings: PeerSettings) {
        self.send(Frame::Settings(settings)).await;
    }

    /// Sends a ping and waits for its answer: the client has then read all that went before.
    pub async fn ping(&mut self) {
        let payload = *b"sidereal";
        self.send(Frame::Ping(payload)).await;
        while !self.received.contains(&Frame::Pong(payload)) {
            let came = self.keep_next("the answer to a ping").await;
            assert!(came, "the client closed the connection before it answered a ping");
        }
        self.received.retain(|frame| *frame != Frame::Pong(payload));
    }

    /// Sends any frame as it is, even one that breaks the protocol.
    pub async fn send(&mut self, frame: Frame) {
        self.session.send(&frame);
        self.flush().await;
    }

    /// Whether pings are answered as they are read; they are at first.
    pub fn answer_pings(&mut self, answers: bool) {
        self.session.answer_pings(answers);
    }

    /// Whether DATA is credited as it is read; it is at first. Without credit a client can send
    /// what the initial windows allow and no more.
    pub fn give_credit(&mut self, gives: bool) {
        self.session.give_credit(gives);
    }

    /// The highest stream that the client opened.
    pub fn last_stream(&self) -> u32 {
        self.session.last_stream()
    }

    /// The streams that are neither ended by both sides nor reset.
    pub fn open_streams(&self) -> usize {
        self.session.open_streams()
    }

    /// Leaves the connection open and never reads again, for as long as the result is kept.
    pub fn stop_reading(self) -> impl Send {
        self.wire
    }

    /// Ends the connection in order (FIN).
    pub fn close(self) {
        tokio::spawn(self.wire.close(self.session.buffers));
    }

    /// Ends the connection with a TCP reset.
    pub async fn abort(self) {
        self.wire.abort(self.session.buffers).await;
    }

    /// Reads one frame into `received`, and sends what it calls for. `false` if the client is gone.
    async fn keep_next(&mut self, what: &str) -> bool {
        let Some(frame) = within_timeout(what, self.read_frame()).await.unwrap() else {
            return false;
        };
        self.received.push_back(frame);
        // A client that is gone by now is noticed by the next read.
        let _ = self.wire.flush(&mut self.session.buffers).await;
        true
    }

    async fn read_frame(&mut self) -> io::Result<Option<Frame>> {
        loop {
            if let Some(frame) = self.session.receive()? {
                return Ok(Some(frame));
            }
            match self.wire.exchange(&mut self.session.buffers).await {
                Ok(Traffic::Moved) => {}
                Ok(Traffic::Ended) => return Ok(None),
                Err(error) if is_loss(&error) => return Ok(None),
                Err(error) => return Err(error),
            }
        }
    }

    async fn flush(&mut self) {
        self.wire.flush(&mut self.session.buffers).await.unwrap();
    }
}

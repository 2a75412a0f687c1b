//! HTTP/2 frames, read from bytes and written to bytes.
//!
//! Nothing here knows the state of a connection, except what HPACK and CONTINUATION force upon a
//! reader. A writer keeps no state at all: its fields are literals that enter no table, so frames
//! can be sent in any order, whether they make sense or not.

use std::io;

use bytes::{Buf, BufMut, Bytes, BytesMut};
use fluke_hpack::Decoder;
use fluke_hpack::encoder::encode_integer;
use h2::Reason;

/// SETTINGS_MAX_FRAME_SIZE as it begins (RFC 9113, section 6.5.2): everybody must accept it, and no peer here
/// goes beyond it or allows more.
pub(crate) const MAX_FRAME_SIZE: usize = 16_384;

/// A header block longer than this is no test's intention.
const MAX_HEADER_BLOCK: usize = 1024 * 1024;

const FRAME_HEADER_SIZE: usize = 9;

// Frame types (RFC 9113, section 6).
const DATA: u8 = 0x0;
const HEADERS: u8 = 0x1;
const RST_STREAM: u8 = 0x3;
const SETTINGS: u8 = 0x4;
const PING: u8 = 0x6;
const GOAWAY: u8 = 0x7;
const WINDOW_UPDATE: u8 = 0x8;
const CONTINUATION: u8 = 0x9;

// Flags. ACK and END_STREAM share a bit: which one it is depends on the type of the frame.
const ACK: u8 = 0x1;
const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// One frame. A HEADERS frame and its CONTINUATIONs are one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the fields are those of the frames of RFC 9113, section 6")]
pub enum Frame {
    /// A piece of a body.
    Data { stream: u32, bytes: Bytes, end: bool },
    /// The head of a message, its fields decoded.
    Headers { stream: u32, fields: Vec<(String, String)>, end: bool },
    /// RST_STREAM.
    Reset { stream: u32, reason: Reason },
    /// SETTINGS.
    Settings(PeerSettings),
    /// The acknowledgement of a SETTINGS frame.
    SettingsAck,
    /// PING.
    Ping([u8; 8]),
    /// The acknowledgement of a PING.
    Pong([u8; 8]),
    /// GOAWAY: no stream above `last_stream` is or will be processed.
    GoAway { last_stream: u32, reason: Reason },
    /// Flow-control credit, for a stream or (stream 0) the connection.
    WindowUpdate { stream: u32, increment: u32 },
    /// A kind that means nothing to a peer.
    Other { kind: u8, flags: u8, stream: u32, payload: Bytes },
}

/// The values of a SETTINGS frame; what is `None` is not in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerSettings {
    header_table_size: Option<u32>,
    enable_push: Option<u32>,
    /// SETTINGS_MAX_CONCURRENT_STREAMS.
    pub max_concurrent_streams: Option<u32>,
    /// SETTINGS_INITIAL_WINDOW_SIZE.
    pub initial_window_size: Option<u32>,
    /// SETTINGS_MAX_FRAME_SIZE.
    pub max_frame_size: Option<u32>,
    /// SETTINGS_MAX_HEADER_LIST_SIZE.
    pub max_header_list_size: Option<u32>,
}

impl PeerSettings {
    /// Settings that say nothing: the protocol's defaults, among them no limit on streams.
    pub fn new() -> Self {
        Self::default()
    }

    /// Limits how many streams the client may have open.
    pub fn max_concurrent_streams(mut self, streams: u32) -> Self {
        self.max_concurrent_streams = Some(streams);
        self
    }

    /// Sets the flow-control window that every stream begins with.
    pub fn initial_window_size(mut self, bytes: u32) -> Self {
        self.initial_window_size = Some(bytes);
        self
    }

    /// Limits the size of a header list.
    pub fn max_header_list_size(mut self, bytes: u32) -> Self {
        self.max_header_list_size = Some(bytes);
        self
    }

    /// Where the value of an identifier is kept, if it means something to a peer.
    fn slot(&mut self, identifier: u16) -> Option<&mut Option<u32>> {
        match identifier {
            1 => Some(&mut self.header_table_size),
            2 => Some(&mut self.enable_push),
            3 => Some(&mut self.max_concurrent_streams),
            4 => Some(&mut self.initial_window_size),
            5 => Some(&mut self.max_frame_size),
            6 => Some(&mut self.max_header_list_size),
            _ => None,
        }
    }

    fn read(mut payload: Bytes) -> Self {
        let mut settings = Self::new();
        while payload.remaining() >= 6 {
            let (identifier, value) = (payload.get_u16(), payload.get_u32());
            if let Some(slot) = settings.slot(identifier) {
                *slot = Some(value);
            }
        }
        settings
    }

    fn write(mut self) -> BytesMut {
        let mut payload = BytesMut::new();
        // The identifiers of section 6.5.2 are one after another.
        for identifier in 1..=6 {
            if let Some(&mut Some(value)) = self.slot(identifier) {
                payload.put_u16(identifier);
                payload.put_u32(value);
            }
        }
        payload
    }
}

impl Frame {
    /// Appends the frame to what is to be sent.
    pub fn write(&self, out: &mut BytesMut) {
        match self {
            Self::Data { stream, bytes, end } => {
                write_frame(out, DATA, flag(*end, END_STREAM), *stream, bytes);
            }
            Self::Headers { stream, fields, end } => write_headers(out, *stream, fields, *end),
            Self::Reset { stream, reason } => {
                write_frame(out, RST_STREAM, 0, *stream, &u32::from(*reason).to_be_bytes());
            }
            Self::Settings(settings) => write_frame(out, SETTINGS, 0, 0, &settings.write()),
            Self::SettingsAck => write_frame(out, SETTINGS, ACK, 0, &[]),
            Self::Ping(payload) => write_frame(out, PING, 0, 0, payload),
            Self::Pong(payload) => write_frame(out, PING, ACK, 0, payload),
            Self::GoAway { last_stream, reason } => {
                let mut payload = last_stream.to_be_bytes().to_vec();
                payload.put_u32(u32::from(*reason));
                write_frame(out, GOAWAY, 0, 0, &payload);
            }
            Self::WindowUpdate { stream, increment } => {
                write_frame(out, WINDOW_UPDATE, 0, *stream, &increment.to_be_bytes());
            }
            Self::Other { kind, flags, stream, payload } => {
                write_frame(out, *kind, *flags, *stream, payload);
            }
        }
    }
}

/// Reads frames, and remembers what spans several of them.
pub struct FrameReader {
    decoder: Decoder<'static>,
    unfinished: Option<HeaderBlock>,
}

/// A HEADERS frame whose CONTINUATIONs are still to come.
struct HeaderBlock {
    stream: u32,
    end: bool,
    block: BytesMut,
}

struct RawFrame {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: Bytes,
}

impl Default for FrameReader {
    fn default() -> Self {
        Self::new()
    }
}

impl FrameReader {
    /// A reader at the beginning of a connection.
    pub fn new() -> Self {
        Self { decoder: Decoder::new(), unfinished: None }
    }

    /// Takes the next whole frame, if it is there.
    pub fn next(&mut self, incoming: &mut BytesMut) -> io::Result<Option<Frame>> {
        while let Some(raw) = take_raw(incoming)? {
            let frame = match (raw.kind, &self.unfinished) {
                (CONTINUATION, Some(open)) if open.stream == raw.stream => {
                    self.continue_headers(&raw)?
                }
                // Section 6.10: CONTINUATION follows its own HEADERS, and nothing may come in between.
                (CONTINUATION, _) => return Err(violation("a CONTINUATION of nothing")),
                (_, Some(_)) => return Err(violation("a frame within a header block")),
                (HEADERS, None) => self.begin_headers(&raw)?,
                (_, None) => Some(understand(raw)?),
            };
            if frame.is_some() {
                return Ok(frame);
            }
        }
        Ok(None)
    }

    fn begin_headers(&mut self, raw: &RawFrame) -> io::Result<Option<Frame>> {
        let mut fragment = without_padding(raw)?;
        if raw.flags & PRIORITY != 0 {
            // Section 6.2: a deprecated priority of five bytes comes before the field block.
            expect(fragment.len() >= 5, "HEADERS too short for its priority")?;
            fragment.advance(5);
        }
        let end = raw.flags & END_STREAM != 0;
        let block = BytesMut::from(fragment);
        self.unfinished = Some(HeaderBlock { stream: raw.stream, end, block });
        self.finish_headers(raw.flags)
    }

    fn continue_headers(&mut self, raw: &RawFrame) -> io::Result<Option<Frame>> {
        if let Some(open) = &mut self.unfinished {
            open.block.extend_from_slice(&raw.payload);
            expect(open.block.len() <= MAX_HEADER_BLOCK, "an endless header block")?;
        }
        self.finish_headers(raw.flags)
    }

    fn finish_headers(&mut self, flags: u8) -> io::Result<Option<Frame>> {
        if flags & END_HEADERS == 0 {
            return Ok(None);
        }
        let Some(HeaderBlock { stream, end, block }) = self.unfinished.take() else {
            return Ok(None);
        };
        // Decoded also if nobody wants the fields: HPACK's dynamic table is shared by all of the connection.
        let decoded = self.decoder.decode(&block);
        let decoded = decoded.map_err(|error| violation(&format!("bad HPACK: {error:?}")))?;
        let fields = decoded.into_iter().map(|(name, value)| (text(name), text(value))).collect();
        Ok(Some(Frame::Headers { stream, fields, end }))
    }
}

/// The client broke the protocol.
pub(crate) fn violation(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

pub(crate) fn expect(holds: bool, otherwise: &str) -> io::Result<()> {
    if holds { Ok(()) } else { Err(violation(otherwise)) }
}

fn take_raw(incoming: &mut BytesMut) -> io::Result<Option<RawFrame>> {
    let Some(mut header) = incoming.get(..FRAME_HEADER_SIZE) else {
        return Ok(None);
    };
    let size = usize::try_from(header.get_uint(3)).expect("three bytes fit");
    let (kind, flags) = (header.get_u8(), header.get_u8());
    // Section 4.1: the highest bit is reserved and ignored.
    let stream = header.get_u32() & 0x7fff_ffff;
    expect(size <= MAX_FRAME_SIZE, "a frame larger than allowed")?;
    if incoming.len() < FRAME_HEADER_SIZE + size {
        return Ok(None);
    }
    incoming.advance(FRAME_HEADER_SIZE);
    Ok(Some(RawFrame { kind, flags, stream, payload: incoming.split_to(size).freeze() }))
}

fn understand(raw: RawFrame) -> io::Result<Frame> {
    let RawFrame { kind, flags, stream, .. } = raw;
    let mut payload = without_padding(&raw)?;
    let acknowledges = flags & ACK != 0;
    // A shorter frame would be a connection error of type FRAME_SIZE_ERROR (section 4.2).
    let least = match kind {
        RST_STREAM | WINDOW_UPDATE => 4,
        PING | GOAWAY => 8,
        _ => 0,
    };
    expect(payload.len() >= least, "a frame that is too short")?;
    Ok(match kind {
        DATA => Frame::Data { stream, bytes: payload, end: flags & END_STREAM != 0 },
        RST_STREAM => Frame::Reset { stream, reason: payload.get_u32().into() },
        SETTINGS if acknowledges => Frame::SettingsAck,
        SETTINGS => Frame::Settings(PeerSettings::read(payload)),
        PING if acknowledges => Frame::Pong(payload.get_u64().to_be_bytes()),
        PING => Frame::Ping(payload.get_u64().to_be_bytes()),
        GOAWAY => {
            let last_stream = payload.get_u32();
            Frame::GoAway { last_stream, reason: payload.get_u32().into() }
        }
        WINDOW_UPDATE => Frame::WindowUpdate { stream, increment: payload.get_u32() },
        _ => Frame::Other { kind, flags, stream, payload },
    })
}

fn without_padding(raw: &RawFrame) -> io::Result<Bytes> {
    let mut payload = raw.payload.clone();
    if matches!(raw.kind, DATA | HEADERS) && raw.flags & PADDED != 0 {
        expect(!payload.is_empty(), "padding of unknown length")?;
        let padding = usize::from(payload.get_u8());
        expect(padding <= payload.len(), "more padding than frame")?;
        payload.truncate(payload.len() - padding);
    }
    Ok(payload)
}

fn write_frame(out: &mut BytesMut, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.put_uint(payload.len() as u64, 3);
    out.put_u8(kind);
    out.put_u8(flags);
    out.put_u32(stream);
    out.put_slice(payload);
}

fn write_headers(out: &mut BytesMut, stream: u32, fields: &[(String, String)], end: bool) {
    let mut block = Vec::new();
    for (name, value) in fields {
        // RFC 7541, section 6.2.2: a literal without indexing, whose name is a literal too.
        block.push(0);
        for text in [name, value] {
            block.extend(encode_integer(text.len(), 7));
            block.extend(text.as_bytes());
        }
    }
    let mut fragments = block.chunks(MAX_FRAME_SIZE).peekable();
    let mut kind_and_flags = (HEADERS, flag(end, END_STREAM));
    while let Some(fragment) = fragments.next() {
        let (kind, flags) = kind_and_flags;
        let last = flag(fragments.peek().is_none(), END_HEADERS);
        write_frame(out, kind, flags | last, stream, fragment);
        kind_and_flags = (CONTINUATION, 0);
    }
}

fn flag(set: bool, flag: u8) -> u8 {
    if set { flag } else { 0 }
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

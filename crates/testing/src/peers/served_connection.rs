//! One connection of a served peer, from its acceptance to its end.

use std::io;
use std::sync::Arc;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::sync::mpsc::UnboundedReceiver;

use super::conversation::{Conversation, Event};
use super::endpoint::{Endpoint, Speaks};
use super::frame::Frame;
use super::http1::Http1Session;
use super::http2::Http2Session;
use super::record::{Arrival, Protocol};
use super::reply::Reply;
use super::request::{ArrivedRequest, PeerRequest};
use super::serve::{Command, HeldReply, Shared};
use super::stream::PeerStream;
use super::wire::{Traffic, Wire, is_loss};

/// Serves a connection until either side ends it.
pub(super) async fn run(
    shared: Arc<Shared>,
    number: usize,
    tcp: TcpStream,
    mut commands: UnboundedReceiver<Command>,
) {
    let Ok((stream, protocol, conversation)) = begin(&shared.endpoint(), tcp).await else {
        shared.record.change(|seen| {
            seen.failed_handshakes += 1;
            seen.connections[number].open = false;
        });
        return;
    };
    shared.record.change(|seen| seen.connections[number].protocol = Some(protocol));
    let arrivals = Vec::new();
    let mut connection = ServedConnection { shared, number, conversation, arrivals, ending: None };
    connection.serve(Wire::new(stream), &mut commands).await;
}

struct ServedConnection {
    shared: Arc<Shared>,
    number: usize,
    conversation: Box<dyn Conversation>,
    /// The streams that arrived whose requests are not whole, with their ordinal among all arrivals.
    arrivals: Vec<(u32, usize)>,
    ending: Option<Ending>,
}

#[derive(Clone, Copy)]
enum Ending {
    /// By the client, or by its breaking the protocol.
    Lost,
    Close,
    Abort,
}

impl ServedConnection {
    async fn serve(&mut self, mut wire: Wire, commands: &mut UnboundedReceiver<Command>) {
        let ending = loop {
            self.process_events();
            if let Some(ending) = self.ending {
                break ending;
            }
            // Unbiased: `exchange` loses nothing when it is dropped, and commands come one at a time.
            tokio::select! {
                moved = wire.exchange(self.conversation.buffers()) => self.note_traffic(moved),
                Some(command) = commands.recv() => self.run_command(command, &mut wire),
            }
        };
        self.note_end();
        let buffers = std::mem::take(self.conversation.buffers());
        match ending {
            Ending::Lost => {}
            Ending::Close => wire.close(buffers).await,
            Ending::Abort => wire.abort(buffers).await,
        }
    }

    /// Deals with everything that has arrived.
    fn process_events(&mut self) {
        while self.ending.is_none() {
            match self.conversation.next_event() {
                Ok(Some(event)) => self.on(event),
                Ok(None) => return,
                Err(error) => self.note_violation(&error),
            }
        }
    }

    fn on(&mut self, event: Event) {
        match event {
            Event::Arrived { stream, path } => self.on_arrival(stream, path),
            Event::Complete(request) => self.on_request(request),
            Event::Reset { stream, reason } => {
                self.note_open_streams();
                self.forget_held(Some(stream));
                self.shared.record.change(|seen| {
                    seen.connections[self.number].resets.push(reason);
                });
            }
            Event::Pinged => {
                self.shared.record.change(|seen| seen.connections[self.number].pings += 1);
            }
        }
    }

    fn on_arrival(&mut self, stream: u32, path: String) {
        let open = self.conversation.open_streams();
        let connection = self.number;
        let ordinal = self.shared.record.change(|seen| {
            seen.arrivals.push(Arrival { connection, stream, path });
            seen.connections[connection].requests += 1;
            seen.set_open_streams(connection, open);
            seen.arrivals.len() - 1
        });
        self.arrivals.push((stream, ordinal));
    }

    fn on_request(&mut self, request: PeerRequest) {
        let stream = request.stream;
        let index = self.arrivals.iter().position(|(arrived, _)| *arrived == stream);
        let (_, ordinal) = self.arrivals.swap_remove(index.expect("a request begins with a head"));
        let arrived = ArrivedRequest { connection: self.number, ordinal, request };
        let reply = (self.shared.behaviour)(&arrived);
        self.reply(ordinal, stream, reply);
    }

    fn run_command(&mut self, command: Command, wire: &mut Wire) {
        match command {
            Command::Reply { ordinal, stream, reply } => self.reply(ordinal, stream, reply),
            Command::Send(frame) => self.conversation.send_frame(&frame),
            Command::AnswerPings(answers) => self.conversation.answer_pings(answers),
            Command::StopReading => wire.stop_reading(),
            Command::Close => self.ending = Some(Ending::Close),
            Command::Abort => self.ending = Some(Ending::Abort),
        }
    }

    fn reply(&mut self, ordinal: usize, stream: u32, reply: Reply) {
        match reply {
            Reply::Answer(answer) => self.conversation.answer(stream, &answer),
            Reply::Begin(answer, then) => {
                self.conversation.begin(stream, &answer);
                self.reply(ordinal, stream, *then);
            }
            Reply::Finish(rest) => self.conversation.finish(stream, &rest),
            Reply::Hold(then) => self.hold(ordinal, stream, *then),
            Reply::When(gate, then) => {
                let (shared, number) = (Arc::clone(&self.shared), self.number);
                tokio::spawn(async move {
                    gate.opened().await;
                    shared.command(number, Command::Reply { ordinal, stream, reply: *then });
                });
            }
            Reply::Reset(reason) => {
                if !self.conversation.reset(stream, reason) {
                    self.ending = Some(Ending::Abort);
                }
            }
            Reply::GoAway { last_stream, reason, then } => {
                self.conversation.send_frame(&Frame::GoAway { last_stream, reason });
                self.reply(ordinal, stream, *then);
            }
            Reply::Hang => {}
            Reply::Close => self.ending = Some(Ending::Close),
            Reply::Abort => self.ending = Some(Ending::Abort),
        }
        self.note_open_streams();
    }

    fn hold(&mut self, ordinal: usize, stream: u32, then: Reply) {
        let held = HeldReply { connection: self.number, stream, then };
        if let Some(then) = self.shared.hold(ordinal, held) {
            self.reply(ordinal, stream, then);
        }
    }

    fn note_open_streams(&self) {
        let open = self.conversation.open_streams();
        self.shared.record.change(|seen| seen.set_open_streams(self.number, open));
    }

    fn note_traffic(&mut self, moved: io::Result<Traffic>) {
        match moved {
            Ok(Traffic::Moved) => self.note_open_streams(),
            Ok(Traffic::Ended) => self.ending = Some(Ending::Lost),
            Err(error) => self.note_violation(&error),
        }
    }

    fn note_violation(&mut self, error: &io::Error) {
        if !is_loss(error) {
            let violation = format!("connection {}: {error}", self.number);
            self.shared.record.change(|seen| seen.violations.push(violation));
        }
        self.ending = Some(Ending::Lost);
    }

    /// Notes the end of the connection, before the client can know of it.
    fn note_end(&self) {
        self.forget_held(None);
        self.shared.record.change(|seen| {
            seen.set_open_streams(self.number, 0);
            seen.connections[self.number].open = false;
        });
    }

    /// Forgets what is held of one stream, or of all.
    fn forget_held(&self, stream: Option<u32>) {
        self.shared.forget_held(|held| {
            held.connection == self.number && stream.is_none_or(|stream| held.stream == stream)
        });
    }
}

/// Finds out which protocol is to be spoken, and begins to speak it.
async fn begin(
    endpoint: &Endpoint,
    tcp: TcpStream,
) -> io::Result<(PeerStream, Protocol, Box<dyn Conversation>)> {
    let mut stream = endpoint.secure(tcp).await?;
    let mut beginning = Vec::new();
    let protocol = match endpoint.speaks {
        Speaks::Http2 | Speaks::Http2Unannounced => Protocol::Http2,
        Speaks::Http1 | Speaks::Http1Unannounced => Protocol::Http1,
        Speaks::Both if stream.alpn() == Some(b"h2") => Protocol::Http2,
        Speaks::Both if stream.is_tls() => Protocol::Http1,
        Speaks::Both => {
            // HTTP/2 begins with `PRI`. One letter would not do: so many methods begin with `P`.
            for _ in 0..2 {
                beginning.push(stream.read_u8().await?);
            }
            if beginning == *b"PR" { Protocol::Http2 } else { Protocol::Http1 }
        }
    };
    let mut conversation: Box<dyn Conversation> = match protocol {
        Protocol::Http2 => Box::new(Http2Session::new(endpoint.settings)),
        Protocol::Http1 => Box::<Http1Session>::default(),
    };
    conversation.buffers().incoming.extend_from_slice(&beginning);
    Ok((stream, protocol, conversation))
}

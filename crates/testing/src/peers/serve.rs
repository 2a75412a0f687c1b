//! A peer that serves any number of connections by a test's behaviour.
//!
//! Each connection is a task of its own. It alone talks on its socket; the test reaches it through
//! commands, and through the record learns what it saw. A change is in the record before the bytes
//! that tell the client of it are sent: a count is never higher than what the client was entitled
//! to believe.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use h2::Reason;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::{JoinError, JoinHandle, JoinSet};

use super::endpoint::{Endpoint, Speaks};
use super::frame::{Frame, PeerSettings};
use super::record::{ConnectionSeen, Record, Seen};
use super::reply::{Gate, Reply};
use super::request::ArrivedRequest;
use super::served_connection;

/// More connections than this are no test's intention.
const MAX_CONNECTIONS: usize = 512;

pub(super) type Behaviour = dyn Fn(&ArrivedRequest) -> Reply + Send + Sync;

/// A peer at work. It stops when dropped, with all its connections.
pub struct ServedPeer {
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

/// The state that the connections of a served peer share.
pub(super) struct Shared {
    endpoint: Mutex<Endpoint>,
    pub(super) behaviour: Arc<Behaviour>,
    pub(super) record: Record<Seen>,
    stop_accepting: Gate,
    held: Mutex<Held>,
    /// Where each connection takes its commands, in the order of acceptance. As many as the test
    /// gives, so there is no bound to run into.
    commands: Mutex<Vec<mpsc::UnboundedSender<Command>>>,
}

/// The requests that wait for the test, in the order of their arrival.
#[derive(Default)]
struct Held {
    by_ordinal: BTreeMap<usize, HeldReply>,
    /// Nothing is held any more.
    released_for_good: bool,
}

pub(super) struct HeldReply {
    pub(super) connection: usize,
    pub(super) stream: u32,
    pub(super) then: Reply,
}

/// A command to a connection.
#[derive(Debug)]
pub(super) enum Command {
    Reply { ordinal: usize, stream: u32, reply: Reply },
    Send(Frame),
    AnswerPings(bool),
    StopReading,
    Close,
    Abort,
}

impl ServedPeer {
    pub(super) fn start(
        listener: TcpListener,
        endpoint: Endpoint,
        behaviour: Arc<Behaviour>,
    ) -> Self {
        let shared = Arc::new(Shared {
            endpoint: Mutex::new(endpoint),
            behaviour,
            record: Record::new(Seen { listening: true, ..Seen::default() }),
            stop_accepting: Gate::new(),
            held: Mutex::default(),
            commands: Mutex::default(),
        });
        let accepting = tokio::spawn(accept_all(listener, Arc::clone(&shared)));
        Self { shared, accepting }
    }

    /// The socket address.
    pub fn address(&self) -> SocketAddr {
        self.shared.endpoint().address
    }

    /// The address as a client is given it, by the name of loopback.
    pub fn url(&self) -> String {
        self.shared.endpoint().url()
    }

    /// Speaks otherwise from the next connection on, as an endpoint does that is redeployed.
    pub fn speak(&self, speaks: Speaks) {
        self.shared.endpoint.lock().unwrap().speak(speaks);
    }

    /// The record of the peer so far.
    pub fn seen(&self) -> Seen {
        self.shared.record.now()
    }

    /// Waits until what the peer has seen meets the condition.
    ///
    /// Fails the test if it does not, and also if the client broke the protocol or the behaviour
    /// panicked meanwhile: nothing that follows would be worth waiting for.
    pub async fn until(&self, condition: impl Fn(&Seen) -> bool) -> Seen {
        let reached = |seen: &Seen| condition(seen) || !seen.violations.is_empty();
        let seen = self.shared.record.until(reached).await;
        assert!(seen.violations.is_empty(), "something went wrong at the peer: {seen:#?}");
        seen
    }

    /// Releases what is held, and holds nothing from now on.
    pub fn release_all(&self) {
        let all = self.shared.change_held(|held| {
            held.released_for_good = true;
            std::mem::take(&mut held.by_ordinal)
        });
        all.into_iter().for_each(|(ordinal, reply)| self.shared.release(ordinal, reply));
    }

    /// Releases the `count` requests that arrived first among those held. Wait for `held` to be as
    /// large before: a request that is not whole yet is not held either.
    pub fn release_next(&self, count: usize) {
        for released in 0..count {
            let next = self.shared.change_held(|held| held.by_ordinal.pop_first());
            let Some((ordinal, reply)) = next else {
                panic!("only {released} requests were held, {count} were to be released");
            };
            self.shared.release(ordinal, reply);
        }
    }

    /// Announces the end of a connection (GOAWAY).
    pub fn go_away(&self, connection: usize, last_stream: u32, reason: Reason) {
        self.send(connection, Frame::GoAway { last_stream, reason });
    }

    /// Changes the settings in the middle of a connection.
    pub fn send_settings(&self, connection: usize, settings: PeerSettings) {
        self.send(connection, Frame::Settings(settings));
    }

    /// Sends any frame of HTTP/2 as it is.
    pub fn send(&self, connection: usize, frame: Frame) {
        self.shared.command(connection, Command::Send(frame));
    }

    /// Whether pings on a connection are answered; they are at first.
    pub fn answer_pings(&self, connection: usize, answers: bool) {
        self.shared.command(connection, Command::AnswerPings(answers));
    }

    /// Leaves a connection open and reads no more from it.
    pub fn stop_reading(&self, connection: usize) {
        self.shared.command(connection, Command::StopReading);
    }

    /// Ends the connection in order (FIN).
    pub fn close(&self, connection: usize) {
        self.shared.command(connection, Command::Close);
    }

    /// Ends the connection with a TCP reset.
    pub fn abort(&self, connection: usize) {
        self.shared.command(connection, Command::Abort);
    }

    /// Closes the port, and waits until it is closed. What is open goes on.
    pub async fn stop_accepting(&self) {
        self.shared.stop_accepting.open();
        self.until(|seen| !seen.listening).await;
    }
}

impl Drop for ServedPeer {
    fn drop(&mut self) {
        self.accepting.abort(); // The connections are the task's own and end with it.
    }
}

impl Shared {
    /// The fate of the next connection.
    pub(super) fn endpoint(&self) -> Endpoint {
        self.endpoint.lock().unwrap().clone()
    }

    /// Keeps a request for the test to release; gives it back if nothing is held any more.
    pub(super) fn hold(&self, ordinal: usize, reply: HeldReply) -> Option<Reply> {
        self.change_held(|held| {
            if held.released_for_good {
                return Some(reply.then);
            }
            held.by_ordinal.insert(ordinal, reply);
            None
        })
    }

    /// Forgets held requests that the client cancelled.
    pub(super) fn forget_held(&self, is_gone: impl Fn(&HeldReply) -> bool) {
        self.change_held(|held| held.by_ordinal.retain(|_, reply| !is_gone(reply)));
    }

    pub(super) fn command(&self, connection: usize, command: Command) {
        let commands = self.commands.lock().unwrap();
        // A connection that is gone has nothing left to be told.
        let _ = commands[connection].send(command);
    }

    fn release(&self, ordinal: usize, reply: HeldReply) {
        let HeldReply { connection, stream, then } = reply;
        self.command(connection, Command::Reply { ordinal, stream, reply: then });
    }

    fn change_held<R>(&self, change: impl FnOnce(&mut Held) -> R) -> R {
        let mut held = self.held.lock().unwrap();
        let result = change(&mut held);
        self.record.change(|seen| seen.held = held.by_ordinal.len());
        result
    }

    /// Passes on a panic, which would go unnoticed in its task.
    fn note_end(&self, ended: Result<(), JoinError>) {
        if let Err(panic) = ended {
            self.record.change(|seen| seen.violations.push(panic.to_string()));
        }
    }

    /// Gives a connection its number; what is returned serves it to its end.
    fn register(self: &Arc<Self>, tcp: TcpStream) -> impl Future<Output = ()> + use<> {
        let (sender, commands) = mpsc::unbounded_channel();
        self.commands.lock().unwrap().push(sender);
        let connection = self.record.change(|seen| {
            seen.connections.push(ConnectionSeen { open: true, ..ConnectionSeen::default() });
            seen.connections.len() - 1
        });
        served_connection::run(Arc::clone(self), connection, tcp, commands)
    }
}

async fn accept_all(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    let mut stop_accepting = std::pin::pin!(shared.stop_accepting.opened());
    while connections.len() < MAX_CONNECTIONS {
        // Unbiased: one more connection before the port closes is within what a test may see.
        tokio::select! {
            () = &mut stop_accepting => break,
            accepted = listener.accept() => {
                let (tcp, _) = accepted.unwrap();
                connections.spawn(shared.register(tcp));
            }
            Some(ended) = connections.join_next() => shared.note_end(ended),
        }
    }
    drop(listener);
    shared.record.change(|seen| {
        seen.listening = false;
        if connections.len() == MAX_CONNECTIONS {
            seen.violations.push(format!("{MAX_CONNECTIONS} connections at once"));
        }
    });
    while let Some(ended) = connections.join_next().await {
        shared.note_end(ended);
    }
}

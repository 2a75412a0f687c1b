//! Records of a peer, for a test to wait on and to assert on.
//!
//! Only the newest state is there to be waited on. So a condition is either one that stays true
//! until the test acts (so many streams are open, and all are held) or one over what only grows.

use std::fmt::Debug;
use std::sync::Arc;

use h2::Reason;
use tokio::sync::watch;

use crate::TEST_TIMEOUT;

/// A state that one side changes and another waits on.
pub struct Record<T>(Arc<watch::Sender<T>>);

/// Everything a served peer has seen.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// The port is open.
    pub listening: bool,
    /// The connections in the order of acceptance, closed ones too.
    pub connections: Vec<ConnectionSeen>,
    /// The requests in the order in which their heads arrived.
    pub arrivals: Vec<Arrival>,
    /// Requests that wait to be released.
    pub held: usize,
    /// The most streams that were ever open at once, over all connections.
    pub most_streams: usize,
    /// Connections that ended before the first byte of HTTP, most often over a certificate.
    pub failed_handshakes: usize,
    /// The failure of a peer: a broken protocol, or a panic of the test's own behaviour.
    pub violations: Vec<String>,
}

/// The record of one connection of a served peer.
#[derive(Clone, Debug, Default)]
pub struct ConnectionSeen {
    /// Neither side has ended it.
    pub open: bool,
    /// Known once the handshake is done.
    pub protocol: Option<Protocol>,
    /// Streams that are open now.
    pub open_streams: usize,
    /// The most streams that were ever open at once.
    pub most_streams: usize,
    /// Requests whose head arrived.
    pub requests: usize,
    /// The resets that the client sent.
    pub resets: Vec<Reason>,
    /// PINGs that the client sent.
    pub pings: usize,
}

/// The version of HTTP that a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2.
    Http2,
}

/// One request that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The number of its connection in the order of acceptance, from 0.
    pub connection: usize,
    /// Its stream.
    pub stream: u32,
    /// Its path.
    pub path: String,
}

impl Seen {
    /// How many connections were accepted.
    pub fn accepted(&self) -> usize {
        self.connections.len()
    }

    /// How many connections are open.
    pub fn open_connections(&self) -> usize {
        self.connections.iter().filter(|connection| connection.open).count()
    }

    /// How many streams are open, over all connections.
    pub fn open_streams(&self) -> usize {
        self.connections.iter().map(|connection| connection.open_streams).sum()
    }

    /// The most streams that were ever open at once on any one connection.
    pub fn most_streams_on_a_connection(&self) -> usize {
        self.connections.iter().map(|connection| connection.most_streams).max().unwrap_or(0)
    }

    /// Streams that the client reset with `CANCEL`.
    pub fn cancelled(&self) -> usize {
        let resets = self.connections.iter().flat_map(|connection| &connection.resets);
        resets.filter(|&&reason| reason == Reason::CANCEL).count()
    }

    /// The paths of the requests in the order in which they arrived.
    pub fn paths(&self) -> Vec<&str> {
        self.arrivals.iter().map(|arrival| arrival.path.as_str()).collect()
    }

    /// Notes how many streams a connection has open now.
    pub(super) fn set_open_streams(&mut self, connection: usize, open: usize) {
        let seen = &mut self.connections[connection];
        seen.open_streams = open;
        seen.most_streams = seen.most_streams.max(open);
        self.most_streams = self.most_streams.max(self.open_streams());
    }
}

impl<T> Clone for Record<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T: Clone + Debug> Record<T> {
    /// A record that begins with a state.
    pub fn new(state: T) -> Self {
        Self(Arc::new(watch::Sender::new(state)))
    }

    /// The state at this moment.
    pub fn now(&self) -> T {
        self.0.borrow().clone()
    }

    /// Waits until the condition holds, and returns the state in which it did. Fails the test, and
    /// prints the last state, when it does not come to hold.
    pub async fn until(&self, condition: impl Fn(&T) -> bool) -> T {
        let mut state = self.0.subscribe();
        let waiting = state.wait_for(|state| condition(state));
        if let Ok(reached) = tokio::time::timeout(TEST_TIMEOUT, waiting).await {
            return reached.expect("the record itself keeps its state alive").clone();
        }
        panic!("timed out after {TEST_TIMEOUT:?}; the last state of the peer is {:#?}", self.now());
    }

    /// Changes the state and wakes waiters.
    pub(super) fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let mut result = None;
        self.0.send_modify(|state| result = Some(change(state)));
        result.expect("the change was made")
    }
}

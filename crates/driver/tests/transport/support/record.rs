//! What a peer has seen, for a test to wait on and to judge.
//!
//! Only the newest state is there to be waited on. So a condition is either one that stays true
//! until the test acts (so many streams are open, and all are held) or one over what only grows.

use std::fmt::Debug;
use std::sync::Arc;

use h2::Reason;
use tokio::sync::watch;

use super::patience::PATIENCE;

/// A state that one side changes and another waits on.
pub(crate) struct Record<T>(Arc<watch::Sender<T>>);

/// Everything a served peer has seen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    /// The port is open.
    pub(crate) listening: bool,
    /// The connections in the order of acceptance, closed ones too.
    pub(crate) connections: Vec<ConnectionSeen>,
    /// The requests in the order in which their heads arrived.
    pub(crate) arrivals: Vec<Arrival>,
    /// Requests that wait to be released.
    pub(crate) held: usize,
    /// The most streams that were ever open at once, over all connections.
    pub(crate) most_streams: usize,
    /// Connections that ended before the first byte of HTTP, most often over a certificate.
    pub(crate) failed_handshakes: usize,
    /// What must not happen: a broken protocol, or a panic of the test's own behaviour.
    pub(crate) violations: Vec<String>,
}

/// What a served peer has seen of one connection.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConnectionSeen {
    pub(crate) open: bool,
    /// Known once the handshake is done.
    pub(crate) protocol: Option<Protocol>,
    pub(crate) open_streams: usize,
    /// The most streams that were ever open at once.
    pub(crate) most_streams: usize,
    pub(crate) requests: usize,
    /// The resets that the client sent.
    pub(crate) resets: Vec<Reason>,
    pub(crate) pings: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Http1,
    Http2,
}

/// One request that arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    pub(crate) connection: usize,
    pub(crate) stream: u32,
    pub(crate) path: String,
}

impl Seen {
    pub(crate) fn accepted(&self) -> usize {
        self.connections.len()
    }

    pub(crate) fn open_connections(&self) -> usize {
        self.connections.iter().filter(|connection| connection.open).count()
    }

    pub(crate) fn open_streams(&self) -> usize {
        self.connections.iter().map(|connection| connection.open_streams).sum()
    }

    /// The most streams that were ever open at once on any one connection.
    pub(crate) fn most_streams_on_a_connection(&self) -> usize {
        self.connections.iter().map(|connection| connection.most_streams).max().unwrap_or(0)
    }

    /// Streams that the client reset with `CANCEL`.
    pub(crate) fn cancelled(&self) -> usize {
        let resets = self.connections.iter().flat_map(|connection| &connection.resets);
        resets.filter(|&&reason| reason == Reason::CANCEL).count()
    }

    /// The paths of the requests in the order in which they arrived.
    pub(crate) fn paths(&self) -> Vec<&str> {
        self.arrivals.iter().map(|arrival| arrival.path.as_str()).collect()
    }

    /// Notes how many streams a connection has open now.
    pub(crate) fn set_open_streams(&mut self, connection: usize, open: usize) {
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
    pub(crate) fn new(state: T) -> Self {
        Self(Arc::new(watch::Sender::new(state)))
    }

    /// The state at this moment.
    pub(crate) fn now(&self) -> T {
        self.0.borrow().clone()
    }

    /// Waits until the condition holds, and returns the state in which it did. Fails the test, and
    /// prints the last state, when it does not come to hold.
    pub(crate) async fn until(&self, condition: impl Fn(&T) -> bool) -> T {
        let mut state = self.0.subscribe();
        let waiting = state.wait_for(|state| condition(state));
        if let Ok(reached) = tokio::time::timeout(PATIENCE, waiting).await {
            return reached.expect("the record itself keeps its state alive").clone();
        }
        panic!("waited {PATIENCE:?} in vain; the last the peer saw is {:#?}", self.now());
    }

    /// Changes the state and wakes whoever waits.
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let mut result = None;
        self.0.send_modify(|state| result = Some(change(state)));
        result.expect("the change was made")
    }
}

//! Addresses at which nothing happens.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::JoinHandle;

use super::record::Record;

/// How many connections may fit into a listener that has no room before filling it is abandoned.
const MAX_FILLERS: usize = 64;

/// A connection over loopback is made at once or, with nobody to take it, not at all.
const UNANSWERED: Duration = Duration::from_millis(250);

/// Accepts connections and never says a word: TLS handshakes and requests hang.
pub struct SilentListener {
    address: SocketAddr,
    accepted: Record<usize>,
    accepting: JoinHandle<()>,
}

impl SilentListener {
    /// Listens on a free port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepted = Record::new(0);
        let counted = accepted.clone();
        let accepting = tokio::spawn(async move {
            let mut kept = Vec::new();
            loop {
                kept.push(listener.accept().await.unwrap());
                counted.change(|accepted| *accepted = kept.len());
            }
        });
        Self { address, accepted, accepting }
    }

    /// The socket address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until so many connections were made.
    pub async fn until_accepted(&self, count: usize) {
        self.accepted.until(|accepted| *accepted >= count).await;
    }
}

impl Drop for SilentListener {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

/// An address at which connecting hangs: a listener that accepts nothing and whose queue is full.
///
/// Linux drops further SYNs of such a listener, so the client goes on repeating its own for minutes.
pub struct FullListener {
    listener: TcpListener,
    _fillers: Vec<TcpStream>,
}

impl FullListener {
    /// Fills a queue, and sees for itself that it is full.
    pub async fn start() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
        // Linux takes one or two more than the backlog says; the loop below finds out.
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut fillers = Vec::new();
        while let Ok(filler) = tokio::time::timeout(UNANSWERED, TcpStream::connect(address)).await {
            fillers.push(filler.unwrap());
            assert!(fillers.len() < MAX_FILLERS, "the queue of a listener never fills here");
        }
        Self { listener, _fillers: fillers }
    }

    /// The socket address.
    pub fn address(&self) -> SocketAddr {
        self.listener.local_addr().unwrap()
    }
}

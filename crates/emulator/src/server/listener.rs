//! Accepting connections, and the graceful shutdown of a server.
//!
//! The accept loop owns every connection's task (structured concurrency). Dropping the [`Server`] aborts the
//! loop and with it the connections; [`Server::shutdown`] first lets the requests in flight finish.

use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;

use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::connection::{self, Connections};
use super::exchange::Handler;
use super::limits::{ACCEPT_BACKLOG, ACCEPT_PAUSE, Limits};

/// A socket that listens; connections wait in its backlog until a server is started on it.
#[derive(Debug)]
pub(crate) struct Listener(TcpListener);

impl Listener {
    /// Listens on an address. Needs a runtime and does not wait.
    pub(crate) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // A region comes back on the port it had, which connections in TIME_WAIT still hold. On Windows the
        // option would let two programs share the port, and TIME_WAIT is no obstacle there.
        #[cfg(not(windows))]
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        socket.listen(ACCEPT_BACKLOG).map(Self)
    }
}

/// The parts that a server is started with.
#[derive(Debug)]
pub(crate) struct ServerSetup<H> {
    pub(crate) tls: Arc<ServerConfig>,
    pub(crate) handler: H,
    pub(crate) limits: Limits,
    /// Cancelled when the server shuts down.
    pub(crate) stop: CancellationToken,
}

/// The socket of a running server. The [`Server`] closes it, and not the accept loop: a port can be bound again
/// as soon as its server was dropped, while the aborted loop goes some time later.
#[derive(Debug, Clone)]
struct ServerSocket(Arc<Mutex<Option<TcpListener>>>);

impl ServerSocket {
    /// Waits for the next connection; for ever once the socket is closed.
    async fn accept(&self) -> io::Result<TcpStream> {
        poll_fn(|context| match &*self.lock() {
            Some(listener) => listener.poll_accept(context).map_ok(|(stream, _)| stream),
            None => Poll::Pending,
        })
        .await
    }

    fn close(&self) {
        self.lock().take();
    }

    fn lock(&self) -> MutexGuard<'_, Option<TcpListener>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A running server, on the current runtime.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    socket: ServerSocket,
    stop: CancellationToken,
    accepting: JoinHandle<()>,
}

impl Server {
    /// Starts accepting connections.
    pub(crate) fn start<H: Handler>(listener: Listener, setup: ServerSetup<H>) -> io::Result<Self> {
        let Listener(listener) = listener;
        let address = listener.local_addr()?;
        let ServerSetup { tls, handler, limits, stop } = setup;
        let connections = Connections { tls: TlsAcceptor::from(tls), handler, limits };
        let socket = ServerSocket(Arc::new(Mutex::new(Some(listener))));
        let accepting = tokio::spawn(accept(socket.clone(), Arc::new(connections), stop.clone()));
        Ok(Self { address, socket, stop, accepting })
    }

    /// The address that the server listens on.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Stops accepting, lets the requests in flight finish within the shutdown limit, then closes what
    /// is left.
    pub(crate) async fn shutdown(mut self) {
        self.stop.cancel();
        let _ = (&mut self.accepting).await; // Fails only if the runtime itself is going down.
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.socket.close();
        self.accepting.abort();
    }
}

async fn accept<H: Handler>(
    socket: ServerSocket,
    connections: Arc<Connections<H>>,
    stop: CancellationToken,
) {
    let mut open = JoinSet::new();
    loop {
        // Backpressure: at the bound nothing is accepted, and clients wait in the backlog.
        let has_room = open.len() < connections.limits.max_connections;
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = open.join_next() => {}
            accepted = socket.accept(), if has_room => match accepted {
                Ok(stream) => {
                    open.spawn(connection::serve(stream, Arc::clone(&connections), stop.clone()));
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
        }
    }
    socket.close(); // Refuses new connections while the open ones are drained.
    let drained = async { while open.join_next().await.is_some() {} };
    // What is still open after that is aborted when the set is dropped.
    let _ = tokio::time::timeout(connections.limits.shutdown, drained).await;
}

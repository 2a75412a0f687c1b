//! Accepting connections, and letting go of them: the life of a server from its port to its end.
//!
//! The accept loop owns every connection's task. Dropping the [`Server`] drops the loop and with it the
//! connections; [`Server::shutdown`] first lets the requests in flight finish.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::connection::{self, Connections};
use super::exchange::Handler;
use super::limits::Limits;

/// The pause after a failed accept: the process is out of file descriptors, and a connection has to end
/// before the next one can be taken.
const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// A server at work on the current runtime.
#[derive(Debug)]
pub(crate) struct Server {
    address: SocketAddr,
    stop: CancellationToken,
    accepting: JoinHandle<()>,
}

impl Server {
    /// Starts answering on a listener that is bound already.
    pub(crate) fn start(
        listener: TcpListener,
        tls: Arc<ServerConfig>,
        handler: Handler,
        limits: Limits,
    ) -> io::Result<Self> {
        let address = listener.local_addr()?;
        let stop = CancellationToken::new();
        let connections = Connections { tls: TlsAcceptor::from(tls), handler, limits };
        let accepting = tokio::spawn(accept(listener, Arc::new(connections), stop.clone()));
        Ok(Self { address, stop, accepting })
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
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, connections: Arc<Connections>, stop: CancellationToken) {
    let mut open = JoinSet::new();
    loop {
        let has_room = open.len() < connections.limits.max_connections;
        tokio::select! {
            () = stop.cancelled() => break,
            Some(_) = open.join_next() => {}
            accepted = listener.accept(), if has_room => match accepted {
                Ok((stream, _)) => {
                    open.spawn(connection::serve(stream, Arc::clone(&connections), stop.clone()));
                }
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
        }
    }
    drop(listener);
    let drained = async { while open.join_next().await.is_some() {} };
    // What is still open after that is aborted when the set is dropped.
    let _ = tokio::time::timeout(connections.limits.shutdown, drained).await;
}

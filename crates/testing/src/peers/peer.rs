//! The listening side of a scriptable peer.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use rustls::ServerConfig;
use tokio::net::{TcpListener, TcpSocket};

use super::certificates::Identity;
use super::connection::PeerConnection;
use super::endpoint::{Endpoint, Speaks};
use super::frame::PeerSettings;
use super::http2::Http2Session;
use super::reply::Reply;
use super::request::ArrivedRequest;
use super::serve::ServedPeer;
use super::stream::PeerStream;
use crate::within_timeout;

/// As many connections as a test may ask for at once.
const BACKLOG: u32 = 1024;

/// A peer that listens on loopback and has not accepted anything yet.
pub struct Peer {
    listener: TcpListener,
    pub(super) endpoint: Endpoint,
}

impl Peer {
    /// A peer without TLS. HTTP/2 is spoken from the first byte, with prior knowledge.
    pub fn cleartext(speaks: Speaks) -> Self {
        Self::listen(speaks, None)
    }

    /// A peer with TLS that shows the given identity.
    pub fn tls(speaks: Speaks, identity: &Identity) -> Self {
        Self::listen(speaks, Some(identity.server_config(speaks.alpn())))
    }

    /// The SETTINGS with which HTTP/2 connections begin; at first they say nothing.
    pub fn with_settings(mut self, settings: PeerSettings) -> Self {
        self.endpoint.settings = settings;
        self
    }

    /// Bounds what the kernel takes in while the peer does not read, so that a peer that stops
    /// reading is felt by the client early. Moves the peer to another port.
    pub fn with_receive_buffer(mut self, bytes: u32) -> Self {
        self.listener = listener(Some(bytes));
        self.endpoint.address = self.listener.local_addr().unwrap();
        self
    }

    /// The socket address.
    pub fn address(&self) -> SocketAddr {
        self.endpoint.address
    }

    /// The address as a client is given it, by the name of loopback.
    pub fn url(&self) -> String {
        self.endpoint.url()
    }

    /// Takes the next connection over by hand, with the peer's SETTINGS sent.
    pub async fn accept(&self) -> PeerConnection {
        let stream = self.accept_stream().await.unwrap();
        PeerConnection::new(stream, Http2Session::new(self.endpoint.settings))
    }

    /// Takes the next connection over by hand, with nothing sent.
    pub async fn accept_without_settings(&self) -> PeerConnection {
        let stream = self.accept_stream().await.unwrap();
        PeerConnection::new(stream, Http2Session::without_settings())
    }

    /// The next connection as plain bytes, TLS done. An error if TLS comes to nothing.
    pub async fn accept_stream(&self) -> io::Result<PeerStream> {
        let (tcp, _) = within_timeout("a connection", self.listener.accept()).await?;
        within_timeout("the TLS handshake", self.endpoint.secure(tcp)).await
    }

    /// Accepts everything from now on, and does with each request what `behaviour` says.
    pub fn serve(
        self,
        behaviour: impl Fn(&ArrivedRequest) -> Reply + Send + Sync + 'static,
    ) -> ServedPeer {
        ServedPeer::start(self.listener, self.endpoint, Arc::new(behaviour))
    }

    fn listen(speaks: Speaks, tls: Option<Arc<ServerConfig>>) -> Self {
        let listener = listener(None);
        let address = listener.local_addr().unwrap();
        let settings = PeerSettings::new();
        Self { listener, endpoint: Endpoint { address, tls, speaks, settings } }
    }
}

/// Listens on a free port of loopback.
fn listener(receive_buffer: Option<u32>) -> TcpListener {
    let socket = TcpSocket::new_v4().unwrap();
    // Before `listen`: accepted sockets inherit it, and the TCP window is announced with the SYN.
    if let Some(bytes) = receive_buffer {
        socket.set_recv_buffer_size(bytes).unwrap();
    }
    socket.bind((Ipv4Addr::LOCALHOST, 0).into()).unwrap();
    socket.listen(BACKLOG).unwrap()
}

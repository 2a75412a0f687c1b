//! How a peer makes a conversation of a socket: its address, its TLS and the protocols it speaks.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use rustls::ServerConfig;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;

use super::frame::PeerSettings;
use super::stream::PeerStream;

/// Which protocols a peer speaks, and says so in TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Speaks {
    /// HTTP/2.
    Http2,
    /// HTTP/2, and no word of it in TLS.
    Http2Unannounced,
    /// HTTP/1.1.
    Http1,
    /// HTTP/1.1, and no word of it in TLS.
    Http1Unannounced,
    /// Whichever the client begins with. TLS prefers HTTP/2.
    Both,
}

/// The settings by which a peer makes a conversation of a socket.
#[derive(Clone)]
pub(super) struct Endpoint {
    pub(super) address: SocketAddr,
    pub(super) tls: Option<Arc<ServerConfig>>,
    pub(super) speaks: Speaks,
    pub(super) settings: PeerSettings,
}

impl Speaks {
    pub(super) fn alpn(self) -> &'static [&'static str] {
        match self {
            Self::Http2 => &["h2"],
            Self::Http1 => &["http/1.1"],
            Self::Http2Unannounced | Self::Http1Unannounced => &[],
            Self::Both => &["h2", "http/1.1"],
        }
    }
}

impl Endpoint {
    pub(super) fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        format!("{scheme}://localhost:{}", self.address.port())
    }

    pub(super) fn speak(&mut self, speaks: Speaks) {
        self.speaks = speaks;
        if let Some(tls) = &mut self.tls {
            let alpn = speaks.alpn().iter().map(|name| name.as_bytes().to_vec());
            Arc::make_mut(tls).alpn_protocols = alpn.collect();
        }
    }

    /// Does the TLS handshake, if there is to be one.
    pub(super) async fn secure(&self, tcp: TcpStream) -> io::Result<PeerStream> {
        // Tests count frames and time: Nagle's algorithm would hold small ones back.
        tcp.set_nodelay(true)?;
        match &self.tls {
            None => Ok(PeerStream::Plain(tcp)),
            Some(config) => {
                let tls = TlsAcceptor::from(Arc::clone(config)).accept(tcp).await?;
                Ok(PeerStream::Tls(Box::new(tls)))
            }
        }
    }
}

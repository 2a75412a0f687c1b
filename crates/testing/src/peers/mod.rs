//! Scripted peers, a CONNECT proxy and certificates, on loopback.
//!
//! Start at [`Peer`]. [`Peer::serve`] answers any number of connections by a closure and keeps a
//! [`Record`] that a test waits on; [`Peer::accept`] hands over one connection to be driven frame by
//! frame. [`ConnectProxy`] stands between, [`Certificates`] makes what TLS needs, and
//! [`SilentListener`] and [`FullListener`] are addresses that never answer.
//!
//! A peer shares no code with the driver: it reads and writes HTTP/2 frames itself, so it can send what
//! no correct server would. Every wait is for a condition, and ends after
//! [`TEST_TIMEOUT`](crate::TEST_TIMEOUT) with a panic that names it.

mod certificates;
mod connection;
mod conversation;
mod endpoint;
mod frame;
mod http1;
mod http2;
mod peer;
mod proxy;
mod record;
mod reply;
mod request;
mod serve;
mod served_connection;
mod silent;
mod stream;
mod wire;

pub use certificates::{Certificates, Identity};
pub use connection::PeerConnection;
pub use endpoint::Speaks;
pub use frame::{Frame, FrameReader, PeerSettings};
pub use peer::Peer;
pub use proxy::{ConnectProxy, ProxyRequest, ProxySeen};
pub use record::{Arrival, ConnectionSeen, Protocol, Record, Seen};
pub use reply::{Answer, Gate, Reply};
pub use request::{ArrivedRequest, PeerRequest};
pub use serve::ServedPeer;
pub use silent::{FullListener, SilentListener};
pub use stream::PeerStream;

//! What the transport is tested with: scriptable peers, a proxy and certificates, on loopback.
//!
//! Start at [`Peer`]. [`Peer::serve`] answers any number of connections by a closure and keeps a
//! [`Record`] that a test waits on; [`Peer::accept`] hands over one connection to be driven frame by
//! frame. [`ConnectProxy`] stands between, [`Certificates`] makes what TLS needs, and
//! [`SilentListener`] and [`FullListener`] are the addresses at which nothing ever happens.
//!
//! Nothing here waits for luck: every wait is for a condition, and ends after [`PATIENCE`] with a
//! panic that says what was waited for.

#![allow(
    clippy::disallowed_types,
    reason = "a peer is not the driver: what it records may be locked"
)]
#![allow(
    dead_code,
    unused_imports,
    reason = "the support offers a whole vocabulary; which words the tests use changes with the tests"
)]

mod certificates;
mod connection;
mod conversation;
mod frame;
mod http1;
mod http2;
mod patience;
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

pub(crate) use certificates::{Certificates, Identity};
pub(crate) use connection::PeerConnection;
pub(crate) use frame::{Frame, FrameReader, PeerSettings};
pub(crate) use patience::{PATIENCE, patiently};
pub(crate) use peer::{Peer, Speaks};
pub(crate) use proxy::{ConnectProxy, ProxyRequest, ProxySeen};
pub(crate) use record::{Arrival, ConnectionSeen, Protocol, Record, Seen};
pub(crate) use reply::{Answer, Gate, Reply};
pub(crate) use request::{ArrivedRequest, PeerRequest};
pub(crate) use serve::ServedPeer;
pub(crate) use silent::{FullListener, SilentListener};
pub(crate) use stream::PeerStream;

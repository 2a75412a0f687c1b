//! The client that speaks HTTP itself: TCP, a tunnel through a proxy, TLS, then HTTP/2 or HTTP/1.1.
//!
//! One client has one HTTP/2 connection, or a pool of HTTP/1.1 connections, whichever its first
//! connection turned out to speak. A connection that is lost is not made again: the pool decides whether
//! another client replaces it.

mod client;
mod connector;
mod factory;
mod http1;
mod http2;
mod tcp;
mod tls;
mod tunnel;

pub use factory::NetHttpClientFactory;

/// The most bytes a response may have; the service's pages are far below.
const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;

/// The most bytes the head of a response may have. A session token has an entry for each partition range, so
/// the head grows with a container.
const MAX_HEAD_BYTES: u32 = 128 * 1024;

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
mod limits;
mod tcp;
mod tls;
mod tls_settings;
mod tunnel;

pub use factory::NetHttpClientFactory;

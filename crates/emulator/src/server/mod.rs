//! The server: sockets, TLS, HTTP/1.1 and HTTP/2 before a [`Handler`].
//!
//! Nothing here knows what a database is. A handler turns a whole request into what its client sees of it;
//! this module finds out what a connection speaks, bounds what a client may cost, and makes sure that
//! every request gets a response, even from a handler that panics, unless the handler says that the
//! connection is to be reset.

mod body;
mod compression;
mod connection;
mod exchange;
mod inline_executor;
mod limits;
mod listener;
mod reset;
mod response_body;
#[cfg(test)]
mod tests;

pub(crate) use exchange::Handler;
pub(crate) use limits::Limits;
pub(crate) use listener::{Listener, Server, ServerSetup};

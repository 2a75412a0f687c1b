//! The account behind a socket: one port that speaks HTTP/1.1 and HTTP/2, in cleartext and over TLS.
//!
//! Nothing here knows what a database is. A handler turns a whole request into a whole answer;
//! this module finds out what a connection speaks, bounds what a client may cost, and makes sure that
//! every request gets an answer, even from a handler that panics, unless the handler says that a
//! connection is to break.

mod answer_body;
mod at_once;
mod body;
mod breaker;
mod certificate;
mod certificate_files;
mod connection;
mod exchange;
mod limits;
mod listener;
#[cfg(test)]
mod tests;

pub(crate) use certificate::{Certificate, CertificateError};
pub(crate) use certificate_files::load_or_create;
pub(crate) use exchange::Handler;
pub(crate) use limits::Limits;
pub(crate) use listener::Server;

//! The transport against peers on real loopback sockets.
//!
//! The peers are our own and are scripted by each test down to the single frame, so that a test can
//! show the transport what no well-behaved server would do. They share no code with the transport.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

//! The client against accounts: the emulator over sockets, the account in this process, any other account.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod batches;
mod bulk;
mod change_feed;
mod conformance;
mod connecting;
mod documentation;
mod options;
mod query;
mod read_many;
#[cfg(feature = "otel")]
mod telemetry;

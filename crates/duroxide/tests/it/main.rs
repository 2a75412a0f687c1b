//! The provider on an account in this process, on a paused clock, and with duroxide's own runtime.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod account;
mod affinity;
mod claiming_ahead;
mod costs;
mod crashes;
mod deleting;
mod deliveries;
mod dispatcher;
#[cfg(feature = "emulator")]
mod embedded;
mod escapes;
mod feeding;
mod locking_ahead;
mod loops;
mod names;
mod outages;
mod process;
mod regions;
mod releases;
mod requests;
mod samples;
mod scenarios;
mod setup;
mod several;
mod sizes;
mod statistics;
mod stopping;
mod strays;
#[cfg(feature = "otel")]
mod telemetry;
mod tombstones;
mod transactions;
mod turns;
mod undeliverable;
mod weaknesses;
mod world;

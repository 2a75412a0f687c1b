//! The `sidereal` command as a process: one test binary, one module per subcommand.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod account;
mod chaos;
mod config;
mod data_directory;
mod demo;
mod emulator;
mod items;
mod loading;
mod manual;
mod orch;
#[allow(dead_code, reason = "benchmarks do more with a process")]
mod process;
mod resources;
mod soak;
mod sql;
mod stress;
mod wire;

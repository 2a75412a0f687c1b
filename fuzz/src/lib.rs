//! The bodies of the fuzz targets, one module per crate under test.
//!
//! Each body states a law and panics when it is broken. The binaries in `fuzz_targets/` hand them
//! to libFuzzer; each crate's `fuzz_replay` test includes the same file, so that an ordinary
//! `cargo test` replays the corpus.

pub mod emulator;
pub mod protocol;
pub mod query;

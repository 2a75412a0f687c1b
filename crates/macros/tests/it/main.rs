//! The derive as its users meet it: through the compiler.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod compiler;
mod misuse;

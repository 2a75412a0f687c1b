//! The sources keep to the architecture.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod architecture;

//! Grease in the sense of RFC 8701: answers that stay within the service's contract and are as inconvenient as it
//! allows, drawn from a seed.
//!
//! [`latitude`](self::latitude) is the table of what the contract leaves open, [`draw`](self::draw) decides for each
//! request which of it is used. Handlers ask the draw of their request where a page ends; `transient.rs` refuses requests
//! that succeed when they are repeated; headers and bodies of finished responses are changed in `disguise.rs`.

mod draw;
mod latitude;

pub(crate) use draw::Draw;
pub use latitude::{Certainty, Grease, Latitude, UnknownLatitude};

//! Session tokens: the log sequence numbers (LSN) that a session has seen, per partition range.
//!
//! A [`PartitionSessionToken`] holds the LSNs of one range; a [`SessionToken`] is the header, one
//! of them per range. When tokens are captured and which are sent is the driver's decision.

mod composite;
mod progress;

pub use composite::SessionToken;
pub use progress::{PartitionSessionToken, VectorSessionToken};

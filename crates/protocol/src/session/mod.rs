//! Session tokens: how far each partition range had come when a session last looked.
//!
//! A [`PartitionSessionToken`] is the progress of one range; a [`SessionToken`] is the header, one
//! of them per range. When tokens are captured and which are sent is the driver's business.

mod composite;
mod progress;

pub use composite::SessionToken;
pub use progress::{PartitionSessionToken, VectorSessionToken};

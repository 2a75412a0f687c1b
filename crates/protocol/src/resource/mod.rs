//! Resources: what they are called, how they are addressed, what can be done with them.

mod id;
mod kinds;
mod link;
mod path;
mod rid;

pub use id::{MAX_ITEM_ID_BYTES, MAX_NAME_CHARS, check_id, check_item_id};
pub use kinds::{Idempotency, OperationType, ResourceType};
pub use link::{Addressing, ResourceLink};
pub use path::RequestPath;
pub use rid::Rid;

//! Many operations on a container, in as few requests as they fit into.
//!
//! [`Bulk`] is what the caller says and [`BulkOperation`] one of the operations. `engine` takes them from their
//! source as far as memory admits, sorts them by partition range (`range_queue`), cuts batches of each queue and sends as
//! many at once as the queue's `window` admits: additive increase, multiplicative decrease on throttling. What a
//! result (`completed_batch`) means is decided in `next_step`. `range_queue`, `window` and `next_step` are pure.

mod builder;
mod completed_batch;
mod engine;
mod next_step;
mod operation;
mod range_queue;
mod report;
mod results;
mod source;
mod window;

pub use builder::Bulk;
pub use operation::BulkOperation;
pub use report::{BulkProgress, BulkReport, BulkResult};

//! Many operations on a container, in as few requests as they fit into.
//!
//! [`Bulk`] is what the caller says and [`BulkOperation`] one of the operations. `engine` takes them from their
//! source as far as memory admits, sorts them by partition range (`lane`), cuts batches of each lane and sends as
//! many at once as the lane's `window` admits: additive increase, multiplicative decrease on throttling. What a
//! result (`completed_batch`) means is decided in `verdict`. `lane`, `window` and `verdict` are pure.

mod builder;
mod completed_batch;
mod engine;
mod lane;
mod operation;
mod report;
mod results;
mod source;
mod verdict;
mod window;

pub use builder::Bulk;
pub use operation::BulkOperation;
pub use report::{BulkProgress, BulkReport, BulkResult};

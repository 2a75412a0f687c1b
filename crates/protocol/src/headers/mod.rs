//! Headers: their names, and what stands in them as values.
//!
//! [`names`] lists every header of the protocol. [`ResponseHeaders`] reads an answer, leniently:
//! a header that is missing or garbled is `None`. [`RequestHeaders`] reads a request, strictly: a
//! garbled one is an error to answer with.

pub mod names;
mod request;
mod response;
mod values;

pub use request::{MaxItemCount, RequestHeaders};
pub use response::{ResponseAccounting, ResponseHeaders, SessionProgress};
pub use values::{ChangeFeedMode, SdkCapabilities, SerializationFormats, content_type};

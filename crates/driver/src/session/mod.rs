//! Sessions: an application reads its own writes, in whichever region they are read.
//!
//! [`SessionContainer`] keeps what responses say of a container's progress; `consistency.rs` decides which
//! requests carry it, from values. `region_lag.rs` knows which regions are likely to be behind it.

mod consistency;
mod region_lag;
mod session_container;
mod session_state;

pub(crate) use consistency::{ReadTerms, sends_session_token};
pub(crate) use region_lag::RegionLags;
pub(crate) use session_container::{SessionContainer, SessionHeaders, SessionNews, SessionPoint};
pub use session_state::{LogSequenceNumber, SessionState};

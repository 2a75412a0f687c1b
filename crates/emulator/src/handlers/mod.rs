//! The handlers: one file per resource or kind of request. `service` dispatches to them.
//!
//! A handler gets the account's state and a classified request, and returns a reply or an error.

pub(crate) mod account;
pub(crate) mod batch;
pub(crate) mod change_feed;
pub(crate) mod containers;
pub(crate) mod databases;
pub(crate) mod items;
mod metadata_feed;
mod metadata_write;
pub(crate) mod offers;
pub(crate) mod partition_delete;
pub(crate) mod partition_ranges;
pub(crate) mod query;
mod target;

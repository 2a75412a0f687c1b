//! The handlers: one file per resource or kind of request. `service` dispatches to them.
//!
//! A handler gets the account's state and a classified request, and returns a reply or an error.

mod access;
pub(crate) mod account;
pub(crate) mod batch;
pub(crate) mod change_feed;
pub(crate) mod containers;
mod continuation;
pub(crate) mod databases;
mod execution;
mod index_building;
mod index_metrics;
pub(crate) mod items;
mod metadata_feed;
mod metadata_write;
pub(crate) mod offers;
mod order_by;
mod page;
mod page_filling;
mod parsed_query;
pub(crate) mod partition_delete;
pub(crate) mod partition_ranges;
pub(crate) mod query;
pub(crate) mod query_plan;
mod query_routing;
mod scan;
mod target;

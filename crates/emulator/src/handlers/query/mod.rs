//! Queries: from a request to the rows of one page.
//!
//! `run` is the handler. `routing` tells which partitions a query may run on, `access` chooses between index, key and
//! scan, `scan` takes items in chunks under the partition's lock and `page_filling` evaluates them without it, by an
//! `execution`: the compiled query with its order and limits. `continuation` says where the page ended.

mod access;
mod continuation;
mod execution;
mod index_building;
mod index_metrics;
mod order_by;
mod page;
mod page_filling;
mod parsed_query;
mod plan;
mod routing;
mod run;
mod scan;

pub(super) use page::feed_of;
pub(super) use parsed_query::{ParsedQuery, condition_context, evaluation_context};
pub(crate) use plan::answer as plan;
pub(crate) use run::{read_feed, run};

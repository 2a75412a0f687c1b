//! Queries: over one partition key, a part of a container, or all of it.
//!
//! [`Query`] says what is asked; `plan` how it is divided over partition ranges; `engine` runs it. Below the
//! engine, `fan_out` owns one `range_reader` for each partition range: a task that requests its pages ahead of the
//! reader, as far as `budget` admits. What has come is combined in one of three ways: `streaming` (rows as they
//! came, range after range), `merging` (sorted, grouped, distinct: [`sidereal_query::merge`]) and `top_rows`
//! (an order that no partition can stream). `continuation_token` is where a reader stopped.

mod budget;
mod builder;
mod composed;
mod continuation_token;
mod engine;
mod fan_out;
pub(crate) mod feed;
pub(crate) mod fetch;
mod limits;
mod merging;
mod page;
mod plan;
pub(crate) mod range_reader;
mod request;
mod resource_queries;
mod run;
mod streaming;
mod streams;
pub(crate) mod targets;
mod top_rows;
pub(crate) mod windows;

pub use builder::Query;
pub use continuation_token::ContinuationToken;
pub use feed::FeedStream;
pub use limits::QueryLimits;
pub use page::QueryPage;
pub use plan::{PlanSource, QueryPlan};
pub use streams::{ItemStream, PageStream};

//! The change feed: every item that was created or replaced, in the order of its partition range's log.
//!
//! [`ChangeFeed`] is what is asked: from where on, of which part of the container. `engine` has a lane for each
//! partition range and reads several at once, one page of each; `request` makes and reads one page. [`ChangeFeedToken`]
//! is where a reader stopped. [`processor`] follows a feed with several workers.

mod builder;
mod engine;
mod page;
pub mod processor;
mod request;
mod run;
mod start;
mod streams;
mod token;

pub use builder::ChangeFeed;
pub use page::ChangeFeedPage;
pub use start::ChangeFeedStart;
pub use streams::{ChangePageStream, ChangeStream};
pub use token::ChangeFeedToken;

//! Options of one write of one item.

use sidereal_protocol::{Etag, IndexingDirective, SessionToken};

use crate::CosmosOptions;

/// Conditions, triggers and the response's content, for one write.
#[derive(Clone, Debug, PartialEq, CosmosOptions)]
#[options(layers(operation))]
pub struct ItemWriteOptions {
    /// Whether the item is indexed.
    #[option(copy)]
    pub indexing_directive: Option<IndexingDirective>,

    /// The session to read your own writes of; the driver keeps one where this is not set.
    pub session_token: Option<SessionToken>,

    /// The write happens only if the item still has this etag.
    pub if_match_etag: Option<Etag>,

    /// Whether the response to a write carries the item.
    #[option(env = "AZURE_COSMOS_CONTENT_RESPONSE_ON_WRITE", default = false)]
    pub content_response_on_write: Option<bool>,

    /// Triggers run before the write, by name.
    pub pre_triggers: Option<Vec<String>>,

    /// Triggers run after the write, by name.
    pub post_triggers: Option<Vec<String>>,
}

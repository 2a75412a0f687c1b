//! The result of an operation on one item, for reads and writes alike.

use std::sync::Arc;

use sidereal_protocol::Etag;

use super::{Item, Refusal};
use crate::charge;

/// The result of an operation on one item.
#[derive(Clone, Debug)]
pub(crate) struct ItemResult {
    /// The version there is now; of a delete, the one that was.
    pub(crate) item: Arc<Item>,
    pub(crate) outcome: Outcome,
    pub(crate) charge: f64,
}

/// The effect of an operation on its item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Created,
    Replaced,
    Deleted,
    Read,
}

impl ItemResult {
    /// The result of reading an item; [`Refusal::NotModified`] if the client has this version already.
    pub(super) fn of_read(item: Arc<Item>, if_none_match: Option<&Etag>) -> Result<Self, Refusal> {
        if if_none_match.is_some_and(|etag| etag.matches(&item.etag)) {
            return Err(Refusal::NotModified(item.etag.clone()));
        }
        let charge = charge::read(item.size());
        // The `Arc` is cloned, not the document: the response shares its text.
        Ok(Self { item, outcome: Outcome::Read, charge })
    }
}

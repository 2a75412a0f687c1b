//! Queries with an ORDER BY on documents' paths: keyset pagination. Pages resume at a value, not at a count.
//!
//! What is written between two pages then neither repeats nor skips a row whose own sort keys did not
//! change. A client's resume filter names a position in the same way.

use std::ops::Bound;

use serde_json::Value;
use sidereal_protocol::{ResumeFilter, Rid};

use super::continuation::Continuation;
use super::parsed_query::ParsedQuery;
use crate::error::{Result, ServiceError};
use crate::store::{IndexDefinition, IndexKey, Item, OrderByPath};

/// The order of a query whose rows follow their documents: that of an index, or its reverse.
#[derive(Debug)]
pub(super) struct SortOrder {
    paths: Vec<OrderByPath>,
    index: IndexDefinition,
}

/// A position in the order.
#[derive(Clone, Debug)]
pub(super) struct Boundary {
    keys: Vec<Option<Value>>,
    /// Tells documents with equal keys apart; without it, all of them are at the boundary.
    ordinal: Option<u64>,
    /// Whether what is at the boundary was already returned.
    exclude: bool,
}

/// Where an order resumes: an entry of an index.
pub(super) type OrderBound = Bound<(IndexKey, u64)>;

impl SortOrder {
    /// The order of a query, if nothing but the order keeps its rows from following their documents.
    pub(super) fn of(query: &ParsedQuery) -> Result<Option<Self>> {
        // A query whose rows come document by document once the sorting is left out; a window counts them.
        let mut unsorted = query.tree.clone();
        let sorted = unsorted.order_by.take().is_some();
        (unsorted.select.top, unsorted.window) = (None, None);
        if !sorted || !unsorted.is_servable_across_partitions() {
            return Ok(None);
        }
        let paths = query.order_by_paths()?;
        let index = IndexDefinition::of_order(&paths);
        Ok((!paths.is_empty()).then_some(Self { paths, index }))
    }

    /// The index that has the order, or its reverse.
    pub(super) fn index(&self) -> &IndexDefinition {
        &self.index
    }

    /// Whether the order is the reverse of the index's.
    pub(super) fn is_reverse(&self) -> bool {
        self.paths.first().is_some_and(|first| first.descending)
    }

    /// The place of an item in the index.
    pub(super) fn key_of(&self, item: &Item) -> IndexKey {
        self.index.key_of(&self.index.values_of(item))
    }

    /// The sort keys of an item as a continuation has them.
    pub(super) fn keys_to_json(&self, item: &Item) -> Vec<Vec<Value>> {
        self.index.values_of(item).into_iter().map(|key| key.into_iter().collect()).collect()
    }

    /// Where in the index a boundary is. Entries with equal keys are in the order of their ordinals.
    pub(super) fn bound_at(&self, boundary: Option<&Boundary>) -> OrderBound {
        let Some(boundary) = boundary else { return Bound::Unbounded };
        // Without an ordinal: before the first or after the last entry of the key, as the order is walked.
        let whole = if boundary.exclude == self.is_reverse() { 0 } else { u64::MAX };
        let entry = (self.index.key_of(&boundary.keys), boundary.ordinal.unwrap_or(whole));
        if boundary.exclude { Bound::Excluded(entry) } else { Bound::Included(entry) }
    }
}

impl Boundary {
    /// The boundary that a continuation names.
    pub(super) fn of_continuation(continuation: &Continuation) -> Option<Self> {
        let keys = continuation.keys.as_ref()?;
        Some(Self {
            keys: keys.iter().map(|key| key.first().cloned()).collect(),
            ordinal: continuation.ordinal,
            exclude: continuation.within.is_empty(),
        })
    }

    /// The boundary that a client's resume filter names; it writes undefined as an empty array.
    pub(super) fn of_filter(filter: &ResumeFilter) -> Result<Self> {
        let key = |value: &Value| (*value != Value::Array(Vec::new())).then(|| value.clone());
        let ordinal = match &filter.rid {
            None => None,
            Some(text) => {
                let rid: Rid = text.parse()?;
                let refuse = || {
                    ServiceError::bad_request("The rid of the resume filter is not a document's.")
                };
                Some(rid.document_order().ok_or_else(refuse)?)
            }
        };
        Ok(Self { keys: filter.value.iter().map(key).collect(), ordinal, exclude: filter.exclude })
    }
}

//! Queries with an ORDER BY on documents' paths: keyset pagination. Pages resume at a value, not at a count.
//!
//! What is written between two pages then neither repeats nor skips a row whose own sort keys did not
//! change. A client's resume filter names a position in the same way.

use std::cmp::Ordering;
use std::sync::Arc;

use serde_json::Value;
use sidereal_protocol::{ResumeFilter, Rid};
use sidereal_query::order;

use super::continuation::Continuation;
use super::parsed_query::ParsedQuery;
use crate::error::{Result, ServiceError};
use crate::store::{Item, OrderByPath};

/// The order of a query whose rows follow their documents.
#[derive(Debug)]
pub(super) struct SortOrder(Vec<OrderByPath>);

/// A position in the order.
#[derive(Clone, Debug)]
pub(super) struct Boundary {
    keys: Vec<Option<Value>>,
    /// Tells documents with equal keys apart; without it, all of them are at the boundary.
    ordinal: Option<u64>,
    /// Whether what is at the boundary was already returned.
    exclude: bool,
}

/// A document with its sort keys.
struct Keyed<'a> {
    keys: Vec<Option<&'a Value>>,
    item: &'a Arc<Item>,
}

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
        Ok((!paths.is_empty()).then_some(Self(paths)))
    }

    /// The documents from a boundary on, in order.
    pub(super) fn from<'a>(
        &self,
        items: &'a [Arc<Item>],
        boundary: Option<&Boundary>,
    ) -> Vec<&'a Arc<Item>> {
        let keyed = items.iter().map(|item| Keyed { keys: self.keys_of(item).collect(), item });
        let mut rows: Vec<Keyed<'_>> = keyed.collect();
        rows.sort_by(|one, other| {
            let keys = self.compare(&one.keys, &other.keys);
            keys.then_with(|| self.directed(one.item.ordinal.cmp(&other.item.ordinal)))
        });
        let passed =
            |row: &Keyed<'_>| boundary.is_some_and(|boundary| self.is_before(row, boundary));
        // Binary search: the rows are sorted.
        let start = rows.partition_point(passed);
        rows.drain(start..).map(|row| row.item).collect()
    }

    /// The sort keys of an item as a continuation has them.
    pub(super) fn keys_to_json(&self, item: &Item) -> Vec<Vec<Value>> {
        self.keys_of(item).map(|key| key.cloned().into_iter().collect()).collect()
    }

    fn is_before(&self, row: &Keyed<'_>, boundary: &Boundary) -> bool {
        let keys: Vec<Option<&Value>> = boundary.keys.iter().map(Option::as_ref).collect();
        let by_ordinal = || match boundary.ordinal {
            Some(ordinal) => self.directed(row.item.ordinal.cmp(&ordinal)),
            None => Ordering::Equal,
        };
        match self.compare(&row.keys, &keys).then_with(by_ordinal) {
            Ordering::Less => true,
            Ordering::Equal => boundary.exclude,
            Ordering::Greater => false,
        }
    }

    fn compare(&self, one: &[Option<&Value>], other: &[Option<&Value>]) -> Ordering {
        let keys = self.0.iter().zip(one.iter().zip(other));
        keys.map(|(path, (one, other))| {
            let ordering = order::compare(*one, *other);
            if path.descending { ordering.reverse() } else { ordering }
        })
        .find(|ordering| ordering.is_ne())
        .unwrap_or(Ordering::Equal)
    }

    /// Documents with equal keys follow each other in the direction of the first key.
    fn directed(&self, ordering: Ordering) -> Ordering {
        match self.0.first() {
            Some(first) if first.descending => ordering.reverse(),
            _ => ordering,
        }
    }

    fn keys_of<'a>(&self, item: &'a Item) -> impl Iterator<Item = Option<&'a Value>> {
        self.0.iter().map(|path| {
            path.segments
                .iter()
                .try_fold(&item.document, |value, name| value.as_object()?.get(name))
        })
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

//! Pages of a result.

use std::fmt;
use std::time::SystemTime;

use serde::de::DeserializeOwned;
use serde_json::Value;
use sidereal_driver::diagnostics::DiagnosticsContext;
use sidereal_protocol::SessionToken;

use super::ContinuationToken;
use super::fetch::{RawRows, RequestFacts, wrong_type};
use super::limits::MAX_DIAGNOSTICS;
use crate::Result;

/// Rows that are ready to be given.
#[derive(Debug)]
pub(super) enum Rows {
    /// As they came.
    Raw(RawRows),
    /// As they were merged.
    Merged(Vec<Value>),
}

impl Rows {
    pub(super) fn len(&self) -> usize {
        match self {
            Self::Raw(rows) => rows.len(),
            Self::Merged(rows) => rows.len(),
        }
    }

    /// Takes the row at a place, which is asked for once.
    pub(super) fn decode<T: DeserializeOwned>(&mut self, at: usize) -> Option<Result<T>> {
        match self {
            Self::Raw(rows) => rows.decode(at),
            Self::Merged(rows) => {
                let row = std::mem::take(rows.get_mut(at)?);
                Some(serde_json::from_value(row).map_err(|error| wrong_type::<T>(&error)))
            }
        }
    }
}

/// A page before its rows are decoded.
#[derive(Debug)]
pub(super) struct RawPage {
    pub(super) rows: Rows,
    pub(super) facts: PageFacts,
    /// Where the next page begins: none after the last, an error where a query of its shape cannot be resumed.
    pub(super) continuation: Result<Option<ContinuationToken>>,
}

/// The charge, session and metrics of the requests behind a page.
#[derive(Debug, Default)]
pub(super) struct PageFacts {
    charge: f64,
    requests: usize,
    session_token: Option<SessionToken>,
    index_metrics: Option<String>,
    query_metrics: Vec<String>,
    date: Option<SystemTime>,
    diagnostics: Vec<DiagnosticsContext>,
}

impl PageFacts {
    pub(super) fn requests(&self) -> usize {
        self.requests
    }

    pub(super) fn add(&mut self, facts: RequestFacts) {
        self.charge += facts.charge;
        self.requests += 1;
        self.date = facts.date.or(self.date);
        match (&mut self.session_token, facts.session_token) {
            (Some(known), Some(more)) => known.merge(&more),
            (known @ None, more) => *known = more,
            (Some(_), None) => {}
        }
        if facts.index_metrics.is_some() {
            self.index_metrics = facts.index_metrics;
        }
        if self.diagnostics.len() < MAX_DIAGNOSTICS {
            self.query_metrics.extend(facts.query_metrics);
            self.diagnostics.push(facts.diagnostics);
        }
    }
}

/// A page of a result: rows, and what it took to get them. See [`Query::pages`](super::Query::pages).
pub struct QueryPage<T> {
    items: Vec<T>,
    facts: PageFacts,
    continuation: Result<Option<ContinuationToken>>,
}

impl<T: DeserializeOwned> QueryPage<T> {
    pub(super) fn decoded(mut page: RawPage) -> Result<Self> {
        let rows = (0..page.rows.len()).filter_map(|at| page.rows.decode(at));
        let items = rows.collect::<Result<Vec<T>>>()?;
        Ok(Self { items, facts: page.facts, continuation: page.continuation })
    }
}

impl<T> QueryPage<T> {
    /// The rows. A page may have none and not be the last one.
    #[must_use]
    pub fn items(&self) -> &[T] {
        &self.items
    }

    /// The rows, taken.
    #[must_use]
    pub fn into_items(self) -> Vec<T> {
        self.items
    }

    /// Where the next page begins, for [`Query::with_continuation`](super::Query::with_continuation) now or
    /// later, in this process or another; none after the last page.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest) if a query of this shape cannot be resumed: the state of its merge would
    /// have to be in the token. It has to be read to its end in one go.
    pub fn continuation(&self) -> Result<Option<ContinuationToken>> {
        self.continuation.clone()
    }

    /// The cost in request units of the requests behind this page. Over all pages it is the cost of the query,
    /// apart from pages that were requested ahead and never read.
    #[must_use]
    pub fn request_charge(&self) -> f64 {
        self.facts.charge
    }

    /// How many requests it took.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.facts.requests
    }

    /// The session token after this page: hand it to another process to read your writes there.
    #[must_use]
    pub fn session_token(&self) -> Option<&SessionToken> {
        self.facts.session_token.as_ref()
    }

    /// How the query used the index, if [`Query::with_index_metrics`](super::Query::with_index_metrics) asked.
    #[must_use]
    pub fn index_metrics(&self) -> Option<&str> {
        self.facts.index_metrics.as_deref()
    }

    /// The metrics of each request, if [`Query::with_query_metrics`](super::Query::with_query_metrics) asked.
    #[must_use]
    pub fn query_metrics(&self) -> &[String] {
        &self.facts.query_metrics
    }

    /// The service's clock when it sent the last response of the page, to the second.
    #[must_use]
    pub fn date(&self) -> Option<SystemTime> {
        self.facts.date
    }

    /// The diagnostics of each request, attempt by attempt; of the first 32 requests if there were more.
    #[must_use]
    pub fn diagnostics(&self) -> &[DiagnosticsContext] {
        &self.facts.diagnostics
    }
}

impl<T> IntoIterator for QueryPage<T> {
    type Item = T;
    type IntoIter = std::vec::IntoIter<T>;

    fn into_iter(self) -> Self::IntoIter {
        self.items.into_iter()
    }
}

impl<T> fmt::Debug for QueryPage<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("QueryPage")
            .field("items", &self.items.len())
            .field("requests", &self.facts.requests)
            .field("request_charge", &self.facts.charge)
            .field("continuation", &self.continuation)
            .finish_non_exhaustive()
    }
}

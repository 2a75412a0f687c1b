//! One page of one range: the request, and its response read as far as rows.

use std::ops::Range;
use std::time::SystemTime;

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use sidereal_driver::CosmosResponse;
use sidereal_driver::diagnostics::DiagnosticsContext;
use sidereal_protocol::headers::names;
use sidereal_protocol::{Feed, SessionToken};

use super::request::continuation_header;
use crate::{Error, ErrorKind, Result};

/// A page as it came.
#[derive(Debug)]
pub(super) struct FetchedPage {
    pub(super) rows: RawRows,
    /// How to ask for the next one; none after the last.
    pub(super) continuation: Option<String>,
    pub(super) facts: RequestFacts,
}

/// Facts about the request behind a page: charge, session, metrics.
#[derive(Debug)]
pub(super) struct RequestFacts {
    pub(super) charge: f64,
    pub(super) session_token: Option<SessionToken>,
    pub(super) index_metrics: Option<String>,
    pub(super) query_metrics: Option<String>,
    pub(super) date: Option<SystemTime>,
    pub(super) diagnostics: DiagnosticsContext,
}

/// Rows as text: spans of the body they came in, so that none is copied before it is decoded.
#[derive(Clone, Debug, Default)]
pub(crate) struct RawRows {
    body: Bytes,
    spans: Vec<Range<usize>>,
}

impl FetchedPage {
    /// Reads a response as far as its rows.
    pub(super) fn of(response: &CosmosResponse) -> Result<Self> {
        let continuation = continuation_of(response);
        if let Some(continuation) = &continuation {
            continuation_header(continuation)?;
        }
        let rows = RawRows::of_feed(response.body().clone())?;
        Ok(Self { rows, continuation, facts: RequestFacts::of(response) })
    }
}

/// An empty continuation means the same as none.
pub(super) fn continuation_of(response: &CosmosResponse) -> Option<String> {
    response.headers().continuation().filter(|text| !text.is_empty()).map(str::to_owned)
}

impl RequestFacts {
    pub(super) fn of(response: &CosmosResponse) -> Self {
        let headers = response.headers();
        Self {
            charge: response.diagnostics().charge(),
            session_token: headers.session_token(),
            index_metrics: headers.index_utilization().map(str::to_owned),
            query_metrics: headers.text(&names::QUERY_METRICS).map(str::to_owned),
            date: headers.date(),
            diagnostics: response.diagnostics().clone(),
        }
    }
}

impl RawRows {
    /// The rows of a page's body.
    pub(crate) fn of_feed(body: Bytes) -> Result<Self> {
        let feed: Feed<&RawValue> = serde_json::from_slice(&body).map_err(|error| {
            let sentence = format!("the service answered a query with no page of rows: {error}");
            Error::new(ErrorKind::InvalidResponse, sentence)
        })?;
        let first = body.as_ptr() as usize;
        let span = |row: &&RawValue| {
            // Borrowed from the body, so its offset is the distance between the two.
            let start = row.get().as_ptr() as usize - first;
            start..start + row.get().len()
        };
        let spans = feed.items.iter().map(span).collect();
        Ok(Self { body, spans })
    }

    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    /// The bytes that the rows hold in memory.
    pub(crate) fn bytes(&self) -> usize {
        self.body.len()
    }

    /// Leaves out the first rows, and those after a number of them.
    pub(super) fn window(&mut self, skip: usize, take: usize) {
        self.spans.drain(..skip.min(self.spans.len()));
        self.spans.truncate(take);
    }

    /// Keeps the rows that a predicate holds for.
    pub(super) fn retain(&mut self, mut is_kept: impl FnMut(&Value) -> bool) -> Result<()> {
        let rows = self.to_values()?;
        let mut each = rows.iter();
        self.spans.retain(|_| each.next().is_some_and(&mut is_kept));
        Ok(())
    }

    pub(crate) fn decode<T: DeserializeOwned>(&self, at: usize) -> Option<Result<T>> {
        let text = self.body.get(self.spans.get(at)?.clone())?;
        Some(serde_json::from_slice(text).map_err(|error| wrong_type::<T>(&error)))
    }

    /// The rows as values, for a merge.
    pub(super) fn to_values(&self) -> Result<Vec<Value>> {
        let each = (0..self.len()).filter_map(|at| self.decode::<Value>(at));
        each.collect()
    }
}

/// The error of a row that does not deserialize as `T`.
pub(super) fn wrong_type<T>(error: &serde_json::Error) -> Error {
    let sentence = format!("a row of the result is not a {}: {error}", std::any::type_name::<T>());
    Error::new(ErrorKind::InvalidResponse, sentence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_spans_of_the_body() {
        let body = r#"{"_rid":"x","Documents":[ {"a":[1, 2]} ,"é",null],"_count":3}"#;
        let mut rows = RawRows::of_feed(Bytes::from(body)).unwrap();
        assert_eq!((rows.len(), rows.bytes()), (3, body.len()));
        assert_eq!(rows.decode::<String>(1).unwrap().unwrap(), "é");
        let error = rows.decode::<String>(0).unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidResponse);
        assert!(error.to_string().contains("String"), "{error}");
        rows.window(1, 1);
        assert_eq!(rows.to_values().unwrap(), [serde_json::json!("é")]);
    }

    #[test]
    fn garbage_is_refused() {
        for body in
            ["", "[]", "{}", "{\"Documents\":1}", "{\"Documents\":[1}", "\u{0}", "{\"_count\":0}"]
        {
            let error = RawRows::of_feed(Bytes::from(body)).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidResponse, "{body}");
        }
    }
}

//! Continuation tokens: where the reader of a query stopped, as text.
//!
//! A token is base64url of a version, a checksum and JSON. It names the query and the container that it belongs
//! to, and ranges of effective partition keys rather than partition ranges, so that it outlives splits and
//! merges. Nothing in it is trusted: a token is checked when it is parsed, and against the query when it is used.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use sha2::{Digest, Sha256};
use sidereal_protocol::{EffectivePartitionKey, EffectivePartitionKeyRange, QueryInfo};
use sidereal_query::merge::{Position, WindowLeft};

use super::request::Start;
use super::request::continuation_header;
use crate::sealed_text::{MAX_BYTES, open, seal};
use crate::{Error, ErrorKind, Result};

/// The version of what is inside.
const VERSION: u8 = 1;

/// More sort keys than any query has.
const MAX_SORT_KEYS: usize = 64;

/// Where the reader of a query stopped: opaque text, to be kept anywhere and given to
/// [`Query::with_continuation`](super::Query::with_continuation) of the same query on the same container.
///
/// It stays valid when partitions split or merge, and is refused by another query, by a container that was
/// created again, and when it was changed.
///
/// ```
/// use sidereal::query::ContinuationToken;
///
/// let error = "garbage".parse::<ContinuationToken>().unwrap_err();
/// assert!(error.to_string().contains("no continuation token"));
/// ```
#[derive(Clone, PartialEq)]
pub struct ContinuationToken(Content);

/// The content of a token.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Content {
    pub(super) query: QueryId,
    /// The RID of the container.
    pub(super) container: String,
    pub(super) state: QueryState,
}

/// Where a query stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct QueryState {
    /// The ranges that are not read to their end, in the order of the key space.
    pub(super) ranges: Vec<RangeState>,
    pub(super) window: WindowLeft,
    /// The last row of a sorted `DISTINCT`.
    pub(super) last_distinct: Option<Value>,
}

/// Where one range stands.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RangeState {
    pub(super) range: EffectivePartitionKeyRange,
    pub(super) start: Start,
    /// Rows at the position of the start that were given.
    pub(super) same_position: u64,
}

impl RangeState {
    pub(super) fn new(range: EffectivePartitionKeyRange, start: Start) -> Self {
        Self { range, start, same_position: 0 }
    }

    pub(super) fn covers(&self, other: &Self) -> bool {
        self.range.covers(&other.range)
    }

    /// Takes in a range that follows this one and, like it, was not begun.
    pub(super) fn extend(&mut self, next: &Self) -> bool {
        let is_untouched = self.start == Start::Beginning && next.start == Start::Beginning;
        if !is_untouched || self.range.max() != next.range.min() {
            return false;
        }
        let joined =
            EffectivePartitionKeyRange::new(self.range.min().clone(), next.range.max().clone());
        match joined {
            Ok(joined) => self.range = joined,
            Err(_) => return false,
        }
        true
    }
}

/// Identifies the query in a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueryId([u8; 16]);

impl QueryId {
    /// The identity of a query: its text, its parameters, the part of the container that it is about.
    pub(super) fn of(text: &str, parameters: &str, scope: &str) -> Self {
        let mut hash = Sha256::new();
        for part in [text, parameters, scope] {
            // With their lengths, so that no two lists of parts read the same.
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        }
        let mut id = [0; 16];
        id.copy_from_slice(&hash.finalize()[..16]);
        Self(id)
    }
}

impl ContinuationToken {
    /// # Errors
    ///
    /// [`ErrorKind::LimitExceeded`](crate::ErrorKind::LimitExceeded) if the token would be longer than a token may be.
    pub(super) fn new(content: Content) -> Result<Self> {
        let token = Self(content);
        let length = token.to_string().len();
        match length <= MAX_BYTES {
            true => Ok(token),
            false => Err(Error::new(
                ErrorKind::LimitExceeded,
                format!(
                    "the continuation token would be {length} bytes long, and at most \
                     {MAX_BYTES} are supported: sort by shorter values, or read the query to its end"
                ),
            )),
        }
    }

    /// Takes the content, if the token belongs to this query on this container.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest) if the token belongs to another query or another container.
    pub(super) fn into_state(
        self,
        query: QueryId,
        container: &str,
        info: &QueryInfo,
    ) -> Result<QueryState> {
        if self.0.query != query {
            return Err(Error::invalid(
                "the continuation token belongs to another query: text, parameters, partition key and feed \
                 range have to be those it was made with",
            ));
        }
        if self.0.container != container {
            return Err(Error::invalid(
                "the continuation token belongs to another container, or to one of this name that was \
                 deleted and created again: start the query from the beginning",
            ));
        }
        self.0.state.check_plan(info)?;
        Ok(self.0.state)
    }
}

impl QueryState {
    /// Refuses what no query of this plan can have left behind.
    fn check_plan(&self, info: &QueryInfo) -> Result<()> {
        let refuse = || Err(refused("it does not fit the plan of the query"));
        let keys = info.order_by.len();
        for range in &self.ranges {
            let fits = match &range.start {
                Start::Beginning => range.same_position == 0,
                Start::After(_) => keys == 0 && range.same_position == 0,
                Start::At(position) => keys > 0 && position.items.len() == keys,
                Start::Resumed(..) => false,
            };
            if !fits {
                return refuse();
            }
        }
        let most = info.top.or(info.limit);
        let is_window_left = self.window.skip <= info.offset.unwrap_or(0)
            && self.window.take.is_some() == most.is_some()
            && self.window.take <= most;
        match is_window_left {
            true => Ok(()),
            false => refuse(),
        }
    }
}

fn refused(why: &str) -> Error {
    Error::invalid(format!(
        "that is no continuation token of this client: {why}; start the query from the beginning, or give the \
         token as it was given out"
    ))
}

/// The JSON of a token. Members are short: it travels with every page.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    q: String,
    c: String,
    r: Vec<WireRange>,
    #[serde(default, skip_serializing_if = "is_default")]
    w: WindowLeft,
    /// In a list, so that a row that is `null` differs from no row.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    d: Vec<Value>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireRange {
    a: EffectivePartitionKey,
    b: EffectivePartitionKey,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    t: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    p: Option<Position>,
    #[serde(default, skip_serializing_if = "is_default")]
    n: u64,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl From<&Content> for Wire {
    fn from(content: &Content) -> Self {
        let range = |state: &RangeState| {
            let (t, p) = match &state.start {
                Start::Beginning => (None, None),
                Start::After(continuation) => (Some(continuation.clone()), None),
                Start::At(position) | Start::Resumed(position, _) => (None, Some(position.clone())),
            };
            let (a, b) = (state.range.min().clone(), state.range.max().clone());
            WireRange { a, b, t, p, n: state.same_position }
        };
        Self {
            q: URL_SAFE_NO_PAD.encode(content.query.0),
            c: content.container.clone(),
            r: content.state.ranges.iter().map(range).collect(),
            w: content.state.window,
            d: content.state.last_distinct.clone().into_iter().collect(),
        }
    }
}

impl Wire {
    fn into_content(self) -> Result<Content> {
        let query = URL_SAFE_NO_PAD.decode(&self.q).ok();
        let query = query.and_then(|bytes| <[u8; 16]>::try_from(bytes).ok());
        let query = QueryId(query.ok_or_else(|| refused("it names no query"))?);
        let ranges = self.r.into_iter().map(WireRange::into_state).collect::<Result<Vec<_>>>()?;
        // In order and apart: one that overlapped another would give rows twice.
        let is_sorted = ranges.windows(2).all(|pair| pair[0].range.max() <= pair[1].range.min());
        if ranges.is_empty() || !is_sorted {
            return Err(refused("its ranges are not in order"));
        }
        let mut distinct = self.d.into_iter();
        let last_distinct = distinct.next();
        if distinct.next().is_some() {
            return Err(refused("it has too many last rows"));
        }
        let state = QueryState { ranges, window: self.w, last_distinct };
        Ok(Content { query, container: self.c, state })
    }
}

impl WireRange {
    fn into_state(self) -> Result<RangeState> {
        let range = EffectivePartitionKeyRange::new(self.a, self.b);
        let range = range.map_err(|_| refused("one of its ranges is empty"))?;
        let start = match (self.t, self.p) {
            (None, None) => Start::Beginning,
            (Some(continuation), None) => {
                continuation_header(&continuation)
                    .map_err(|_| refused("it holds a continuation that cannot be sent"))?;
                Start::After(continuation)
            }
            (None, Some(position)) if position.items.len() <= MAX_SORT_KEYS => Start::At(position),
            (_, Some(_)) => return Err(refused("one of its ranges cannot be read")),
        };
        Ok(RangeState { range, start, same_position: self.n })
    }
}

impl fmt::Display for ContinuationToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&seal(VERSION, &Wire::from(&self.0))?)
    }
}

impl FromStr for ContinuationToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wire: Wire = open(VERSION, text).map_err(|why| refused(&why))?;
        wire.into_content().map(Self)
    }
}

impl fmt::Debug for ContinuationToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Sort values are the application's data.
        write!(formatter, "ContinuationToken({} ranges)", self.0.state.ranges.len())
    }
}

impl Serialize for ContinuationToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ContinuationToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

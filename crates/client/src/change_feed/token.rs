//! Where a reader of a change feed stopped, as text.
//!
//! It names ranges of effective partition keys rather than partition ranges, so that it outlives splits and merges.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};
use sidereal_protocol::{EffectivePartitionKey, EffectivePartitionKeyRange};

use super::start::Position;
use crate::sealed_text::{open, seal};
use crate::{Error, Result};

/// The version of what is inside.
const VERSION: u8 = 1;

/// Where the reader of a change feed stopped: opaque text, to be kept anywhere and given to
/// [`ChangeFeed::with_continuation`](super::ChangeFeed::with_continuation) of the same part of the same container.
///
/// It stays valid when partitions split or merge, and is refused for another part, by a container that was created
/// again, and when it was changed.
///
/// ```
/// use sidereal::change_feed::ChangeFeedToken;
///
/// let error = "garbage".parse::<ChangeFeedToken>().unwrap_err();
/// assert!(error.to_string().contains("no continuation of a change feed"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangeFeedToken(pub(super) Content);

/// The content of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Content {
    /// The RID of the container.
    pub(super) container: String,
    /// The part of the container.
    pub(super) scope: ScopeId,
    /// Ranges that were not read yet begin now, rather than at the beginning.
    pub(super) is_from_now: bool,
    /// Seconds since 1970 before which changes are left out.
    pub(super) since: Option<u64>,
    /// How far each range was read, in the order of the key space.
    pub(super) ranges: Vec<(EffectivePartitionKeyRange, Position)>,
}

/// Identifies the part of the container in a token. A hash: a partition key is the application's data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct ScopeId(String);

impl ScopeId {
    pub(super) fn of(scope: &str) -> Self {
        let hash = Sha256::digest(scope);
        Self(hash[..8].iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

impl ChangeFeedToken {
    /// Takes the content, if the token belongs to this part of this container.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest) if the token belongs to another container or another part of it.
    pub(super) fn into_content(self, container: &str, scope: &ScopeId) -> Result<Content> {
        if self.0.container != container {
            return Err(Error::invalid(
                "the continuation belongs to another container, or to one of this name that was deleted and created \
                 again: start the feed from the beginning",
            ));
        }
        if self.0.scope != *scope {
            return Err(Error::invalid(
                "the continuation belongs to another part of the container: partition key and feed range have to be \
                 those it was made with",
            ));
        }
        Ok(self.0)
    }
}

/// The JSON of a token.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    c: String,
    s: ScopeId,
    #[serde(default, skip_serializing_if = "is_false")]
    n: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    t: Option<u64>,
    r: Vec<WireRange>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WireRange {
    a: EffectivePartitionKey,
    b: EffectivePartitionKey,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    e: Option<String>,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn refused(why: &str) -> Error {
    Error::invalid(format!(
        "that is no continuation of a change feed: {why}; start the feed from the beginning, or give the text as it \
         was given out"
    ))
}

impl fmt::Display for ChangeFeedToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let range = |(range, position): &(EffectivePartitionKeyRange, Position)| WireRange {
            a: range.min().clone(),
            b: range.max().clone(),
            e: match position {
                Position::Start => None,
                Position::After(etag) => Some(etag.clone()),
            },
        };
        let wire = Wire {
            c: self.0.container.clone(),
            s: self.0.scope.clone(),
            n: self.0.is_from_now,
            t: self.0.since,
            r: self.0.ranges.iter().map(range).collect(),
        };
        formatter.write_str(&seal(VERSION, &wire)?)
    }
}

impl FromStr for ChangeFeedToken {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wire: Wire = open(VERSION, text).map_err(|why| refused(&why))?;
        let ranges = wire.r.into_iter().map(|it| {
            let range = EffectivePartitionKeyRange::new(it.a, it.b);
            let range = range.map_err(|_| refused("one of its ranges is empty"))?;
            let position = it.e.map_or(Position::Start, Position::After);
            if let Position::After(etag) = &position {
                http::HeaderValue::from_str(etag)
                    .map_err(|_| refused("it holds a position that cannot be sent"))?;
            }
            Ok((range, position))
        });
        let ranges = ranges.collect::<Result<Vec<_>>>()?;
        // In order and apart: one that overlapped another would give changes twice.
        let is_sorted = ranges.windows(2).all(|pair| pair[0].0.max() <= pair[1].0.min());
        if ranges.is_empty() || !is_sorted {
            return Err(refused("its ranges are not in order"));
        }
        let (container, scope, since) = (wire.c, wire.s, wire.t);
        Ok(Self(Content { container, scope, is_from_now: wire.n, since, ranges }))
    }
}

impl Serialize for ChangeFeedToken {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ChangeFeedToken {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(min: &str, max: &str) -> EffectivePartitionKeyRange {
        EffectivePartitionKeyRange::new(min.parse().unwrap(), max.parse().unwrap()).unwrap()
    }

    fn token(ranges: Vec<(EffectivePartitionKeyRange, Position)>) -> ChangeFeedToken {
        ChangeFeedToken(Content {
            container: "rid".to_owned(),
            scope: ScopeId::of("all"),
            is_from_now: true,
            since: Some(1_700_000_000),
            ranges,
        })
    }

    #[test]
    fn a_token_round_trips_as_text_and_through_serde() {
        let after = Position::After("\"17\"".to_owned());
        let token = token(vec![(range("", "1F"), after), (range("1F", "FF"), Position::Start)]);
        assert_eq!(token.to_string().parse::<ChangeFeedToken>().unwrap(), token);
        let json = serde_json::to_string(&token).unwrap();
        assert_eq!(serde_json::from_str::<ChangeFeedToken>(&json).unwrap(), token);
    }

    #[test]
    fn a_token_that_was_changed_or_makes_no_sense_is_refused() {
        let good = token(vec![(range("", "FF"), Position::Start)]).to_string();
        let overlapping =
            token(vec![(range("", "2F"), Position::Start), (range("1F", "FF"), Position::Start)]);
        let unsendable = token(vec![(range("", "FF"), Position::After("a\nb".to_owned()))]);
        for bad in [
            String::new(),
            good[..good.len() - 4].to_owned(),
            format!("{good}AAAA"),
            token(Vec::new()).to_string(),
            overlapping.to_string(),
            unsendable.to_string(),
        ] {
            assert!(bad.parse::<ChangeFeedToken>().is_err(), "{bad}");
        }
    }

    proptest::proptest! {
        /// Whatever it is, and however a token was changed: an answer, and never a panic.
        #[test]
        fn any_text_is_a_token_or_refused(text in ".{0,200}", at in 0_usize..60, byte in 0_u8..128) {
            let _ = text.parse::<ChangeFeedToken>(); // Either will do.
            let mut good = token(vec![(range("", "FF"), Position::Start)]).to_string().into_bytes();
            let before = std::mem::replace(&mut good[at], byte);
            let changed = String::from_utf8(good).unwrap();
            proptest::prop_assert_eq!(changed.parse::<ChangeFeedToken>().is_ok(), before == byte);
        }
    }

    #[test]
    fn a_token_of_another_container_or_part_is_refused() {
        let token = token(vec![(range("", "FF"), Position::Start)]);
        let (own, other) = (ScopeId::of("all"), ScopeId::of("[\"a\"]"));
        assert!(token.clone().into_content("rid", &own).is_ok());
        assert!(token.clone().into_content("other", &own).is_err());
        assert!(token.into_content("rid", &other).is_err());
    }
}

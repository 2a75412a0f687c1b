//! Parts of a container that can be read apart from each other.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sidereal_protocol::{EffectivePartitionKey, EffectivePartitionKeyRange};

use crate::Error;

/// A part of a container's key space: see [`ContainerClient::read_feed_ranges`](crate::ContainerClient::read_feed_ranges).
///
/// It stays valid when partitions split or merge. As text it is the JSON that other SDKs of Cosmos DB exchange.
///
/// ```
/// use sidereal::FeedRange;
///
/// let half: FeedRange = r#"{"Range":{"min":"","max":"1FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF"}}"#.parse()?;
/// assert!(FeedRange::full().covers(&half));
/// # Ok::<(), sidereal::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FeedRange(pub(crate) EffectivePartitionKeyRange);

impl FeedRange {
    /// The whole container.
    #[must_use]
    pub fn full() -> Self {
        Self(EffectivePartitionKeyRange::FULL)
    }

    /// Whether all of another range is in this one.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.0.covers(&other.0)
    }
}

#[derive(Serialize, Deserialize)]
struct Wire {
    #[serde(rename = "Range")]
    range: WireRange,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct WireRange {
    min: EffectivePartitionKey,
    max: EffectivePartitionKey,
    #[serde(default = "included")]
    is_min_inclusive: bool,
    #[serde(default)]
    is_max_inclusive: bool,
}

fn included() -> bool {
    true
}

impl fmt::Display for FeedRange {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (min, max) = (self.0.min().clone(), self.0.max().clone());
        let range = WireRange { min, max, is_min_inclusive: true, is_max_inclusive: false };
        let text = serde_json::to_string(&Wire { range }).map_err(|_| fmt::Error)?;
        formatter.write_str(&text)
    }
}

impl FromStr for FeedRange {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let expected = r#"expected {"Range":{"min":"","max":"FF"}}"#;
        let refuse =
            |why: String| Error::invalid(format!("that is no feed range: {why}; {expected}"));
        let wire: Wire = serde_json::from_str(text).map_err(|error| refuse(error.to_string()))?;
        if !wire.range.is_min_inclusive || wire.range.is_max_inclusive {
            return Err(refuse("it must include its minimum and exclude its maximum".to_owned()));
        }
        let range = EffectivePartitionKeyRange::new(wire.range.min, wire.range.max);
        range.map(Self).map_err(|error| refuse(error.to_string()))
    }
}

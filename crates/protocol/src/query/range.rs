//! The ranges of a query plan, in either of the two forms gateways write.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use crate::error::Result;
use crate::partition_key::{
    EffectivePartitionKey, EffectivePartitionKeyRange, PartitionKey, PartitionKeyDefinition,
};

/// A range of a query plan; each end may be inside or outside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QueryRange {
    /// The lower end.
    pub min: QueryRangeBound,
    /// The upper end.
    pub max: QueryRangeBound,
    /// Whether the lower end is inside.
    #[serde(default = "yes")]
    pub is_min_inclusive: bool,
    /// Whether the upper end is inside.
    #[serde(default)]
    pub is_max_inclusive: bool,
}

fn yes() -> bool {
    true
}

/// One end of a query range.
#[derive(Clone, Debug, PartialEq)]
pub enum QueryRangeBound {
    /// An effective partition key, as the gateway writes it.
    Effective(EffectivePartitionKey),
    /// The beginning, written `[]` by the thin client's gateway.
    Minimum,
    /// The end, written `[{"type":"Infinity"}]` by the thin client's gateway.
    Maximum,
    /// A key still to be hashed, as the thin client's gateway writes it.
    Key(PartitionKey),
}

impl QueryRange {
    /// The range as a half-open range of effective partition keys.
    ///
    /// An upper end that is inside is a single key: the range ends right after it, or for a prefix
    /// of a hierarchical key, after every key below it.
    pub fn resolve(
        &self,
        definition: &PartitionKeyDefinition,
    ) -> Result<EffectivePartitionKeyRange> {
        let ends =
            |bound: &QueryRangeBound| -> Result<(EffectivePartitionKey, EffectivePartitionKey)> {
                Ok(match bound {
                    QueryRangeBound::Effective(key) => (key.clone(), key.successor(definition)),
                    QueryRangeBound::Minimum => {
                        (EffectivePartitionKey::MIN, EffectivePartitionKey::MIN)
                    }
                    QueryRangeBound::Maximum => {
                        (EffectivePartitionKey::MAX, EffectivePartitionKey::MAX)
                    }
                    QueryRangeBound::Key(key) => {
                        let range = definition.effective_range(key)?;
                        (range.min().clone(), range.max().clone())
                    }
                })
            };
        let (first, after_first) = ends(&self.min)?;
        let (last, after_last) = ends(&self.max)?;
        let min = if self.is_min_inclusive { first } else { after_first };
        // The end of the key space has nothing after it.
        let closed = self.is_max_inclusive && last != EffectivePartitionKey::MAX;
        EffectivePartitionKeyRange::new(min, if closed { after_last } else { last })
    }
}

impl From<EffectivePartitionKeyRange> for QueryRange {
    fn from(range: EffectivePartitionKeyRange) -> Self {
        Self {
            min: QueryRangeBound::Effective(range.min().clone()),
            max: QueryRangeBound::Effective(range.max().clone()),
            is_min_inclusive: true,
            is_max_inclusive: false,
        }
    }
}

/// The closed range of one effective partition key, as a plan writes the equality of a key.
impl From<EffectivePartitionKey> for QueryRange {
    fn from(key: EffectivePartitionKey) -> Self {
        Self {
            min: QueryRangeBound::Effective(key.clone()),
            max: QueryRangeBound::Effective(key),
            is_min_inclusive: true,
            is_max_inclusive: true,
        }
    }
}

impl Serialize for QueryRangeBound {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Effective(key) => key.serialize(serializer),
            Self::Minimum => json!([]).serialize(serializer),
            Self::Maximum => json!([{"type": "Infinity"}]).serialize(serializer),
            Self::Key(key) => key.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for QueryRangeBound {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        match &value {
            Value::String(text) if text == "Infinity" => Ok(Self::Maximum),
            Value::String(text) => text.parse().map(Self::Effective).map_err(D::Error::custom),
            Value::Array(components) => match components.as_slice() {
                [] => Ok(Self::Minimum),
                [only] if *only == json!("Infinity") || only["type"] == "Infinity" => {
                    Ok(Self::Maximum)
                }
                _ => PartitionKey::deserialize(&value).map(Self::Key).map_err(D::Error::custom),
            },
            _ => Err(D::Error::custom(
                "a query range ends in hexadecimal text or an array of key components",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(value: Value) -> QueryRange {
        serde_json::from_value(value).unwrap()
    }

    fn definition() -> PartitionKeyDefinition {
        PartitionKeyDefinition::new(["/pk"]).unwrap()
    }

    #[test]
    fn the_whole_key_space_is_the_same_in_both_forms() {
        let hashed =
            range(json!({"min": "", "max": "FF", "isMinInclusive": true, "isMaxInclusive": false}));
        let arrays = range(json!({"min": [], "max": [{"type": "Infinity"}]}));
        let word = range(json!({"min": [], "max": "Infinity", "isMaxInclusive": true}));
        for range in [hashed, arrays, word] {
            assert_eq!(range.resolve(&definition()), Ok(EffectivePartitionKeyRange::FULL));
        }
    }

    #[test]
    fn a_single_key_is_a_range_of_one_effective_key() {
        let key = definition().effective_key(&"a".into()).unwrap();
        let expected = definition().effective_range(&"a".into()).unwrap();
        assert_eq!(QueryRange::from(key).resolve(&definition()), Ok(expected.clone()));
        let by_key = range(json!({"min": ["a"], "max": ["a"], "isMaxInclusive": true}));
        assert_eq!(by_key.resolve(&definition()), Ok(expected));
    }

    #[test]
    fn a_prefix_reaches_to_the_last_key_below_it() {
        let deep = PartitionKeyDefinition::new(["/a", "/b"]).unwrap();
        let by_prefix = range(json!({"min": ["t"], "max": ["t"], "isMaxInclusive": true}));
        assert_eq!(by_prefix.resolve(&deep), deep.effective_range(&"t".into()));
    }

    #[test]
    fn both_forms_round_trip() {
        for json in [
            json!({"min": "05C1", "max": "FF", "isMinInclusive": true, "isMaxInclusive": true}),
            json!({"min": [], "max": [{"type": "Infinity"}], "isMinInclusive": true,
                "isMaxInclusive": false}),
            json!({"min": ["a", null], "max": ["b", {}], "isMinInclusive": false, "isMaxInclusive": false}),
        ] {
            assert_eq!(serde_json::to_value(range(json.clone())).unwrap(), json);
        }
    }
}

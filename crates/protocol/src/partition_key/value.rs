//! One component of a partition key: undefined, null, a boolean, a number or a string.

use std::fmt;
use std::sync::Arc;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::error::{Error, ErrorKind, Result};

/// The largest double up to which every integer has a double of its own.
const LARGEST_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

/// One component of a partition key.
///
/// The order is the service's order of types: undefined, null, booleans, numbers, strings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PartitionKeyValue {
    /// The document has no such property; `{}` on the wire.
    #[default]
    Undefined,
    /// JSON null.
    Null,
    /// A boolean.
    Bool(bool),
    /// A finite double.
    Number(PartitionKeyNumber),
    /// A string of any length.
    String(Arc<str>),
}

impl PartitionKeyValue {
    /// The component a JSON value stands for; an array or object counts as undefined, as it does
    /// when the service looks for the key in a document.
    pub fn from_json(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            // A JSON number is finite, whichever way it is stored.
            Value::Number(number) => number
                .as_f64()
                .and_then(|number| PartitionKeyNumber::new(number).ok())
                .map_or(Self::Undefined, Self::Number),
            Value::String(text) => Self::String(text.as_str().into()),
            Value::Array(_) | Value::Object(_) => Self::Undefined,
        }
    }
}

/// A number in a partition key: a finite double, with one zero.
///
/// `1` and `1.0` are the same number, and so are `0` and `-0`: equal numbers must fall into the
/// same partition.
#[derive(Clone, Copy, PartialEq)]
pub struct PartitionKeyNumber(f64);

impl PartitionKeyNumber {
    /// Refuses infinities and NaN, which JSON cannot carry.
    pub fn new(number: f64) -> Result<Self> {
        if !number.is_finite() {
            let message = "a number in a partition key must be finite";
            return Err(Error::new(ErrorKind::PartitionKey, message));
        }
        Ok(Self(number + 0.0)) // -0 + 0 = 0, and everything else stays itself.
    }

    /// The number as a double.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl Eq for PartitionKeyNumber {}

impl PartialOrd for PartitionKeyNumber {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for PartitionKeyNumber {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl std::hash::Hash for PartitionKeyNumber {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.to_bits().hash(state);
    }
}

impl fmt::Debug for PartitionKeyNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// JSON form, integers without a decimal point.
impl fmt::Display for PartitionKeyNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.fract() == 0.0 && self.0.abs() <= LARGEST_EXACT_INTEGER {
            return write!(f, "{}", self.0 as i64);
        }
        match serde_json::Number::from_f64(self.0) {
            Some(number) => write!(f, "{number}"),
            None => unreachable!("the constructor refuses what is not finite"),
        }
    }
}

impl From<&str> for PartitionKeyValue {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<String> for PartitionKeyValue {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}

impl From<&String> for PartitionKeyValue {
    fn from(text: &String) -> Self {
        Self::String(text.as_str().into())
    }
}

impl From<bool> for PartitionKeyValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl TryFrom<f64> for PartitionKeyValue {
    type Error = Error;

    fn try_from(number: f64) -> Result<Self> {
        PartitionKeyNumber::new(number).map(Self::Number)
    }
}

macro_rules! from_integers {
    ($($integer:ty),+ => $double:expr) => {$(
        impl From<$integer> for PartitionKeyValue {
            fn from(number: $integer) -> Self {
                let double: fn($integer) -> f64 = $double;
                Self::Number(PartitionKeyNumber(double(number)))
            }
        }
    )+};
}

from_integers!(i8, i16, i32, u8, u16, u32 => f64::from);
// The service knows doubles only: an integer beyond 2⁵³ takes the nearest one.
from_integers!(i64, u64, isize, usize => |number| number as f64);

impl<T: Into<PartitionKeyValue>> From<Option<T>> for PartitionKeyValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl Serialize for PartitionKeyValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        match self {
            Self::Undefined => serializer.serialize_map(Some(0))?.end(),
            Self::Null => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Number(number) => {
                let number = number.get();
                if number.fract() == 0.0 && number.abs() <= LARGEST_EXACT_INTEGER {
                    serializer.serialize_i64(number as i64)
                } else {
                    serializer.serialize_f64(number)
                }
            }
            Self::String(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for PartitionKeyValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_any(Component)
    }
}

struct Component;

impl<'de> Visitor<'de> for Component {
    type Value = PartitionKeyValue;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string, number, boolean, null or {} for undefined")
    }

    fn visit_unit<E>(self) -> std::result::Result<Self::Value, E> {
        Ok(PartitionKeyValue::Null)
    }

    fn visit_bool<E>(self, value: bool) -> std::result::Result<Self::Value, E> {
        Ok(PartitionKeyValue::Bool(value))
    }

    fn visit_i64<E>(self, number: i64) -> std::result::Result<Self::Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> std::result::Result<Self::Value, E> {
        Ok(number.into())
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> std::result::Result<Self::Value, E> {
        PartitionKeyValue::try_from(number).map_err(E::custom)
    }

    fn visit_str<E>(self, text: &str) -> std::result::Result<Self::Value, E> {
        Ok(text.into())
    }

    fn visit_map<A: MapAccess<'de>>(
        self,
        mut map: A,
    ) -> std::result::Result<Self::Value, A::Error> {
        match map.next_key::<serde::de::IgnoredAny>()? {
            None => Ok(PartitionKeyValue::Undefined),
            Some(_) => {
                Err(A::Error::custom("only the empty object {} can be part of a partition key"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_and_one_point_zero_are_the_same_key() {
        assert_eq!(PartitionKeyValue::from(1), PartitionKeyValue::try_from(1.0).unwrap());
        assert_eq!(PartitionKeyValue::from(0), PartitionKeyValue::try_from(-0.0).unwrap());
        assert!(PartitionKeyValue::try_from(f64::NAN).is_err());
    }

    #[test]
    fn a_document_value_that_is_not_a_scalar_counts_as_undefined() {
        assert_eq!(PartitionKeyValue::from_json(&json!([1])), PartitionKeyValue::Undefined);
        assert_eq!(PartitionKeyValue::from_json(&json!({"a": 1})), PartitionKeyValue::Undefined);
        assert_eq!(PartitionKeyValue::from_json(&json!(7)), PartitionKeyValue::from(7));
    }

    #[test]
    fn integers_are_written_without_a_decimal_point() {
        let written = |number: f64| PartitionKeyNumber::new(number).unwrap().to_string();
        assert_eq!(written(5.0), "5");
        assert_eq!(written(-0.0), "0");
        assert_eq!(written(1.5), "1.5");
        assert_eq!(written(f64::MAX), "1.7976931348623157e+308");
    }
}

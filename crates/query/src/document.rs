//! Parsing documents: JSON whose every number is an IEEE double, as the service keeps them.
//!
//! The numbers are rounded while the text is parsed. Parsing into a [`Value`] and rounding it after would
//! walk every document twice, on the way of every write.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::value::{number_of, rounded};

/// Parses a document: JSON, with every number rounded to the double that the service stores.
///
/// `9007199254740993` is read as `9007199254740992`, and `1.0` as `1`. Of two members with one name the
/// last is kept; nesting is bounded by `serde_json` (128 levels).
///
/// # Errors
///
/// The text is not JSON, or more than one value.
pub fn parse_document(text: &[u8]) -> serde_json::Result<Value> {
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let document = Document.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(document)
}

/// The visitor of `serde_json`'s own values, except for numbers.
#[derive(Clone, Copy)]
struct Document;

impl<'de> DeserializeSeed<'de> for Document {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Document {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        let number = value.into();
        Ok(Value::Number(rounded(&number).unwrap_or(number)))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        let number = value.into();
        Ok(Value::Number(rounded(&number).unwrap_or(number)))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        number_of(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::String(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::String(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        // Grown as items come: a length that a client claims would be memory that it has not sent.
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(self)? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            object.insert(name, members.next_value_seed(self)?);
        }
        Ok(Value::Object(object))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::round_numbers;

    #[test]
    fn numbers_are_read_as_the_doubles_they_round_to() {
        let cases = [
            ("9007199254740993", "9007199254740992"),
            ("-9007199254740993", "-9007199254740992"),
            ("18446744073709551615", "1.8446744073709552e+19"),
            ("1.0", "1"),
            ("-0.0", "0"),
            ("1e2", "100"),
            ("0.1", "0.1"),
            ("12345678901234567890123", "1.2345678901234568e+22"),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_document(text.as_bytes()).unwrap().to_string(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_not_one_json_value_is_refused() {
        let deep = "[".repeat(100_000);
        for text in ["", "{", "1 2", "1e999", "{\"a\":}", "nul", deep.as_str()] {
            assert!(parse_document(text.as_bytes()).is_err());
        }
    }

    proptest! {
        #[test]
        fn parsing_gives_what_rounding_a_parsed_value_gives(integer: i64, natural: u64, real: f64, text: String) {
            let value = serde_json::json!({
                "i": [integer, natural, { "r": real }], &text: [text, null, true, {}, []],
            });
            let text = value.to_string();
            let mut rounded: Value = serde_json::from_str(&text).unwrap();
            round_numbers(&mut rounded);
            let parsed = parse_document(text.as_bytes()).unwrap();
            prop_assert_eq!(parsed.to_string(), rounded.to_string());
        }
    }
}

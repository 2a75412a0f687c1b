//! Partition keys: one to three components, and the JSON array a request carries them in.

use std::fmt;
use std::str::FromStr;

use serde::de::{Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use super::definition::{MAX_HIERARCHY_LEVELS, PartitionKeyDefinition};
use super::value::PartitionKeyValue;
use crate::error::{Error, ErrorKind, Result, excerpt};

/// A partition key: one component, or up to three of a hierarchical key.
///
/// `Display` and `FromStr` are the header form: a JSON array in ASCII. Components live inline, so
/// a key of numbers or shared strings is cloned without allocating.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PartitionKey {
    /// Unused slots hold `Undefined`, so that derived equality holds.
    components: [PartitionKeyValue; MAX_HIERARCHY_LEVELS],
    len: u8,
}

impl PartitionKey {
    /// A key of one to three components.
    pub fn new<V: Into<PartitionKeyValue>>(
        components: impl IntoIterator<Item = V>,
    ) -> Result<Self> {
        let mut key = Self { components: Default::default(), len: 0 };
        for component in components {
            let slot = key.components.get_mut(usize::from(key.len));
            *slot.ok_or_else(|| wrong_count("more than 3"))? = component.into();
            key.len += 1;
        }
        if key.len == 0 { Err(wrong_count("no")) } else { Ok(key) }
    }

    /// The key of an item whose document has no such property.
    pub fn undefined() -> Self {
        PartitionKeyValue::Undefined.into()
    }

    /// The components, at least one.
    pub fn components(&self) -> &[PartitionKeyValue] {
        &self.components[..usize::from(self.len)]
    }

    /// Appends one more level to the key.
    pub fn append(mut self, component: impl Into<PartitionKeyValue>) -> Result<Self> {
        let slot = self.components.get_mut(usize::from(self.len));
        *slot.ok_or_else(|| wrong_count("more than 3"))? = component.into();
        self.len += 1;
        Ok(self)
    }

    /// The header form in one allocation; the same text as `Display`.
    pub fn to_header(&self) -> String {
        let strings = self.components().iter().map(|component| match component {
            PartitionKeyValue::String(text) => text.len(),
            _ => 24, // The longest number.
        });
        let mut header = String::with_capacity(strings.sum::<usize>() + 12);
        self.write_to(&mut header).unwrap_or_default(); // A string takes all.
        header
    }

    /// Writes the header form; the same text as `Display`, without a formatter.
    ///
    /// # Errors
    ///
    /// Those of the writer.
    pub fn write_to(&self, f: &mut impl fmt::Write) -> fmt::Result {
        f.write_str("[")?;
        for (index, component) in self.components().iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            match component {
                PartitionKeyValue::Undefined => f.write_str("{}")?,
                PartitionKeyValue::Null => f.write_str("null")?,
                PartitionKeyValue::Bool(value) => write!(f, "{value}")?,
                PartitionKeyValue::Number(number) => write!(f, "{number}")?,
                PartitionKeyValue::String(text) => write_ascii(f, text)?,
            }
        }
        f.write_str("]")
    }

    /// Whether this key begins with the components of `prefix`.
    pub fn starts_with(&self, prefix: &PartitionKey) -> bool {
        self.components().starts_with(prefix.components())
    }
}

impl PartitionKeyDefinition {
    /// The partition key of a document: the values at the paths.
    pub fn extract(&self, document: &Value) -> PartitionKey {
        let mut key = PartitionKey { components: Default::default(), len: 0 };
        for (slot, path) in key.components.iter_mut().zip(self.paths()) {
            *slot = path.find(document).map(PartitionKeyValue::from_json).unwrap_or_default();
            key.len += 1;
        }
        key
    }
}

impl<V: Into<PartitionKeyValue>> From<V> for PartitionKey {
    fn from(component: V) -> Self {
        Self {
            components: [
                component.into(),
                PartitionKeyValue::Undefined,
                PartitionKeyValue::Undefined,
            ],
            len: 1,
        }
    }
}

impl<A: Into<PartitionKeyValue>, B: Into<PartitionKeyValue>> From<(A, B)> for PartitionKey {
    fn from((first, second): (A, B)) -> Self {
        Self { components: [first.into(), second.into(), PartitionKeyValue::Undefined], len: 2 }
    }
}

impl<A, B, C> From<(A, B, C)> for PartitionKey
where
    A: Into<PartitionKeyValue>,
    B: Into<PartitionKeyValue>,
    C: Into<PartitionKeyValue>,
{
    fn from((first, second, third): (A, B, C)) -> Self {
        Self { components: [first.into(), second.into(), third.into()], len: 3 }
    }
}

/// The header form: `["tenant",7,null,{}]`, every character in ASCII.
impl fmt::Display for PartitionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_to(f)
    }
}

/// Writes a JSON string in visible ASCII. Runs that need no escape go out in one piece.
fn write_ascii(f: &mut impl fmt::Write, text: &str) -> fmt::Result {
    f.write_str("\"")?;
    let mut rest = text;
    let is_special = |byte: u8| !matches!(byte, b' '..=b'~') || byte == b'"' || byte == b'\\';
    // The first special byte begins a character, for every byte of a longer one is special.
    while let Some(at) = rest.bytes().position(is_special) {
        f.write_str(&rest[..at])?;
        let mut characters = rest[at..].chars();
        match characters.next() {
            Some(c @ ('"' | '\\')) => write!(f, "\\{c}")?,
            Some(c) => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    write!(f, "\\u{unit:04X}")?;
                }
            }
            None => {}
        }
        rest = characters.as_str();
    }
    f.write_str(rest)?;
    f.write_str("\"")
}

impl FromStr for PartitionKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|error| {
            let message = format!(
                "\"{}\" is not a partition key: {error}; expected a JSON array such as [\"tenant\",7]",
                excerpt(text).escape_debug()
            );
            Error::new(ErrorKind::PartitionKey, message)
        })
    }
}

impl Serialize for PartitionKey {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_seq(self.components())
    }
}

impl<'de> Deserialize<'de> for PartitionKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_seq(Components)
    }
}

struct Components;

impl<'de> Visitor<'de> for Components {
    type Value = PartitionKey;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of one to three partition key components")
    }

    fn visit_seq<A: SeqAccess<'de>>(
        self,
        mut sequence: A,
    ) -> std::result::Result<Self::Value, A::Error> {
        let mut key = PartitionKey { components: Default::default(), len: 0 };
        while let Some(component) = sequence.next_element()? {
            let slot = key.components.get_mut(usize::from(key.len));
            *slot.ok_or_else(|| A::Error::custom(wrong_count("more than 3")))? = component;
            key.len += 1;
        }
        if key.len == 0 { Err(A::Error::custom(wrong_count("no"))) } else { Ok(key) }
    }
}

fn wrong_count(found: &str) -> Error {
    let message = format!("a partition key has one to three components, not {found}");
    Error::new(ErrorKind::PartitionKey, message)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_header_form_is_ascii_whatever_the_key() {
        let key = PartitionKey::from(("café 🚀 \"x\\y\"\n\u{7f}", 7, Option::<bool>::None));
        let header = key.to_header();
        assert_eq!(header, key.to_string());
        assert_eq!(header, r#"["caf\u00E9 \uD83D\uDE80 \"x\\y\"\u000A\u007F",7,null]"#);
        assert_eq!(header.parse(), Ok(key));
    }

    #[test]
    fn undefined_travels_as_an_empty_object() {
        assert_eq!(PartitionKey::undefined().to_string(), "[{}]");
        assert_eq!("[ {} ]".parse(), Ok(PartitionKey::undefined()));
        assert_eq!("[true, 1.0]".parse(), Ok(PartitionKey::from((true, 1))));
    }

    #[test]
    fn what_is_not_a_key_is_refused() {
        for bad in
            ["", "[]", "{}", "\"a\"", "[[1]]", "[{\"a\":1}]", "[1,2,3,4]", "[1e999]", "[1] x"]
        {
            assert_eq!(
                bad.parse::<PartitionKey>().unwrap_err().kind(),
                ErrorKind::PartitionKey,
                "{bad}"
            );
        }
    }

    #[test]
    fn a_key_is_extracted_along_the_paths_of_the_definition() {
        let definition = PartitionKeyDefinition::new(["/tenant", "/user/id"]).unwrap();
        let full = definition.extract(&json!({"tenant": "t", "user": {"id": 3}}));
        assert_eq!(full, PartitionKey::from(("t", 3)));
        let partial = definition.extract(&json!({"user": 3}));
        assert_eq!(
            partial,
            PartitionKey::from((PartitionKeyValue::Undefined, PartitionKeyValue::Undefined))
        );
    }

    #[test]
    fn a_prefix_is_recognised_component_by_component() {
        let key = PartitionKey::from(("t", 3));
        assert!(key.starts_with(&"t".into()));
        assert!(!key.starts_with(&"u".into()));
        assert_eq!(PartitionKey::from("t").append(3), Ok(key));
    }
}

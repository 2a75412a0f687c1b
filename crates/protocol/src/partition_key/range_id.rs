//! The id of a partition key range: `0`, `12`.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, ErrorKind, Result, excerpt};
use crate::text::Text;

/// Names one partition range of one container; `0` exists in every container.
///
/// Never empty, and free of the separators of a session token. Cloning does not allocate.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartitionKeyRangeId(Text);

impl PartitionKeyRangeId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<u32> for PartitionKeyRangeId {
    fn from(id: u32) -> Self {
        Self(Text::from(id.to_string()))
    }
}

impl FromStr for PartitionKeyRangeId {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let allowed = |byte: u8| byte.is_ascii_graphic() && byte != b':' && byte != b',';
        if text.is_empty() || !text.bytes().all(allowed) {
            let message = format!(
                "\"{}\" is not a partition range id: expected one such as 0",
                excerpt(text).escape_debug()
            );
            return Err(Error::new(ErrorKind::PartitionKeyRangeId, message));
        }
        Ok(Self(Text::from(text)))
    }
}

/// So that a map keyed by range id can be asked with the text of a header.
impl Borrow<str> for PartitionKeyRangeId {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for PartitionKeyRangeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Serialize for PartitionKeyRangeId {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PartitionKeyRangeId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        // A format that does not say what comes, such as a store's, has always a text.
        match deserializer.is_human_readable() {
            true => deserializer.deserialize_any(TextOrNumber),
            false => deserializer.deserialize_str(TextOrNumber),
        }
    }
}

/// The service writes a text; other servers of the protocol write a number.
struct TextOrNumber;

impl Visitor<'_> for TextOrNumber {
    type Value = PartitionKeyRangeId;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the id of a partition range, such as \"0\"")
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> std::result::Result<Self::Value, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> std::result::Result<Self::Value, E> {
        Ok(PartitionKeyRangeId(Text::from(number.to_string())))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn a_map_of_ranges_is_asked_with_plain_text() {
        let map = HashMap::from([(PartitionKeyRangeId::from(12), true)]);
        assert_eq!(map.get("12"), Some(&true));
    }

    #[test]
    fn separators_of_a_session_token_are_refused() {
        for bad in ["", "1:2", "1,2", "1 2", "é"] {
            assert!(bad.parse::<PartitionKeyRangeId>().is_err(), "{bad}");
        }
    }

    /// The whole list of ranges was refused for a server that writes numbers.
    #[test]
    fn a_number_in_json_is_an_id_too() {
        let read = |json| serde_json::from_str::<PartitionKeyRangeId>(json).ok();
        assert_eq!(read("12"), Some(PartitionKeyRangeId::from(12)));
        assert_eq!(read("\"12\""), read("12"));
        assert_eq!(
            (read("-1"), read("1.5"), read("\"a:b\""), read("null")),
            (None, None, None, None)
        );
        assert_eq!(serde_json::to_string(&PartitionKeyRangeId::from(3)).unwrap(), "\"3\"");
    }
}

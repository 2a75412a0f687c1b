//! The size of texts on the wire: JSON escapes them, which makes a text up to six times as long.

use base64::engine::general_purpose::STANDARD;

/// The bytes that JSON takes for a character within a string.
fn escaped_bytes(character: char) -> usize {
    match character {
        '"' | '\\' | '\u{8}' | '\u{9}' | '\u{a}' | '\u{c}' | '\u{d}' => 2,
        '\0'..'\u{20}' => 6,
        other => other.len_utf8(),
    }
}

/// The length of a text as a JSON string, in bytes, without the quotation marks around it.
pub(crate) fn escaped_len(text: &str) -> usize {
    // Bytes above 0x7F are those of characters that JSON leaves as they are.
    text.bytes().map(|byte| if byte < 0x80 { escaped_bytes(char::from(byte)) } else { 1 }).sum()
}

/// Cuts a text into pieces of at most `limit` bytes each once they are escaped. A character is never cut.
pub(super) fn split(text: &str, limit: usize) -> Vec<&str> {
    let (mut pieces, mut begin, mut length) = (Vec::new(), 0, 0);
    for (at, character) in text.char_indices() {
        let bytes = escaped_bytes(character);
        if length + bytes > limit && at > begin {
            pieces.push(&text[begin..at]);
            (begin, length) = (at, 0);
        }
        length += bytes;
    }
    pieces.push(&text[begin..]);
    pieces
}

/// Whether base64 is shorter than JSON's escapes. It never makes a text longer than four thirds.
fn is_shorter_as_base64(text: &str) -> bool {
    escaped_len(text) > text.len().div_ceil(3) * 4
}

/// A `String` that is stored as `{"base64": …}` where that is shorter than JSON's escapes, for `#[serde(with)]`: the
/// document stays below a size that does not depend on the characters of the text.
pub(crate) mod compact {
    use base64::Engine as _;
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    use super::{STANDARD, is_shorter_as_base64};

    #[derive(Serialize, Deserialize)]
    #[serde(untagged)]
    enum Stored<T> {
        Plain(T),
        Encoded { base64: T },
    }

    pub(crate) fn serialize<S: Serializer>(
        text: &Option<String>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match text {
            Some(text) if is_shorter_as_base64(text) => {
                Some(Stored::Encoded { base64: STANDARD.encode(text) }).serialize(serializer)
            }
            text => text.serialize(serializer),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<String>, D::Error> {
        match Option::<Stored<String>>::deserialize(deserializer)? {
            None => Ok(None),
            Some(Stored::Plain(text)) => Ok(Some(text)),
            Some(Stored::Encoded { base64 }) => {
                let bytes = STANDARD.decode(base64).map_err(de::Error::custom)?;
                String::from_utf8(bytes).map(Some).map_err(de::Error::custom)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    struct Document {
        #[serde(default, with = "compact")]
        text: Option<String>,
    }

    proptest! {
        #[test]
        fn the_escaped_length_is_that_of_the_json_text(text: String) {
            prop_assert_eq!(escaped_len(&text) + 2, serde_json::to_string(&text).unwrap().len());
        }

        #[test]
        fn pieces_are_within_the_limit_and_make_the_text(text: String, limit in 6_usize..40) {
            let pieces = split(&text, limit);
            prop_assert!(pieces.iter().all(|piece| escaped_len(piece) <= limit));
            prop_assert_eq!(pieces.concat(), text);
        }

        #[test]
        fn a_compact_text_comes_back_and_has_a_bounded_length(text in "[\"\\\\\\x00-\\x1fa-cä]{0,99}") {
            let document = Document { text: Some(text.clone()) };
            let json = serde_json::to_string(&document).unwrap();
            prop_assert!(json.len() <= text.len() * 4 / 3 + 40, "{}", json);
            prop_assert_eq!(serde_json::from_str::<Document>(&json).unwrap(), document);
        }
    }

    #[test]
    fn ordinary_texts_stay_readable() {
        let document = Document { text: Some(r#"{"a": 1}"#.to_owned()) };
        assert_eq!(serde_json::to_string(&document).unwrap(), r#"{"text":"{\"a\": 1}"}"#);
        assert_eq!(serde_json::from_str::<Document>("{}").unwrap().text, None);
    }
}

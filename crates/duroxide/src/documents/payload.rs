//! Payloads that may be larger than a document.

use serde::{Deserialize, Serialize};

use super::kinds;
use super::text::{escaped_len, split};
use crate::ids;

/// The longest payload that is kept within its document, as bytes on the wire. The service takes batches of 2 MB; the rest is
/// for the other properties and for the instance beside it.
pub(crate) const MAX_INLINE_BYTES: usize = 1_000_000;

/// The longest output that is kept within its document: the instance and its execution both have it, in one batch.
const MAX_INLINE_OUTPUT_BYTES: usize = 256 << 10;

/// The longest text of a part, as bytes on the wire.
const MAX_PART_BYTES: usize = 1_000_000;

/// A text, or how many parts it was split into.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum Payload {
    /// All of it.
    Inline(String),
    /// The number of documents that hold it.
    Parts {
        /// How many.
        parts: usize,
    },
}

/// A part of a payload that is too large for its document.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PartDocument {
    pub(crate) id: String,
    pub(crate) instance_id: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    /// The document that it belongs to.
    pub(crate) owner: String,
    pub(crate) number: usize,
    pub(crate) data: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) staged_turn: Option<u64>,
}

impl Payload {
    /// How long the text is that the document has of it.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Inline(text) => text.len(),
            Self::Parts { .. } => 0,
        }
    }

    /// Puts a text into a document, and into parts if it is too large for one.
    pub(crate) fn of(instance: &str, owner: &str, text: String) -> (Self, Vec<PartDocument>) {
        Self::within(MAX_INLINE_BYTES, instance, owner, text)
    }

    /// Puts the output of an execution into its document and the instance's, and into parts if it is too large for that.
    pub(crate) fn of_output(
        instance: &str,
        owner: &str,
        text: String,
    ) -> (Self, Vec<PartDocument>) {
        Self::within(MAX_INLINE_OUTPUT_BYTES, instance, owner, text)
    }

    fn within(
        limit: usize,
        instance: &str,
        owner: &str,
        text: String,
    ) -> (Self, Vec<PartDocument>) {
        // JSON's escapes only add bytes.
        if text.len() <= limit && escaped_len(&text) <= limit {
            return (Self::Inline(text), Vec::new());
        }
        let part = |(number, data): (usize, &str)| PartDocument {
            id: ids::payload_part(owner, number),
            instance_id: instance.to_owned(),
            kind: kinds::PART.to_owned(),
            owner: owner.to_owned(),
            number,
            data: data.to_owned(),
            staged_turn: None,
        };
        let parts: Vec<_> =
            split(&text, MAX_PART_BYTES).into_iter().enumerate().map(part).collect();
        (Self::Parts { parts: parts.len() }, parts)
    }

    /// How many parts it has.
    pub(crate) fn parts(&self) -> usize {
        match self {
            Self::Inline(_) => 0,
            Self::Parts { parts } => *parts,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_text_stays_in_its_document() {
        let (payload, parts) = Payload::of("i", "i:history:1:1", "{}".to_owned());
        assert_eq!((payload, parts), (Payload::Inline("{}".to_owned()), Vec::new()));
    }

    #[test]
    fn a_large_text_is_split_between_characters_and_comes_back() {
        let text = "ü".repeat(1_700_000);
        let (payload, parts) = Payload::of("i", "i:history:1:1", text.clone());
        assert_eq!((payload.parts(), parts.len()), (4, 4));
        assert!(parts.iter().all(|part| part.data.len() <= MAX_PART_BYTES));
        assert_eq!(parts.iter().map(|part| part.data.as_str()).collect::<String>(), text);
        assert_eq!(parts[3].id, "i:history:1:1:part:3");
    }

    /// Limits were of the text before it was escaped: JSON within JSON was refused by the service.
    #[test]
    fn every_document_is_within_the_limit_once_it_is_escaped() {
        for unit in ["x", "\"", "\\", "\u{1}", "ü", r#"{"a":1},"#] {
            for bytes in [MAX_INLINE_BYTES / 2, MAX_INLINE_BYTES, 3 * MAX_INLINE_BYTES / 2] {
                let text = unit.repeat(bytes / unit.len());
                let (payload, parts) = Payload::of("i", "o", text.clone());
                let inline = serde_json::to_string(&payload).unwrap();
                assert!(inline.len() <= MAX_INLINE_BYTES + 2, "{unit:?}, {bytes}");
                for part in &parts {
                    let part = serde_json::to_string(part).unwrap();
                    assert!(part.len() <= MAX_PART_BYTES + 200, "{unit:?}, {bytes}");
                }
                let whole = match payload {
                    Payload::Inline(text) => text,
                    Payload::Parts { .. } => parts.into_iter().map(|part| part.data).collect(),
                };
                assert!(whole == text, "{unit:?}, {bytes}");
            }
        }
    }
}

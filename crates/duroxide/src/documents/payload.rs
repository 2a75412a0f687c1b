//! Payloads that may be larger than a document.

use serde::{Deserialize, Serialize};

use super::kinds;
use crate::ids;

/// The longest payload that is kept within its document. The service takes documents of 2 MB; the rest is for the
/// other properties and for the batch around it.
pub(crate) const MAX_INLINE_BYTES: usize = 1_000_000;

/// The longest text of a part.
const MAX_PART_BYTES: usize = 1_500_000;

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
        if text.len() <= MAX_INLINE_BYTES {
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
        let parts: Vec<_> = split(&text).into_iter().enumerate().map(part).collect();
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

/// Cuts a text where characters begin.
fn split(mut text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    while text.len() > MAX_PART_BYTES {
        let cut = (0..=MAX_PART_BYTES).rfind(|at| text.is_char_boundary(*at)).unwrap_or(text.len());
        let (piece, rest) = text.split_at(cut);
        pieces.push(piece);
        text = rest;
    }
    pieces.push(text);
    pieces
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
        assert_eq!((payload.parts(), parts.len()), (3, 3));
        assert!(parts.iter().all(|part| part.data.len() <= MAX_PART_BYTES));
        assert_eq!(parts.iter().map(|part| part.data.as_str()).collect::<String>(), text);
        assert_eq!(parts[2].id, "i:history:1:1:part:2");
    }
}

//! Continuation tokens: where the next page of a query or feed begins. Opaque to clients, which send them
//! back unchanged.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sidereal_protocol::headers::names as headers;
use sidereal_query::Progress;

use crate::error::{Result, ServiceError};
use crate::store::{Partition, Position};

/// Where a page ended. Tokens that are not ours are refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Continuation {
    /// The id of the partition range to go on with.
    #[serde(rename = "r")]
    pub(super) range: String,
    /// The item to go on after, or at.
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    pub(super) ordinal: Option<u64>,
    /// Rows of that item, or of the whole result where it was buffered first, already returned.
    #[serde(rename = "s", default, skip_serializing_if = "is_zero")]
    pub(super) returned: u64,
    /// The sort keys of that item, each an array of one value, or of none where it is undefined.
    #[serde(rename = "k", default, skip_serializing_if = "Option::is_none")]
    pub(super) keys: Option<Vec<Vec<Value>>>,
    /// Where the other descendants of a range that was split resume.
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    pub(super) origin: Option<Box<Self>>,
    /// What is left of a window.
    #[serde(rename = "w", default, skip_serializing_if = "Option::is_none")]
    pub(super) window: Option<(u64, Option<u64>)>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes fields by reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Continuation {
    /// The start of a range.
    pub(super) fn start_of(range: &str) -> Self {
        Self {
            range: range.to_owned(),
            ordinal: None,
            returned: 0,
            keys: None,
            origin: None,
            window: None,
        }
    }

    /// Where to go on in a partition: here if it is, or came from, the range of the token.
    pub(super) fn for_partition(&self, partition: &Partition) -> Self {
        let id = partition.id.as_str();
        if self.range == id {
            return self.clone();
        }
        // The range of the token was split: its first child resumes where the parent stood, and remembers
        // the parent's position for its siblings.
        if partition.descends_from(&self.range) {
            let origin = Some(Box::new(self.clone()));
            return Self { range: id.to_owned(), origin, ..self.clone() };
        }
        match &self.origin {
            Some(origin) if partition.descends_from(&origin.range) => {
                origin.for_partition(partition)
            }
            _ => Self::start_of(id),
        }
    }

    pub(super) fn position(&self) -> Position {
        match self.ordinal {
            None => Position::Start,
            // Some of the document's rows are still to be returned.
            Some(ordinal) if self.returned > 0 => Position::At(ordinal),
            Some(ordinal) => Position::After(ordinal),
        }
    }

    pub(super) fn progress(&self) -> Option<Progress> {
        self.window.map(|(skip, take)| Progress { skip, take })
    }

    /// The token.
    pub(super) fn to_token(&self) -> String {
        let json = serde_json::to_vec(self).unwrap_or_default();
        URL_SAFE_NO_PAD.encode(json)
    }

    /// Reads a token back.
    pub(super) fn from_token(token: &str) -> Result<Self> {
        let json = URL_SAFE_NO_PAD.decode(token).ok();
        let continuation = json.and_then(|json| serde_json::from_slice(&json).ok());
        continuation.ok_or_else(|| ServiceError::bad_header(headers::CONTINUATION.as_str(), token))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_reads_back_as_what_it_was() {
        let continuation = Continuation {
            range: "3".to_owned(),
            ordinal: Some(9),
            returned: 2,
            keys: Some(vec![vec![Value::Null], vec![]]),
            origin: Some(Box::new(Continuation::start_of("1"))),
            window: Some((0, Some(4))),
        };
        let token = continuation.to_token();
        assert_eq!(Continuation::from_token(&token).unwrap(), continuation);
    }

    #[test]
    fn a_token_that_is_not_ours_is_refused() {
        for token in ["", "x", "e30", "!!!!", "+RID:~abc#RT:1"] {
            assert!(Continuation::from_token(token).is_err(), "{token}");
        }
    }
}

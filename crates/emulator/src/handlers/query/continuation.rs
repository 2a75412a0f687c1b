//! Continuation tokens: where the next page of a query or feed begins.
//!
//! Clients send them back unchanged, and some look inside. A token has the service's form: for a request to
//! one range `-RID:~…#RT:1#TRC:5` (the last item, the round trips and the rows so far), with our own position
//! in a last field; where the gateway found the range, a list of such tokens, each with its range:
//! `[{"token":"-RID:~…","range":{"min":"","max":"FF"}}]`. There is one, for a page ends in one range.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sidereal_protocol::{EffectivePartitionKeyRange, Rid};
use sidereal_query::Progress;

use crate::error::{Result, ServiceError};
use crate::store::{Partition, Position};

/// A token: where its page ended, and what came before.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ContinuationToken {
    pub(super) position: Continuation,
    /// Pages so far: `RT`, round trips.
    pub(super) pages: u64,
    /// Rows so far: `TRC`, total row count.
    pub(super) rows: u64,
    /// Characters that mean nothing, at the end: see [`Latitude::LongContinuations`](crate::Latitude).
    pub(super) padding: usize,
}

/// The most of them. A token of the service is at most 8 KB long by default.
pub(super) const MAX_PADDING: usize = 7 * 1024;

/// The padding character. It ends the position, which is base64.
const PADDING: char = '~';

/// The field of a token that holds the position, behind those of the service.
const POSITION: &str = "POS:";

/// A token with the range it continues in.
#[derive(Debug, Serialize, Deserialize)]
struct RangedToken {
    token: String,
    range: TokenRange,
}

/// The bounds of a range, as effective partition keys in hexadecimal.
#[derive(Debug, Serialize, Deserialize)]
struct TokenRange {
    min: String,
    max: String,
}

impl ContinuationToken {
    /// The token of a request that named its range.
    pub(super) fn to_text(&self, container: Rid) -> String {
        let Self { position, pages, rows, padding } = self;
        // Before the first item of a range the container stands for the last one read.
        let rid = position.ordinal.and_then(|ordinal| container.document(ordinal));
        let rid = rid.unwrap_or(container);
        let json = serde_json::to_vec(position).unwrap_or_default();
        let position = URL_SAFE_NO_PAD.encode(json);
        let padding: String = std::iter::repeat_n(PADDING, *padding).collect();
        format!("-RID:~{rid}#RT:{pages}#TRC:{rows}#{POSITION}{position}{padding}")
    }

    /// The token of a request whose range the gateway found.
    pub(super) fn to_list(&self, container: Rid, range: &EffectivePartitionKeyRange) -> String {
        let range = TokenRange { min: range.min().to_string(), max: range.max().to_string() };
        let token = RangedToken { token: self.to_text(container), range };
        serde_json::to_string(&[token]).unwrap_or_default()
    }

    /// Reads a token of either form back. What is not ours is refused.
    pub(super) fn parse(token: &str) -> Result<Self> {
        let parsed = match token.starts_with('[') {
            true => {
                let list = serde_json::from_str::<Vec<RangedToken>>(token).unwrap_or_default();
                list.first().filter(|_| list.len() == 1).and_then(|only| parse_text(&only.token))
            }
            false => parse_text(token),
        };
        parsed.ok_or_else(|| ServiceError::invalid_continuation(token))
    }
}

fn parse_text(token: &str) -> Option<ContinuationToken> {
    let mut fields = token.strip_prefix("-RID:~")?.splitn(4, '#');
    let _: Rid = fields.next()?.parse().ok()?;
    let pages = fields.next()?.strip_prefix("RT:")?.parse().ok()?;
    let rows = fields.next()?.strip_prefix("TRC:")?.parse().ok()?;
    let last = fields.next()?.strip_prefix(POSITION)?;
    let base64 = last.trim_end_matches(PADDING);
    let json = URL_SAFE_NO_PAD.decode(base64).ok()?;
    let position = serde_json::from_slice(&json).ok()?;
    Some(ContinuationToken { position, pages, rows, padding: last.len() - base64.len() })
}

/// Where a page ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Continuation {
    /// The id of the partition range to go on with.
    #[serde(rename = "r")]
    pub(super) range: String,
    /// The item to go on after, or at.
    #[serde(rename = "p", default, skip_serializing_if = "Option::is_none")]
    pub(super) ordinal: Option<u64>,
    /// Where in the rows of that item to go on, one index per source of the query; after it where there is
    /// none.
    #[serde(rename = "j", default, skip_serializing_if = "Vec::is_empty")]
    pub(super) within: Vec<u64>,
    /// Rows already returned of a result that is computed before its first row.
    #[serde(rename = "s", default, skip_serializing_if = "is_zero")]
    pub(super) returned: u64,
    /// The sort keys of that item, each an array of one value, or of none where it is undefined.
    #[serde(rename = "k", default, skip_serializing_if = "Option::is_none")]
    pub(super) keys: Option<Vec<Vec<Value>>>,
    /// Where the other descendants of a range that was split resume.
    #[serde(rename = "o", default, skip_serializing_if = "Option::is_none")]
    pub(super) origin: Option<Box<Self>>,
    /// The rest of a window.
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
            within: Vec::new(),
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
            Some(ordinal) if !self.within.is_empty() => Position::At(ordinal),
            Some(ordinal) => Position::After(ordinal),
        }
    }

    pub(super) fn progress(&self) -> Option<Progress> {
        self.window.map(|(skip, take)| Progress { skip, take })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token() -> ContinuationToken {
        let position = Continuation {
            range: "3".to_owned(),
            ordinal: Some(9),
            within: vec![0, 7],
            returned: 2,
            keys: Some(vec![vec![Value::Null], vec![]]),
            origin: Some(Box::new(Continuation::start_of("1"))),
            window: Some((0, Some(4))),
        };
        ContinuationToken { position, pages: 1, rows: 5, padding: 0 }
    }

    fn container() -> Rid {
        Rid::database(7).container(3).unwrap()
    }

    #[test]
    fn a_token_reads_back_as_what_it_was() {
        let token = token();
        let text = token.to_text(container());
        assert!(text.starts_with("-RID:~") && text.contains("#RT:1#TRC:5#"), "{text}");
        assert_eq!(ContinuationToken::parse(&text).unwrap(), token);
        let list = token.to_list(container(), &EffectivePartitionKeyRange::FULL);
        assert!(list.ends_with(r#"","range":{"min":"","max":"FF"}}]"#), "{list}");
        assert_eq!(ContinuationToken::parse(&list).unwrap(), token);
        let padded = ContinuationToken { padding: 5_000, ..token };
        assert_eq!(ContinuationToken::parse(&padded.to_text(container())).unwrap(), padded);
    }

    #[test]
    fn a_token_that_is_not_ours_is_refused_without_repeating_all_of_it() {
        let long = "x".repeat(10_000);
        let list = token().to_list(container(), &EffectivePartitionKeyRange::FULL);
        let twice = format!("[{0},{0}]", list.trim_matches(['[', ']']));
        let nested = format!("[{list}]");
        for token in
            ["", "x", "e30", "!!!!", "+RID:~abc#RT:1", "[]", "[{}]", "[", &long, &twice, &nested]
        {
            let refused = ContinuationToken::parse(token).unwrap_err();
            assert!(refused.message.contains("Invalid Continuation Token"), "{}", refused.message);
            assert!(refused.message.len() < 300);
        }
    }
}

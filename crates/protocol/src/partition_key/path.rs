//! Property paths: `/tenant/id`, `/"first name"/0`.
//!
//! A path names one value inside a document. Its text is kept exactly, for it is echoed in
//! container definitions; its segments are split once, for every document that is written.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::error::{Error, ErrorKind, Result, excerpt};
use crate::text::Text;
use crate::wire::serde_as_text;

/// The path of a partition key component.
#[derive(Clone, Debug)]
pub struct PartitionKeyPath {
    text: Text,
    segments: Box<[Box<str>]>,
}

impl PartitionKeyPath {
    /// The path as it was given.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The property names along the path, unquoted.
    pub fn segments(&self) -> impl ExactSizeIterator<Item = &str> {
        self.segments.iter().map(AsRef::as_ref)
    }

    /// The value at this path, or `None` if the document has none.
    ///
    /// Only objects are entered: a partition key cannot come from inside an array.
    pub fn find<'a>(&self, document: &'a Value) -> Option<&'a Value> {
        self.segments().try_fold(document, |value, name| value.as_object()?.get(name))
    }
}

impl FromStr for PartitionKeyPath {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let segments = split(text).ok_or_else(|| refusal(text))?;
        Ok(Self { text: Text::from(text), segments: segments.into() })
    }
}

impl PartialEq for PartitionKeyPath {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for PartitionKeyPath {}

impl std::hash::Hash for PartitionKeyPath {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Display for PartitionKeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
    }
}

serde_as_text!(PartitionKeyPath);

fn refusal(text: &str) -> Error {
    let message = format!(
        "\"{}\" is not a partition key path: expected one such as /tenant or /address/\"zip code\"",
        excerpt(text)
    );
    Error::new(ErrorKind::PartitionKeyDefinition, message)
}

fn split(text: &str) -> Option<Vec<Box<str>>> {
    let mut rest = text;
    let mut segments = Vec::new();
    while !rest.is_empty() {
        rest = rest.strip_prefix('/')?;
        let (segment, after) = match rest.chars().next()? {
            quote @ ('"' | '\'') => quoted(&rest[1..], quote)?,
            _ => plain(rest),
        };
        if segment.is_empty() {
            return None;
        }
        segments.push(segment.into());
        rest = after;
    }
    (!segments.is_empty()).then_some(segments)
}

fn plain(rest: &str) -> (String, &str) {
    let end = rest.find('/').unwrap_or(rest.len());
    (rest[..end].to_owned(), &rest[end..])
}

/// Reads up to the closing quote; a backslash keeps the quote after it inside.
fn quoted(rest: &str, quote: char) -> Option<(String, &str)> {
    let mut name = String::new();
    let mut characters = rest.char_indices().peekable();
    while let Some((at, character)) = characters.next() {
        if character == quote {
            return Some((name, &rest[at + 1..]));
        }
        match characters.peek() {
            Some(&(_, next)) if character == '\\' && next == quote => {
                name.push(next);
                characters.next();
            }
            _ => name.push(character),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn segments(text: &str) -> Vec<String> {
        text.parse::<PartitionKeyPath>().unwrap().segments().map(str::to_owned).collect()
    }

    #[test]
    fn a_path_is_split_at_slashes_outside_quotes() {
        assert_eq!(segments("/tenant"), ["tenant"]);
        assert_eq!(segments("/a/b"), ["a", "b"]);
        assert_eq!(segments(r#"/"a/b"/'c d'"#), ["a/b", "c d"]);
        assert_eq!(segments(r#"/"say \"hi\"""#), ["say \"hi\""]);
    }

    #[test]
    fn a_path_that_names_nothing_is_refused() {
        for bad in ["", "tenant", "/", "/a//b", "/a/", "/\"a", "/\"a\"b"] {
            assert!(bad.parse::<PartitionKeyPath>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_value_is_found_inside_objects_only() {
        let path: PartitionKeyPath = "/a/b".parse().unwrap();
        assert_eq!(path.find(&json!({"a": {"b": 1}})), Some(&json!(1)));
        assert_eq!(path.find(&json!({"a": [{"b": 1}]})), None);
        assert_eq!(path.find(&json!({"a": 1})), None);
    }
}

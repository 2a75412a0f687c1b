//! The ids people give resources: what is allowed, and how an id is written into a path.

use std::borrow::Cow;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use super::kinds::ResourceType;
use crate::error::{Error, ErrorKind, Result, excerpt};

/// The longest id of an item, in bytes.
// A documented limit of the service.
pub const MAX_ITEM_ID_BYTES: usize = 1023;

/// The longest name of anything else, in characters.
// A documented limit of the service, in characters where that of items is in bytes.
pub const MAX_NAME_CHARS: usize = 255;

/// What cannot stand for itself in a path. `@`, `+` and `=` can, and must: one gateway compares
/// paths byte by byte. A slash is never part of an id.
const ENCODED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Refuses an id the service would refuse for a resource of this kind.
pub fn check_id(kind: ResourceType, id: &str) -> Result<()> {
    let refuse = |why: String| Err(Error::new(ErrorKind::ResourceId, why));
    if id.is_empty() {
        return refuse("an id must not be empty".to_owned());
    }
    // These end or split a path.
    if let Some(forbidden) = id.chars().find(|c| matches!(c, '/' | '\\' | '?' | '#')) {
        return refuse(format!(
            "the id \"{}\" contains {forbidden}: an id must not contain / \\ ? or #",
            excerpt(id)
        ));
    }
    match kind {
        ResourceType::Document if id.len() > MAX_ITEM_ID_BYTES => refuse(format!(
            "the id is {} bytes long: an item's id has at most {MAX_ITEM_ID_BYTES}",
            id.len()
        )),
        ResourceType::Document => Ok(()),
        _ if id.chars().nth(MAX_NAME_CHARS).is_some() => refuse(format!(
            "the name \"{}\" is longer than {MAX_NAME_CHARS} characters",
            excerpt(id)
        )),
        _ => Ok(()),
    }
}

/// An id or a whole link as it stands in a path.
pub(super) fn encode(id: &str) -> impl Iterator<Item = &str> {
    utf8_percent_encode(id, ENCODED)
}

/// The id a path segment stands for; `None` if it is not UTF-8.
pub(super) fn decode(segment: &str) -> Option<Cow<'_, str>> {
    percent_decode_str(segment).decode_utf8().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_takes_any_character_but_four() {
        for good in ["a", "a b", "ünï-код-🚀", "a@b+c=d", "100%", ".", "a\tb"] {
            assert_eq!(check_id(ResourceType::Document, good), Ok(()), "{good}");
        }
        for bad in ["", "a/b", "a\\b", "a?b", "a#b"] {
            assert_eq!(
                check_id(ResourceType::Document, bad).unwrap_err().kind(),
                ErrorKind::ResourceId,
                "{bad}"
            );
        }
    }

    #[test]
    fn an_item_id_is_measured_in_bytes_and_a_name_in_characters() {
        assert!(check_id(ResourceType::Document, &"é".repeat(511)).is_ok());
        assert!(check_id(ResourceType::Document, &"é".repeat(512)).is_err());
        assert!(check_id(ResourceType::Database, &"é".repeat(255)).is_ok());
        assert!(check_id(ResourceType::Database, &"é".repeat(256)).is_err());
    }

    #[test]
    fn only_what_a_path_cannot_hold_is_encoded() {
        let encoded = |id| encode(id).collect::<String>();
        assert_eq!(encoded("a@b+c=d:e&f!"), "a@b+c=d:e&f!");
        assert_eq!(encoded("100% ü"), "100%25%20%C3%BC");
    }
}

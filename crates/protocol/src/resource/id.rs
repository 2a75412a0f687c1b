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

/// Characters that are escaped in a path. `@`, `+` and `=` can stand for themselves, and must: one gateway compares
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

/// Refuses an id by which no resource of this kind can be addressed.
pub fn check_id(kind: ResourceType, id: &str) -> Result<()> {
    let refuse = |why: String| Err(Error::new(ErrorKind::ResourceId, why));
    // These end or split a path. In items' ids the last two are encoded, and a slash is not: the service
    // decodes a path before it divides it.
    let (forbidden, named): (&[char], _) = match kind {
        ResourceType::Document => (&['/', '\\'], "/ or \\"),
        _ => (&['/', '\\', '?', '#'], "/ \\ ? or #"),
    };
    if let Some(found) = id.chars().find(|character| forbidden.contains(character)) {
        return refuse(format!(
            "the id \"{}\" contains {found}: it must not contain {named}",
            excerpt(id)
        ));
    }
    match kind {
        ResourceType::Document => check_item_id(id),
        _ if id.is_empty() => refuse("an id must not be empty".to_owned()),
        _ if id.chars().nth(MAX_NAME_CHARS).is_some() => refuse(format!(
            "the name \"{}\" is longer than {MAX_NAME_CHARS} characters",
            excerpt(id)
        )),
        _ => Ok(()),
    }
}

/// Refuses an id that an item cannot be created with.
///
/// One with a slash can, as on the service, and is then found by queries alone: see [`check_id`].
pub fn check_item_id(id: &str) -> Result<()> {
    let why = if id.is_empty() {
        "an id must not be empty".to_owned()
    } else if id.contains('\\') {
        format!("the id \"{}\" contains \\: an item's id must not", excerpt(id))
    } else if id.len() > MAX_ITEM_ID_BYTES {
        format!("the id is {} bytes long: an item's id has at most {MAX_ITEM_ID_BYTES}", id.len())
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::ResourceId, why))
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
    fn an_items_id_takes_any_character_but_two_and_a_name_any_but_four() {
        let names = ["a", "a b", "ünï-код-🚀", "a@b+c=d", "100%", ".", "a\tb"];
        for good in names.into_iter().chain(["a?b", "a#b"]) {
            assert_eq!(check_id(ResourceType::Document, good), Ok(()), "{good}");
        }
        for good in names {
            assert_eq!(check_id(ResourceType::Database, good), Ok(()), "{good}");
        }
        let refusal = |kind, id| check_id(kind, id).unwrap_err().kind();
        for bad in ["", "a/b", "a\\b"] {
            assert_eq!(refusal(ResourceType::Document, bad), ErrorKind::ResourceId, "{bad}");
        }
        for bad in ["", "a/b", "a\\b", "a?b", "a#b"] {
            assert_eq!(refusal(ResourceType::Database, bad), ErrorKind::ResourceId, "{bad}");
        }
    }

    #[test]
    fn an_item_can_be_created_with_a_slash_in_its_id_though_not_addressed() {
        assert_eq!(check_item_id("a/b"), Ok(()));
        assert!(check_id(ResourceType::Document, "a/b").is_err());
        assert!(check_item_id("a\\b").is_err() && check_item_id("").is_err());
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

//! Text that is cheap to clone: a literal, a few bytes inline, or one shared allocation.
//!
//! Region names, ids, etags and range ids are copied into diagnostics, cache keys and requests far
//! more often than they are made; cloning one must not allocate. Short ones are inline: a shared count is an
//! atomic operation for each clone and for each drop, and a request makes a dozen of them.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

/// Immutable text, compared by its characters wherever they are stored.
#[derive(Clone)]
pub(crate) enum Text {
    Static(&'static str),
    Inline { length: u8, bytes: [u8; INLINE] },
    Shared(Arc<str>),
}

/// The longest text that is inline: what the other variants need with their tag, less the length.
const INLINE: usize = 22;

/// The longest text that is put together on the stack, to be copied into its one allocation.
const ON_STACK: usize = 256;

impl Text {
    /// The pieces one after the other, in one allocation or none.
    pub(crate) fn concat(pieces: &[&str]) -> Self {
        let mut bytes = [0; ON_STACK];
        let mut end = 0;
        for piece in pieces {
            let Some(slot) = bytes.get_mut(end..end + piece.len()) else {
                return Self::Shared(pieces.concat().into());
            };
            slot.copy_from_slice(piece.as_bytes());
            end += piece.len();
        }
        // UTF-8 as every piece is.
        Self::from(str::from_utf8(&bytes[..end]).unwrap_or_default())
    }

    /// Puts the text behind a shared count, however short it is: for one that is shared more often than it is cloned.
    pub(crate) fn into_shared(self) -> Self {
        Self::Shared(self.to_shared())
    }

    /// The text behind a shared count; without an allocation where it is already.
    pub(crate) fn to_shared(&self) -> Arc<str> {
        match self {
            Self::Shared(text) => Arc::clone(text),
            Self::Static(_) | Self::Inline { .. } => self.as_str().into(),
        }
    }

    pub(crate) fn as_str(&self) -> &str {
        match self {
            Self::Static(text) => text,
            // UTF-8 by construction.
            Self::Inline { .. } => str::from_utf8(self.as_bytes()).unwrap_or_default(),
            Self::Shared(text) => text,
        }
    }

    fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Static(text) => text.as_bytes(),
            Self::Inline { length, bytes } => &bytes[..usize::from(*length)],
            Self::Shared(text) => text.as_bytes(),
        }
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        let mut bytes = [0; INLINE];
        match (bytes.get_mut(..text.len()), u8::try_from(text.len())) {
            (Some(inline), Ok(length)) => {
                inline.copy_from_slice(text.as_bytes());
                Self::Inline { length, bytes }
            }
            _ => Self::Shared(text.into()),
        }
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self::from(text.as_str())
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Text {}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text {
    fn cmp(&self, other: &Self) -> Ordering {
        // The order of UTF-8 bytes is that of the characters.
        self.as_bytes().cmp(other.as_bytes())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_the_same_wherever_it_is_stored() {
        for text in ["", "0", "West US 2", "twenty-two bytes, so: ", "twenty-three bytes, so:", "é"]
        {
            let stored = [Text::from(text), Text::from(text.to_owned()), Text::Shared(text.into())];
            for one in &stored {
                assert_eq!(one.as_str(), text);
                assert!(stored.iter().all(|other| one == other && one.cmp(other).is_eq()));
            }
        }
        assert!(Text::from("a") < Text::Static("b") && Text::from("é") > Text::Static("z"));
    }

    #[test]
    fn pieces_are_put_together_inline_on_the_stack_or_elsewhere() {
        for length in [0, 1, INLINE - 3, INLINE - 2, ON_STACK - 3, ON_STACK - 2, 5 * ON_STACK] {
            let long = "x".repeat(length);
            assert_eq!(Text::concat(&["é", &long, "", "/"]).as_str(), format!("é{long}/"));
        }
    }

    #[test]
    fn shared_text_is_not_copied() {
        let short = Text::from("0").into_shared();
        assert!(Arc::ptr_eq(&short.to_shared(), &short.clone().to_shared()));
        let long = Text::concat(&["twenty-three bytes,", " so:"]);
        assert!(Arc::ptr_eq(&long.to_shared(), &long.to_shared()));
        assert_eq!(&*Text::Static("0").to_shared(), "0");
    }

    #[test]
    fn short_text_is_inline_and_costs_no_room() {
        let is_inline = |text: &str| matches!(Text::from(text), Text::Inline { .. });
        assert!(is_inline(&"x".repeat(INLINE)) && !is_inline(&"x".repeat(INLINE + 1)));
        assert_eq!(size_of::<Text>(), size_of::<(usize, Arc<str>)>());
    }
}

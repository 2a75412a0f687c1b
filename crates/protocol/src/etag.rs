//! Etags: the version of a resource, as an opaque header value.
//!
//! Kept exactly as the service wrote it, quotes included, for that is what `if-match` must carry.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result, excerpt};
use crate::text::Text;
use crate::wire::serde_as_text;

/// The version of a resource; also the cursor of a change feed. Cloning does not allocate.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Etag(Text);

impl Etag {
    /// `*`: any version, in a condition.
    pub const ANY: Self = Self(Text::Static("*"));

    /// Takes an etag as it stands in a header or in a document's `_etag`.
    pub fn new(value: impl AsRef<str>) -> Result<Self> {
        let value = value.as_ref();
        // A header loses spaces at its ends on the way.
        let travels =
            value.trim() == value && value.bytes().all(|byte| matches!(byte, b' '..=b'~'));
        if value.is_empty() || !travels {
            let message = format!(
                "\"{}\" is not an etag: expected the visible ASCII text of an etag header, such as \"0x8D\"",
                excerpt(value).escape_debug()
            );
            return Err(Error::new(ErrorKind::Etag, message));
        }
        Ok(Self(Text::from(value)))
    }

    /// The value, quotes included.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this is `*`.
    pub fn is_any(&self) -> bool {
        self.as_str() == "*"
    }

    /// Whether a resource of version `current` satisfies `if-match` with this etag.
    ///
    /// Clients differ in whether they send the quotes, so they do not count.
    pub fn matches(&self, current: &Etag) -> bool {
        self.is_any() || self.as_str().trim_matches('"') == current.as_str().trim_matches('"')
    }
}

impl FromStr for Etag {
    type Err = Error;

    fn from_str(value: &str) -> Result<Self> {
        Self::new(value)
    }
}

impl fmt::Display for Etag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

serde_as_text!(Etag);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_etag_keeps_its_quotes() {
        let etag: Etag = "\"00000000-0000-0000-7fa0-71d4d5bc01db\"".parse().unwrap();
        assert_eq!(etag.to_string(), "\"00000000-0000-0000-7fa0-71d4d5bc01db\"");
    }

    #[test]
    fn a_condition_matches_any_version_or_the_same_one() {
        let one = Etag::new("\"1\"").unwrap();
        assert!(Etag::ANY.matches(&one));
        assert!(one.matches(&one));
        assert!(Etag::new("1").unwrap().matches(&one));
        assert!(!Etag::new("\"2\"").unwrap().matches(&one));
    }

    #[test]
    fn what_cannot_travel_in_a_header_is_refused() {
        for bad in ["", "a\nb", "é", " ", "a "] {
            assert_eq!(Etag::new(bad).unwrap_err().kind(), ErrorKind::Etag);
        }
    }
}

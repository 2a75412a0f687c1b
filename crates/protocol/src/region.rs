//! Region names: text from people and from the service that names the same region.
//!
//! The service writes `West US 2`, host names say `westus2`, people write either. Two names are
//! equal when they agree without spaces and without case; each is displayed as it was given. The
//! names known when this was written are constants in [`regions`](crate::regions).

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use crate::error::{Error, ErrorKind, Result, excerpt};
use crate::text::Text;
use crate::wire::serde_as_text;

/// An Azure region, such as `West US 2`.
///
/// Equality, order and hash ignore case and spaces. Cloning does not allocate.
#[derive(Clone)]
pub struct RegionName(Text);

impl RegionName {
    /// A name known at compile time.
    pub const fn from_static(name: &'static str) -> Self {
        Self(Text::Static(name))
    }

    /// The name as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The form used in host names: lower case, without spaces.
    pub fn normalized(&self) -> String {
        self.letters().collect()
    }

    fn letters(&self) -> impl Iterator<Item = char> {
        self.0.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_ascii_lowercase())
    }
}

impl PartialEq for RegionName {
    fn eq(&self, other: &Self) -> bool {
        // Names usually come from the same account document, so they are mostly equal as they are.
        self.0 == other.0 || self.letters().eq(other.letters())
    }
}

impl Eq for RegionName {}

impl PartialOrd for RegionName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RegionName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.letters().cmp(other.letters())
    }
}

impl Hash for RegionName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for letter in self.letters() {
            letter.hash(state);
        }
        state.write_u8(0xFF);
    }
}

impl From<&str> for RegionName {
    fn from(name: &str) -> Self {
        Self(Text::from(name.trim()))
    }
}

impl From<String> for RegionName {
    fn from(name: String) -> Self {
        Self::from(name.as_str())
    }
}

impl FromStr for RegionName {
    type Err = Error;

    /// Stricter than `From`: text from a setting must name something and fit in a header.
    fn from_str(name: &str) -> Result<Self> {
        let name = name.trim();
        if name.is_empty() || name.chars().any(char::is_control) {
            let message = format!(
                "\"{}\" is not a region name: expected one such as West US 2",
                excerpt(name).escape_debug()
            );
            return Err(Error::new(ErrorKind::RegionName, message));
        }
        Ok(Self::from(name))
    }
}

impl fmt::Display for RegionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for RegionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

serde_as_text!(RegionName);

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::regions;

    #[test]
    fn spaces_and_case_do_not_distinguish_regions() {
        let spoken = RegionName::from("West US 2");
        assert_eq!(spoken, RegionName::from("westus2"));
        assert_eq!(spoken, regions::WEST_US_2);
        assert_ne!(spoken, RegionName::from("West US 3"));
        let set: HashSet<_> = [spoken, RegionName::from("WESTUS2")].into();
        assert_eq!(set.len(), 1);
    }

    #[test]
    fn a_region_is_displayed_as_given() {
        assert_eq!(RegionName::from("West  us 2").to_string(), "West  us 2");
        assert_eq!(RegionName::from("West  us 2").normalized(), "westus2");
    }

    #[test]
    fn a_blank_region_in_a_setting_is_refused() {
        let error = "  ".parse::<RegionName>().unwrap_err();
        assert!(error.to_string().contains("West US 2"), "{error}");
    }

    #[test]
    fn known_regions_are_distinct() {
        let set: HashSet<_> = regions::ALL.iter().collect();
        assert_eq!(set.len(), regions::ALL.len());
    }
}

//! Values that stand in headers and nowhere else.

use std::fmt;

use crate::wire::wire_enum;

/// The content types of request bodies.
pub mod content_type {
    /// Items, databases, containers, batches.
    pub const JSON: &str = "application/json";
    /// Queries.
    // Not application/json: the content type is how the service tells a query from a create.
    pub const QUERY: &str = "application/query+json";
    /// Patches, as most clients write it.
    pub const PATCH: &str = "application/json_patch+json";
}

wire_enum! {
    /// Which change feed a read of a feed asks for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum ChangeFeedMode: "change feed mode" {
        /// The latest version of every item that changed.
        LatestVersion = "Incremental Feed",
        /// Every version, and deletions.
        AllVersionsAndDeletes = "Full-Fidelity Feed",
    }
}

/// The client's capabilities, as a sum of bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SdkCapabilities(pub u32);

impl SdkCapabilities {
    /// Ranges that are merged.
    pub const PARTITION_MERGE: Self = Self(1);
    /// Change feeds by time that go on after a merge.
    pub const CHANGE_FEED_WITH_START_TIME_POST_MERGE: Self = Self(2);
    /// Tokens of the thin client's frames that are new.
    pub const IGNORE_UNKNOWN_TOKENS: Self = Self(8);
    /// All of the above.
    pub const ALL: Self = Self(11);

    /// Whether all bits of `other` are among these.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl fmt::Display for SdkCapabilities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The forms of JSON a client reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SerializationFormats {
    /// Text.
    pub text: bool,
    /// The service's binary form.
    pub binary: bool,
}

impl SerializationFormats {
    /// Reads a comma-separated list; names nobody knows are passed over.
    pub fn from_header(text: &str) -> Self {
        let has = |name: &str| text.split(',').any(|part| part.trim().eq_ignore_ascii_case(name));
        Self { text: has("JsonText"), binary: has("CosmosBinary") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_bits() {
        assert!(SdkCapabilities::ALL.contains(SdkCapabilities::PARTITION_MERGE));
        assert!(SdkCapabilities(1).contains(SdkCapabilities::PARTITION_MERGE));
        assert!(!SdkCapabilities(1).contains(SdkCapabilities::ALL));
        assert_eq!(SdkCapabilities::ALL.to_string(), "11");
    }

    #[test]
    fn formats_come_as_a_list() {
        assert!(SerializationFormats::from_header("JsonText, CosmosBinary").binary);
        assert!(!SerializationFormats::from_header("CosmosBinary").text);
    }

    #[test]
    fn the_two_change_feeds_are_told_apart() {
        assert_eq!("incremental feed".parse(), Ok(ChangeFeedMode::LatestVersion));
        assert_eq!("Full-Fidelity Feed".parse(), Ok(ChangeFeedMode::AllVersionsAndDeletes));
    }
}

//! The properties the service adds to every resource.

use serde::{Deserialize, Serialize};

use crate::etag::Etag;

/// `_rid`, `_self`, `_etag` and `_ts`: absent in what a client sends, present in what it gets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SystemProperties {
    /// The RID, as text: services that imitate the real one write malformed RIDs.
    #[serde(rename = "_rid", default, skip_serializing_if = "Option::is_none")]
    pub rid: Option<String>,
    /// The link by RIDs, ending in a slash.
    #[serde(rename = "_self", default, skip_serializing_if = "Option::is_none")]
    pub self_link: Option<String>,
    /// The version.
    #[serde(rename = "_etag", default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<Etag>,
    /// When it was last written, in seconds since 1970.
    #[serde(rename = "_ts", default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<i64>,
}

//! Partition key definitions: paths, kind and hash version.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::path::PartitionKeyPath;
use crate::error::{Error, ErrorKind, Result};
use crate::wire::wire_enum;

/// The most levels a hierarchical key can have.
// A documented limit of the service.
pub const MAX_HIERARCHY_LEVELS: usize = 3;

/// The partition key of a container.
///
/// There is always at least one path; a hierarchical key (`MultiHash`) has up to three and is
/// always version 2, any other kind has exactly one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Wire", into = "Wire")]
pub struct PartitionKeyDefinition {
    paths: Vec<PartitionKeyPath>,
    kind: PartitionKeyKind,
    version: PartitionKeyVersion,
    other: Map<String, Value>,
}

impl PartitionKeyDefinition {
    /// A version 2 key: hashed for one path, hierarchical for two or three.
    pub fn new<P: AsRef<str>>(paths: impl IntoIterator<Item = P>) -> Result<Self> {
        let paths =
            paths.into_iter().map(|path| path.as_ref().parse()).collect::<Result<Vec<_>>>()?;
        let kind = match paths.len() {
            1 => PartitionKeyKind::Hash,
            _ => PartitionKeyKind::MultiHash,
        };
        Self::with_kind(paths, kind, PartitionKeyVersion::V2)
    }

    /// A key of any kind and version the service accepts.
    pub fn with_kind(
        paths: Vec<PartitionKeyPath>,
        kind: PartitionKeyKind,
        version: PartitionKeyVersion,
    ) -> Result<Self> {
        let refuse =
            |message: &'static str| Err(Error::new(ErrorKind::PartitionKeyDefinition, message));
        match (kind, version, paths.len()) {
            (_, _, 0) => refuse("a partition key definition needs at least one path, such as /id"),
            (PartitionKeyKind::MultiHash, PartitionKeyVersion::V1, _) => {
                refuse("a MultiHash partition key needs \"version\": 2")
            }
            (PartitionKeyKind::MultiHash, _, count) if count > MAX_HIERARCHY_LEVELS => {
                refuse("a hierarchical partition key has at most 3 paths")
            }
            (PartitionKeyKind::Hash | PartitionKeyKind::Range, _, count) if count > 1 => refuse(
                "only a partition key of kind MultiHash with \"version\": 2 can have several paths",
            ),
            _ => Ok(Self { paths, kind, version, other: Map::new() }),
        }
    }

    /// The paths, in order; never empty.
    pub fn paths(&self) -> &[PartitionKeyPath] {
        &self.paths
    }

    /// How keys are turned into effective partition keys.
    pub fn kind(&self) -> PartitionKeyKind {
        self.kind
    }

    /// The hash version.
    pub fn version(&self) -> PartitionKeyVersion {
        self.version
    }

    /// Whether keys have several levels, so that a prefix of one names a range.
    pub fn is_hierarchical(&self) -> bool {
        self.kind == PartitionKeyKind::MultiHash
    }
}

wire_enum! {
    /// How a container's keys are spread over its partitions.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    pub enum PartitionKeyKind: "partition key kind" {
        /// By the hash of one value.
        Hash = "Hash",
        /// By the hashes of up to three values, each level apart.
        MultiHash = "MultiHash",
        /// By the value itself; containers of early days.
        Range = "Range",
    }
}

/// Which hash a container uses; fixed when it is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PartitionKeyVersion {
    /// The 32-bit hash, of at most 100 characters.
    V1,
    /// The 128-bit hash, of the whole value.
    V2,
}

/// Reads comma-separated paths, as a setting or a command line gives them; a path with a comma in
/// it needs the JSON form.
impl FromStr for PartitionKeyDefinition {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::new(text.split(',').map(str::trim))
    }
}

impl fmt::Display for PartitionKeyDefinition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, path) in self.paths.iter().enumerate() {
            let comma = if index == 0 { "" } else { "," };
            write!(f, "{comma}{path}")?;
        }
        Ok(())
    }
}

/// The JSON form. A definition without a version is a hashed key of version 1, whatever its kind
/// says: that is what containers created before versions existed look like.
#[derive(Serialize, Deserialize)]
struct Wire {
    paths: Vec<PartitionKeyPath>,
    #[serde(default = "hash")]
    kind: PartitionKeyKind,
    #[serde(default)]
    version: Option<u8>,
    #[serde(flatten)]
    other: Map<String, Value>,
}

fn hash() -> PartitionKeyKind {
    PartitionKeyKind::Hash
}

impl TryFrom<Wire> for PartitionKeyDefinition {
    type Error = Error;

    fn try_from(wire: Wire) -> Result<Self> {
        let (kind, version) = match wire.version {
            None => (PartitionKeyKind::Hash, PartitionKeyVersion::V1),
            Some(1) => (wire.kind, PartitionKeyVersion::V1),
            Some(2) => (wire.kind, PartitionKeyVersion::V2),
            Some(other) => {
                let message = format!("{other} is not a partition key version: expected 1 or 2");
                return Err(Error::new(ErrorKind::PartitionKeyDefinition, message));
            }
        };
        let mut definition = Self::with_kind(wire.paths, kind, version)?;
        definition.other = wire.other;
        Ok(definition)
    }
}

impl From<PartitionKeyDefinition> for Wire {
    fn from(definition: PartitionKeyDefinition) -> Self {
        let version = match definition.version {
            PartitionKeyVersion::V1 => 1,
            PartitionKeyVersion::V2 => 2,
        };
        Self {
            paths: definition.paths,
            kind: definition.kind,
            version: Some(version),
            other: definition.other,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn from_json(value: Value) -> serde_json::Result<PartitionKeyDefinition> {
        serde_json::from_value(value)
    }

    #[test]
    fn one_path_is_hashed_and_several_are_hierarchical() {
        let one: PartitionKeyDefinition = "/pk".parse().unwrap();
        assert_eq!((one.kind(), one.version()), (PartitionKeyKind::Hash, PartitionKeyVersion::V2));
        let three: PartitionKeyDefinition = "/tenant, /user,/session".parse().unwrap();
        assert!(three.is_hierarchical());
        assert_eq!(three.to_string(), "/tenant,/user,/session");
        assert!("/a,/b,/c,/d".parse::<PartitionKeyDefinition>().is_err());
    }

    #[test]
    fn a_definition_without_a_version_is_version_1() {
        let old = from_json(json!({"paths": ["/pk"], "kind": "Range"})).unwrap();
        assert_eq!((old.kind(), old.version()), (PartitionKeyKind::Hash, PartitionKeyVersion::V1));
    }

    #[test]
    fn a_definition_survives_a_round_trip_with_fields_nobody_knows() {
        let json =
            json!({"paths": ["/a", "/b"], "kind": "MultiHash", "version": 2, "systemKey": false});
        let definition = from_json(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(definition).unwrap(), json);
    }

    #[test]
    fn an_impossible_definition_is_refused() {
        for bad in [
            json!({"paths": [], "kind": "Hash", "version": 2}),
            json!({"paths": ["/a", "/b"], "kind": "Hash", "version": 2}),
            json!({"paths": ["/a", "/b"], "kind": "MultiHash", "version": 1}),
            json!({"paths": ["/a", "/b"], "kind": "MultiHash"}),
            json!({"paths": ["/a"], "kind": "Hash", "version": 3}),
        ] {
            assert!(from_json(bad.clone()).is_err(), "{bad}");
        }
    }
}

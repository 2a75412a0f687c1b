//! Patch documents: a list of changes to parts of an item.
//!
//! What each change is and whether it is idempotent; applying it to a document is the server's part.

use serde::{Deserialize, Serialize};
use serde_json::{Number, Value};

use crate::error::{Error, ErrorKind, Result, excerpt};

/// The most operations of one patch.
// A documented limit of the service.
pub const MAX_PATCH_OPERATIONS: usize = 10;

/// The body of a patch.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PatchDocument {
    /// A filter the item must satisfy, such as `FROM c WHERE c.count > 0`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
    /// The changes, applied in order, all or none.
    pub operations: Vec<PatchOperation>,
}

/// One change. Paths are JSON pointers; `-` at the end of one means after the last element.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "lowercase")]
pub enum PatchOperation {
    /// Sets a property, or inserts into an array.
    Add {
        /// Where.
        path: String,
        /// What.
        value: Value,
    },
    /// Sets a property or an element, whether it exists or not.
    Set {
        /// Where.
        path: String,
        /// What.
        value: Value,
    },
    /// Sets what must exist.
    Replace {
        /// Where.
        path: String,
        /// What.
        value: Value,
    },
    /// Removes what must exist.
    Remove {
        /// Where.
        path: String,
    },
    /// Adds to a number, or creates it.
    #[serde(rename = "incr", alias = "increment")]
    Increment {
        /// Where.
        path: String,
        /// By how much; may be negative.
        value: Number,
    },
    /// Moves a value from one path to another.
    Move {
        /// Where from.
        from: String,
        /// Where to.
        path: String,
    },
}

impl PatchDocument {
    /// A patch of one to ten operations with well-formed paths.
    pub fn new(operations: Vec<PatchOperation>, condition: Option<String>) -> Result<Self> {
        let document = Self { condition, operations };
        document.check().map(|()| document)
    }

    /// Reads the body of a patch: operations and condition, or the bare list of operations that the
    /// JavaScript SDK sends where there is no condition.
    pub fn from_json(body: &[u8]) -> Result<Self> {
        let is_list = body.trim_ascii_start().starts_with(b"[");
        let read = if is_list {
            serde_json::from_slice(body).map(|operations| Self { condition: None, operations })
        } else {
            serde_json::from_slice(body)
        };
        let document = read.map_err(|error| {
            let message = format!(
                "the body is not a patch: {error}; \
                 expected {{\"operations\": [{{\"op\": \"set\", \"path\": \"/a\", \"value\": 1}}]}}"
            );
            Error::new(ErrorKind::Patch, message)
        })?;
        document.check().map(|()| document)
    }

    fn check(&self) -> Result<()> {
        let refuse = |why: String| Err(Error::new(ErrorKind::Patch, why));
        let count = self.operations.len();
        if count == 0 || count > MAX_PATCH_OPERATIONS {
            return refuse(format!(
                "a patch has 1 to {MAX_PATCH_OPERATIONS} operations, not {count}"
            ));
        }
        for path in self.operations.iter().flat_map(PatchOperation::paths) {
            if !path.starts_with('/') || path.len() == 1 {
                return refuse(format!(
                    "\"{}\" is not a path of a patch: expected one such as /a/b",
                    excerpt(path)
                ));
            }
        }
        Ok(())
    }

    /// Whether the patch is idempotent: applied twice, it leaves the item as applied once.
    ///
    /// It is if each operation is idempotent and none reaches into what another writes: after
    /// `set /a`, a `remove /a/b` finds something else the second time.
    pub fn is_idempotent(&self) -> bool {
        let paths: Vec<_> = self.operations.iter().flat_map(PatchOperation::paths).collect();
        let nested = |outer: &str, inner: &str| {
            inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
        };
        self.operations.iter().all(PatchOperation::is_idempotent)
            && !paths.iter().any(|outer| paths.iter().any(|inner| nested(outer, inner)))
    }
}

impl PatchOperation {
    /// The path the operation writes to.
    pub fn path(&self) -> &str {
        match self {
            Self::Add { path, .. }
            | Self::Set { path, .. }
            | Self::Replace { path, .. }
            | Self::Remove { path }
            | Self::Increment { path, .. }
            | Self::Move { path, .. } => path,
        }
    }

    /// Every path the operation mentions.
    fn paths(&self) -> impl Iterator<Item = &str> {
        let from = match self {
            Self::Move { from, .. } => Some(from.as_str()),
            _ => None,
        };
        std::iter::once(self.path()).chain(from)
    }

    /// Whether the operation is idempotent.
    ///
    /// Increments, appends and moves are not. Inserting at or removing from an array index
    /// shifts the elements after it; a name that is no number can only be a property, and those are set
    /// and removed once and for all.
    pub fn is_idempotent(&self) -> bool {
        let last = self.path().rsplit('/').next().unwrap_or_default();
        let appends = last == "-";
        let may_shift = appends || last.bytes().all(|byte| byte.is_ascii_digit());
        match self {
            Self::Replace { .. } => true,
            Self::Set { .. } => !appends,
            Self::Add { .. } | Self::Remove { .. } => !may_shift,
            Self::Increment { .. } | Self::Move { .. } => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patch(operations: Value) -> PatchDocument {
        PatchDocument::from_json(json!({"operations": operations}).to_string().as_bytes()).unwrap()
    }

    #[test]
    fn every_operation_round_trips() {
        let json = json!({
            "condition": "from c where c.v > 0",
            "operations": [
                {"op": "add", "path": "/n", "value": 1},
                {"op": "set", "path": "/s", "value": null},
                {"op": "replace", "path": "/r", "value": {"a": []}},
                {"op": "remove", "path": "/x"},
                {"op": "incr", "path": "/v", "value": -2.5},
                {"op": "move", "from": "/a", "path": "/b"},
            ],
        });
        let document = PatchDocument::from_json(json.to_string().as_bytes()).unwrap();
        assert_eq!(serde_json::to_value(document).unwrap(), json);
    }

    #[test]
    fn a_bare_list_of_operations_is_a_patch_without_condition() {
        let list = json!([{"op": "remove", "path": "/x"}]);
        let bare = PatchDocument::from_json(format!(" {list}").as_bytes()).unwrap();
        assert_eq!(bare, patch(list));
    }

    #[test]
    fn what_counts_up_appends_or_moves_is_not_repeated() {
        for harmful in [
            json!({"op": "incr", "path": "/v", "value": 1}),
            json!({"op": "add", "path": "/list/-", "value": 1}),
            json!({"op": "set", "path": "/list/-", "value": 1}),
            json!({"op": "add", "path": "/list/0", "value": 1}),
            json!({"op": "remove", "path": "/list/0"}),
            json!({"op": "move", "from": "/a", "path": "/b"}),
        ] {
            assert!(!patch(json!([harmful])).is_idempotent(), "{harmful}");
        }
        for harmless in [
            json!({"op": "set", "path": "/v", "value": 1}),
            json!({"op": "set", "path": "/list/0", "value": 1}),
            json!({"op": "replace", "path": "/list/0", "value": 1}),
            json!({"op": "add", "path": "/a/name", "value": 1}),
            json!({"op": "remove", "path": "/a/name"}),
        ] {
            assert!(patch(json!([harmless])).is_idempotent(), "{harmless}");
        }
    }

    #[test]
    fn a_patch_that_reaches_into_its_own_writes_is_not_repeated() {
        let nested = patch(
            json!([{"op": "replace", "path": "/a/b", "value": 1}, {"op": "set", "path": "/a", "value": {}}]),
        );
        assert!(!nested.is_idempotent());
        let siblings = patch(
            json!([{"op": "set", "path": "/a", "value": 1}, {"op": "set", "path": "/ab", "value": 1}]),
        );
        assert!(siblings.is_idempotent());
    }

    #[test]
    fn what_is_not_a_patch_is_refused() {
        let eleven =
            json!({"operations": vec![json!({"op": "remove", "path": "/a"}); 11]}).to_string();
        for bad in [
            "",
            "[]",
            r#"{"operations":[]}"#,
            r#"{"operations":[{"op":"copy","path":"/a"}]}"#,
            r#"{"operations":[{"op":"remove","path":"a"}]}"#,
            r#"{"operations":[{"op":"incr","path":"/a","value":"1"}]}"#,
            &eleven,
        ] {
            assert_eq!(
                PatchDocument::from_json(bad.as_bytes()).unwrap_err().kind(),
                ErrorKind::Patch,
                "{bad}"
            );
        }
    }
}

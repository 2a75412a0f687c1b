//! Changes to parts of an item.

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Number, Value};
use sidereal_protocol::{PatchDocument, PatchOperation};

use crate::item_body::encode;
use crate::{Error, Result};

/// Changes to parts of an item, applied in their order, all or none. At most ten.
///
/// Paths are JSON pointers: `/address/city`, `/tags/0`, `/tags/-` for after the last element.
///
/// ```no_run
/// # async fn patch(orders: sidereal::ContainerClient) -> sidereal::Result<()> {
/// use sidereal::prelude::*;
///
/// let patch = Patch::new()
///     .set("/status", "shipped")
///     .increment("/version", 1)
///     .remove("/draft")
///     .with_condition("FROM c WHERE c.status = 'open'");
/// orders.patch_item("contoso", "4711", patch, None).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct Patch {
    operations: Vec<PatchOperation>,
    condition: Option<String>,
    /// The first value that could not be written; told when the patch is sent.
    refused: Option<Error>,
}

impl Patch {
    /// A patch without changes yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets a property or an element, whether there is one or not.
    pub fn set(self, path: impl Into<String>, value: impl Serialize) -> Self {
        let path = path.into();
        self.with_value(value, |value| PatchOperation::Set { path, value })
    }

    /// Sets a property, or inserts into an array.
    pub fn add(self, path: impl Into<String>, value: impl Serialize) -> Self {
        let path = path.into();
        self.with_value(value, |value| PatchOperation::Add { path, value })
    }

    /// Sets what must be there.
    pub fn replace(self, path: impl Into<String>, value: impl Serialize) -> Self {
        let path = path.into();
        self.with_value(value, |value| PatchOperation::Replace { path, value })
    }

    /// Removes what must be there.
    pub fn remove(self, path: impl Into<String>) -> Self {
        self.with(PatchOperation::Remove { path: path.into() })
    }

    /// Adds to a number, or creates it. Such a patch is not repeated when its fate is unknown.
    pub fn increment(self, path: impl Into<String>, by: impl Into<Number>) -> Self {
        self.with(PatchOperation::Increment { path: path.into(), value: by.into() })
    }

    /// Moves a value from one path to another.
    pub fn move_value(self, from: impl Into<String>, to: impl Into<String>) -> Self {
        self.with(PatchOperation::Move { from: from.into(), path: to.into() })
    }

    /// Applies the changes only if the item satisfies a filter, such as `FROM c WHERE c.count > 0`.
    pub fn with_condition(mut self, condition: impl Into<String>) -> Self {
        self.condition = Some(condition.into());
        self
    }

    fn with(mut self, operation: PatchOperation) -> Self {
        self.operations.push(operation);
        self
    }

    fn with_value(
        mut self,
        value: impl Serialize,
        operation: impl FnOnce(Value) -> PatchOperation,
    ) -> Self {
        match serde_json::to_value(value) {
            Ok(value) => self.with(operation(value)),
            Err(error) => {
                let sentence = format!("a value of the patch cannot be written as JSON: {error}");
                self.refused.get_or_insert(Error::invalid(sentence));
                self
            }
        }
    }

    /// The patch as it is sent.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest) if the patch has no change or more than ten, a path is malformed, or a
    /// value cannot be written as JSON.
    pub(crate) fn encode(self) -> Result<Bytes> {
        if let Some(refused) = self.refused {
            return Err(refused);
        }
        encode(&PatchDocument::new(self.operations, self.condition)?)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_patch_is_written_as_the_service_reads_it() {
        let patch = Patch::new()
            .set("/status", "shipped")
            .add("/tags/-", 1)
            .replace("/a", true)
            .remove("/b")
            .increment("/n", -2)
            .move_value("/c", "/d")
            .with_condition("FROM c WHERE c.n > 0");
        let expected = concat!(
            r#"{"condition":"FROM c WHERE c.n > 0","operations":["#,
            r#"{"op":"set","path":"/status","value":"shipped"},"#,
            r#"{"op":"add","path":"/tags/-","value":1},"#,
            r#"{"op":"replace","path":"/a","value":true},"#,
            r#"{"op":"remove","path":"/b"},"#,
            r#"{"op":"incr","path":"/n","value":-2},"#,
            r#"{"op":"move","from":"/c","path":"/d"}]}"#,
        );
        assert_eq!(patch.encode().unwrap(), expected);
    }

    #[test]
    fn a_patch_beyond_the_limits_is_refused_before_it_is_sent() {
        let of = |count: usize| (0..count).fold(Patch::new(), |patch, n| patch.set("/n", n));
        assert!(of(10).encode().is_ok());
        for (patch, expected) in
            [(of(11), "10"), (of(0), "operation"), (Patch::new().remove("no pointer"), "/")]
        {
            let error = patch.encode().unwrap_err();
            assert!(error.to_string().contains(expected), "{error}");
        }
    }

    #[test]
    fn a_value_that_json_has_no_word_for_is_refused() {
        let patch = Patch::new().set("/map", BTreeMap::from([(vec![1], 2)]));
        assert!(patch.encode().unwrap_err().to_string().contains("cannot be written as JSON"));
    }
}

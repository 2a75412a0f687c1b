//! Applying a patch to a document.

use serde_json::{Map, Number, Value};
use sidereal_protocol::{PartitionKeyDefinition, PatchOperation};

/// Applies the operations in order; the error is a sentence about the one that cannot be applied. On an
/// error the document is left half-changed, so callers patch a copy.
pub(crate) fn apply(
    document: &mut Map<String, Value>,
    operations: &[PatchOperation],
    key: &PartitionKeyDefinition,
) -> Result<(), String> {
    // A pointer resolves against a `Value`: the map is moved into one and back, not copied.
    let mut root = Value::Object(std::mem::take(document));
    let outcome = operations.iter().try_for_each(|operation| {
        refuse_protected(operation, key)?;
        apply_one(&mut root, operation)
    });
    if let Value::Object(fields) = root {
        *document = fields;
    }
    outcome
}

fn apply_one(root: &mut Value, operation: &PatchOperation) -> Result<(), String> {
    match operation {
        PatchOperation::Add { path, value } => {
            let slot = Slot::find(root, path)?;
            slot.insert(stored(value)).map_err(|why| refused("Add", path, why))
        }
        PatchOperation::Set { path, value } => {
            let slot = Slot::find(root, path)?;
            slot.set(stored(value)).map_err(|why| refused("Set", path, why))
        }
        PatchOperation::Replace { path, value } => {
            let mut slot = Slot::find(root, path)?;
            let current = slot.existing().ok_or_else(|| refused("Replace", path, NOT_THERE))?;
            *current = stored(value);
            Ok(())
        }
        PatchOperation::Remove { path } => remove(root, path, "Remove").map(drop),
        PatchOperation::Increment { path, value } => increment(root, path, value),
        PatchOperation::Move { from, path } => {
            // RFC 6902, section 4.4: the source must not be a prefix of the target.
            if path.strip_prefix(from.as_str()).is_some_and(|rest| rest.starts_with('/')) {
                return Err(refused("Move", path, "a value cannot be moved into itself"));
            }
            let value = remove(root, from, "Move")?;
            let slot = Slot::find(root, path)?;
            slot.insert(value).map_err(|why| refused("Move", path, why))
        }
    }
}

/// A client's value as it is stored: every number is a double.
fn stored(value: &Value) -> Value {
    let mut value = value.clone();
    sidereal_query::round_numbers(&mut value);
    value
}

const NOT_THERE: &str = "there is nothing at the path";

fn refused(operation: &str, path: &str, why: &str) -> String {
    format!("{operation} Operation cannot be applied at '{path}': {why}.")
}

fn remove(root: &mut Value, path: &str, operation: &str) -> Result<Value, String> {
    let slot = Slot::find(root, path)?;
    slot.take().ok_or_else(|| refused(operation, path, NOT_THERE))
}

fn increment(root: &mut Value, path: &str, by: &Number) -> Result<(), String> {
    let mut slot = Slot::find(root, path)?;
    // Incrementing what is not there sets it: a rule of the service.
    let Some(current) = slot.existing() else {
        return slot
            .insert(stored(&Value::Number(by.clone())))
            .map_err(|why| refused("Increment", path, why));
    };
    let Value::Number(number) = current else {
        return Err(refused("Increment", path, "the value there is not a number"));
    };
    let sum = sum(number, by)
        .ok_or_else(|| refused("Increment", path, "the sum is not a finite number"))?;
    *current = stored(&Value::Number(sum));
    Ok(())
}

/// The sum of two doubles, as the service adds them: beyond 2^53 an increment may change nothing.
fn sum(one: &Number, other: &Number) -> Option<Number> {
    Number::from_f64(one.as_f64()? + other.as_f64()?)
}

/// The id, the partition key and the system properties stay as they are.
fn refuse_protected(
    operation: &PatchOperation,
    key: &PartitionKeyDefinition,
) -> Result<(), String> {
    let touched = |path: &str| {
        let names: Vec<String> = segments(path).collect();
        let system = ["id", "_rid", "_self", "_etag", "_ts", "_attachments"];
        names.first().is_some_and(|first| system.contains(&first.as_str()))
            || key.paths().iter().any(|key_path| overlaps(&names, key_path.segments()))
    };
    let from = match operation {
        PatchOperation::Move { from, .. } => Some(from.as_str()),
        _ => None,
    };
    match std::iter::once(operation.path()).chain(from).find(|path| touched(path)) {
        Some(path) => Err(format!(
            "The path '{path}' cannot be patched: the id, the partition key and the system properties of an \
             item stay as they are."
        )),
        None => Ok(()),
    }
}

/// Whether writing one path writes, or writes over, the other.
fn overlaps<'a>(names: &[String], path: impl Iterator<Item = &'a str>) -> bool {
    // `zip` ends with the shorter path: a prefix in either direction is an overlap.
    names.iter().zip(path).all(|(name, segment)| name == segment)
}

fn segments(path: &str) -> impl Iterator<Item = String> {
    // In this order (RFC 6901, section 4): `~01` is `~1` and not `/`.
    path.split('/').skip(1).map(|segment| segment.replace("~1", "/").replace("~0", "~"))
}

/// Where a JSON pointer (RFC 6901) leads: a parent that exists, and a name or index in it that may not.
enum Slot<'a> {
    Property(&'a mut Map<String, Value>, String),
    /// An index from 0 to the length; the length is the position after the last element.
    Element(&'a mut Vec<Value>, usize),
}

impl<'a> Slot<'a> {
    fn find(root: &'a mut Value, path: &str) -> Result<Self, String> {
        let mut names: Vec<String> = segments(path).collect();
        let last = names.pop().ok_or_else(|| refused("Patch", path, "the path is empty"))?;
        let mut parent = root;
        for name in &names {
            parent = step(parent, name).ok_or_else(|| {
                format!(
                    "Patch operations reach leaves of existing objects and arrays only: \
                     there is no '{name}' on the way to '{path}'."
                )
            })?;
        }
        match parent {
            Value::Object(fields) => Ok(Self::Property(fields, last)),
            Value::Array(entries) => {
                // `-` is the position after the last element (RFC 6901, section 4).
                let index = if last == "-" { Some(entries.len()) } else { index_of(&last) };
                match index.filter(|index| *index <= entries.len()) {
                    Some(index) => Ok(Self::Element(entries, index)),
                    None => Err(refused("Patch", path, "the index is outside the array")),
                }
            }
            _ => Err(refused("Patch", path, "its parent is neither an object nor an array")),
        }
    }

    fn existing(&mut self) -> Option<&mut Value> {
        match self {
            Self::Property(fields, name) => fields.get_mut(name.as_str()),
            Self::Element(entries, index) => entries.get_mut(*index),
        }
    }

    /// Sets a property, or makes room in an array.
    fn insert(self, value: Value) -> Result<(), &'static str> {
        match self {
            Self::Property(fields, name) => drop(fields.insert(name, value)),
            Self::Element(entries, index) => entries.insert(index, value),
        }
        Ok(())
    }

    /// Sets a property, overwrites an element, or appends one.
    fn set(self, value: Value) -> Result<(), &'static str> {
        match self {
            Self::Element(entries, index) if index < entries.len() => {
                entries[index] = value;
                Ok(())
            }
            slot => slot.insert(value),
        }
    }

    fn take(self) -> Option<Value> {
        match self {
            // The order of the other properties stays; `swap_remove` would move the last one.
            Self::Property(fields, name) => fields.shift_remove(&name),
            Self::Element(entries, index) => (index < entries.len()).then(|| entries.remove(index)),
        }
    }
}

fn step<'a>(parent: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    match parent {
        Value::Object(fields) => fields.get_mut(name),
        Value::Array(entries) => entries.get_mut(index_of(name)?),
        _ => None,
    }
}

fn index_of(name: &str) -> Option<usize> {
    // No leading zeros (RFC 6901, section 4).
    let plain = name == "0" || !name.starts_with('0');
    (plain && name.bytes().all(|byte| byte.is_ascii_digit())).then(|| name.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sidereal_protocol::PatchDocument;

    use super::*;

    fn patched(document: Value, operations: Value) -> Result<Value, String> {
        let key = PartitionKeyDefinition::new(["/pk"]).unwrap();
        let body = json!({ "operations": operations }).to_string();
        let patch = PatchDocument::from_json(body.as_bytes()).unwrap();
        let mut fields = document.as_object().unwrap().clone();
        apply(&mut fields, &patch.operations, &key).map(|()| Value::Object(fields))
    }

    fn one(document: Value, operation: Value) -> Result<Value, String> {
        patched(document, json!([operation]))
    }

    #[test]
    fn add_sets_properties_and_makes_room_in_arrays() {
        let add = |path: &str| json!({ "op": "add", "path": path, "value": 9 });
        assert_eq!(one(json!({ "a": 1 }), add("/b")), Ok(json!({ "a": 1, "b": 9 })));
        assert_eq!(one(json!({ "a": 1 }), add("/a")), Ok(json!({ "a": 9 })));
        assert_eq!(one(json!({ "a": [1, 2] }), add("/a/1")), Ok(json!({ "a": [1, 9, 2] })));
        assert_eq!(one(json!({ "a": [1, 2] }), add("/a/-")), Ok(json!({ "a": [1, 2, 9] })));
        assert!(one(json!({ "a": [1, 2] }), add("/a/3")).is_err());
        assert!(one(json!({}), add("/a/b")).is_err());
        assert!(one(json!({ "a": 1 }), add("/a/b")).is_err());
    }

    #[test]
    fn set_overwrites_elements_where_add_makes_room() {
        let set = |path: &str| json!({ "op": "set", "path": path, "value": 9 });
        assert_eq!(one(json!({ "a": [1, 2] }), set("/a/1")), Ok(json!({ "a": [1, 9] })));
        assert_eq!(one(json!({ "a": [1, 2] }), set("/a/-")), Ok(json!({ "a": [1, 2, 9] })));
        assert_eq!(one(json!({}), set("/a")), Ok(json!({ "a": 9 })));
    }

    #[test]
    fn replace_and_remove_need_something_to_be_there() {
        let replace = json!({ "op": "replace", "path": "/a", "value": 9 });
        assert_eq!(one(json!({ "a": 1 }), replace.clone()), Ok(json!({ "a": 9 })));
        assert!(one(json!({ "b": 1 }), replace).is_err());
        let remove = json!({ "op": "remove", "path": "/a/0" });
        assert_eq!(one(json!({ "a": [1, 2] }), remove.clone()), Ok(json!({ "a": [2] })));
        assert!(one(json!({ "a": [] }), remove).is_err());
    }

    #[test]
    fn increments_add_up_and_create_what_is_missing() {
        let by = |value: Value| json!({ "op": "incr", "path": "/n", "value": value });
        assert_eq!(one(json!({ "n": 1 }), by(json!(-3))), Ok(json!({ "n": -2 })));
        assert_eq!(one(json!({ "n": 1 }), by(json!(0.5))), Ok(json!({ "n": 1.5 })));
        assert_eq!(one(json!({}), by(json!(2))), Ok(json!({ "n": 2 })));
        assert!(one(json!({ "n": "1" }), by(json!(1))).is_err());
    }

    #[test]
    fn move_takes_a_value_elsewhere_but_not_into_itself() {
        let to = |path: &str| json!({ "op": "move", "from": "/a", "path": path });
        assert_eq!(one(json!({ "a": { "x": 1 } }), to("/b")), Ok(json!({ "b": { "x": 1 } })));
        assert!(one(json!({ "a": { "x": {} } }), to("/a/x")).is_err());
        assert!(one(json!({ "b": 1 }), to("/c")).is_err());
    }

    #[test]
    fn the_id_the_key_and_system_properties_cannot_be_patched() {
        for path in ["/id", "/pk", "/_ts", "/_etag"] {
            let operation = json!({ "op": "set", "path": path, "value": "x" });
            assert!(one(json!({ "id": "1", "pk": "a" }), operation).is_err(), "{path}");
        }
        let operation = json!({ "op": "move", "from": "/pk", "path": "/b" });
        assert!(one(json!({ "pk": "a" }), operation).is_err());
        let operation = json!({ "op": "set", "path": "/pkk", "value": 1 });
        assert!(one(json!({}), operation).is_ok());
    }

    #[test]
    fn escaped_names_are_unescaped() {
        let operation = json!({ "op": "set", "path": "/a~1b/c~0d", "value": 1 });
        assert_eq!(one(json!({ "a/b": {} }), operation), Ok(json!({ "a/b": { "c~d": 1 } })));
    }
}

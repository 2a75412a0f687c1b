//! A row of a result, borrowed from its document as far as possible.

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::value::{Datum, Members};

/// One row of a result: a JSON value. It serializes without being copied first.
#[derive(Debug)]
pub struct Row<'a> {
    value: Datum<'a>,
    is_document: bool,
}

impl<'a> Row<'a> {
    /// A row that was made from `document`.
    pub(super) fn new(value: Datum<'a>, document: &Value) -> Self {
        let is_document = match (&value, document) {
            (Datum::Object(Members::Borrowed(members)), Value::Object(root)) => {
                std::ptr::eq(*members, root)
            }
            _ => false,
        };
        Self { value, is_document }
    }

    /// Whether the row is the document that was read, whole: a caller that has the document's text can use that.
    pub fn is_document(&self) -> bool {
        self.is_document
    }

    /// The row as a value of its own.
    pub fn into_value(self) -> Value {
        // Undefined rows are left out of every result.
        self.value.into_value().unwrap_or_default()
    }
}

impl Serialize for Row<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.value {
            Datum::Undefined | Datum::Null => serializer.serialize_unit(),
            Datum::Bool(value) => serializer.serialize_bool(*value),
            Datum::Number(number) => number.serialize(serializer),
            Datum::String(text) => serializer.serialize_str(text),
            Datum::Array(items) => items.serialize(serializer),
            Datum::Object(members) => serializer.collect_map(members.iter()),
        }
    }
}

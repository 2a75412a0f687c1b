//! Values while they are being worked with: borrowed from the document wherever possible.
//!
//! A [`Datum`] is what an expression evaluates to: a JSON value or *undefined*. Every number is an
//! IEEE double, as in the service; a whole one prints as an integer.
//! A [`View`] is the cheap, borrowed face of either a datum or a JSON value; comparison and hashing
//! work on views, so they are written once.

use std::borrow::Cow;
use std::ops::Deref;

use serde_json::{Map, Number, Value};

/// The value of an expression.
#[derive(Clone, Debug, Default)]
pub(crate) enum Datum<'a> {
    #[default]
    Undefined,
    Null,
    Bool(bool),
    Number(Number),
    String(Cow<'a, str>),
    Array(Cow<'a, [Value]>),
    Object(Members<'a>),
}

/// The members of an object, borrowed or boxed so that a [`Datum`] stays small.
#[derive(Clone, Debug)]
pub(crate) enum Members<'a> {
    Borrowed(&'a Map<String, Value>),
    Owned(Box<Map<String, Value>>),
}

impl Deref for Members<'_> {
    type Target = Map<String, Value>;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Borrowed(members) => members,
            Self::Owned(members) => members,
        }
    }
}

/// The borrowed face of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum View<'v> {
    Undefined,
    Null,
    Bool(bool),
    Number(f64),
    String(&'v str),
    Array(&'v [Value]),
    Object(&'v Map<String, Value>),
}

impl<'v> View<'v> {
    pub(crate) fn of(value: &'v Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => Self::Number(double(number)),
            Value::String(text) => Self::String(text),
            Value::Array(items) => Self::Array(items),
            Value::Object(members) => Self::Object(members),
        }
    }

    pub(crate) fn of_option(value: Option<&'v Value>) -> Self {
        value.map_or(Self::Undefined, Self::of)
    }

    pub(crate) fn is_primitive(self) -> bool {
        matches!(self, Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_))
    }
}

/// A double as a JSON number: a whole one prints as an integer. `None` for infinities and NaN.
pub(crate) fn number_of(value: f64) -> Option<Number> {
    /// One past the largest 64-bit integer; below it the cast is exact.
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    if value.fract() == 0.0 && (-BOUND..BOUND).contains(&value) {
        // -0.0 becomes 0, which it equals.
        return Some((value as i64).into());
    }
    Number::from_f64(value)
}

/// Rounds every number of a document to the double that the service stores.
///
/// `9007199254740993` reads back as `9007199254740992`, and `1.0` as `1`.
pub fn round_numbers(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(rounded) = rounded(number) {
                *number = rounded;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(round_numbers),
        Value::Object(members) => members.values_mut().for_each(round_numbers),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// The number as the service keeps it, if that is another one than was written.
pub(crate) fn rounded(number: &Number) -> Option<Number> {
    /// Up to here every integer is a double of its own.
    const EXACT: u64 = 1 << 53;
    let magnitude = number.as_i64().map(i64::unsigned_abs).or_else(|| number.as_u64());
    match magnitude {
        Some(magnitude) if magnitude <= EXACT => None,
        _ => number_of(double(number)),
    }
}

/// A JSON number as the double it is compared and computed as.
pub(crate) fn double(number: &Number) -> f64 {
    number.as_f64().unwrap_or(0.0)
}

impl<'a> Datum<'a> {
    pub(crate) fn of(value: &'a Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(number) => Self::Number(number.clone()),
            Value::String(text) => Self::String(Cow::Borrowed(text)),
            Value::Array(items) => Self::Array(Cow::Borrowed(items)),
            Value::Object(members) => Self::Object(Members::Borrowed(members)),
        }
    }

    pub(crate) fn owned(value: Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(value) => Self::Bool(value),
            Value::Number(number) => Self::Number(number),
            Value::String(text) => Self::String(Cow::Owned(text)),
            Value::Array(items) => Self::Array(Cow::Owned(items)),
            Value::Object(members) => Self::Object(Members::Owned(Box::new(members))),
        }
    }

    /// The result of a computation; what JSON cannot say (infinities, not-a-number) is undefined.
    pub(crate) fn number(value: f64) -> Self {
        number_of(value).map_or(Self::Undefined, Self::Number)
    }

    pub(crate) fn integer(value: usize) -> Self {
        Self::Number(value.into())
    }

    pub(crate) fn text(value: impl Into<String>) -> Self {
        Self::String(Cow::Owned(value.into()))
    }

    pub(crate) fn bool(value: Option<bool>) -> Self {
        value.map_or(Self::Undefined, Self::Bool)
    }

    pub(crate) fn view(&self) -> View<'_> {
        match self {
            Self::Undefined => View::Undefined,
            Self::Null => View::Null,
            Self::Bool(value) => View::Bool(*value),
            Self::Number(number) => View::Number(double(number)),
            Self::String(text) => View::String(text),
            Self::Array(items) => View::Array(items),
            Self::Object(members) => View::Object(members),
        }
    }

    pub(crate) fn is_undefined(&self) -> bool {
        matches!(self, Self::Undefined)
    }

    pub(crate) fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(value) => Some(*value),
            _ => None,
        }
    }

    pub(crate) fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Number(number) => Some(double(number)),
            _ => None,
        }
    }

    pub(crate) fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn as_array(&self) -> Option<&[Value]> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The JSON value, or none for undefined.
    pub(crate) fn into_value(self) -> Option<Value> {
        Some(match self {
            Self::Undefined => return None,
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(value),
            Self::Number(number) => Value::Number(number),
            Self::String(text) => Value::String(text.into_owned()),
            Self::Array(items) => Value::Array(items.into_owned()),
            Self::Object(Members::Borrowed(members)) => Value::Object(members.clone()),
            Self::Object(Members::Owned(members)) => Value::Object(*members),
        })
    }

    /// Detaches the value from its document.
    pub(crate) fn into_owned(self) -> Datum<'static> {
        self.into_value().map_or(Datum::Undefined, Datum::owned)
    }

    /// Moves to the member `name`.
    pub(crate) fn into_property(self, name: &str) -> Self {
        match self {
            Self::Object(Members::Borrowed(members)) => {
                members.get(name).map_or(Self::Undefined, Self::of)
            }
            Self::Object(Members::Owned(mut members)) => {
                members.swap_remove(name).map_or(Self::Undefined, Self::owned)
            }
            _ => Self::Undefined,
        }
    }

    /// Moves to the element at `index`.
    pub(crate) fn into_element(self, index: usize) -> Self {
        match self {
            Self::Array(Cow::Borrowed(items)) => items.get(index).map_or(Self::Undefined, Self::of),
            Self::Array(Cow::Owned(mut items)) if index < items.len() => {
                Self::owned(items.swap_remove(index))
            }
            _ => Self::Undefined,
        }
    }

    /// Roughly the memory that holding the value takes: nothing for what a document owns.
    pub(crate) fn held_size(&self) -> usize {
        /// The size of a value itself, without what it points to.
        const DATUM: usize = 64;
        DATUM
            + match self {
                Self::String(Cow::Borrowed(_))
                | Self::Array(Cow::Borrowed(_))
                | Self::Object(Members::Borrowed(_)) => 0,
                owned => owned.size(),
            }
    }

    /// Roughly the length of the value as JSON.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Undefined => 0,
            Self::Null | Self::Bool(_) | Self::Number(_) => SCALAR_SIZE,
            Self::String(text) => SCALAR_SIZE + text.len(),
            Self::Array(items) => SCALAR_SIZE + items.iter().map(size).sum::<usize>(),
            Self::Object(members) => SCALAR_SIZE + members_size(members),
        }
    }
}

/// The size that a value without text counts for.
const SCALAR_SIZE: usize = 8;

fn size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => SCALAR_SIZE,
        Value::String(text) => SCALAR_SIZE + text.len(),
        Value::Array(items) => SCALAR_SIZE + items.iter().map(size).sum::<usize>(),
        Value::Object(members) => SCALAR_SIZE + members_size(members),
    }
}

fn members_size(members: &Map<String, Value>) -> usize {
    members.iter().map(|(name, value)| SCALAR_SIZE + name.len() + size(value)).sum()
}

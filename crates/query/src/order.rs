//! Comparison: the operators' three-valued one, and the total order of `ORDER BY`.
//!
//! `=` and `!=` are false and true between values of different types; `<` and its kin are undefined
//! there. `ORDER BY`, `MIN`, `MAX` and the cross-partition merge need an answer for any two values: first by type (undefined, null,
//! boolean, number, string, array, object), then by value.

use std::cmp::Ordering;

use serde_json::{Map, Value};

use crate::value::View;

/// Compares two values in the total order, `None` being undefined.
///
/// Numbers compare as doubles, strings by code point. Arrays compare element by element; objects
/// by their members in the order of their names.
pub fn compare(left: Option<&Value>, right: Option<&Value>) -> Ordering {
    compare_views(View::of_option(left), View::of_option(right))
}

/// A key that two values share exactly when they are equal: for `DISTINCT` and `GROUP BY`.
///
/// The order of an object's members does not matter, nor how a number is written.
pub fn identity(value: Option<&Value>) -> Vec<u8> {
    let mut key = Vec::with_capacity(32);
    write_identity(View::of_option(value), &mut key);
    key
}

/// Appends a key to `key` whose bytes compare as values do in the total order, `None` being undefined
/// (memcomparable). No key is a prefix of another one, so keys can follow each other.
pub fn write_sort_key(value: Option<&Value>, key: &mut Vec<u8>) {
    write_sort_key_of(View::of_option(value), key);
}

/// The first byte of every sort key of a value's type.
pub(crate) fn sort_key_type(value: &Value) -> u8 {
    rank(View::of(value))
}

fn write_sort_key_of(value: View<'_>, key: &mut Vec<u8>) {
    key.push(rank(value));
    match value {
        View::Undefined | View::Null => {}
        View::Bool(value) => key.push(value.into()),
        View::Number(value) => key.extend_from_slice(&sortable_bits(value).to_be_bytes()),
        View::String(text) => write_sort_text(text, key),
        View::Array(items) => {
            items.iter().for_each(|item| write_sort_key_of(View::of(item), key));
            key.push(SORT_KEY_END);
        }
        View::Object(members) => {
            for (name, value) in sorted(members) {
                key.push(SORT_KEY_NAME);
                write_sort_text(name, key);
                write_sort_key_of(View::of(value), key);
            }
            key.push(SORT_KEY_END);
        }
    }
}

/// Ends an array, an object or a text in a sort key. Below every type that an element can have, so that the
/// shorter of two arrays with a common beginning comes first.
const SORT_KEY_END: u8 = 0;
/// Begins a member of an object in a sort key.
const SORT_KEY_NAME: u8 = 1;

/// The bytes of a text; a zero byte is followed by 0xFF, so that it does not look like the end.
pub(crate) fn write_sort_prefix(text: &str, key: &mut Vec<u8>) {
    for byte in text.bytes() {
        key.push(byte);
        if byte == SORT_KEY_END {
            key.push(0xFF);
        }
    }
}

fn write_sort_text(text: &str, key: &mut Vec<u8>) {
    write_sort_prefix(text, key);
    key.extend_from_slice(&[SORT_KEY_END, SORT_KEY_END]);
}

/// The bits of a double, changed so that they compare as unsigned integers: all of a negative one are inverted,
/// the sign of a positive one is set. Adding zero makes -0 and 0 one number.
fn sortable_bits(value: f64) -> u64 {
    let bits = (value + 0.0).to_bits();
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

pub(crate) fn compare_views(left: View<'_>, right: View<'_>) -> Ordering {
    match (left, right) {
        (View::Bool(left), View::Bool(right)) => left.cmp(&right),
        (View::Number(left), View::Number(right)) => compare_numbers(left, right),
        (View::String(left), View::String(right)) => left.cmp(right),
        (View::Array(left), View::Array(right)) => compare_arrays(left, right),
        (View::Object(left), View::Object(right)) => compare_objects(left, right),
        _ => rank(left).cmp(&rank(right)),
    }
}

/// `left = right`: undefined only where a side is undefined; values of different types are not equal.
///
/// So `c.x != null` finds every item whose `x` is there and not null, which users and EF Core rely on.
pub(crate) fn equal(left: View<'_>, right: View<'_>) -> Option<bool> {
    match (left, right) {
        (View::Undefined, _) | (_, View::Undefined) => None,
        _ => Some(same(left, right)),
    }
}

/// `left < right` and its kin: undefined unless both are of one primitive type.
pub(crate) fn relation(left: View<'_>, right: View<'_>) -> Option<Ordering> {
    let comparable = left.is_primitive() && rank(left) == rank(right);
    comparable.then(|| compare_views(left, right))
}

/// Whether an array holds a value.
pub(crate) fn contains(items: &[Value], value: View<'_>) -> bool {
    items.iter().any(|item| same(View::of(item), value))
}

/// Whether two values are the same, whatever their types.
pub(crate) fn same(left: View<'_>, right: View<'_>) -> bool {
    match (left, right) {
        (View::Undefined, View::Undefined) | (View::Null, View::Null) => true,
        (View::Bool(left), View::Bool(right)) => left == right,
        (View::Number(left), View::Number(right)) => left == right,
        (View::String(left), View::String(right)) => left == right,
        (View::Array(left), View::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(l, r)| same(View::of(l), View::of(r)))
        }
        (View::Object(left), View::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(name, value)| {
                    right.get(name).is_some_and(|other| same(View::of(value), View::of(other)))
                })
        }
        _ => false,
    }
}

pub(crate) fn write_identity(value: View<'_>, key: &mut Vec<u8>) {
    key.push(rank(value));
    match value {
        View::Undefined | View::Null => {}
        View::Bool(value) => key.push(value.into()),
        // Adding zero makes -0 and 0 one number.
        View::Number(value) => key.extend_from_slice(&(value + 0.0).to_be_bytes()),
        View::String(text) => write_text(text, key),
        View::Array(items) => {
            key.extend_from_slice(&items.len().to_be_bytes());
            items.iter().for_each(|item| write_identity(View::of(item), key));
        }
        View::Object(members) => {
            key.extend_from_slice(&members.len().to_be_bytes());
            for (name, value) in sorted(members) {
                write_text(name, key);
                write_identity(View::of(value), key);
            }
        }
    }
}

fn write_text(text: &str, key: &mut Vec<u8>) {
    key.extend_from_slice(&text.len().to_be_bytes());
    key.extend_from_slice(text.as_bytes());
}

fn rank(value: View<'_>) -> u8 {
    match value {
        View::Undefined => 0,
        View::Null => 1,
        View::Bool(_) => 2,
        View::Number(_) => 3,
        View::String(_) => 4,
        View::Array(_) => 5,
        View::Object(_) => 6,
    }
}

/// JSON has no not-a-number, so any two numbers compare.
fn compare_numbers(left: f64, right: f64) -> Ordering {
    left.partial_cmp(&right).unwrap_or(Ordering::Equal)
}

fn compare_arrays(left: &[Value], right: &[Value]) -> Ordering {
    let pairs = left.iter().zip(right);
    let first = pairs.map(|(l, r)| compare_views(View::of(l), View::of(r))).find(|o| o.is_ne());
    first.unwrap_or_else(|| left.len().cmp(&right.len()))
}

fn compare_objects(left: &Map<String, Value>, right: &Map<String, Value>) -> Ordering {
    let (left, right) = (sorted(left), sorted(right));
    let pairs = left.iter().zip(&right);
    let mut differences = pairs.map(|((l_name, l), (r_name, r))| {
        l_name.cmp(r_name).then_with(|| compare_views(View::of(l), View::of(r)))
    });
    differences.find(|o| o.is_ne()).unwrap_or_else(|| left.len().cmp(&right.len()))
}

fn sorted(members: &Map<String, Value>) -> Vec<(&String, &Value)> {
    let mut members: Vec<_> = members.iter().collect();
    members.sort_unstable_by_key(|(name, _)| *name);
    members
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// Every type, and every step inside a type, smallest first.
    fn ascending() -> Vec<Option<Value>> {
        let mut values = vec![None];
        values.extend(
            [
                json!(null),
                json!(false),
                json!(true),
                json!(-1e300),
                json!(-1),
                json!(0),
                json!(0.5),
                json!(1),
                json!(9_007_199_254_740_993_u64),
                json!(1e300),
                json!(""),
                json!("A"),
                json!("AA"),
                json!("a"),
                json!("é"),
                json!("🚀"),
                json!([]),
                json!([null]),
                json!([1]),
                json!([1, 1]),
                json!([2]),
                json!({}),
                json!({"a": 1}),
                json!({"a": 1, "b": 0}),
                json!({"a": 2}),
                json!({"b": 0}),
            ]
            .map(Some),
        );
        values
    }

    #[test]
    fn types_come_in_the_documented_order_and_values_within_them() {
        let values = ascending();
        for (i, left) in values.iter().enumerate() {
            for (j, right) in values.iter().enumerate() {
                assert_eq!(compare(left.as_ref(), right.as_ref()), i.cmp(&j), "{left:?} {right:?}");
            }
        }
    }

    #[test]
    fn identity_tells_values_apart_exactly_as_the_order_does() {
        let values = ascending();
        for left in &values {
            for right in &values {
                let equal = compare(left.as_ref(), right.as_ref()).is_eq();
                assert_eq!(identity(left.as_ref()) == identity(right.as_ref()), equal);
            }
        }
    }

    fn sort_key(value: Option<&Value>) -> Vec<u8> {
        let mut key = Vec::new();
        write_sort_key(value, &mut key);
        key
    }

    #[test]
    fn sort_keys_compare_as_values_do_and_none_is_a_prefix_of_another() {
        let mut values = ascending();
        values.extend([json!("a\0"), json!("a\0b"), json!([[]]), json!({"": {}})].map(Some));
        for left in &values {
            for right in &values {
                let (l, r) = (sort_key(left.as_ref()), sort_key(right.as_ref()));
                let expected = compare(left.as_ref(), right.as_ref());
                assert_eq!(l.cmp(&r), expected, "{left:?} {right:?}");
                assert_eq!(l.starts_with(&r), expected.is_eq(), "{left:?} {right:?}");
            }
        }
    }

    proptest! {
        #[test]
        fn sort_keys_of_numbers_and_texts_compare_as_they_do(
            numbers: (f64, f64),
            texts in ("[\0\u{1}a\u{7f}é]{0,4}", "[\0\u{1}a\u{7f}é]{0,4}"),
        ) {
            for (left, right) in [
                (json!(numbers.0), json!(numbers.1)),
                (json!(texts.0), json!(texts.1)),
                (json!([texts.0]), json!([texts.1, numbers.0])),
                (json!({&texts.0: 1}), json!({&texts.1: numbers.1})),
            ] {
                let expected = compare(Some(&left), Some(&right));
                prop_assert_eq!(sort_key(Some(&left)).cmp(&sort_key(Some(&right))), expected);
            }
        }
    }

    #[test]
    fn spelling_and_member_order_do_not_matter() {
        let same = [
            (json!(1), json!(1.0)),
            (json!(0), json!(-0.0)),
            (json!({"a": 1, "b": [2]}), json!({"b": [2.0], "a": 1.0})),
        ];
        for (left, right) in &same {
            assert_eq!(compare(Some(left), Some(right)), Ordering::Equal);
            assert_eq!(identity(Some(left)), identity(Some(right)));
            assert_eq!(equal(View::of(left), View::of(right)), Some(true));
        }
    }

    #[test]
    fn equality_holds_across_types_and_order_only_within_one() {
        for (i, left) in ascending().iter().enumerate() {
            for (j, right) in ascending().iter().enumerate() {
                let (l, r) = (View::of_option(left.as_ref()), View::of_option(right.as_ref()));
                let like = rank(l) == rank(r) && rank(l) != 0;
                let defined = rank(l) != 0 && rank(r) != 0;
                assert_eq!(equal(l, r), defined.then_some(i == j));
                assert_eq!(relation(l, r), (like && rank(l) < 5).then(|| i.cmp(&j)));
            }
        }
    }
}

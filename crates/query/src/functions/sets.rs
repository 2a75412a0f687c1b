//! Arrays as sets: without order, without duplicates, compared by value.
//!
//! Results keep the order in which values first appear.

use std::borrow::Cow;
use std::collections::HashSet;

use serde_json::Value;

use crate::error::EvalError;
use crate::meter::Meter;
use crate::order::identity;
use crate::value::Datum;

type Answer<'a> = Result<Datum<'a>, EvalError>;
type Set = HashSet<Vec<u8>>;

pub(super) fn union<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    with_both(meter, "SetUnion", args, |left, right| {
        let mut seen = Set::new();
        unique(left.iter().chain(right), |key| seen.insert(key))
    })
}

pub(super) fn intersect<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    with_both(meter, "SetIntersect", args, |left, right| {
        let mut common = set(right);
        unique(left.iter(), |key| common.remove(&key))
    })
}

pub(super) fn difference<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    with_both(meter, "SetDifference", args, |left, right| {
        let mut gone = set(right);
        unique(left.iter(), |key| gone.insert(key))
    })
}

pub(super) fn equal<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    Ok(match (args[0].as_array(), args[1].as_array()) {
        (Some(left), Some(right)) => Datum::Bool(set(left) == set(right)),
        _ => Datum::Undefined,
    })
}

fn with_both<'a>(
    meter: &mut Meter<'_>,
    function: &'static str,
    args: &[Datum<'a>],
    combine: impl Fn(&[Value], &[Value]) -> Vec<Value>,
) -> Answer<'a> {
    let (Some(left), Some(right)) = (args[0].as_array(), args[1].as_array()) else {
        return Ok(Datum::Undefined);
    };
    meter.build(function, args[0].size() + args[1].size())?;
    Ok(Datum::Array(Cow::Owned(combine(left, right))))
}

fn set(items: &[Value]) -> Set {
    items.iter().map(|item| identity(Some(item))).collect()
}

/// The items whose key `wanted` wants, which it may do once for each.
fn unique<'v>(
    items: impl Iterator<Item = &'v Value>,
    mut wanted: impl FnMut(Vec<u8>) -> bool,
) -> Vec<Value> {
    items.filter(|item| wanted(identity(Some(item)))).cloned().collect()
}

//! Arrays: searching, cutting, joining and summing up.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::error::EvalError;
use crate::meter::Meter;
use crate::order::{self, compare_views, same};
use crate::value::{Datum, View, double};

type Answer<'a> = Result<Datum<'a>, EvalError>;

pub(super) fn length<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    Ok(args[0].as_array().map_or(Datum::Undefined, |items| Datum::integer(items.len())))
}

pub(super) fn concat<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    if !args.iter().all(|arg| arg.as_array().is_some()) {
        return Ok(Datum::Undefined);
    }
    meter.build("ARRAY_CONCAT", args.iter().map(Datum::size).sum())?;
    let items = args.iter().filter_map(Datum::as_array).flatten().cloned();
    Ok(Datum::Array(Cow::Owned(items.collect())))
}

/// Whether the array holds a value; with a third argument of true, whether it holds an object that
/// has at least the members of the second.
pub(super) fn contains<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    meter.touch(args[0].size())?;
    let partial = match args.get(2) {
        None => false,
        Some(Datum::Bool(partial)) => *partial,
        Some(_) => return Ok(Datum::Undefined),
    };
    let Some(items) = args[0].as_array() else { return Ok(Datum::Undefined) };
    let wanted = args[1].view();
    Ok(Datum::Bool(match wanted {
        View::Undefined => return Ok(Datum::Undefined),
        View::Object(_) if partial => items.iter().any(|item| covers(View::of(item), wanted)),
        _ => order::contains(items, wanted),
    }))
}

/// Whether `whole` has everything `part` has.
fn covers(whole: View<'_>, part: View<'_>) -> bool {
    match (whole, part) {
        (View::Object(whole), View::Object(part)) => part.iter().all(|(name, value)| {
            whole.get(name).is_some_and(|found| covers(View::of(found), View::of(value)))
        }),
        _ => same(whole, part),
    }
}

pub(super) fn contains_all<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    contains_several(meter, args, false)
}

pub(super) fn contains_any<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    contains_several(meter, args, true)
}

/// One `decisive` answer settles it; otherwise an undefined value leaves it open.
fn contains_several<'a>(
    meter: &mut Meter<'_>,
    args: &mut [Datum<'a>],
    decisive: bool,
) -> Answer<'a> {
    let Some((Datum::Array(items), wanted)) = args.split_first() else {
        return Ok(Datum::Undefined);
    };
    let mut open = false;
    let size = args[0].size();
    for value in wanted {
        meter.touch(size)?;
        if value.is_undefined() {
            open = true;
        } else if order::contains(items, value.view()) == decisive {
            return Ok(Datum::Bool(decisive));
        }
    }
    Ok(Datum::bool((!open).then_some(!decisive)))
}

/// From a start, counted from the end if negative, to the end or for a length.
pub(super) fn slice<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    let numbers: Option<Vec<f64>> = args[1..].iter().map(Datum::as_f64).collect();
    let (Datum::Array(items), Some(numbers)) = (std::mem::take(&mut args[0]), numbers) else {
        return Ok(Datum::Undefined);
    };
    let count = items.len() as f64;
    let start = numbers[0].trunc();
    let start = if start < 0.0 { (count + start).max(0.0) } else { start.min(count) };
    let most = numbers.get(1).map_or(count, |length| length.trunc().max(0.0));
    let end = (start + most).min(count);
    // Both lie in 0..=count.
    let (start, end) = (start as usize, end as usize);
    Ok(Datum::Array(match items {
        Cow::Borrowed(items) => Cow::Borrowed(&items[start..end]),
        Cow::Owned(mut items) => {
            items.truncate(end);
            Cow::Owned(items.split_off(start))
        }
    }))
}

/// All elements as doubles; none if one is no number.
fn numbers(array: &Datum<'_>) -> Option<Vec<f64>> {
    array.as_array()?.iter().map(|item| item.as_number().map(double)).collect()
}

pub(super) fn sum<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    Ok(numbers(&args[0]).map_or(Datum::Undefined, |list| Datum::number(list.iter().sum())))
}

pub(super) fn average<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    let list = numbers(&args[0]).filter(|list| !list.is_empty());
    Ok(list.map_or(Datum::Undefined, |list| {
        Datum::number(list.iter().sum::<f64>() / list.len() as f64)
    }))
}

/// The middle one, or the mean of the two in the middle.
pub(super) fn median<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    let Some(mut list) = numbers(&args[0]).filter(|list| !list.is_empty()) else {
        return Ok(Datum::Undefined);
    };
    list.sort_by(f64::total_cmp);
    let middle = list.len() / 2;
    Ok(Datum::number(match list.len() % 2 {
        0 => f64::midpoint(list[middle - 1], list[middle]),
        _ => list[middle],
    }))
}

pub(super) fn min<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    let smallest = |items: &[Value]| {
        let ordered = |l: &&Value, r: &&Value| compare_views(View::of(l), View::of(r));
        items.iter().min_by(ordered).cloned()
    };
    extreme(&args[0], smallest)
}

pub(super) fn max<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    let largest = |items: &[Value]| {
        let ordered = |l: &&Value, r: &&Value| compare_views(View::of(l), View::of(r));
        items.iter().max_by(ordered).cloned()
    };
    extreme(&args[0], largest)
}

/// Only primitive values have an order among them.
fn extreme<'a>(array: &Datum<'a>, pick: impl Fn(&[Value]) -> Option<Value>) -> Answer<'a> {
    let items = array.as_array();
    let items = items.filter(|items| items.iter().all(|item| View::of(item).is_primitive()));
    Ok(items.and_then(pick).map_or(Datum::Undefined, Datum::owned))
}

/// The argument at a position, the first after the position being 1.
pub(super) fn choose<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    let at = args[0].as_f64().filter(|at| *at >= 1.0 && at.fract() == 0.0);
    let chosen = at.and_then(|at| args.get_mut(at as usize));
    Ok(chosen.map(std::mem::take).unwrap_or_default())
}

/// `{"a": 1}` as `[{"k": "a", "v": 1}]`, the two names being the caller's to change.
pub(super) fn from_object<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    let name = |at: usize, default: &'static str| match args.get(at) {
        None => Some(default.to_owned()),
        Some(name) => name.as_str().map(str::to_owned),
    };
    let (Some(key), Some(value)) = (name(1, "k"), name(2, "v")) else {
        return Ok(Datum::Undefined);
    };
    let Datum::Object(members) = &args[0] else { return Ok(Datum::Undefined) };
    let names = (key.len() + value.len()).saturating_mul(members.len());
    meter.build("ObjectToArray", args[0].size().saturating_add(names))?;
    let pair = |(name, member): (&String, &Value)| {
        let mut pair = Map::with_capacity(2);
        pair.insert(key.clone(), Value::String(name.clone()));
        pair.insert(value.clone(), member.clone());
        Value::Object(pair)
    };
    Ok(Datum::Array(Cow::Owned(members.iter().map(pair).collect())))
}

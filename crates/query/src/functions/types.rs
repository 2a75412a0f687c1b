//! Type checks: always true or false, undefined included.

use super::time::is_valid_date_time;
use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::{Datum, View};

type Answer<'a> = Result<Datum<'a>, EvalError>;

fn check<'a>(arguments: &[Datum<'a>], holds: impl Fn(View<'_>) -> bool) -> Answer<'a> {
    Ok(Datum::Bool(holds(arguments[0].view())))
}

pub(super) fn is_array<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    check(args, |value| matches!(value, View::Array(_)))
}

pub(super) fn is_bool<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    check(args, |value| matches!(value, View::Bool(_)))
}

/// Text of the form `YYYY-MM-DDThh:mm:ss.fffffffZ`, with as much of the fraction as there is.
pub(super) fn is_datetime<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    check(args, |value| matches!(value, View::String(text) if is_valid_date_time(text)))
}

pub(super) fn is_defined<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    check(args, |value| !matches!(value, View::Undefined))
}

pub(super) fn is_finite_number<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    check(args, |value| matches!(value, View::Number(number) if number.is_finite()))
}

pub(super) fn is_integer<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    /// One past the largest 64-bit integer.
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    check(
        args,
        |value| matches!(value, View::Number(n) if n.fract() == 0.0 && (-BOUND..BOUND).contains(&n)),
    )
}

pub(super) fn is_null<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    check(args, |value| matches!(value, View::Null))
}

pub(super) fn is_number<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    check(args, |value| matches!(value, View::Number(_)))
}

pub(super) fn is_object<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    check(args, |value| matches!(value, View::Object(_)))
}

pub(super) fn is_primitive<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    Ok(Datum::Bool(args[0].view().is_primitive()))
}

pub(super) fn is_string<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    check(args, |value| matches!(value, View::String(_)))
}

//! Arithmetic and bit operations on 64-bit integers, wrapping around as in C++.
//!
//! Arguments are doubles like every number, so integers beyond 2^53 arrive rounded; results that are no
//! double of their own are rounded too.

use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::Datum;

type Answer<'a> = Result<Datum<'a>, EvalError>;

macro_rules! of_two {
    ($($(#[$doc:meta])* $name:ident = $compute:expr;)*) => {
        $(
            $(#[$doc])*
            pub(super) fn $name<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
                let compute: fn(i64, i64) -> Option<i64> = $compute;
                let result = integer(&args[0]).zip(integer(&args[1]));
                let result = result.and_then(|(left, right)| compute(left, right));
                Ok(result.map_or(Datum::Undefined, |value| Datum::number(value as f64)))
            }
        )*
    };
}

of_two! {
    add = |left, right| Some(left.wrapping_add(right));
    subtract = |left, right| Some(left.wrapping_sub(right));
    multiply = |left, right| Some(left.wrapping_mul(right));
    /// Rounds towards zero; undefined by zero.
    divide = |left, right| (right != 0).then(|| left.wrapping_div(right));
    /// Has the sign of the dividend; undefined by zero.
    modulo = |left, right| (right != 0).then(|| left.wrapping_rem(right));
    bit_and = |left, right| Some(left & right);
    bit_or = |left, right| Some(left | right);
    bit_xor = |left, right| Some(left ^ right);
    /// The count is taken modulo 64, as processors do.
    shift_left = |left, right| Some(left.wrapping_shl(right as u32));
    /// Arithmetic: the sign stays.
    shift_right = |left, right| Some(left.wrapping_shr(right as u32));
}

pub(super) fn bit_not<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    Ok(integer(&args[0]).map_or(Datum::Undefined, |value| Datum::number(!value as f64)))
}

/// The 64-bit integer that an argument is, if it is one.
fn integer(argument: &Datum<'_>) -> Option<i64> {
    /// One past the largest 64-bit integer.
    const BOUND: f64 = 9_223_372_036_854_775_808.0;
    let value = argument.as_f64()?;
    (value.fract() == 0.0 && (-BOUND..BOUND).contains(&value)).then_some(value as i64)
}

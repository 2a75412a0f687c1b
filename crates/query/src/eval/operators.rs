//! The operators on values: arithmetic on doubles, bits on 32-bit integers, comparison.

use std::cmp::Ordering;

use crate::order::{equal, relation};
use crate::tree::{BinaryOp, UnaryOp};
use crate::value::{Datum, View};

/// `-x`, `+x`, `~x`, `NOT x`: undefined on what they do not apply to.
pub(crate) fn unary(op: UnaryOp, value: &Datum<'_>) -> Datum<'static> {
    match (op, value) {
        (UnaryOp::Not, Datum::Bool(value)) => Datum::Bool(!value),
        (UnaryOp::Plus, Datum::Number(number)) => Datum::Number(number.clone()),
        (UnaryOp::Minus, Datum::Number(number)) => match number.as_i64().and_then(i64::checked_neg)
        {
            Some(negative) => Datum::Number(negative.into()),
            None => value.as_f64().map_or(Datum::Undefined, |value| Datum::number(-value)),
        },
        (UnaryOp::BitNot, Datum::Number(_)) => {
            value.as_f64().map_or(Datum::Undefined, |value| bits(!to_i32(value)))
        }
        _ => Datum::Undefined,
    }
}

/// Arithmetic and bit operators: undefined unless both are numbers and the result is finite.
pub(crate) fn arithmetic(op: BinaryOp, left: Option<f64>, right: Option<f64>) -> Datum<'static> {
    let (Some(left), Some(right)) = (left, right) else { return Datum::Undefined };
    // Shift counts wrap at 32, as in JavaScript.
    let shift = || to_i32(right) as u32 & 31;
    match op {
        BinaryOp::Add => Datum::number(left + right),
        BinaryOp::Subtract => Datum::number(left - right),
        BinaryOp::Multiply => Datum::number(left * right),
        BinaryOp::Divide => Datum::number(left / right),
        BinaryOp::Modulo => Datum::number(left % right),
        BinaryOp::BitAnd => bits(to_i32(left) & to_i32(right)),
        BinaryOp::BitOr => bits(to_i32(left) | to_i32(right)),
        BinaryOp::BitXor => bits(to_i32(left) ^ to_i32(right)),
        BinaryOp::ShiftLeft => bits(to_i32(left) << shift()),
        BinaryOp::ShiftRight => bits(to_i32(left) >> shift()),
        BinaryOp::ShiftRightUnsigned => Datum::Number((to_i32(left) as u32 >> shift()).into()),
        _ => Datum::Undefined,
    }
}

pub(crate) fn is_comparison(op: BinaryOp) -> bool {
    matches!(
        op,
        BinaryOp::Equal
            | BinaryOp::NotEqual
            | BinaryOp::Less
            | BinaryOp::LessOrEqual
            | BinaryOp::Greater
            | BinaryOp::GreaterOrEqual
    )
}

/// Comparison operators. Only `=` and `!=` look into arrays and objects.
pub(crate) fn compare(op: BinaryOp, left: View<'_>, right: View<'_>) -> Option<bool> {
    let holds = match op {
        BinaryOp::Equal => return equal(left, right),
        BinaryOp::NotEqual => return equal(left, right).map(|equal| !equal),
        BinaryOp::Less => Ordering::is_lt,
        BinaryOp::LessOrEqual => Ordering::is_le,
        BinaryOp::Greater => Ordering::is_gt,
        BinaryOp::GreaterOrEqual => Ordering::is_ge,
        _ => return None,
    };
    relation(left, right).map(holds)
}

fn bits(value: i32) -> Datum<'static> {
    Datum::Number(value.into())
}

/// The 32 bits bit operators work on: the whole part, modulo 2^32.
fn to_i32(value: f64) -> i32 {
    const MODULUS: f64 = 4_294_967_296.0;
    // In 0..2^32 after the remainder, so the cast only reinterprets the sign bit.
    value.trunc().rem_euclid(MODULUS) as u32 as i32
}

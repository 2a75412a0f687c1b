//! Mathematics on doubles. What has no finite result is undefined.

use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::Datum;

type Answer<'a> = Result<Datum<'a>, EvalError>;

/// Functions of one number.
macro_rules! of_one {
    ($($(#[$doc:meta])* $name:ident = $compute:expr;)*) => {
        $(
            $(#[$doc])*
            pub(super) fn $name<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
                let compute: fn(f64) -> f64 = $compute;
                Ok(args[0].as_f64().map_or(Datum::Undefined, |x| Datum::number(compute(x))))
            }
        )*
    };
}

of_one! {
    abs = f64::abs;
    acos = f64::acos;
    asin = f64::asin;
    atan = f64::atan;
    ceiling = f64::ceil;
    cos = f64::cos;
    cot = |x| 1.0 / x.tan();
    degrees = f64::to_degrees;
    exp = f64::exp;
    floor = f64::floor;
    log10 = f64::log10;
    radians = f64::to_radians;
    /// Halves go away from zero.
    round = f64::round;
    sign = |x| if x == 0.0 { 0.0 } else { x.signum() };
    sin = f64::sin;
    sqrt = f64::sqrt;
    square = |x| x * x;
    tan = f64::tan;
    trunc = f64::trunc;
}

fn of_two<'a>(args: &[Datum<'a>], compute: impl Fn(f64, f64) -> f64) -> Answer<'a> {
    Ok(match (args[0].as_f64(), args[1].as_f64()) {
        (Some(x), Some(y)) => Datum::number(compute(x, y)),
        _ => Datum::Undefined,
    })
}

pub(super) fn atn2<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    of_two(args, f64::atan2)
}

pub(super) fn power<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    of_two(args, f64::powf)
}

/// The natural logarithm, or the one to a base.
pub(super) fn log<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    match args.len() {
        1 => Ok(args[0].as_f64().map_or(Datum::Undefined, |x| Datum::number(x.ln()))),
        _ => of_two(args, |x, base| x.ln() / base.ln()),
    }
}

/// The multiple of a bin size at or below a number; the size is 1 if it is not given.
pub(super) fn number_bin<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    let size = match args.get(1) {
        None => Some(1.0),
        Some(size) => size.as_f64(),
    };
    let (Some(x), Some(size)) = (args[0].as_f64(), size.filter(|size| *size != 0.0)) else {
        return Ok(Datum::Undefined);
    };
    Ok(Datum::number((x / size).floor() * size))
}

pub(super) fn pi<'a>(_: &mut Meter<'_>, _: &mut [Datum<'a>]) -> Answer<'a> {
    Ok(Datum::number(std::f64::consts::PI))
}

pub(super) fn rand<'a>(meter: &mut Meter<'_>, _: &mut [Datum<'a>]) -> Answer<'a> {
    Ok(Datum::number(meter.context().random()))
}

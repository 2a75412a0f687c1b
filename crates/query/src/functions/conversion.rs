//! Conversions between text and the other types, and the conditional function.

use serde_json::Value;

use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::Datum;

type Answer<'a> = Result<Datum<'a>, EvalError>;

/// Reads text as JSON and gives the value if it is of the wanted kind.
fn read<'a>(
    meter: &mut Meter<'_>,
    function: &'static str,
    text: &Datum<'a>,
    wanted: fn(&Value) -> bool,
) -> Answer<'a> {
    /// Parsed values take several times the space of their text.
    const GROWTH: usize = 4;
    let Some(text) = text.as_str() else { return Ok(Datum::Undefined) };
    meter.build(function, text.len().saturating_mul(GROWTH))?;
    let value = serde_json::from_str::<Value>(text).ok().filter(wanted);
    Ok(value.map_or(Datum::Undefined, Datum::owned))
}

pub(super) fn string_to_array<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    read(meter, "StringToArray", &args[0], Value::is_array)
}

pub(super) fn string_to_boolean<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    read(meter, "StringToBoolean", &args[0], Value::is_boolean)
}

pub(super) fn string_to_null<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    read(meter, "StringToNull", &args[0], Value::is_null)
}

pub(super) fn string_to_number<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    read(meter, "StringToNumber", &args[0], Value::is_number)
}

pub(super) fn string_to_object<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    read(meter, "StringToObject", &args[0], Value::is_object)
}

/// Text stays as it is; everything else becomes its JSON.
pub(super) fn to_string<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    match std::mem::take(&mut args[0]) {
        Datum::String(text) => Ok(Datum::String(text)),
        Datum::Undefined => Ok(Datum::Undefined),
        Datum::Number(number) if number.is_f64() => {
            // A whole double prints without a fraction.
            let number = Datum::number(number.as_f64().unwrap_or_default());
            Ok(number.into_value().map_or(Datum::Undefined, |n| Datum::text(n.to_string())))
        }
        other => {
            meter.build("ToString", other.size())?;
            Ok(other.into_value().map_or(Datum::Undefined, |value| Datum::text(value.to_string())))
        }
    }
}

/// The second argument if the first is true, else the third.
pub(super) fn iif<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    let chosen = if args[0].as_bool() == Some(true) { 1 } else { 2 };
    Ok(std::mem::take(&mut args[chosen]))
}

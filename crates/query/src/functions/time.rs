//! The current time, in the three forms the language has.
//!
//! The clock is the context's and is fixed for the execution, so the `Static` functions and the
//! plain ones agree.

use super::date_time::{format_ticks, parse};
use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::Datum;

type Answer<'a> = Result<Datum<'a>, EvalError>;

const TICKS_PER_MILLISECOND: i64 = 10_000;

/// `2024-02-29T12:34:56.1234567Z`
pub(super) fn current_date_time<'a>(meter: &mut Meter<'_>, _: &mut [Datum<'a>]) -> Answer<'a> {
    Ok(Datum::text(format_ticks(meter.context().now_ticks())))
}

/// 100-nanosecond steps since the Unix epoch.
pub(super) fn current_ticks<'a>(meter: &mut Meter<'_>, _: &mut [Datum<'a>]) -> Answer<'a> {
    Ok(Datum::number(meter.context().now_ticks() as f64))
}

/// Milliseconds since the Unix epoch.
pub(super) fn current_timestamp<'a>(meter: &mut Meter<'_>, _: &mut [Datum<'a>]) -> Answer<'a> {
    Ok(Datum::number(meter.context().now_ticks().div_euclid(TICKS_PER_MILLISECOND) as f64))
}

/// Whether text is a date and time of the recommended form alone: with `T` and `Z`, in UTC.
pub(super) fn is_valid_date_time(text: &str) -> bool {
    text.as_bytes().get(10) == Some(&b'T') && text.ends_with('Z') && parse(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_time_is_valid_in_the_recommended_form_alone() {
        for text in
            ["1970-01-01T00:00:00.0000000Z", "2024-02-29T12:34:56.1234567Z", "9999-12-31T23:59:59Z"]
        {
            assert!(is_valid_date_time(text), "{text}");
        }
        for text in
            ["2024-02-30T00:00:00Z", "2024-02-29", "2024-02-29 12:34:56", "2024-02-29T12:34:56"]
        {
            assert!(!is_valid_date_time(text), "{text}");
        }
    }
}

//! The current time, in the three forms the language has.
//!
//! The clock is the context's and is fixed for the execution, so the `Static` functions and the
//! plain ones agree.

use super::date_time::{days_in_month, format_ticks};
use crate::error::EvalError;
use crate::eval::Meter;
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

/// Whether text is a date and time of the form the language uses.
pub(super) fn is_valid_date_time(text: &str) -> bool {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to)?;
        digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse::<i64>().ok())?
    };
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if !separators.iter().all(|(at, byte)| bytes.get(*at) == Some(byte)) {
        return false;
    }
    let fields = (number(0, 4), number(5, 7), number(8, 10));
    let (Some(year), Some(month), Some(day)) = fields else { return false };
    let clock = (number(11, 13), number(14, 16), number(17, 19));
    let (Some(0..24), Some(0..60), Some(0..60)) = clock else { return false };
    if year < 1 || !(1..=12).contains(&month) || !(1..=days_in_month(year, month)).contains(&day) {
        return false;
    }
    let Some(fraction) = text[19..].strip_suffix('Z') else { return false };
    let digits = fraction.strip_prefix('.');
    fraction.is_empty()
        || digits
            .is_some_and(|d| (1..=7).contains(&d.len()) && d.bytes().all(|b| b.is_ascii_digit()))
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

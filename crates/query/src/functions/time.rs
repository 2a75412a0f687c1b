//! The current time, in the three forms the language has.
//!
//! The clock is the context's and is fixed for the execution, so the `Static` functions and the
//! plain ones agree.

use crate::error::EvalError;
use crate::eval::Meter;
use crate::value::Datum;

type Answer<'a> = Result<Datum<'a>, EvalError>;

const TICKS_PER_SECOND: i64 = 10_000_000;
const TICKS_PER_MILLISECOND: i64 = 10_000;
const SECONDS_PER_DAY: i64 = 86_400;

/// `2024-02-29T12:34:56.1234567Z`
pub(super) fn current_date_time<'a>(meter: &mut Meter<'_>, _: &mut [Datum<'a>]) -> Answer<'a> {
    Ok(Datum::text(format_ticks(meter.context().now_ticks())))
}

/// 100-nanosecond steps since the Unix epoch.
pub(super) fn current_ticks<'a>(meter: &mut Meter<'_>, _: &mut [Datum<'a>]) -> Answer<'a> {
    Ok(Datum::Number(meter.context().now_ticks().into()))
}

/// Milliseconds since the Unix epoch.
pub(super) fn current_timestamp<'a>(meter: &mut Meter<'_>, _: &mut [Datum<'a>]) -> Answer<'a> {
    Ok(Datum::Number(meter.context().now_ticks().div_euclid(TICKS_PER_MILLISECOND).into()))
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

fn format_ticks(ticks: i64) -> String {
    let seconds = ticks.div_euclid(TICKS_PER_SECOND);
    let fraction = ticks.rem_euclid(TICKS_PER_SECOND);
    let (year, month, day) = civil_date(seconds.div_euclid(SECONDS_PER_DAY));
    let clock = seconds.rem_euclid(SECONDS_PER_DAY);
    let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:07}Z")
}

/// The Gregorian date of a day counted from 1970-01-01.
fn civil_date(days: i64) -> (i64, i64, i64) {
    // Years start in March here, so that the leap day is the last of its year, and are counted in
    // eras of 400 years, after which the calendar repeats.
    const DAYS_PER_ERA: i64 = 146_097;
    const DAYS_TO_EPOCH: i64 = 719_468;
    let days = days + DAYS_TO_EPOCH;
    let era = days.div_euclid(DAYS_PER_ERA);
    let day_of_era = days.rem_euclid(DAYS_PER_ERA);
    let leap_days = day_of_era / 1460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leap_days) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

fn days_in_month(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_print_as_the_date_and_time_they_are() {
        let cases = [
            (0, "1970-01-01T00:00:00.0000000Z"),
            (-1, "1969-12-31T23:59:59.9999999Z"),
            (17_092_100_961_234_567, "2024-02-29T12:34:56.1234567Z"),
            (9_467_712_000_000_000, "2000-01-02T00:00:00.0000000Z"),
            (2_534_023_007_990_000_000, "9999-12-31T23:59:59.0000000Z"),
        ];
        for (ticks, text) in cases {
            assert_eq!(format_ticks(ticks), text);
            assert!(is_valid_date_time(text));
        }
    }
}

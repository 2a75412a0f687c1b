//! Dates and times as text, as ticks (100 ns since the Unix epoch) and by their parts.
//!
//! The proleptic Gregorian calendar in UTC, years 1 to 9999, as the service has it. Text is read in the
//! ISO 8601 forms that its documentation uses: with `T` or a blank, with or without fraction and `Z`.

use super::date_time_format;
use crate::error::EvalError;
use crate::meter::Meter;
use crate::value::Datum;

type Answer<'a> = Result<Datum<'a>, EvalError>;

pub(super) const TICKS_PER_SECOND: i64 = 10_000_000;
const TICKS_PER_MILLISECOND: i64 = 10_000;
const TICKS_PER_MICROSECOND: i64 = 10;
const NANOSECONDS_PER_TICK: i64 = 100;
const SECONDS_PER_DAY: i64 = 86_400;
const TICKS_PER_DAY: i64 = SECONDS_PER_DAY * TICKS_PER_SECOND;

/// 0001-01-01T00:00:00 and 10000-01-01T00:00:00: what a date can be.
const FIRST_TICK: i64 = -621_355_968_000_000_000;
const PAST_LAST_TICK: i64 = 2_534_023_008_000_000_000;

/// 1601-01-01T00:00:00, the Windows epoch: no bin begins before it.
const FIRST_BIN_TICK: i64 = -116_444_736_000_000_000;

/// A part of a date and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Year,
    Month,
    /// A part of fixed length, in ticks.
    Fixed(i64),
    /// Shorter than a tick.
    Nanosecond,
}

const DAY: Part = Part::Fixed(TICKS_PER_DAY);
const HOUR: Part = Part::Fixed(3600 * TICKS_PER_SECOND);
const MINUTE: Part = Part::Fixed(60 * TICKS_PER_SECOND);
const SECOND: Part = Part::Fixed(TICKS_PER_SECOND);
const MILLISECOND: Part = Part::Fixed(TICKS_PER_MILLISECOND);
const MICROSECOND: Part = Part::Fixed(TICKS_PER_MICROSECOND);

impl Part {
    /// The part that an argument names.
    fn of(argument: &Datum<'_>) -> Option<Self> {
        let name = argument.as_str()?.to_ascii_lowercase();
        Some(match name.as_str() {
            "year" | "yyyy" | "yy" | "y" => Self::Year,
            "month" | "mm" | "m" => Self::Month,
            "day" | "dd" | "d" => DAY,
            "hour" | "hh" => HOUR,
            "minute" | "mi" | "n" => MINUTE,
            "second" | "ss" | "s" => SECOND,
            "millisecond" | "ms" => MILLISECOND,
            "microsecond" | "mcs" => MICROSECOND,
            "nanosecond" | "ns" => Self::Nanosecond,
            _ => return None,
        })
    }
}

/// A moment by its calendar and clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Moment {
    pub(super) year: i64,
    pub(super) month: i64,
    pub(super) day: i64,
    /// Ticks since midnight.
    pub(super) of_day: i64,
}

impl Moment {
    pub(super) fn of_ticks(ticks: i64) -> Self {
        let (year, month, day) = civil_date(ticks.div_euclid(TICKS_PER_DAY));
        Self { year, month, day, of_day: ticks.rem_euclid(TICKS_PER_DAY) }
    }

    /// Ticks since the Unix epoch; `None` outside the years 1 to 9999.
    fn ticks(self) -> Option<i64> {
        let ticks = days_from_civil(self.year, self.month, self.day)
            .checked_mul(TICKS_PER_DAY)?
            .checked_add(self.of_day)?;
        in_range(ticks)
    }

    /// Moves a moment by a number of months; the day is cut to the end of a shorter month.
    fn plus_months(self, months: i64) -> Option<Self> {
        let count = self.year.checked_mul(12)?.checked_add(self.month - 1)?.checked_add(months)?;
        let (year, month) = (count.div_euclid(12), count.rem_euclid(12) + 1);
        if !(1..=9999).contains(&year) {
            return None;
        }
        Some(Self { year, month, day: self.day.min(days_in_month(year, month)), ..self })
    }
}

pub(super) fn add<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    let moved = || {
        let (part, number) = (Part::of(&args[0])?, whole(&args[1])?);
        shifted(ticks_of(&args[2])?, part, number)
    };
    Ok(text(moved()))
}

/// The current time less a number of parts.
pub(super) fn ago<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    let moved = || {
        let (part, number) = (Part::of(&args[0])?, whole(&args[1])?);
        shifted(meter.context().now_ticks(), part, number.checked_neg()?)
    };
    Ok(text(moved()))
}

/// The start of the bin that a moment falls into.
pub(super) fn bin<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    let binned = || {
        let ticks = ticks_of(&args[0])?;
        let size = match args.get(2) {
            None => 1,
            Some(size) => whole(size).filter(|size| *size > 0)?,
        };
        let origin = match args.get(3) {
            None => 0,
            Some(origin) => ticks_of(origin).filter(|origin| *origin >= FIRST_BIN_TICK)?,
        };
        let length = match Part::of(&args[1])? {
            Part::Fixed(length) => length.checked_mul(size)?,
            // A bin below a tick holds one tick.
            Part::Nanosecond => (size / NANOSECONDS_PER_TICK).max(1),
            Part::Year | Part::Month => return None,
        };
        in_range(ticks - (ticks - origin).rem_euclid(length))
    };
    Ok(text(binned()))
}

/// How many boundaries of a part lie between two moments; not how long the interval is.
pub(super) fn diff<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    let crossed = || {
        let part = Part::of(&args[0])?;
        let (start, end) = (ticks_of(&args[1])?, ticks_of(&args[2])?);
        let (from, to) = (Moment::of_ticks(start), Moment::of_ticks(end));
        Some(match part {
            Part::Year => to.year - from.year,
            Part::Month => (to.year - from.year) * 12 + to.month - from.month,
            Part::Fixed(length) => end.div_euclid(length) - start.div_euclid(length),
            Part::Nanosecond => (end - start).checked_mul(NANOSECONDS_PER_TICK)?,
        })
    };
    Ok(number(crossed()))
}

pub(super) fn format<'a>(meter: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    let (Some(ticks), Some(pattern)) = (ticks_of(&args[0]), args[1].as_str()) else {
        return Ok(Datum::Undefined);
    };
    // No specifier of one character writes more than seven.
    meter.build("DATETIMEFORMAT", pattern.len() * 7)?;
    let formatted = date_time_format::format(Moment::of_ticks(ticks), pattern);
    Ok(formatted.map_or(Datum::Undefined, Datum::text))
}

/// Year, month, day, and optionally hour, minute, second and ticks of the second.
pub(super) fn from_parts<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    let composed = || {
        let part = |at: usize| args.get(at).map_or(Some(0), whole);
        let (year, month, day) = (part(0)?, part(1)?, part(2)?);
        let (hour, minute, second, fraction) = (part(3)?, part(4)?, part(5)?, part(6)?);
        let valid = (1..=9999).contains(&year)
            && (1..=12).contains(&month)
            && (1..=days_in_month(year, month)).contains(&day)
            && (0..24).contains(&hour)
            && (0..60).contains(&minute)
            && (0..60).contains(&second)
            && (0..TICKS_PER_SECOND).contains(&fraction);
        if !valid {
            return None;
        }
        // Only now: an hour of 10^18 would overflow.
        let of_day = ((hour * 60 + minute) * 60 + second) * TICKS_PER_SECOND + fraction;
        Moment { year, month, day, of_day }.ticks()
    };
    Ok(text(composed()))
}

pub(super) fn part<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    let value = || part_of(Part::of(&args[0])?, ticks_of(&args[1])?);
    Ok(number(value()))
}

fn part_of(part: Part, ticks: i64) -> Option<i64> {
    let moment = Moment::of_ticks(ticks);
    let of_second = moment.of_day % TICKS_PER_SECOND;
    let seconds = moment.of_day / TICKS_PER_SECOND;
    Some(match part {
        Part::Year => moment.year,
        Part::Month => moment.month,
        DAY => moment.day,
        HOUR => seconds / 3600,
        MINUTE => seconds / 60 % 60,
        SECOND => seconds % 60,
        MILLISECOND => of_second / TICKS_PER_MILLISECOND,
        MICROSECOND => of_second / TICKS_PER_MICROSECOND,
        Part::Nanosecond => of_second * NANOSECONDS_PER_TICK,
        Part::Fixed(_) => return None,
    })
}

pub(super) fn year<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    Ok(number(ticks_of(&args[0]).and_then(|ticks| part_of(Part::Year, ticks))))
}

pub(super) fn month<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    Ok(number(ticks_of(&args[0]).and_then(|ticks| part_of(Part::Month, ticks))))
}

pub(super) fn day<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    Ok(number(ticks_of(&args[0]).and_then(|ticks| part_of(DAY, ticks))))
}

pub(super) fn to_ticks<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    Ok(number(ticks_of(&args[0])))
}

/// Milliseconds since the Unix epoch.
pub(super) fn to_timestamp<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    Ok(number(ticks_of(&args[0]).map(|ticks| ticks.div_euclid(TICKS_PER_MILLISECOND))))
}

pub(super) fn from_ticks<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    Ok(text(whole(&args[0]).and_then(in_range)))
}

pub(super) fn from_timestamp<'a>(_: &mut Meter<'_>, args: &mut [Datum<'a>]) -> Answer<'a> {
    let ticks = whole(&args[0]).and_then(|millis| millis.checked_mul(TICKS_PER_MILLISECOND));
    Ok(text(ticks.and_then(in_range)))
}

fn shifted(ticks: i64, part: Part, number: i64) -> Option<i64> {
    match part {
        Part::Year => Moment::of_ticks(ticks).plus_months(number.checked_mul(12)?)?.ticks(),
        Part::Month => Moment::of_ticks(ticks).plus_months(number)?.ticks(),
        Part::Fixed(length) => in_range(ticks.checked_add(number.checked_mul(length)?)?),
        Part::Nanosecond => in_range(ticks.checked_add(number.div_euclid(NANOSECONDS_PER_TICK))?),
    }
}

fn in_range(ticks: i64) -> Option<i64> {
    (FIRST_TICK..PAST_LAST_TICK).contains(&ticks).then_some(ticks)
}

fn text<'a>(ticks: Option<i64>) -> Datum<'a> {
    ticks.map_or(Datum::Undefined, |ticks| Datum::text(format_ticks(ticks)))
}

fn number<'a>(value: Option<i64>) -> Datum<'a> {
    value.map_or(Datum::Undefined, |value| Datum::number(value as f64))
}

/// The integer that an argument is; others have no meaning here.
fn whole(argument: &Datum<'_>) -> Option<i64> {
    let value = argument.as_f64()?;
    let exact = value.fract() == 0.0 && value.abs() < 9.0e18;
    exact.then_some(value as i64)
}

fn ticks_of(argument: &Datum<'_>) -> Option<i64> {
    parse(argument.as_str()?)
}

/// Ticks of an ISO 8601 text.
pub(super) fn parse(text: &str) -> Option<i64> {
    let number = |from: usize, to: usize| {
        let digits = text.get(from..to)?;
        digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse::<i64>().ok())?
    };
    let byte = |at: usize| text.as_bytes().get(at).copied();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    if (byte(4), byte(7)) != (Some(b'-'), Some(b'-'))
        || !(1..=9999).contains(&year)
        || !(1..=12).contains(&month)
        || !(1..=days_in_month(year, month)).contains(&day)
    {
        return None;
    }
    let of_day = match byte(10) {
        None => 0,
        Some(b'T' | b' ') => clock(text.get(11..)?)?,
        Some(_) => return None,
    };
    Moment { year, month, day, of_day }.ticks()
}

/// Ticks since midnight of `hh:mm:ss[.fffffff][Z]`.
fn clock(text: &str) -> Option<i64> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (whole, fraction) = match text.split_once('.') {
        Some((whole, fraction)) => (whole, Some(fraction)),
        None => (text, None),
    };
    let fields: Vec<&str> = whole.split(':').collect();
    let [hour, minute, second] = fields[..] else { return None };
    let field = |digits: &str, below: i64| {
        let two = digits.len() == 2 && digits.bytes().all(|b| b.is_ascii_digit());
        digits.parse::<i64>().ok().filter(|value| two && *value < below)
    };
    let seconds = (field(hour, 24)? * 60 + field(minute, 60)?) * 60 + field(second, 60)?;
    let fraction = match fraction {
        None => 0,
        Some(digits) => {
            let valid =
                (1..=7).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
            let scale = 10_i64.pow(7_u32.checked_sub(u32::try_from(digits.len()).ok()?)?);
            valid.then(|| digits.parse::<i64>().ok())?? * scale
        }
    };
    Some(seconds * TICKS_PER_SECOND + fraction)
}

/// `2024-02-29T12:34:56.1234567Z`
pub(super) fn format_ticks(ticks: i64) -> String {
    let Moment { year, month, day, of_day } = Moment::of_ticks(ticks);
    let (seconds, fraction) = (of_day / TICKS_PER_SECOND, of_day % TICKS_PER_SECOND);
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:07}Z")
}

// Howard Hinnant's calendar algorithms: years start in March, so that the leap day is the last of its
// year, and are counted in eras of 400 years, after which the calendar repeats.
const DAYS_PER_ERA: i64 = 146_097;
const DAYS_TO_EPOCH: i64 = 719_468;

/// The Gregorian date of a day counted from 1970-01-01.
fn civil_date(days: i64) -> (i64, i64, i64) {
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

/// The day of a Gregorian date, counted from 1970-01-01.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let month_from_march = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_PER_ERA + day_of_era - DAYS_TO_EPOCH
}

fn days_in_month(year: i64, month: i64) -> i64 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// The day of the week, Sunday being 0.
pub(super) fn weekday(moment: Moment) -> i64 {
    // 1970-01-01 was a Thursday.
    (days_from_civil(moment.year, moment.month, moment.day) + 4).rem_euclid(7)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn ticks_print_as_the_date_and_time_they_are() {
        let cases = [
            (0, "1970-01-01T00:00:00.0000000Z"),
            (-1, "1969-12-31T23:59:59.9999999Z"),
            (17_092_100_961_234_567, "2024-02-29T12:34:56.1234567Z"),
            (9_467_712_000_000_000, "2000-01-02T00:00:00.0000000Z"),
            (2_534_023_007_990_000_000, "9999-12-31T23:59:59.0000000Z"),
            (FIRST_TICK, "0001-01-01T00:00:00.0000000Z"),
            (FIRST_BIN_TICK, "1601-01-01T00:00:00.0000000Z"),
        ];
        for (ticks, text) in cases {
            assert_eq!(format_ticks(ticks), text);
            assert_eq!(parse(text), Some(ticks));
        }
        assert_eq!(format_ticks(PAST_LAST_TICK - 1), "9999-12-31T23:59:59.9999999Z");
    }

    #[test]
    fn the_documented_forms_of_text_are_read() {
        let expected = parse("2020-07-03T00:00:00.0000000Z");
        for text in [
            "2020-07-03T00:00:00.0000000",
            "2020-07-03 00:00:00",
            "2020-07-03T00:00:00Z",
            "2020-07-03",
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
        for bad in [
            "",
            "2020",
            "2020-13-01",
            "2020-02-30",
            "2020-01-01T24:00:00Z",
            "2020-01-01T1:00:00Z",
            "2020-01-01X",
            "2020-01-01T00:00:00.12345678Z",
            "éééé-01-01",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    proptest! {
        #[test]
        fn every_moment_reads_back(ticks in FIRST_TICK..PAST_LAST_TICK) {
            prop_assert_eq!(parse(&format_ticks(ticks)), Some(ticks));
            prop_assert_eq!(Moment::of_ticks(ticks).ticks(), Some(ticks));
        }
    }
}

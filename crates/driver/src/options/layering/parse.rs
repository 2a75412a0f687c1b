//! Text to value, for each shape a setting can have.
//!
//! Each function takes the variable's name and its text, and answers with the value or with what was
//! expected, put as the end of a sentence that begins with "expected".

use std::fmt::Display;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::Duration;

/// `true` or `false`, in any case.
///
/// # Errors
///
/// A description of the expected value.
pub fn boolean(_variable: &str, text: &str) -> Result<bool, String> {
    if text.eq_ignore_ascii_case("true") {
        return Ok(true);
    }
    if text.eq_ignore_ascii_case("false") {
        return Ok(false);
    }
    Err("true or false".to_owned())
}

/// A whole number within the range of its type.
///
/// # Errors
///
/// A description of the expected value.
pub fn integer<T: FromStr + Integer>(_variable: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("a whole number from {} to {}", T::MIN, T::MAX))
}

/// A finite number.
///
/// # Errors
///
/// A description of the expected value.
pub fn number<T: FromStr + Into<f64> + Copy>(_variable: &str, text: &str) -> Result<T, String> {
    let expected = || "a number, such as 0.5".to_owned();
    let value: T = text.parse().map_err(|_| expected())?;
    if value.into().is_finite() { Ok(value) } else { Err(expected()) }
}

/// Anything that implements `FromStr`; its error should say what was expected.
///
/// # Errors
///
/// The sentence of the type's own error.
pub fn text<T: FromStr<Err: Display>>(_variable: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| {
        let sentence = error.to_string();
        match sentence.split_once("expected ") {
            Some((_, expected)) => expected.to_owned(),
            // Errors of the standard library say what was wrong, not what would be right.
            None => format!("another value: {sentence}"),
        }
    })
}

/// Values separated by commas; spaces around them and empty entries do not count.
///
/// # Errors
///
/// A description of the expected value, with the entry that is malformed.
pub fn list<T, C: FromIterator<T>>(
    variable: &str,
    text: &str,
    item: impl Fn(&str, &str) -> Result<T, String>,
) -> Result<C, String> {
    text.split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .map(|entry| {
            item(variable, entry).map_err(|expected| {
                format!("values separated by commas, and for {entry:?} {expected}")
            })
        })
        .collect()
}

/// A length of time: `250ms`, `5s`, `2m`, `1h`, ISO 8601 (`PT1M30S`), or a bare number where the
/// variable's name carries the unit (`…_MS`, `…_SECS`, `…_IN_SECONDS`, `…_IN_MINUTES`).
///
/// # Errors
///
/// A description of the expected value.
pub fn duration(variable: &str, text: &str) -> Result<Duration, String> {
    let unit = Unit::of_variable(variable);
    let value = match unit {
        Some(unit) if is_bare_number(text) => amount(text, unit),
        _ if text.starts_with(['P', 'p']) => iso_8601(text),
        _ => with_suffix(text),
    };
    value.ok_or_else(|| match unit {
        Some(unit) => {
            format!("a number of {}, or a duration such as 250ms, 5s, 2m or PT5S", unit.name())
        }
        None => "a duration such as 250ms, 5s, 2m or PT5S".to_owned(),
    })
}

/// Whole-number types, with the range that an error names.
pub trait Integer {
    /// The smallest value.
    const MIN: i128;
    /// The largest value.
    const MAX: i128;
}

macro_rules! integers {
    ($($integer:ty),*) => {
        $(impl Integer for $integer {
            const MIN: i128 = <$integer>::MIN as i128;
            const MAX: i128 = <$integer>::MAX as i128;
        })*
    };
}
integers!(u8, u16, u32, u64, usize, i8, i16, i32, i64, isize);

impl Integer for NonZeroU32 {
    const MIN: i128 = 1;
    const MAX: i128 = u32::MAX as i128;
}

#[derive(Clone, Copy)]
enum Unit {
    Milliseconds,
    Seconds,
    Minutes,
    Hours,
}

impl Unit {
    fn of_variable(variable: &str) -> Option<Self> {
        // Names end in `_MS`, `_SECS`, `_IN_SECONDS`, `_IN_MINUTES`: the last word is the unit.
        let last = variable.rsplit('_').next()?;
        match last {
            "MS" | "MILLIS" | "MILLISECONDS" => Some(Self::Milliseconds),
            "SECS" | "SECONDS" => Some(Self::Seconds),
            "MINUTES" => Some(Self::Minutes),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Milliseconds => "milliseconds",
            Self::Seconds => "seconds",
            Self::Minutes => "minutes",
            Self::Hours => "hours",
        }
    }

    fn seconds(self) -> f64 {
        match self {
            Self::Milliseconds => 0.001,
            Self::Seconds => 1.0,
            Self::Minutes => 60.0,
            Self::Hours => 3600.0,
        }
    }

    fn milliseconds(self) -> u64 {
        match self {
            Self::Milliseconds => 1,
            Self::Seconds => 1_000,
            Self::Minutes => 60_000,
            Self::Hours => 3_600_000,
        }
    }
}

fn is_bare_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// Whole amounts are exact; fractions go through floating point.
fn amount(number: &str, unit: Unit) -> Option<Duration> {
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(unit.milliseconds()).map(Duration::from_millis);
    }
    is_bare_number(number)
        .then(|| number.parse::<f64>().ok())
        .flatten()
        .and_then(|value| Duration::try_from_secs_f64(value * unit.seconds()).ok())
}

fn with_suffix(text: &str) -> Option<Duration> {
    // A number without a suffix ends here: without a unit in the variable's name it means nothing.
    let end = text.find(|character: char| character.is_ascii_alphabetic())?;
    let (number, suffix) = text.split_at(end);
    let unit = match suffix.to_ascii_lowercase().as_str() {
        "ms" => Unit::Milliseconds,
        "s" => Unit::Seconds,
        "m" => Unit::Minutes,
        "h" => Unit::Hours,
        _ => return None,
    };
    amount(number.trim_end(), unit)
}

/// `P[nD][T[nH][nM][nS]]`: units in this order, each at most once, at least one. Years and months have
/// no fixed length and are refused.
fn iso_8601(text: &str) -> Option<Duration> {
    let upper = text.to_ascii_uppercase();
    let (date, time) = match upper.strip_prefix('P')?.split_once('T') {
        Some((_, "")) => return None,
        Some((date, time)) => (date, time),
        None => (upper.strip_prefix('P')?, ""),
    };
    if date.is_empty() && time.is_empty() {
        return None;
    }
    let days = components(date, &[('D', 24.0 * 3600.0)])?;
    let clock = components(time, &[('H', 3600.0), ('M', 60.0), ('S', 1.0)])?;
    days.checked_add(clock)
}

fn components(mut text: &str, units: &[(char, f64)]) -> Option<Duration> {
    let mut total = Duration::ZERO;
    let mut units = units.iter();
    while !text.is_empty() {
        let end = text.find(|character: char| character.is_ascii_alphabetic())?;
        let (number, rest) = text.split_at(end);
        let designator = rest.chars().next()?;
        // The iterator goes on from the unit found last: out of order, or twice, is not found.
        let (_, seconds) = units.find(|(unit, _)| *unit == designator)?;
        let value: f64 = is_bare_number(number).then(|| number.parse().ok()).flatten()?;
        total = total.checked_add(Duration::try_from_secs_f64(value * seconds).ok()?)?;
        text = &rest[designator.len_utf8()..];
    }
    Some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_take_suffixes_and_iso_8601() {
        for (text, milliseconds) in [
            ("250ms", 250),
            ("5s", 5_000),
            ("1.5 s", 1_500),
            ("2m", 120_000),
            ("1h", 3_600_000),
            ("PT5S", 5_000),
            ("pt0.25s", 250),
            ("PT1M30S", 90_000),
            ("P1DT2H", 93_600_000),
        ] {
            assert_eq!(
                duration("AZURE_COSMOS_X", text),
                Ok(Duration::from_millis(milliseconds)),
                "{text}"
            );
        }
    }

    #[test]
    fn a_bare_number_needs_a_unit_in_the_variable_name() {
        assert_eq!(duration("X_IN_MINUTES", "5"), Ok(Duration::from_secs(300)));
        assert_eq!(duration("X_IN_SECONDS", "5"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("X_SECS", "5"), Ok(Duration::from_secs(5)));
        assert_eq!(duration("X_MS", "5"), Ok(Duration::from_millis(5)));
        assert_eq!(duration("X_MS", "5s"), Ok(Duration::from_secs(5)));
        assert_eq!(
            duration("AZURE_COSMOS_REQUEST_TIMEOUT", "5"),
            Err("a duration such as 250ms, 5s, 2m or PT5S".to_owned())
        );
    }

    #[test]
    fn a_malformed_duration_is_refused() {
        for text in [
            "",
            "s",
            "-5s",
            "5 parsecs",
            "P",
            "PT",
            "P1Y",
            "PT1S1M",
            "PT-1S",
            "1e3s",
            "ms5",
            "9e999s",
            "NaN",
        ] {
            assert!(duration("X", text).is_err(), "{text}");
            assert!(duration("X_MS", text).is_err(), "{text}");
        }
        assert!(duration("X_MS", "99999999999999999999999999").is_err());
        assert!(duration("X_IN_MINUTES", "18446744073709551615").is_err());
    }

    #[test]
    fn numbers_say_their_range() {
        assert_eq!(integer::<u8>("X", "255"), Ok(255));
        assert_eq!(integer::<u8>("X", "256"), Err("a whole number from 0 to 255".to_owned()));
        assert_eq!(number::<f64>("X", "0.5"), Ok(0.5));
        assert!(number::<f64>("X", "inf").is_err());
        assert_eq!(boolean("X", "TRUE"), Ok(true));
        assert_eq!(boolean("X", "yes"), Err("true or false".to_owned()));
    }

    #[test]
    fn a_list_skips_empty_entries_and_names_the_bad_one() {
        assert_eq!(list::<u8, Vec<u8>>("X", "1, 2,,3,", integer), Ok(vec![1, 2, 3]));
        let refused = list::<u8, Vec<u8>>("X", "1,two", integer);
        let sentence = "values separated by commas, and for \"two\" a whole number from 0 to 255";
        assert_eq!(refused, Err(sentence.to_owned()));
    }
}

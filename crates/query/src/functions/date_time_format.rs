//! Custom formats of a date and time, with the specifiers of .NET: what `DATETIMEFORMAT` takes.

use super::date_time::{Moment, TICKS_PER_SECOND, weekday};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

const WEEKDAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Writes a moment in a format; `None` if the format ends in the middle of an escape or a quotation.
///
/// A run of one letter is a specifier, `\x` and `'text'` stand for themselves, and so does everything
/// that is no specifier.
pub(super) fn format(moment: Moment, pattern: &str) -> Option<String> {
    let mut written = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern.chars().peekable();
    while let Some(next) = rest.next() {
        match next {
            '\\' => written.push(rest.next()?),
            '\'' | '"' => loop {
                match rest.next()? {
                    end if end == next => break,
                    literal => written.push(literal),
                }
            },
            letter if is_specifier(letter) => {
                let mut length = 1;
                while rest.next_if_eq(&letter).is_some() {
                    length += 1;
                }
                written.push_str(&specified(moment, letter, length));
            }
            literal => written.push(literal),
        }
    }
    Some(written)
}

fn is_specifier(letter: char) -> bool {
    matches!(letter, 'y' | 'M' | 'd' | 'H' | 'h' | 'm' | 's' | 'f' | 'F' | 't')
}

fn specified(moment: Moment, letter: char, length: usize) -> String {
    let seconds = moment.of_day / TICKS_PER_SECOND;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let padded = |value: i64| format!("{value:0width$}", width = length.min(2));
    match (letter, length) {
        ('y', 1 | 2) => padded(moment.year % 100),
        ('y', _) => format!("{:0length$}", moment.year, length = length.min(7)),
        ('M', 1 | 2) => padded(moment.month),
        ('M', 3) => MONTHS[(moment.month - 1) as usize][..3].to_owned(),
        ('M', _) => MONTHS[(moment.month - 1) as usize].to_owned(),
        ('d', 1 | 2) => padded(moment.day),
        ('d', 3) => WEEKDAYS[weekday(moment) as usize][..3].to_owned(),
        ('d', _) => WEEKDAYS[weekday(moment) as usize].to_owned(),
        ('H', _) => padded(hour),
        ('h', _) => padded((hour + 11) % 12 + 1),
        ('m', _) => padded(minute),
        ('s', _) => padded(second),
        ('f' | 'F', _) => fraction(moment.of_day % TICKS_PER_SECOND, letter == 'F', length),
        _ => (if hour < 12 { "AM" } else { "PM" })[..length.min(2)].to_owned(),
    }
}

/// The first digits of the fraction of a second; `F` leaves out zeros at its end.
fn fraction(ticks: i64, trimmed: bool, length: usize) -> String {
    let digits = format!("{ticks:07}");
    let digits = &digits[..length.min(7)];
    if trimmed { digits.trim_end_matches('0') } else { digits }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::super::date_time::parse;
    use super::*;

    #[test]
    fn the_documented_formats_are_written() {
        let moment = Moment::of_ticks(parse("2024-10-10 14:40:20").unwrap());
        for (pattern, expected) in [
            ("yyyyMMdd", "20241010"),
            ("yyyy-MM-dd [HH:mm:ss]", "2024-10-10 [14:40:20]"),
            (r"To\da\y i\s: yyyy-MM-ddTHH:mm:ss.fff", "Today is: 2024-10-10T14:40:20.000"),
            (r"To\da\y i\s: yyyy-MM-ddTHH:mm:ss.FFF", "Today is: 2024-10-10T14:40:20."),
            ("dddd, d MMMM yy, h:mm tt", "Thursday, 10 October 24, 2:40 PM"),
            ("'day' d", "day 10"),
        ] {
            assert_eq!(format(moment, pattern).as_deref(), Some(expected), "{pattern}");
        }
        assert_eq!(format(moment, "yyyy\\"), None);
        assert_eq!(format(moment, "'open"), None);
    }
}

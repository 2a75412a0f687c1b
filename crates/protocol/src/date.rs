//! Dates as HTTP writes them: `Tue, 01 Nov 1994 08:12:31 GMT`.
//!
//! A date is made from a time the caller read; there is no clock here. Both forms a request needs,
//! as sent and in lower case for the signature, are laid out once.

use std::fmt;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::error::{Error, ErrorKind, Result, excerpt};

/// The length of a date in its only written form.
// IMF-fixdate (RFC 9110, section 5.6.7) has a fixed width.
const LENGTH: usize = 29;

/// The year 10000 does not fit the form.
// 9999-12-31T23:59:59Z.
const LATEST_SECONDS: u64 = 253_402_300_799;

/// A date to the second, in HTTP's form.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct HttpDate {
    text: [u8; LENGTH],
    lower: [u8; LENGTH],
    seconds: u64,
}

impl HttpDate {
    /// The date of a time between 1970 and 9999; fractions of a second are dropped.
    pub fn new(time: SystemTime) -> Result<Self> {
        let seconds = time.duration_since(UNIX_EPOCH).map_or(u64::MAX, |since| since.as_secs());
        if seconds > LATEST_SECONDS {
            return Err(Error::new(
                ErrorKind::Date,
                "a date must lie between the years 1970 and 9999",
            ));
        }
        let date = httpdate::HttpDate::from(UNIX_EPOCH + Duration::from_secs(seconds));
        let mut text = [b' '; LENGTH];
        // The form has a fixed width, so the buffer is filled exactly.
        let _ = std::io::Write::write_fmt(&mut text.as_mut_slice(), format_args!("{date}"));
        Ok(Self { text, lower: text.map(|byte| byte.to_ascii_lowercase()), seconds })
    }

    /// The date as it is sent.
    pub fn as_str(&self) -> &str {
        str::from_utf8(&self.text).unwrap_or_default() // ASCII by construction.
    }

    /// The date as it is signed: in lower case.
    pub fn as_lower(&self) -> &str {
        str::from_utf8(&self.lower).unwrap_or_default() // ASCII by construction.
    }

    /// The time.
    pub fn time(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(self.seconds)
    }
}

impl FromStr for HttpDate {
    type Err = Error;

    /// Reads the form above and the two older ones HTTP still allows.
    fn from_str(text: &str) -> Result<Self> {
        httpdate::parse_http_date(text).ok().and_then(|time| Self::new(time).ok()).ok_or_else(
            || {
                let message = format!(
                    "\"{}\" is not a date: expected one such as Tue, 01 Nov 1994 08:12:31 GMT",
                    excerpt(text).escape_debug()
                );
                Error::new(ErrorKind::Date, message)
            },
        )
    }
}

impl fmt::Display for HttpDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Debug for HttpDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HttpDate({self})")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_date_has_the_one_form_the_service_expects() {
        let date = HttpDate::new(UNIX_EPOCH + Duration::from_millis(784_887_151_900)).unwrap();
        assert_eq!(date.as_str(), "Tue, 15 Nov 1994 08:12:31 GMT");
        assert_eq!(date.as_lower(), "tue, 15 nov 1994 08:12:31 gmt");
    }

    #[test]
    fn older_forms_are_read() {
        let expected: HttpDate = "Sun, 06 Nov 1994 08:49:37 GMT".parse().unwrap();
        assert_eq!("Sunday, 06-Nov-94 08:49:37 GMT".parse(), Ok(expected));
        assert_eq!("Sun Nov  6 08:49:37 1994".parse(), Ok(expected));
    }

    #[test]
    fn a_time_outside_the_form_is_refused() {
        assert!(HttpDate::new(UNIX_EPOCH - Duration::from_secs(1)).is_err());
        assert!(HttpDate::new(UNIX_EPOCH + Duration::from_secs(LATEST_SECONDS + 1)).is_err());
        assert!("yesterday".parse::<HttpDate>().is_err());
    }

    proptest! {
        #[test]
        fn every_date_reads_back(seconds in 0..=LATEST_SECONDS) {
            let date = HttpDate::new(UNIX_EPOCH + Duration::from_secs(seconds)).unwrap();
            prop_assert_eq!(date.to_string().parse(), Ok(date));
            prop_assert_eq!(date.time(), UNIX_EPOCH + Duration::from_secs(seconds));
        }
    }
}

//! Parsers of values that several commands take.

use std::convert::Infallible;
use std::time::Duration;

use sidereal_protocol::Secret;

/// Takes any text: nothing about a secret may end up in a message.
pub(crate) fn secret(text: &str) -> Result<Secret, Infallible> {
    Ok(Secret::from(text))
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "expected a time such as 20ms or 2s".to_owned())
}

/// A number of bytes, with a decimal or a binary unit.
pub(crate) fn bytes(text: &str) -> Result<usize, String> {
    let end = text.find(|it: char| !it.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor: usize = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" => 1_000,
        "m" | "mb" => 1_000_000,
        "kib" => 1 << 10,
        "mib" => 1 << 20,
        _ => 0,
    };
    let number: Option<usize> = number.parse().ok();
    let bytes = number.and_then(|number| number.checked_mul(factor)).filter(|_| factor > 0);
    bytes.ok_or_else(|| "expected a size such as 64KB or 1MB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(bytes("17"), Ok(17));
        assert_eq!(bytes("64KB"), Ok(64_000));
        assert_eq!(bytes("1 MB"), Ok(1_000_000));
        assert_eq!(bytes("1MiB"), Ok(1 << 20));
        for wrong in ["", "MB", "1 GB?", "-1", "1.5MB", "99999999999999999999"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}

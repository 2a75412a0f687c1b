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

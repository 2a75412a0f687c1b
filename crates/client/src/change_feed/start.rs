//! From where on changes are read.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderValue;
use sidereal_protocol::HttpDate;

use crate::{Error, Result};

/// From where on changes are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeFeedStart {
    /// From the first change of the container on: every item that is there, and every change after.
    #[default]
    Beginning,
    /// From now on: what changes after the feed is first read.
    Now,
    /// From a moment on, to the second.
    At(SystemTime),
}

impl ChangeFeedStart {
    /// The moment as the service takes it, in seconds.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest) if the time cannot be written as a header.
    pub(super) fn since(self) -> Result<Option<u64>> {
        let Self::At(moment) = self else { return Ok(None) };
        let seconds = moment.duration_since(UNIX_EPOCH).map(|it| it.as_secs());
        let seconds = seconds.map_err(|_| Error::invalid("a change feed begins after 1970"))?;
        since_header(seconds)?;
        Ok(Some(seconds))
    }
}

/// `If-Modified-Since`.
pub(super) fn since_header(seconds: u64) -> Result<HeaderValue> {
    let refused = || Error::invalid("no header can say the moment at which the feed is to begin");
    let moment = UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).ok_or_else(refused)?;
    let date = HttpDate::new(moment)?;
    HeaderValue::from_str(date.as_str()).map_err(|_| refused())
}

/// How far one range was read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum Position {
    /// Not at all.
    #[default]
    Start,
    /// After the page that came with this etag.
    After(String),
}

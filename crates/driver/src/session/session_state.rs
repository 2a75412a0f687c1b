//! The position of a replica's log, as one response tells it.

use std::fmt;

use sidereal_protocol::headers::ResponseAccounting;

/// The position of an entry in a partition's log (LSN).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LogSequenceNumber(i64);

impl LogSequenceNumber {
    /// The number.
    #[must_use]
    pub fn value(self) -> i64 {
        self.0
    }
}

impl From<i64> for LogSequenceNumber {
    fn from(value: i64) -> Self {
        Self(value)
    }
}

impl fmt::Display for LogSequenceNumber {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The position of the replica that answered, in the log of its partition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionState {
    /// The last entry that it has applied.
    pub lsn: Option<LogSequenceNumber>,
    /// The last entry that every region has.
    pub global_committed_lsn: Option<LogSequenceNumber>,
}

impl SessionState {
    /// As a response tells it.
    #[must_use]
    pub fn of(response: &ResponseAccounting<'_>) -> Self {
        Self {
            lsn: response.lsn.map(LogSequenceNumber),
            global_committed_lsn: response.global_committed_lsn.map(LogSequenceNumber),
        }
    }
}

//! Durations for people, in decisions and in diagnostics.

use std::fmt;
use std::time::Duration;

/// A duration as people read it: `0.42 ms`, `46.00 ms`, `12.5 s`.
pub(crate) struct Brief(pub(crate) Duration);

impl fmt::Display for Brief {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        match seconds < 10.0 {
            true => write!(formatter, "{:.2} ms", seconds * 1_000.0),
            false => write!(formatter, "{seconds:.1} s"),
        }
    }
}

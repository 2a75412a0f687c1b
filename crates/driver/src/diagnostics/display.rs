//! Diagnostics for people: a headline, then a line for each attempt.

use std::fmt;
use std::time::Duration;

use super::{DiagnosticsContext, RequestDiagnostics};
use crate::brief_duration::Brief;
use crate::exchange::RequestSentStatus;

impl fmt::Display for DiagnosticsContext {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status() {
            Some(status) => write!(formatter, "{status}")?,
            None => formatter.write_str("no status")?,
        }
        let count = self.attempts().len() + self.attempts_left_out();
        let plural = if count == 1 { "" } else { "s" };
        let (elapsed, charge, id) = (Brief(self.elapsed()), self.charge(), self.activity_id());
        write!(
            formatter,
            " after {elapsed}: {count} attempt{plural}, {charge:.2} RU, activity {id}"
        )?;
        for (position, attempt) in self.attempts().iter().enumerate() {
            let after = Brief(attempt.started.saturating_duration_since(self.started()));
            write!(formatter, "\n  {}. ", position + 1)?;
            Line { attempt, after }.fmt(formatter)?;
        }
        if self.attempts_left_out() > 0 {
            let left_out = self.attempts_left_out();
            write!(formatter, "\n  {left_out} attempts before the last are left out")?;
        }
        self.warnings().iter().try_for_each(|it| write!(formatter, "\n  warning: {it}"))?;
        match self.machine() {
            Some(machine) => write!(formatter, "\n  machine: {machine}"),
            None => Ok(()),
        }
    }
}

/// An attempt, and how long after the operation it started.
struct Line<'a> {
    attempt: &'a RequestDiagnostics,
    after: Brief,
}

impl fmt::Display for Line<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { attempt, after } = self;
        write!(formatter, "{} at {after}, ", attempt.execution_context.as_str())?;
        target(attempt, formatter)?;
        formatter.write_str(": ")?;
        outcome(attempt, formatter)?;
        formatter.write_str("; ")?;
        timings(attempt, formatter)?;
        match &attempt.decision {
            Some(decision) => write!(formatter, "; {decision}"),
            None => Ok(()),
        }
    }
}

fn target(attempt: &RequestDiagnostics, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    match &attempt.region {
        Some(region) => write!(formatter, "{region} ({})", attempt.endpoint)?,
        None => write!(formatter, "{}", attempt.endpoint)?,
    }
    if let Some(range) = &attempt.partition_range {
        write!(formatter, ", range {range}")?;
    }
    if let Some(shard) = attempt.shard {
        write!(formatter, ", shard {shard}")?;
    }
    match attempt.protocol {
        Some(protocol) => write!(formatter, ", {protocol}"),
        None => Ok(()),
    }
}

fn outcome(attempt: &RequestDiagnostics, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    match attempt.status {
        Some(status) => write!(formatter, "{status}")?,
        None => formatter.write_str("no answer")?,
    }
    if let Some(charge) = attempt.charge {
        write!(formatter, ", {charge:.2} RU")?;
    }
    if let Some(lsn) = attempt.session.lsn {
        write!(formatter, ", LSN {lsn}")?;
    }
    if let Some(failure) = &attempt.failure {
        write!(formatter, ", {failure} ({})", attempt.request_sent)?;
    }
    match attempt.elapsed() {
        Some(_) => Ok(()),
        None => write!(formatter, ", left while {}{}", attempt.phase(), left_behind(attempt)),
    }
}

/// Whether an attempt that was left may still be carried out.
fn left_behind(attempt: &RequestDiagnostics) -> &'static str {
    match (&attempt.failure, attempt.request_sent) {
        (None, RequestSentStatus::MaybeSent) => " (maybe sent)",
        (None, RequestSentStatus::NotSent | RequestSentStatus::NotProcessed) => " (not sent)",
        (Some(_), _) => "",
    }
}

fn timings(attempt: &RequestDiagnostics, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    // A wait of zero is the usual case and would only lengthen the line.
    let waited = |wait: Duration| (wait > Duration::ZERO).then_some(wait);
    let times = [
        ("queued", waited(attempt.queued())),
        ("connecting", waited(attempt.connecting())),
        ("headers", attempt.time_to_headers()),
        ("service", attempt.server_duration),
        ("total", attempt.elapsed()),
    ];
    let mut known = times.into_iter().filter_map(|(name, time)| Some((name, time?)));
    match known.next() {
        Some((name, time)) => write!(formatter, "{name} {}", Brief(time))?,
        None => formatter.write_str("not timed")?,
    }
    known.try_for_each(|(name, time)| write!(formatter, ", {name} {}", Brief(time)))
}

//! Lines for a pipe or a file: what happens to the account, and each phase when it is over.

use std::time::Duration;

use super::Picture;
use super::table::{milliseconds, shares};
use crate::error::DemoError;
use crate::observe::PhaseTotals;
use crate::print::print;
use crate::schedule::Action;

/// Lines, and how many phases they have told of.
#[derive(Debug, Default)]
pub(crate) struct Plain {
    told: usize,
}

impl Plain {
    pub(super) fn act(&mut self, at: Duration, action: &Action) -> Result<(), DemoError> {
        print(&format!("{:>6.2}s  {action}\n", at.as_secs_f64()))
    }

    /// Tells of the phases that are over.
    pub(super) fn draw(&mut self, picture: &Picture<'_>) -> Result<(), DemoError> {
        while self.told < picture.schedule.phase_at(picture.at) {
            let timeline = picture.timeline;
            let told = line(&timeline.phases[self.told]);
            let traffic = shares(&timeline.regions, &timeline.phases[self.told].requests);
            print(&format!("         {told}; {traffic}\n"))?;
            self.told += 1;
        }
        Ok(())
    }
}

fn line(phase: &PhaseTotals) -> String {
    let counted = &phase.counted;
    let mut line = format!(
        "{}: {} operations, {} failed, reads p50 {} p99 {} ms",
        phase.kind.name(),
        counted.operations(),
        counted.failed(),
        milliseconds(counted.reads.latency.percentile(0.5)),
        milliseconds(counted.reads.latency.percentile(0.99)),
    );
    for (count, word) in [(counted.failovers(), "failovers"), (counted.hedges(), "hedges")] {
        if count > 0 {
            line.push_str(&format!(", {count} {word}"));
        }
    }
    line
}

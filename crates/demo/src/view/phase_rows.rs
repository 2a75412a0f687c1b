//! The cells of a phase's row: equal on a terminal and on the page.

use super::table::{milliseconds, percentages, thousands};
use crate::observe::{Calls, PhaseTotals, Timeline};

/// The application's observations in each phase.
pub(crate) fn calls(timeline: &Timeline) -> Vec<Vec<String>> {
    let row = |phase: &PhaseTotals| {
        let counted = &phase.counted;
        let at = |calls: &Calls, share| milliseconds(calls.latency.percentile(share));
        vec![
            phase.kind.name().to_owned(),
            thousands(counted.operations()),
            thousands(counted.failed()),
            at(&counted.reads, 0.5),
            at(&counted.reads, 0.99),
            at(&counted.writes, 0.5),
            at(&counted.writes, 0.99),
            thousands(counted.failovers()),
            thousands(counted.hedges()),
        ]
    };
    timeline.phases.iter().map(row).collect()
}

/// The service's counters in each phase, the regions' shares last.
pub(crate) fn requests(timeline: &Timeline) -> Vec<Vec<String>> {
    let row = |phase: &PhaseTotals| {
        let mut row = vec![
            phase.kind.name().to_owned(),
            thousands(phase.requests.iter().sum()),
            thousands(phase.charge as u64),
            thousands(phase.completed),
        ];
        row.extend(percentages(&phase.requests).iter().map(|share| format!("{share:.0} %")));
        row
    };
    timeline.phases.iter().map(row).collect()
}

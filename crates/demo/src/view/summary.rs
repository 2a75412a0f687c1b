//! Texts before a run and after it: the settings, the tables of the phases, the verdict.

use super::Opening;
use super::phase_rows;
use super::table::table;
use crate::director::distance_ms;
use crate::forced::ForcedChange;
use crate::observe::Timeline;
use crate::stage::{Adjustment, adjustments};
use crate::verdict::Verdict;
use crate::workload::PLAIN_PER_ORCHESTRATION;

/// The subject of a run, and the settings that differ from the defaults.
pub(super) fn opening(opening: &Opening<'_>) -> String {
    let Opening { seed, duration, rate, regions, schedule } = opening;
    let region = |(number, region): (usize, &_)| format!("{region} ({} ms)", distance_ms(number));
    let names: Vec<String> = regions.iter().enumerate().map(region).collect();
    let line =
        |it: &Adjustment| format!("  {:<10} {:<56} (usually {})\n", it.what, it.here, it.usually);
    let settings: String = adjustments(&schedule.windows).iter().map(line).collect();
    format!(
        "\
An account with {count} regions, each at its distance from the application:
  {names}
{rate} orchestrations and {plain} plain reads and writes a second for {duration}, seed {seed}.
Seconds stand for minutes here, so these settings are not the usual ones:
{settings}
",
        count = names.len(),
        names = names.join(", "),
        plain = rate * PLAIN_PER_ORCHESTRATION,
        duration = humantime::format_duration(*duration),
    )
}

/// The tables of the phases, the forced change, and the verdict.
pub(crate) fn summary(timeline: &Timeline, forced: &ForcedChange, verdict: &Verdict) -> String {
    let mut text = String::new();
    text.push_str("\nWhat the application saw, as its client reports it (latencies in ms)\n\n");
    text.push_str(&calls(timeline));
    text.push_str("\nWhat the service counted\n\n");
    text.push_str(&requests(timeline));
    text.push_str(&failures(timeline));
    text.push_str(&forced_change(forced));
    text.push_str(&verdict_text(verdict));
    text
}

fn calls(timeline: &Timeline) -> String {
    let heads = [
        "phase",
        "operations",
        "failed",
        "read p50",
        "p99",
        "write p50",
        "p99",
        "failovers",
        "hedges",
    ];
    table(&heads.map(str::to_owned), &phase_rows::calls(timeline))
}

fn requests(timeline: &Timeline) -> String {
    let mut heads = ["phase", "requests", "RU", "orchestrations"].map(str::to_owned).to_vec();
    heads.extend(timeline.regions.iter().map(ToString::to_string));
    table(&heads, &phase_rows::requests(timeline))
}

/// The failed calls, in the client's words.
fn failures(timeline: &Timeline) -> String {
    let counted = timeline.counted();
    if counted.failures.is_empty() {
        return String::new();
    }
    let line = |(sentence, times): (&String, &u64)| format!("  {times} × {sentence}\n");
    let lines: String = counted.failures.iter().map(line).collect();
    format!("\nFailures that the client reported\n\n{lines}")
}

fn forced_change(forced: &ForcedChange) -> String {
    let ForcedChange { from, to, acknowledged, lost, left, problem } = forced;
    let heads = ["container", "range", "LSN", "items"].map(str::to_owned);
    let row = |write: &sidereal_emulator::LostWrite| {
        vec![
            format!("{}/{}", write.database, write.container),
            write.range.clone(),
            write.lsn.to_string(),
            write.items.join(" "),
        ]
    };
    let rows: Vec<Vec<String>> = lost.iter().map(row).collect();
    let problem = problem.as_ref().map(|problem| format!("\n  ✗ {problem}\n")).unwrap_or_default();
    format!(
        "\nA forced change of the write region, on an account of its own: from {from} to {to},\n\
         while replication lags. {acknowledged} writes were acknowledged, {left} are there. Lost, as the service lists them:\n\n{}{problem}",
        table(&heads, &rows),
    )
}

fn verdict_text(verdict: &Verdict) -> String {
    let mark = if verdict.is_kept() { "✓" } else { "✗" };
    let sentences: String =
        verdict.sentences.iter().map(|sentence| format!("  ✗ {sentence}\n")).collect();
    let more = verdict.problems - verdict.sentences.len();
    let more = if more > 0 { format!("  … and {more} more\n") } else { String::new() };
    format!("\n{sentences}{more}{mark} {}\n", verdict.summary())
}

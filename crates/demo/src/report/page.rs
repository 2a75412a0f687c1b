//! The page: verdict first, then the charts, the tables, and how all of it was counted.

use std::time::Duration;

use sidereal_protocol::RegionName;

use super::{charts, escaped, tables};
use crate::forced::ForcedChange;
use crate::observe::Timeline;
use crate::schedule::Schedule;
use crate::verdict::Verdict;

const STYLE: &str = include_str!("style.css");

/// The contents of a report.
pub(crate) struct Report<'a> {
    pub(crate) seed: u64,
    pub(crate) duration: Duration,
    pub(crate) rate: u32,
    pub(crate) schedule: &'a Schedule,
    pub(crate) timeline: &'a Timeline,
    pub(crate) forced: &'a ForcedChange,
    pub(crate) verdict: &'a Verdict,
}

/// The page of a run.
pub(crate) fn page(report: &Report<'_>) -> String {
    let Report { schedule, timeline, forced, .. } = report;
    let body = [
        header(report),
        verdict(report.verdict, forced),
        format!("<section><h2>The run</h2>{}</section>", charts::charts(schedule, timeline)),
        format!(
            "<section><h2>Phase by phase</h2>{}{}{}{}</section>",
            tables::calls(timeline),
            tables::requests(timeline),
            failures(timeline),
            tables::steps(schedule)
        ),
        forced_change(forced),
        method(report),
    ];
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <link rel=\"icon\" href=\"data:,\">\n\
         <title>Sidereal demo, seed {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n{}\n</main>\n</body>\n</html>\n",
        report.seed,
        body.join("\n")
    )
}

fn header(report: &Report<'_>) -> String {
    let regions: Vec<&str> = report.timeline.regions.iter().map(RegionName::as_str).collect();
    let duration = humantime::format_duration(report.duration).to_string().replace(' ', "");
    let command = format!(
        "sidereal demo --seed {} --duration {duration} --rate {} --regions \"{}\"",
        report.seed,
        report.rate,
        regions.join(",")
    );
    format!(
        "<header><h1>Sidereal demo</h1><p>Durable orchestrations on an account with {} regions, while a partition, a \
         region and the write region fail.</p><p><code>{}</code></p></header>",
        regions.len(),
        escaped(&command)
    )
}

fn verdict(verdict: &Verdict, forced: &ForcedChange) -> String {
    let is_kept = verdict.is_kept() && forced.problem.is_none();
    let (class, heading) = match is_kept {
        true => ("kept", "Exactly once"),
        false => ("broken", "Not as it must be"),
    };
    let sentences = verdict.sentences.iter().chain(&forced.problem);
    let list: String = sentences.map(|it| format!("<li>{}</li>", escaped(it))).collect();
    let list = if list.is_empty() { String::new() } else { format!("<ul>{list}</ul>") };
    let summary = verdict.summary();
    let mut letters = summary.chars();
    let first: String = letters.next().map(|it| it.to_uppercase().collect()).unwrap_or_default();
    format!(
        "<section id=\"verdict\" class=\"verdict {class}\"><h2>{heading}</h2><p>{}.</p>{list}</section>",
        escaped(&format!("{first}{}", letters.as_str()))
    )
}

/// The failed calls, in the client's words.
fn failures(timeline: &Timeline) -> String {
    let counted = timeline.counted();
    if counted.failures.is_empty() {
        return "<p>No call failed.</p>".to_owned();
    }
    let line =
        |(sentence, times): (&String, &u64)| format!("<li>{times} × {}</li>", escaped(sentence));
    let lines: String = counted.failures.iter().map(line).collect();
    format!("<p>Failures that the client reported:</p><ul>{lines}</ul>")
}

fn forced_change(forced: &ForcedChange) -> String {
    let ForcedChange { from, to, acknowledged, left, .. } = forced;
    format!(
        "<section><h2>A forced change of the write region</h2><p>The run above hands writes over gracefully, which loses \
         nothing. A region that does not come back leaves no such choice. On an account of its own, {acknowledged} writes \
         were acknowledged in {}, some of them while replication was paused; then the write region was forced to {}. \
         {left} items are left, and the service names what is gone.</p>{}</section>",
        escaped(from.as_str()),
        escaped(to.as_str()),
        tables::lost(forced)
    )
}

fn method(report: &Report<'_>) -> String {
    format!(
        "<section><h2>How it was counted</h2><p>Every request went over a socket. Requests, request units and completed \
         orchestrations are the service's own counters; latencies are measured around the application's calls; failovers \
         and hedges come from the diagnostics of those calls. What the orchestrations left behind was read within the \
         process, without the client, and compared with what follows from the seed.</p>{}</section>",
        tables::adjustments(&report.schedule.windows)
    )
}

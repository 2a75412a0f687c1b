//! The live picture of a run, as lines of styled text. Pure: what is written to a terminal is `live.rs`'s.

use std::time::Duration;

use super::Picture;
use super::table::{milliseconds, percentages, thousands};
use crate::director::Condition;
use crate::observe::{CallSummary, Sample};

/// The widest frame that is drawn; wider terminals stay empty on the right.
const WIDEST: usize = 100;

/// How many samples a number that is shown is about: one alone would flicker.
const SMOOTHED: usize = 3;

/// Heights of a sparkline, from low to high.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// How a piece of text looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Style {
    Plain,
    Bold,
    Faint,
    Good,
    Warning,
    Bad,
    /// A region's own colour.
    Region(usize),
}

/// A piece of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) text: String,
    pub(super) style: Style,
}

/// A line of the frame.
pub(super) type Line = Vec<Span>;

fn span(text: impl Into<String>, style: Style) -> Span {
    Span { text: text.into(), style }
}

/// Draws a picture for a terminal of some width.
pub(super) fn frame(picture: &Picture<'_>, columns: usize) -> Vec<Line> {
    let width = columns.saturating_sub(1).min(WIDEST);
    let mut lines = vec![Vec::new(), progress(picture, width), Vec::new()];
    lines.extend(regions(picture, width));
    lines.push(Vec::new());
    lines.push(latency("reads ", picture, width, |sample| &sample.reads));
    lines.push(latency("writes", picture, width, |sample| &sample.writes));
    lines.push(Vec::new());
    lines.push(orchestrations(picture));
    lines.push(client(picture));
    lines.into_iter().map(|line| fitted(line, width)).collect()
}

/// The bar of the phases, and the name of the one under way.
fn progress(picture: &Picture<'_>, width: usize) -> Line {
    let phases = &picture.schedule.phases;
    let end = phases.last().map(|phase| phase.end).unwrap_or_default();
    let current = picture.schedule.phase_at(picture.at);
    let name = match picture.at >= end {
        true => "waiting for what was started",
        false => phases[current].kind.name(),
    };
    let label = format!("  {:>4.1} s  {name}", picture.at.as_secs_f64());
    let cells = width.saturating_sub(label.chars().count().max(32) + 2);
    let done = picture.at.as_secs_f64() / end.as_secs_f64().max(f64::EPSILON);
    let cell = |number: usize| {
        let moment = end.mul_f64((number as f64 + 0.5) / cells.max(1) as f64);
        let phase = &phases[picture.schedule.phase_at(moment)];
        let is_done = (number as f64 + 0.5) / cells.max(1) as f64 <= done;
        let style = match (is_done, phase.kind.is_disturbed()) {
            (false, _) => Style::Faint,
            (true, true) => Style::Warning,
            (true, false) => Style::Good,
        };
        span(if is_done { "━" } else { "─" }, style)
    };
    let mut line = vec![span("  ", Style::Plain)];
    line.extend(merged((0..cells).map(cell)));
    line.push(span(label, Style::Bold));
    line
}

/// Joins neighbours of the same style.
fn merged(spans: impl Iterator<Item = Span>) -> Line {
    let mut line: Line = Vec::new();
    for next in spans {
        match line.last_mut() {
            Some(last) if last.style == next.style => last.text.push_str(&next.text),
            _ => line.push(next),
        }
    }
    line
}

fn regions(picture: &Picture<'_>, width: usize) -> Vec<Line> {
    let timeline = picture.timeline;
    let recent = recent(picture);
    let sum = |region: usize| recent.iter().map(|sample| sample.requests[region]).sum::<u64>();
    let requests: Vec<u64> = (0..timeline.regions.len()).map(sum).collect();
    let lasted: Duration = recent.iter().map(|sample| sample.lasted).sum();
    let shares = percentages(&requests);
    let writes_in = recent.last().map(|sample| sample.writes_in);
    let names = timeline.regions.iter().map(|region| region.as_str().chars().count());
    let name_width = names.max().unwrap_or_default().clamp(6, 20);
    let bar_width = width.saturating_sub(name_width + 46).clamp(6, 30);
    let head = format!(
        "  {:<name_width$}  {:<19}  {:<6}  {:<bar_width$}  share  req/s",
        "region", "health", "writes", "traffic"
    );
    let row = |(number, region): (usize, &sidereal_protocol::RegionName)| {
        let (mark, words) = health(&picture.conditions[number]);
        let filled = (shares[number] / 100.0 * bar_width as f64).round() as usize;
        let rate = requests[number] as f64 / lasted.as_secs_f64().max(0.001);
        vec![
            span(format!("  {:<name_width$.name_width$}  ", region.as_str()), Style::Bold),
            span("● ", mark),
            span(format!("{words:<17.17}  "), Style::Plain),
            span(
                format!("{:<6}  ", if writes_in == Some(number) { "✎" } else { "" }),
                Style::Plain,
            ),
            span("█".repeat(filled), Style::Region(number)),
            span("·".repeat(bar_width - filled), Style::Faint),
            span(format!("  {:>3.0} %  {rate:>5.0}", shares[number]), Style::Plain),
        ]
    };
    let rows = timeline.regions.iter().enumerate().map(row);
    std::iter::once(vec![span(head, Style::Faint)]).chain(rows).collect()
}

/// The look of a region's condition.
fn health(condition: &Condition) -> (Style, String) {
    match condition {
        Condition::Healthy => (Style::Good, "healthy".to_owned()),
        Condition::PartitionSick(range) => (Style::Warning, format!("partition {range} sick")),
        Condition::Slow(by) => (Style::Warning, format!("{} ms slower", by.as_millis())),
        Condition::Down => (Style::Bad, "down".to_owned()),
    }
}

fn latency(
    word: &str,
    picture: &Picture<'_>,
    width: usize,
    calls: impl Fn(&Sample) -> &CallSummary,
) -> Line {
    let last = picture.timeline.samples.iter().rev().map(&calls).find(|calls| calls.p50.is_some());
    let last = last.copied().unwrap_or_default();
    let numbers = format!(
        "  {word}  p50 {:>5} ms  p99 {:>5} ms  ",
        milliseconds(last.p50),
        milliseconds(last.p99)
    );
    let cells = width.saturating_sub(numbers.chars().count() + 6).min(56);
    let samples = &picture.timeline.samples;
    let from = samples.len().saturating_sub(cells);
    let p99: Vec<Option<Duration>> =
        samples[from..].iter().map(|sample| calls(sample).p99).collect();
    vec![
        span(numbers, Style::Plain),
        span("p99 ", Style::Faint),
        span(sparkline(&p99), Style::Region(0)),
    ]
}

/// Latencies as heights. Logarithmic: milliseconds and seconds are both seen.
fn sparkline(latencies: &[Option<Duration>]) -> String {
    let height = |latency: &Option<Duration>| match latency {
        None => ' ',
        Some(latency) => {
            let ms = latency.as_secs_f64() * 1e3;
            let level = (ms.max(1.0).log2() * 0.8) as usize;
            BARS[level.min(BARS.len() - 1)]
        }
    };
    latencies.iter().map(height).collect()
}

fn orchestrations(picture: &Picture<'_>) -> Line {
    let completed = picture.timeline.completed();
    let charge: f64 = picture.timeline.phases.iter().map(|phase| phase.charge).sum();
    vec![
        span("  orchestrations  ", Style::Plain),
        span(thousands(completed), Style::Bold),
        span(format!(" completed of {} started", thousands(picture.started.into())), Style::Plain),
        span(format!("   {} RU", thousands(charge as u64)), Style::Plain),
        span("   as the service counts", Style::Faint),
    ]
}

fn client(picture: &Picture<'_>) -> Line {
    let counted = picture.timeline.counted();
    let failed = counted.failed();
    vec![
        span("  operations  ", Style::Plain),
        span(thousands(counted.operations()), Style::Bold),
        span(
            format!("  {} failed", thousands(failed)),
            if failed == 0 { Style::Good } else { Style::Bad },
        ),
        span(
            format!(
                "   failovers {}   hedges {}",
                thousands(counted.failovers()),
                thousands(counted.hedges())
            ),
            Style::Plain,
        ),
        span("   as the client reports", Style::Faint),
    ]
}

fn recent<'a>(picture: &Picture<'a>) -> &'a [Sample] {
    let samples = &picture.timeline.samples;
    &samples[samples.len().saturating_sub(SMOOTHED)..]
}

/// A line cut to the width.
fn fitted(line: Line, width: usize) -> Line {
    let mut left = width;
    let cut = |span: Span| {
        let text: String = span.text.chars().take(left).collect();
        left -= text.chars().count();
        Span { text, ..span }
    };
    line.into_iter().map(cut).filter(|span| !span.text.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use sidereal_protocol::RegionName;

    use super::*;
    use crate::observe::Timeline;
    use crate::schedule::{Schedule, schedule};

    fn parts() -> (Schedule, Timeline) {
        let regions: Vec<RegionName> = ["West US", "East US"].map(RegionName::from).into();
        let schedule = schedule(1, Duration::from_secs(20), &regions);
        let mut timeline = Timeline::new(regions, &schedule);
        timeline.samples.push(Sample {
            at: Duration::from_secs(7),
            lasted: Duration::from_millis(200),
            requests: vec![75, 25],
            writes_in: 0,
            charge: 10.0,
            completed: 3,
            reads: CallSummary {
                failed: 0,
                p50: Some(Duration::from_millis(2)),
                p99: Some(Duration::from_millis(64)),
            },
            writes: CallSummary::default(),
            hedges: 1,
            failovers: 0,
        });
        (schedule, timeline)
    }

    fn drawn(columns: usize, at: Duration) -> Vec<String> {
        let (schedule, timeline) = parts();
        let conditions = [Condition::Slow(Duration::from_millis(200)), Condition::Down];
        let (schedule, timeline) = (&schedule, &timeline);
        let picture = Picture { at, schedule, timeline, conditions: &conditions, started: 4 };
        let text = |line: Line| line.into_iter().map(|span| span.text).collect();
        frame(&picture, columns).into_iter().map(text).collect()
    }

    #[test]
    fn a_frame_says_how_each_region_is_and_what_share_it_has() {
        let lines = drawn(100, Duration::from_secs(7));
        let of = |name: &str| lines.iter().find(|line| line.contains(name)).unwrap();
        assert!(of("West US").contains("200 ms slower") && of("West US").contains("75 %"));
        assert!(of("West US").contains('✎'), "it takes the writes");
        assert!(of("East US").contains("down") && of("East US").contains("25 %"));
        assert!(of("reads").contains("p50   2.0 ms  p99    64 ms"), "{}", of("reads"));
        assert!(of("orchestrations").contains("3 completed of 4 started"));
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        for columns in [0, 1, 20, 60, 80, 100, 300] {
            for line in drawn(columns, Duration::from_secs(7)) {
                assert!(line.chars().count() <= columns, "{columns}: {line}");
            }
        }
    }

    #[test]
    fn after_the_schedule_it_says_what_is_waited_for() {
        let lines = drawn(100, Duration::from_secs(21));
        assert!(lines[1].contains("waiting for what was started"), "{}", lines[1]);
    }

    #[test]
    fn a_sparkline_rises_with_the_latency() {
        let ms = |ms| Some(Duration::from_millis(ms));
        assert_eq!(sparkline(&[None, ms(1), ms(8), ms(300), ms(5_000)]), " ▁▃▇█");
    }
}

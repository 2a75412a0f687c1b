//! The charts of a run: what is drawn, from the timeline.

use std::time::Duration;

use super::escaped;
use super::plot::{Band, Plot, Scale};
use crate::observe::{CallSummary, Sample, Timeline};
use crate::schedule::Schedule;

/// Samples are joined until they last so long: what happens at a phase's end is sampled beside the clock.
const LEAST: Duration = Duration::from_millis(150);

/// A chart with its heading and its legend.
fn figure(heading: &str, legend: &[(String, String)], svg: &str, note: &str) -> String {
    let entry = |(class, name): &(String, String)| {
        format!("<li><span class=\"key {class}\"></span>{}</li>", escaped(name))
    };
    let legend: String = legend.iter().map(entry).collect();
    format!(
        "<figure><figcaption><h3>{}</h3><ul class=\"legend\">{legend}</ul></figcaption>\
         <div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"{}\">{svg}</div>\
         <p class=\"note\">{}</p></figure>",
        escaped(heading),
        escaped(heading),
        escaped(note)
    )
}

/// All charts of a run.
pub(super) fn charts(schedule: &Schedule, timeline: &Timeline) -> String {
    let joined = joined(&timeline.samples);
    let chart = Charts { schedule, timeline, bands: bands(schedule, &joined), joined };
    [chart.traffic(), chart.reads(), chart.writes(), chart.reactions(), chart.work()].concat()
}

struct Charts<'a> {
    schedule: &'a Schedule,
    timeline: &'a Timeline,
    bands: Vec<Band>,
    joined: Vec<Sample>,
}

impl Charts<'_> {
    fn plot(&self, id: &str, texts: (&str, &str), scale: Scale) -> Plot {
        let mut plot = Plot::new(id, texts, &self.bands, scale);
        for step in &self.schedule.steps {
            plot.mark(step.at.as_secs_f64(), &step.action.to_string());
        }
        plot
    }

    /// Requests each second by region, one on top of another.
    fn traffic(&self) -> String {
        let rates: Vec<(f64, Vec<f64>)> = self.joined.iter().map(rates).collect();
        let most = rates.iter().map(|(_, rates)| rates.iter().sum()).fold(0.0, f64::max);
        let texts = (
            "Requests each second by region",
            "Stacked areas, one for each region: where the requests of the application went over time.",
        );
        let mut plot = self.plot("traffic", texts, Scale::up_to(most));
        let regions = &self.timeline.regions;
        for number in 0..regions.len() {
            let point = |(second, rates): &(f64, Vec<f64>)| {
                let below: f64 = rates[..number].iter().sum();
                (*second, below, below + rates[number])
            };
            plot.area(&format!("r{number}"), &rates.iter().map(point).collect::<Vec<_>>());
        }
        let legend = regions.iter().enumerate();
        let legend: Vec<_> =
            legend.map(|(at, name)| (format!("r{at}"), name.to_string())).collect();
        let note = "Counted by the service, at each region's endpoint.";
        figure("Requests per second, by region", &legend, &plot.finish(), note)
    }

    fn reads(&self) -> String {
        let note = "Measured by the application around each call. A read may be sent to another region beside a slow one.";
        self.latency("reads", "Latency of reads (ms)", note, |sample| &sample.reads)
    }

    fn writes(&self) -> String {
        let note = "Measured by the application around each call. One region accepts writes: a write waits for it.";
        self.latency("writes", "Latency of writes (ms)", note, |sample| &sample.writes)
    }

    /// Percentiles on a logarithmic scale: milliseconds and seconds are both seen.
    fn latency(
        &self,
        id: &str,
        heading: &str,
        note: &str,
        calls: impl Fn(&Sample) -> &CallSummary,
    ) -> String {
        let points = |of: &dyn Fn(&CallSummary) -> Option<Duration>| -> Vec<(f64, Option<f64>)> {
            let value = |sample: &Sample| of(calls(sample)).map(|it| it.as_secs_f64() * 1e3);
            self.joined.iter().map(|sample| (sample.at.as_secs_f64(), value(sample))).collect()
        };
        let (p50, p99) = (points(&|it| it.p50), points(&|it| it.p99));
        let scale = Scale::around(p50.iter().chain(&p99).filter_map(|(_, value)| *value));
        let texts =
            (heading, "Two lines over time, on a logarithmic scale: median and 99th percentile.");
        let mut plot = self.plot(id, texts, scale);
        plot.line("p99", &p99);
        plot.line("p50", &p50);
        let legend = [("p50", "median"), ("p99", "99th percentile")];
        let legend = legend.map(|(class, name)| (class.to_owned(), name.to_owned()));
        figure(heading, &legend, &plot.finish(), note)
    }

    /// The client's reactions to failures and slowness.
    fn reactions(&self) -> String {
        let of = |count: &dyn Fn(&Sample) -> u64| -> Vec<(f64, f64)> {
            let point = |sample: &Sample| (sample.at.as_secs_f64(), count(sample) as f64);
            self.joined.iter().map(point).collect()
        };
        let failovers = of(&|it| it.failovers);
        let hedges = of(&|it| it.hedges);
        let failed = of(&|it| it.reads.failed + it.writes.failed);
        let all = failovers.iter().chain(&hedges).chain(&failed);
        let most = all.map(|(_, value)| *value).fold(0.0, f64::max);
        let texts = (
            "Failovers, hedges and failures",
            "Bars over time: attempts in another region after a failure, beside a slow attempt, and failed calls.",
        );
        let mut plot = self.plot("reactions", texts, Scale::up_to(most));
        let seconds = self.joined.first().map_or(0.2, |sample| sample.lasted.as_secs_f64());
        plot.bars("failovers", &failovers, seconds);
        plot.bars("hedges", &hedges, seconds * 0.66);
        plot.bars("failed", &failed, seconds * 0.33);
        let legend = [
            ("failovers", "attempts in another region after one failed"),
            ("hedges", "attempts in another region beside a slow one"),
            ("failed", "calls that failed"),
        ];
        let legend = legend.map(|(class, name)| (class.to_owned(), name.to_owned()));
        let note =
            "Reported by the client, in the diagnostics of each call; for each sample of the run.";
        figure("Failovers, hedges and failures", &legend, &plot.finish(), note)
    }

    /// The charge of the work, and how much of it was done.
    fn work(&self) -> String {
        let charge = |it: &Sample| it.charge / it.lasted.as_secs_f64().max(0.001);
        let point = |it: &Sample| (it.at.as_secs_f64(), Some(charge(it)));
        let charges: Vec<(f64, Option<f64>)> = self.joined.iter().map(point).collect();
        let most = self.joined.iter().map(charge).fold(0.0, f64::max);
        let texts = ("Request units each second", "A line over time: what the requests cost.");
        let mut plot = self.plot("charge", texts, Scale::up_to(most));
        plot.line("charge", &charges);
        let legend = [("charge".to_owned(), "request units per second".to_owned())];
        let note = "Counted by the service. Orchestrations and plain reads and writes together.";
        figure("Request units per second", &legend, &plot.finish(), note)
    }
}

/// The phases, to the end of what was sampled.
fn bands(schedule: &Schedule, samples: &[Sample]) -> Vec<Band> {
    let last = samples.last().map(|sample| sample.at.as_secs_f64()).unwrap_or_default();
    let phases = schedule.phases.iter();
    let band = |phase: &crate::schedule::Phase| Band {
        name: phase.kind.name().to_owned(),
        from: phase.start.as_secs_f64(),
        to: phase.end.as_secs_f64(),
        is_shaded: phase.kind.is_disturbed(),
    };
    let mut bands: Vec<Band> = phases.map(band).collect();
    if let Some(band) = bands.last_mut() {
        band.to = band.to.max(last);
    }
    bands
}

fn rates(sample: &Sample) -> (f64, Vec<f64>) {
    let seconds = sample.lasted.as_secs_f64().max(0.001);
    let rates = sample.requests.iter().map(|requests| *requests as f64 / seconds).collect();
    (sample.at.as_secs_f64(), rates)
}

/// Samples of some length each: what is shorter is joined with the next.
fn joined(samples: &[Sample]) -> Vec<Sample> {
    let mut joined: Vec<Sample> = Vec::new();
    for sample in samples {
        match joined.last_mut() {
            Some(last) if last.lasted < LEAST => join(last, sample),
            _ => joined.push(sample.clone()),
        }
    }
    joined
}

fn join(into: &mut Sample, next: &Sample) {
    for (sum, more) in into.requests.iter_mut().zip(&next.requests) {
        *sum += more;
    }
    into.at = next.at;
    into.lasted += next.lasted;
    into.charge += next.charge;
    into.completed = next.completed;
    into.hedges += next.hedges;
    into.failovers += next.failovers;
    for (calls, more) in [(&mut into.reads, next.reads), (&mut into.writes, next.writes)] {
        calls.failed += more.failed;
        // Percentiles do not add up: the longer sample has more to say of the median, and the worse tail is shown.
        calls.p50 = more.p50.or(calls.p50);
        calls.p99 = calls.p99.max(more.p99);
    }
}

//! Observations of a run: by the application at its calls, and by the service at its counters.
//!
//! [`Observer`] counts calls as they end. [`Sampler`] takes what it has counted every so often, reads the account's
//! counters beside it, and appends a [`Sample`] to the [`Timeline`], which also adds up each phase.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sidereal::Error;
use sidereal::driver::diagnostics::{DiagnosticsContext, ExecutionContext};
use sidereal_emulator::{Account, CounterRow, Operation};
use sidereal_protocol::{RegionName, ResourceType};

use crate::histogram::Histogram;
use crate::schedule::{PhaseKind, Schedule};
use crate::stage::RECEIPTS_PATH;

/// Different sentences of failures that are kept.
const MOST_FAILURES: usize = 8;

/// The operation of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    Write,
}

/// Calls of one kind, as the client reports them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Calls {
    pub(crate) latency: Histogram,
    pub(crate) failed: u64,
    /// Attempts in another region beside a slow one.
    pub(crate) hedges: u64,
    /// Attempts in another region after one failed.
    pub(crate) failovers: u64,
}

impl Calls {
    pub(crate) fn add(&mut self, other: &Self) {
        self.latency.add(&other.latency);
        self.failed += other.failed;
        self.hedges += other.hedges;
        self.failovers += other.failovers;
    }

    fn end(&mut self, took: Duration, diagnostics: Option<&DiagnosticsContext>) {
        self.latency.record(took);
        for attempt in diagnostics.map(DiagnosticsContext::attempts).unwrap_or_default() {
            match attempt.execution_context {
                ExecutionContext::Hedging => self.hedges += 1,
                ExecutionContext::RegionFailover => self.failovers += 1,
                _ => {}
            }
        }
    }
}

/// Calls that have ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) reads: Calls,
    pub(crate) writes: Calls,
    /// Sentences of failures, with how often each was met.
    pub(crate) failures: BTreeMap<String, u64>,
}

impl Counted {
    fn of(&mut self, kind: Kind) -> &mut Calls {
        match kind {
            Kind::Read => &mut self.reads,
            Kind::Write => &mut self.writes,
        }
    }

    fn add(&mut self, other: &Self) {
        self.reads.add(&other.reads);
        self.writes.add(&other.writes);
        for (sentence, times) in &other.failures {
            count_failure(&mut self.failures, sentence, *times);
        }
    }

    pub(crate) fn operations(&self) -> u64 {
        self.reads.latency.count() + self.writes.latency.count()
    }

    pub(crate) fn failed(&self) -> u64 {
        self.reads.failed + self.writes.failed
    }

    pub(crate) fn hedges(&self) -> u64 {
        self.reads.hedges + self.writes.hedges
    }

    pub(crate) fn failovers(&self) -> u64 {
        self.reads.failovers + self.writes.failovers
    }
}

fn count_failure(failures: &mut BTreeMap<String, u64>, sentence: &str, times: u64) {
    if let Some(count) = failures.get_mut(sentence) {
        *count += times;
    } else if failures.len() < MOST_FAILURES {
        failures.insert(sentence.to_owned(), times);
    }
}

/// Counts calls as they end.
#[derive(Debug, Default)]
pub(crate) struct Observer(Mutex<Counted>);

impl Observer {
    pub(crate) fn succeeded(&self, kind: Kind, took: Duration, diagnostics: &DiagnosticsContext) {
        self.change(|counted| counted.of(kind).end(took, Some(diagnostics)));
    }

    /// A call that was answered as expected, without more to tell.
    pub(crate) fn done(&self, kind: Kind, took: Duration) {
        self.change(|counted| counted.of(kind).end(took, None));
    }

    pub(crate) fn failed(&self, kind: Kind, took: Duration, error: &Error) {
        let sentence = sentence(error);
        self.change(|counted| {
            let calls = counted.of(kind);
            calls.end(took, error.diagnostics());
            calls.failed += 1;
            count_failure(&mut counted.failures, &sentence, 1);
        });
    }

    fn take(&self) -> Counted {
        self.change(std::mem::take)
    }

    fn change<T>(&self, change: impl FnOnce(&mut Counted) -> T) -> T {
        // Counts are added whole or not at all: a poisoned lock is ignored.
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A failure and its causes, in one sentence. Of the service's message the first line: the others are about this one
/// request, and no two would be alike.
fn sentence(error: &Error) -> String {
    let causes = std::iter::successors(Some(error as &dyn std::error::Error), |it| it.source());
    let line = |cause: &dyn std::error::Error| {
        cause.to_string().lines().next().unwrap_or_default().to_owned()
    };
    causes.map(line).collect::<Vec<_>>().join(": ")
}

/// The service's counters since it began.
#[derive(Clone, Debug, Default, PartialEq)]
struct Served {
    /// Requests about items, by region, in the order of the timeline's regions.
    requests: Vec<u64>,
    charge: f64,
    receipts: u64,
}

impl Served {
    fn of(rows: &[CounterRow], regions: &[RegionName]) -> Self {
        let mut served = Self { requests: vec![0; regions.len()], ..Self::default() };
        for row in rows.iter().filter(|row| row.resource == Some(ResourceType::Document)) {
            if let Some(region) = regions.iter().position(|region| *region == row.region) {
                served.requests[region] += row.requests;
            }
            served.charge += row.charge;
            if created_in(row, RECEIPTS_PATH) {
                served.receipts += row.requests;
            }
        }
        served
    }
}

/// Whether a row counts items that were created in a container.
pub(crate) fn created_in(row: &CounterRow, container: &str) -> bool {
    row.operation == Operation::Create
        && row.status == 201
        && row.container.as_deref() == Some(container)
}

/// A stretch of the run.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    /// When it ended.
    pub(crate) at: Duration,
    pub(crate) lasted: Duration,
    /// Requests by region, as the service counted them.
    pub(crate) requests: Vec<u64>,
    /// Which region accepted writes.
    pub(crate) writes_in: usize,
    /// Request units, as the service counted them.
    pub(crate) charge: f64,
    /// Orchestrations completed so far, as the service counted their receipts.
    pub(crate) completed: u64,
    pub(crate) reads: CallSummary,
    pub(crate) writes: CallSummary,
    pub(crate) hedges: u64,
    pub(crate) failovers: u64,
}

/// Calls of a sample.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CallSummary {
    pub(crate) failed: u64,
    pub(crate) p50: Option<Duration>,
    pub(crate) p99: Option<Duration>,
}

impl CallSummary {
    fn of(calls: &Calls) -> Self {
        let at = |share| calls.latency.percentile(share);
        Self { failed: calls.failed, p50: at(0.5), p99: at(0.99) }
    }
}

/// The sums of a phase.
#[derive(Clone, Debug)]
pub(crate) struct PhaseTotals {
    pub(crate) kind: PhaseKind,
    pub(crate) counted: Counted,
    /// Requests by region, as the service counted them.
    pub(crate) requests: Vec<u64>,
    pub(crate) charge: f64,
    pub(crate) completed: u64,
}

/// The observations, from the start on.
#[derive(Clone, Debug)]
pub(crate) struct Timeline {
    pub(crate) regions: Vec<RegionName>,
    pub(crate) samples: Vec<Sample>,
    pub(crate) phases: Vec<PhaseTotals>,
}

impl Timeline {
    pub(crate) fn new(regions: Vec<RegionName>, schedule: &Schedule) -> Self {
        let totals = |kind| PhaseTotals {
            kind,
            counted: Counted::default(),
            requests: vec![0; regions.len()],
            charge: 0.0,
            completed: 0,
        };
        let phases = schedule.phases.iter().map(|phase| totals(phase.kind)).collect();
        Self { regions, samples: Vec::new(), phases }
    }

    /// Orchestrations completed so far.
    pub(crate) fn completed(&self) -> u64 {
        self.samples.last().map_or(0, |sample| sample.completed)
    }

    /// Everything that calls came to.
    pub(crate) fn counted(&self) -> Counted {
        let mut all = Counted::default();
        self.phases.iter().for_each(|phase| all.add(&phase.counted));
        all
    }

    fn append(&mut self, phase: usize, counted: &Counted, sample: Sample) {
        let before = self.completed();
        let totals = &mut self.phases[phase];
        totals.counted.add(counted);
        for (sum, more) in totals.requests.iter_mut().zip(&sample.requests) {
            *sum += more;
        }
        totals.charge += sample.charge;
        totals.completed += sample.completed - before;
        self.samples.push(sample);
    }
}

/// Appends to the timeline what happened since it last did.
pub(crate) struct Sampler {
    pub(crate) timeline: Timeline,
    account: Arc<Account>,
    observer: Arc<Observer>,
    before: Served,
    sampled: Duration,
}

impl Sampler {
    /// Samples what happens from now on.
    pub(crate) fn new(account: Arc<Account>, observer: Arc<Observer>, timeline: Timeline) -> Self {
        let before = Served::of(&account.counters(), &timeline.regions);
        drop(observer.take());
        Self { timeline, account, observer, before, sampled: Duration::ZERO }
    }

    /// Takes a sample, which belongs to a phase.
    pub(crate) fn sample(&mut self, at: Duration, phase: usize) {
        let counted = self.observer.take();
        let regions = &self.timeline.regions;
        let served = Served::of(&self.account.counters(), regions);
        let states = self.account.region_states();
        let state = |region: &RegionName| states.iter().find(|state| state.name == *region);
        let requests = served.requests.iter().zip(&self.before.requests);
        let sample = Sample {
            at,
            lasted: at.saturating_sub(self.sampled),
            requests: requests.map(|(now, before)| now - before).collect(),
            writes_in: regions
                .iter()
                .position(|it| state(it).is_some_and(|it| it.accepts_writes))
                .unwrap_or_default(),
            charge: served.charge - self.before.charge,
            completed: served.receipts,
            reads: CallSummary::of(&counted.reads),
            writes: CallSummary::of(&counted.writes),
            hedges: counted.hedges(),
            failovers: counted.failovers(),
        };
        self.timeline.append(phase, &counted, sample);
        (self.before, self.sampled) = (served, at);
    }
}

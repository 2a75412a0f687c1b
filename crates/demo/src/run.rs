//! The shell of the demo: starts everything, keeps time, and ends it in order.

use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use crate::director::Director;
use crate::error::DemoError;
use crate::forced;
use crate::ledger;
use crate::observe::{Observer, Sampler, Timeline};
use crate::print::print;
use crate::regions::Regions;
use crate::report::{Report, page};
use crate::schedule::{Schedule, schedule};
use crate::stage::Stage;
use crate::verdict::{Verdict, judge};
use crate::view::{self, Opening, Picture, View};
use crate::workload::{Expected, Flow, PLAIN_PER_ORCHESTRATION, Traffic};

/// How long the schedule of a run may take. Shorter, phases would end before anything is noticed; longer, it would be a
/// soak test.
pub const DURATIONS: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(4)..=Duration::from_secs(300);

/// How often the run is sampled and drawn.
const SAMPLE_EVERY: Duration = Duration::from_millis(200);

/// How long orchestrations that were started are waited for after the schedule.
const DRAIN: Duration = Duration::from_secs(30);

/// A run of the demo: what is varied from one to the next.
#[derive(Clone, Debug)]
pub struct Demo {
    /// Seed of the schedule and of the orchestrations: the same seed, the same run.
    pub seed: u64,
    /// How long the schedule takes, within [`DURATIONS`]. What is started is then waited for.
    pub duration: Duration,
    /// The regions of the account; the first accepts writes.
    pub regions: Regions,
    /// Orchestrations started each second; with each go eight plain reads and writes.
    pub rate: u32,
    /// The file that a report is written to: one HTML page.
    pub report: Option<PathBuf>,
}

/// Runs the demo on standard output. Dropping the future ends it, with the account.
///
/// # Errors
///
/// [`DemoError::Broken`] if what the orchestrations left behind is not as it must be; any other if the demo could not
/// run to its end.
pub async fn run(demo: &Demo) -> Result<(), DemoError> {
    // Before a run of half a minute, not after it; a report that is there stays until there is another.
    if let Some(path) = &demo.report {
        let opened = File::options().create(true).append(true).open(path);
        opened.map_err(|source| DemoError::Report { path: path.clone(), source })?;
    }
    let regions = demo.regions.names();
    let schedule = schedule(demo.seed, demo.duration, regions);
    let mut view = View::of_standard_output();
    view.begin(&Opening {
        seed: demo.seed,
        duration: demo.duration,
        rate: demo.rate,
        regions,
        schedule: &schedule,
    })?;
    let stage = Stage::open(regions, Some(schedule.windows)).await?;
    let (timeline, verdict) = play(demo, &schedule, &stage, &mut view).await?;
    view.end()?;
    stage.emulator.shutdown().await;
    let forced = forced::force(regions).await?;
    print(&view::summary(&timeline, &forced, &verdict))?;
    if let Some(path) = &demo.report {
        let (&Demo { seed, duration, rate, .. }, schedule) = (demo, &schedule);
        let (timeline, forced, verdict) = (&timeline, &forced, &verdict);
        let report = Report { seed, duration, rate, schedule, timeline, forced, verdict };
        std::fs::write(path, page(&report))
            .map_err(|source| DemoError::Report { path: path.clone(), source })?;
        print(&format!("The report is in {}.\n", path.display()))?;
    }
    match verdict.problems + usize::from(forced.problem.is_some()) {
        0 => Ok(()),
        problems => Err(DemoError::Broken { problems }),
    }
}

/// Runs the schedule against the account, and judges what is left behind.
async fn play(
    demo: &Demo,
    schedule: &Schedule,
    stage: &Stage,
    view: &mut View,
) -> Result<(Timeline, Verdict), DemoError> {
    let Demo { seed, rate, .. } = *demo;
    let observer = Arc::new(Observer::default());
    let director = Director::new(&stage.emulator, demo.regions.names())?;
    let traffic = Traffic {
        profiles: stage.profiles(),
        observer: Arc::clone(&observer),
        per_second: rate * PLAIN_PER_ORCHESTRATION,
        seed,
    };
    traffic.prepare().await?;
    let provider = stage.provider().await?;
    let flow = Arc::new(Flow::open(provider, stage.effects(), &observer, seed).await);
    let timeline = Timeline::new(demo.regions.names().to_vec(), schedule);
    let sampler = Sampler::new(Arc::clone(stage.emulator.account()), observer, timeline);

    let until = Instant::now() + demo.duration;
    let plain = tokio::spawn(traffic.run(until));
    let started = Arc::clone(&flow);
    let orders = tokio::spawn(async move { started.run(rate, until).await });
    let mut show = Show { schedule, stage, view, director, sampler, flow: &flow, next: 0 };
    let timeline = show.follow(plain, orders).await?;
    flow.close().await;
    let found = ledger::read(stage.emulator.account())?;
    Ok((timeline, judge(&Expected::of(seed, flow.started()), &found)))
}

/// A run under way.
struct Show<'a> {
    schedule: &'a Schedule,
    stage: &'a Stage,
    view: &'a mut View,
    director: Director,
    sampler: Sampler,
    flow: &'a Flow,
    /// The next step of the schedule.
    next: usize,
}

impl Show<'_> {
    /// Follows the schedule, then waits until what was started has ended.
    async fn follow(
        &mut self,
        plain: JoinHandle<()>,
        orders: JoinHandle<Result<(), String>>,
    ) -> Result<Timeline, DemoError> {
        let began = Instant::now();
        let mut due = tokio::time::interval(SAMPLE_EVERY);
        due.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let end = self.schedule.phases.last().map(|phase| phase.end).unwrap_or_default();
        loop {
            let step = self.schedule.steps.get(self.next);
            let at = began + step.map_or(Duration::MAX / 4, |step| step.at);
            tokio::select! {
                biased;
                () = tokio::time::sleep_until(at.into()), if step.is_some() => self.step(began).await?,
                _ = due.tick() => {
                    self.sample(began.elapsed())?;
                    // The last order may be started at the very end.
                    let is_drained = orders.is_finished() && self.is_drained()?;
                    if began.elapsed() >= end && (is_drained || began.elapsed() >= end + DRAIN) {
                        break;
                    }
                }
            }
        }
        plain.await?;
        orders.await?.map_err(DemoError::Flow)?;
        self.sample(began.elapsed())?;
        Ok(self.sampler.timeline.clone())
    }

    async fn step(&mut self, began: Instant) -> Result<(), DemoError> {
        let step = &self.schedule.steps[self.next];
        self.next += 1;
        // What was before belongs to the phase before.
        self.sample(step.at)?;
        self.director.act(&self.stage.emulator, &step.action).await?;
        self.view.act(began.elapsed(), &step.action)
    }

    fn sample(&mut self, at: Duration) -> Result<(), DemoError> {
        // A sample that ends with a phase belongs to it.
        let phase = self.schedule.phase_at(at.saturating_sub(Duration::from_nanos(1)));
        self.sampler.sample(at, phase);
        self.view.draw(&Picture {
            at,
            schedule: self.schedule,
            timeline: &self.sampler.timeline,
            conditions: &self.director.conditions,
            started: self.flow.started(),
        })
    }

    /// Whether every orchestration that was started has ended.
    fn is_drained(&self) -> Result<bool, DemoError> {
        let started = self.flow.started();
        // The receipts are counted already; only when all are there is the container worth a look.
        if self.sampler.timeline.completed() < u64::from(started) {
            return Ok(false);
        }
        let ended = ledger::ended(self.stage.emulator.account())?;
        Ok(ended >= Expected::instances_of(self.flow.seed(), started))
    }
}

//! The shell of the demo: starts everything, keeps time, and ends it in order.

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;

use super::arguments::DemoArguments;
use super::director::Director;
use super::error::DemoError;
use super::forced;
use super::ledger;
use super::observe::{Observer, Sampler, Timeline};
use super::report::{Report, page};
use super::schedule::{Schedule, schedule};
use super::stage::Stage;
use super::verdict::{Verdict, judge};
use super::view::{self, Opening, Picture, View};
use super::workload::{Expected, Flow, Traffic};
use crate::emulator::Signals;
use crate::output;

/// Plain reads and writes for each orchestration.
pub(crate) const PLAIN_PER_ORCHESTRATION: u32 = 8;

/// How often the run is sampled and drawn.
const SAMPLE_EVERY: Duration = Duration::from_millis(200);

/// How long orchestrations that were started are waited for after the schedule.
const DRAIN: Duration = Duration::from_secs(30);

/// Runs the demo; an error if it could not run, or broke its promise.
pub(crate) fn run(arguments: DemoArguments) -> Result<(), DemoError> {
    log_if_asked();
    Builder::new_multi_thread().enable_all().build()?.block_on(async {
        // Before anything is printed: whoever reads the first line may send a signal.
        let mut signals = Signals::listen()?;
        // Unbiased: an interrupt may wait for the step that the run is at.
        tokio::select! {
            outcome = show(arguments) => outcome,
            () = signals.recv() => Err(DemoError::Interrupted),
        }
    })
}

/// Keeps what libraries log off the screen, unless `RUST_LOG` asks for it: then it goes to standard error.
fn log_if_asked() {
    let _ = match std::env::var("RUST_LOG") {
        Ok(filter) => tracing_subscriber::fmt()
            .with_env_filter(filter)
            .with_writer(std::io::stderr)
            .try_init()
            .is_ok(),
        // The first subscriber stays: duroxide would install one that writes to standard output.
        Err(_) => tracing::subscriber::set_global_default(tracing::subscriber::NoSubscriber::new())
            .is_ok(),
    };
}

async fn show(arguments: DemoArguments) -> Result<(), DemoError> {
    // Before a run of half a minute, not after it; a report that is there stays until there is another.
    if let Some(path) = &arguments.report {
        let opened = File::options().create(true).append(true).open(path);
        opened.map_err(|source| DemoError::Report { path: path.clone(), source })?;
    }
    let regions = &arguments.regions.0;
    let schedule = schedule(arguments.seed, arguments.duration, regions);
    let mut view = View::of_standard_output();
    view.begin(&Opening {
        seed: arguments.seed,
        duration: arguments.duration,
        rate: arguments.rate,
        regions,
        schedule: &schedule,
    })?;
    let stage = Stage::open(regions, Some(schedule.windows)).await?;
    let (timeline, verdict) = play(&arguments, &schedule, &stage, &mut view).await?;
    view.end()?;
    stage.emulator.shutdown().await;
    let forced = forced::force(regions).await?;
    output::print(&view::summary(&timeline, &forced, &verdict))?;
    if let Some(path) = &arguments.report {
        let (DemoArguments { seed, duration, rate, .. }, schedule) = (&arguments, &schedule);
        let (seed, duration, rate) = (*seed, *duration, *rate);
        let (timeline, forced, verdict) = (&timeline, &forced, &verdict);
        let report = Report { seed, duration, rate, schedule, timeline, forced, verdict };
        std::fs::write(path, page(&report))
            .map_err(|source| DemoError::Report { path: path.clone(), source })?;
        output::print(&format!("The report is in {}.\n", path.display()))?;
    }
    match verdict.problems + usize::from(forced.problem.is_some()) {
        0 => Ok(()),
        problems => Err(DemoError::Broken { problems }),
    }
}

/// Runs the schedule against the account, and judges what is left behind.
async fn play(
    arguments: &DemoArguments,
    schedule: &Schedule,
    stage: &Stage,
    view: &mut View,
) -> Result<(Timeline, Verdict), DemoError> {
    let DemoArguments { seed, rate, .. } = *arguments;
    let observer = Arc::new(Observer::default());
    let director = Director::new(&stage.emulator, &arguments.regions.0)?;
    let traffic = Traffic {
        profiles: stage.profiles(),
        observer: Arc::clone(&observer),
        per_second: rate * PLAIN_PER_ORCHESTRATION,
        seed,
    };
    traffic.prepare().await?;
    let provider = stage.provider().await?;
    let flow = Arc::new(Flow::open(provider, stage.effects(), &observer, seed).await);
    let timeline = Timeline::new(arguments.regions.0.clone(), schedule);
    let sampler = Sampler::new(Arc::clone(stage.emulator.account()), observer, timeline);

    let until = Instant::now() + arguments.duration;
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

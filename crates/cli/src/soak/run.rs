//! A run, from its first process to its verdict.

use std::sync::Arc;
use std::time::Duration;

use sidereal::{CosmosClient, CosmosCredential};
use sidereal_duroxide::{CosmosDBProvider, CosmosDBProviderConfig};
use tokio::time::Instant;

use super::arguments::SoakArguments;
use super::check::{Check, Violation};
use super::expected;
use super::judge::{Evidence, Verdict, judge};
use super::kills::Kill;
use super::ledger::Ledger;
use super::load::Load;
use super::names::DATABASE;
use super::plan::{Plan, plan};
use super::remains::Remains;
use super::report::{self, Summary, Tail};
use super::site::{Site, free_port};
use super::supervisor::{Account, EmulatorProcess, Workers};
use crate::command::block_on;
use crate::failure::{ExitStatus, Failure};
use crate::output;
use crate::progress::Progress;
use crate::signals::Signals;

/// The bound of everything beside the duration and the tail: starting the processes, restarting the emulator for the
/// last time, and reading the container.
const OVERHEAD: Duration = Duration::from_secs(120);

/// Longer than any run: undelivered messages of the workers are left to the workers.
const NEVER: Duration = Duration::from_secs(100 * 3600);

/// Between two looks at whether everything has ended.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Runs the command.
pub(crate) fn run(arguments: &SoakArguments) -> Result<(), Failure> {
    // Fits into a double, in which many tools read JSON's numbers.
    let seed = arguments.seed.unwrap_or_else(|| fastrand::u64(..1 << 53));
    let plan = plan(&arguments.plan(seed)?);
    block_on(async {
        let mut signals = Signals::listen().map_err(Failure::system)?;
        let site = Site::create(arguments.data_dir.as_deref(), seed)?;
        let place = site.directory().display().to_string();
        let longest = arguments.duration + arguments.tail + OVERHEAD;
        // The processes are killed when the run is dropped.
        let outcome = tokio::select! {
            outcome = tokio::time::timeout(longest, soak(arguments, seed, &plan, &site)) => outcome,
            () = signals.recv() => {
                site.remove();
                return Err(Failure::new(ExitStatus::Failed, "interrupted: nothing was checked"));
            }
        };
        let failure = match outcome {
            Ok(Ok(())) => {
                site.remove();
                return Ok(());
            }
            Ok(Err(failure)) => failure,
            Err(_) => {
                let longest = humantime::format_duration(longest);
                Failure::new(
                    ExitStatus::Incomplete,
                    format!("the run was not over after {longest}"),
                )
            }
        };
        Err(failure.with_hint(format!("data and logs are kept in {place}")))
    })
}

async fn soak(
    arguments: &SoakArguments,
    seed: u64,
    plan: &Plan,
    site: &Site,
) -> Result<(), Failure> {
    output::note(&format!("seed {seed}, in {}", site.directory().display()));
    let port = free_port()?;
    let mut emulator = EmulatorProcess::start(site, port, arguments.partitions).await?;
    let Opened { client, provider, ledger } = open(&emulator.account).await?;
    let count = usize::from(arguments.workers);
    let mut workers = Workers::start(site, &emulator.account, count, arguments.lock).await?;
    let load = Arc::new(Load::new(Arc::clone(&provider), seed, arguments.payload));
    let remains = Arc::new(Remains::new(&client, &provider));

    let progress = Progress::new("run", None);
    let serving = Arc::clone(&load);
    let serving = tokio::spawn(async move { serving.serve().await });
    let began = Instant::now();
    let most = usize::from(arguments.max_concurrent);
    let tortured = async {
        tokio::try_join!(
            emulator.torture(&plan.emulator_kills, began),
            workers.torture(&plan.worker_kills, began),
            async {
                load.start_all(&plan.starts, began, most).await;
                Ok(())
            },
        )
    };
    tokio::select! {
        outcome = tortured => drop(outcome?),
        () = tell(&progress, &load, began) => {}
    }
    let tail = tokio::select! {
        tail = follow(&load, &remains, arguments.tail) => tail,
        () = tell(&progress, &load, began) => Tail { ended: None, drained: None },
    };
    serving.abort();
    workers.end().await?;
    progress.finish();

    let kills: Vec<Kill> = workers.kills.iter().chain(&emulator.kills).cloned().collect();
    let evidence = Evidence { load: &load, remains: &remains, ledger: &ledger, kills: &kills };
    let mut verdict = judge(&evidence).await?;
    verdict.violations.extend(of_processes(&workers, tail, arguments.tail));
    let (started, duration) = (load.started().len(), arguments.duration);
    let (kills, verdict) = (kills.as_slice(), &verdict);
    let summary = Summary { seed, duration, started, kills, tail, verdict };
    arguments.format.print_facts(&summary.facts())?;
    conclude(site, &remains, verdict).await
}

/// The connections of the parent process.
struct Opened {
    client: CosmosClient,
    provider: Arc<CosmosDBProvider>,
    ledger: Ledger,
}

/// Creates the database and its containers.
async fn open(account: &Account) -> Result<Opened, Failure> {
    let key = CosmosCredential::key(&account.key)
        .map_err(|error| Failure::of(ExitStatus::Defect, &error))?;
    let client = CosmosClient::new(&account.endpoint, key, None)?;
    client.create_database(DATABASE, None).await?;
    let ledger = Ledger::create(&client).await?;
    let mut config = CosmosDBProviderConfig::with_client(client.clone()).with_database(DATABASE);
    config.reconciler_scan_interval = NEVER;
    let provider = CosmosDBProvider::new(config).await;
    let provider = provider.map_err(|error| Failure::of(ExitStatus::Failed, &error))?;
    Ok(Opened { client, provider: Arc::new(provider), ledger })
}

/// Shows the progress of a run until it is dropped.
async fn tell(progress: &Progress, load: &Load, began: Instant) {
    loop {
        progress.show(|| {
            let (started, running) = (load.started().len(), load.running());
            let seconds = began.elapsed().as_secs();
            format!("{seconds} s: {started} orchestrations started, {running} running")
        });
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Waits until all orchestrations have ended and the queues are empty, at most for the tail.
async fn follow(load: &Load, remains: &Remains, longest: Duration) -> Tail {
    let began = Instant::now();
    let acknowledged = load.started().into_iter().filter(|it| it.is_acknowledged);
    let expected: usize = acknowledged.map(|it| expected::count(&load.program(it.number))).sum();
    let mut tail = Tail { ended: None, drained: None };
    while began.elapsed() < longest && tail.drained.is_none() {
        let elapsed = began.elapsed();
        if tail.ended.is_none() {
            let has_ended = remains.ended().await.is_ok_and(|ended| ended >= expected);
            tail.ended = has_ended.then_some(elapsed);
        }
        if tail.ended.is_some() && remains.waiting().await.is_ok_and(|waiting| waiting == 0) {
            tail.drained = Some(elapsed);
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    tail
}

/// The violations that belong to no instance.
fn of_processes(workers: &Workers<'_>, tail: Tail, longest: Duration) -> Vec<Violation> {
    let by_itself = workers.ended.iter().map(|(name, status)| {
        let sentence = format!("{name} ended by itself: {status}");
        Violation { check: Check::Processes, instance: None, sentence }
    });
    let is_over = tail.ended.is_none().then(|| {
        let longest = humantime::format_duration(longest);
        let sentence = format!("not everything had ended {longest} after the last kill");
        Violation { check: Check::Ended, instance: None, sentence }
    });
    by_itself.chain(is_over).collect()
}

/// Prints the violations, and fails if there are any.
async fn conclude(site: &Site, remains: &Remains, verdict: &Verdict) -> Result<(), Failure> {
    if verdict.violations.is_empty() {
        return Ok(());
    }
    output::note(report::explain(site, remains, &verdict.violations).await?.trim_end());
    let count = verdict.violations.len();
    let sentence = format!("the run has {count} violations");
    Err(Failure::new(ExitStatus::Incomplete, sentence))
}

//! `sidereal demo`: the arguments of a run, and how it is interrupted and fails.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use sidereal_demo::{DURATIONS, Demo, DemoError, Regions};
use tokio::runtime::Builder;

use crate::failure::{ExitStatus, Failure};
use crate::output::OutputError;
use crate::signals::Signals;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sidereal demo
  sidereal demo --report demo.html
  sidereal demo --seed 7 --duration 60s --rate 40
  sidereal demo --regions \"West US,East US\" | tee demo.txt")]
pub(crate) struct DemoArguments {
    /// Seed of the schedule and of the orchestrations: the same seed, the same run.
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// How long the schedule takes, such as 20s or 2m; what is started is then waited for.
    #[arg(long, value_name = "TIME", default_value = "18s", value_parser = duration)]
    duration: Duration,

    /// Regions of the account: their number, or their names separated by commas; the first accepts writes.
    #[arg(long, value_name = "N|NAMES", default_value = "3")]
    regions: Regions,

    /// Orchestrations started each second; with each go eight plain reads and writes.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=100))]
    rate: u32,

    /// Write a report: one HTML page with charts, which needs nothing else.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

/// Runs the demo; an error if it could not run, or broke its promise.
pub(crate) fn run(arguments: DemoArguments) -> Result<(), Failure> {
    let DemoArguments { seed, duration, regions, rate, report } = arguments;
    let demo = Demo { seed, duration, regions, rate, report };
    log_if_asked();
    Builder::new_multi_thread().enable_all().build().map_err(Failure::system)?.block_on(async {
        // Before anything is printed: a reader of the first line may send a signal.
        let mut signals = Signals::listen().map_err(Failure::system)?;
        // Unbiased: an interrupt may wait for the step that the run is at.
        tokio::select! {
            outcome = sidereal_demo::run(&demo) => outcome.map_err(failure),
            () = signals.recv() => {
                Err(Failure::new(ExitStatus::Failed, "interrupted: nothing was checked"))
            }
        }
    })
}

fn failure(error: DemoError) -> Failure {
    match error {
        DemoError::Output(error) => OutputError::from(error).into(),
        error => Failure::of(ExitStatus::Failed, &error),
    }
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

fn duration(text: &str) -> Result<Duration, String> {
    let parsed = crate::values::duration(text)?;
    if DURATIONS.contains(&parsed) {
        return Ok(parsed);
    }
    let (least, most) = (DURATIONS.start().as_secs(), DURATIONS.end().as_secs());
    Err(format!("expected a time from {least}s to {most}s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_bounds() {
        assert_eq!(duration("6s"), Ok(Duration::from_secs(6)));
        assert!(duration("1s").unwrap_err().contains("from 4s to 300s"));
        assert!(duration("1h").is_err());
        assert!(duration("soon").unwrap_err().contains("such as"));
    }
}

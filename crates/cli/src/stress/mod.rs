//! `sidereal stress`: duroxide's stress harness on the provider, with a table to compare by.

mod account;
mod result;
mod runs;

use std::time::Duration;

use clap::{Args, ValueEnum};

use crate::account::AccountArguments;
use crate::command::{FormatArguments, block_on};
use crate::failure::{ExitStatus, Failure};
use crate::output;
use crate::values::duration;
use account::StressAccount;
use result::Measured;
use runs::Run;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sidereal stress
  sidereal stress --duration 30s --concurrency 1/1,4/4,8/8 --activity-delay 0ms
  sidereal stress --round-trip 10ms
  sidereal stress --workload large-payloads --concurrency 2/2
  sidereal stress --endpoint https://contoso.documents.azure.com --key-file key.txt --output json

Against an account that is named, each run has a database of its own, which is deleted afterwards.
The exit status is 8 if an orchestration failed.")]
pub(crate) struct StressArguments {
    #[command(flatten)]
    account: AccountArguments,
    #[command(flatten)]
    format: FormatArguments,
    /// The workload to run.
    #[arg(long, value_enum, default_value_t = Workload::All)]
    workload: Workload,
    /// Dispatchers and workers of the runtime, as ORCHESTRATIONS/ACTIVITIES; a run for each pair.
    #[arg(long, value_name = "PAIRS", value_delimiter = ',', default_value = "1/1,2/2,4/4")]
    concurrency: Vec<Concurrency>,
    /// How long orchestrations are started in each run; those that were started are waited for.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    duration: Duration,
    /// The most orchestrations at the same time.
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..))]
    max_concurrent: u16,
    /// Activities that each orchestration fans out to.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    tasks: u16,
    /// How long an activity takes.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10ms")]
    activity_delay: Duration,
    /// How long an orchestration is waited for.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1m")]
    wait_timeout: Duration,
    /// Added to every request to the account within the process, as a region's round trip.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "0ms")]
    round_trip: Duration,
}

/// A workload of the stress harness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Workload {
    /// Orchestrations that fan out to activities.
    Parallel,
    /// Orchestrations with inputs and results of 10 to 100 KB, and sub-orchestrations.
    LargePayloads,
    /// Both.
    All,
}

/// Dispatchers of orchestrations and of activities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Concurrency {
    orchestrations: u16,
    activities: u16,
}

impl std::str::FromStr for Concurrency {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str| text.trim().parse::<u16>().ok().filter(|number| *number > 0);
        let pair =
            text.split_once('/').and_then(|(one, other)| Some((number(one)?, number(other)?)));
        let (orchestrations, activities) =
            pair.ok_or_else(|| "expected two numbers such as 2/2".to_owned())?;
        Ok(Self { orchestrations, activities })
    }
}

impl std::fmt::Display for Concurrency {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.orchestrations, self.activities)
    }
}

pub(crate) fn run(arguments: &StressArguments) -> Result<(), Failure> {
    let is_named = arguments.account.is_named();
    if is_named && !arguments.round_trip.is_zero() {
        let sentence = "--round-trip is for the account within the process";
        return Err(Failure::new(ExitStatus::Usage, sentence)
            .with_hint("an account that is named has a round trip of its own"));
    }
    block_on(async {
        let mut all = Vec::new();
        for run in runs::of(arguments) {
            output::note(&format!(
                "{run}: started for {}",
                humantime::format_duration(run.duration)
            ));
            all.push(measure(arguments, is_named, run).await?);
        }
        arguments
            .format
            .print(Measured::HEADS, &all.iter().map(Measured::row).collect::<Vec<_>>())?;
        let failed: usize = all.iter().map(Measured::unfinished).sum();
        match failed {
            0 => Ok(()),
            failed => {
                let sentence = format!("{failed} orchestrations did not complete");
                Err(Failure::new(ExitStatus::Incomplete, sentence))
            }
        }
    })
}

/// One run, on an account of its own, or in a database of its own. Ctrl-C ends it, and leaves nothing behind.
async fn measure(
    arguments: &StressArguments,
    is_named: bool,
    run: Run,
) -> Result<Measured, Failure> {
    let account = match is_named {
        true => StressAccount::named(arguments.account.connect()?),
        false => StressAccount::embedded(arguments.round_trip).await?,
    };
    let measured = tokio::select! {
        measured = run.measure(&account) => measured,
        _ = tokio::signal::ctrl_c() => Err(Failure::new(ExitStatus::Failed, "interrupted")),
    };
    account.end().await?;
    measured
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dispatchers_are_told_as_a_pair() {
        let pair: Concurrency = "2/8".parse().unwrap();
        assert_eq!((pair.orchestrations, pair.activities), (2, 8));
        assert_eq!(pair.to_string(), "2/8");
        for wrong in ["", "2", "0/1", "1/0", "a/b", "1/2/3"] {
            assert!(wrong.parse::<Concurrency>().unwrap_err().contains("2/2"), "{wrong}");
        }
    }
}

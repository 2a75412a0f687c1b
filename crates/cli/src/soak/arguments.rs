//! The flags of `sidereal soak`: clap makes its help from the doc comments.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::plan::PlanSettings;
use crate::command::FormatArguments;
use crate::failure::{ExitStatus, Failure};
use crate::values::{bytes, duration};

/// A shorter time between kills would leave no time to work.
const SHORTEST_INTERVAL: Duration = Duration::from_millis(100);

/// The runtime renews locks once a second at most.
const SHORTEST_LOCK: Duration = Duration::from_secs(2);

/// The longest text of an orchestration: its documents are several times as large.
const LARGEST_PAYLOAD: usize = 16_000_000;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sidereal soak
  sidereal soak --duration 10m --seed 7
  sidereal soak --workers 5 --kill-every 500ms --emulator-kill-every 5s
  sidereal soak --kill-every 0s --emulator-kill-every 0s
  sidereal soak --data-dir soak --output json

The schedule and the orchestrations follow from the seed, which is printed: a run that fails is repeated with it. The
moments at which processes meet are the system's, so that it may take some runs.

The exit status is 8 if a check failed. Then the violations, the histories and documents of the instances, the logs of the
processes and the data of the emulator are kept, and it says where. A run never takes longer than its duration, the tail,
and two minutes.")]
pub(crate) struct SoakArguments {
    #[command(flatten)]
    pub(super) format: FormatArguments,
    /// How long orchestrations are started and processes are killed.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1m")]
    pub(super) duration: Duration,
    /// Seed of the schedule and of the orchestrations [default: a random one, which is printed].
    #[arg(long, value_name = "N")]
    pub(super) seed: Option<u64>,
    /// Worker processes.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=64))]
    pub(super) workers: u8,
    /// Orchestrations that are started each second.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(super) rate: u32,
    /// The most orchestrations at the same time: at a start that finds more, none is started.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) max_concurrent: u16,
    /// Time between two kills of workers on average; 0s for no kills.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "2s")]
    pub(super) kill_every: Duration,
    /// Time between two kills of the emulator on average; 0s for no kills.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "10s")]
    pub(super) emulator_kill_every: Duration,
    /// The largest text of an input, a result, an event or an output.
    #[arg(long, value_name = "SIZE", value_parser = bytes, default_value = "1MB")]
    pub(super) payload: usize,
    /// Physical partitions of the containers [default: as the emulator].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) partitions: Option<u32>,
    /// Lock of turns and of activities: so long those wait whose worker was killed [default: the runtime's, 5s and 30s].
    #[arg(long, value_name = "TIME", value_parser = duration)]
    pub(super) lock: Option<Duration>,
    /// How long after the last kill everything must have ended.
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "1m")]
    pub(super) tail: Duration,
    /// Empty directory for the emulator's data and the logs, which are kept [default: a temporary one, removed after a
    /// run without violations].
    #[arg(long, value_name = "DIRECTORY")]
    pub(super) data_dir: Option<PathBuf>,
}

impl SoakArguments {
    /// The settings of the schedule, if they make sense.
    pub(super) fn plan(&self, seed: u64) -> Result<PlanSettings, Failure> {
        let usage = |sentence: String| Err(Failure::new(ExitStatus::Usage, sentence));
        let intervals = [
            ("--kill-every", self.kill_every),
            ("--emulator-kill-every", self.emulator_kill_every),
        ];
        for (flag, interval) in intervals {
            if !interval.is_zero() && interval < SHORTEST_INTERVAL {
                let shortest = humantime::format_duration(SHORTEST_INTERVAL);
                return usage(format!("{flag} is 0s, or at least {shortest}"));
            }
        }
        if self.lock.is_some_and(|lock| lock < SHORTEST_LOCK) {
            let shortest = humantime::format_duration(SHORTEST_LOCK);
            return usage(format!("--lock is at least {shortest}"));
        }
        if self.payload > LARGEST_PAYLOAD {
            return usage(format!("--payload is at most {LARGEST_PAYLOAD} bytes"));
        }
        if self.duration.is_zero() {
            return usage("--duration is more than 0s".to_owned());
        }
        Ok(PlanSettings {
            seed,
            duration: self.duration,
            rate: self.rate,
            workers: usize::from(self.workers),
            kill_every: self.kill_every,
            emulator_kill_every: self.emulator_kill_every,
        })
    }
}

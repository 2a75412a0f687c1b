//! The runs that the arguments ask for, one after the other.

use std::fmt;
use std::time::Duration;

use duroxide::provider_stress_test::core::StressTestConfig;
use duroxide::provider_stress_test::large_payload::{
    LargePayloadConfig, run_large_payload_test_with_config,
};
use duroxide::provider_stress_test::parallel_orchestrations::run_parallel_orchestrations_test_with_config;

use super::account::StressAccount;
use super::result::Measured;
use super::{Concurrency, StressArguments, Workload};
use crate::failure::{ExitStatus, Failure};

/// One run of the harness.
#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) concurrency: Concurrency,
    pub(super) duration: Duration,
    is_large: bool,
    config: StressTestConfig,
}

/// The runs of a command line.
pub(super) fn of(arguments: &StressArguments) -> Vec<Run> {
    let workloads: &[bool] = match arguments.workload {
        Workload::Parallel => &[false],
        Workload::LargePayloads => &[true],
        Workload::All => &[false, true],
    };
    let run = |is_large: bool, concurrency: Concurrency| Run {
        concurrency,
        duration: arguments.duration,
        is_large,
        config: config(arguments, concurrency),
    };
    let pairs = workloads.iter().flat_map(|is_large| {
        arguments.concurrency.iter().map(move |concurrency| (*is_large, *concurrency))
    });
    pairs.map(|(is_large, concurrency)| run(is_large, concurrency)).collect()
}

fn config(arguments: &StressArguments, concurrency: Concurrency) -> StressTestConfig {
    // The harness counts in whole seconds and milliseconds.
    let seconds = |duration: Duration| duration.as_secs().max(1);
    let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    StressTestConfig {
        max_concurrent: usize::from(arguments.max_concurrent),
        duration_secs: seconds(arguments.duration),
        tasks_per_instance: usize::from(arguments.tasks),
        activity_delay_ms: millis(arguments.activity_delay),
        orch_concurrency: usize::from(concurrency.orchestrations),
        worker_concurrency: usize::from(concurrency.activities),
        wait_timeout_secs: seconds(arguments.wait_timeout),
    }
}

impl Run {
    /// Runs it, and measures what it cost.
    pub(super) async fn measure(&self, account: &StressAccount) -> Result<Measured, Failure> {
        let opened = account.open(self.concurrency).await?;
        let before = account.counted();
        let result = match self.is_large {
            true => {
                let config = LargePayloadConfig {
                    base: self.config.clone(),
                    ..LargePayloadConfig::default()
                };
                run_large_payload_test_with_config(&opened, config).await
            }
            false => {
                run_parallel_orchestrations_test_with_config(&opened, self.config.clone()).await
            }
        };
        opened.provider.shutdown().await;
        let result = result.map_err(|error| {
            Failure::new(ExitStatus::Failed, format!("the harness failed: {error}"))
        })?;
        let counted = before.zip(account.counted());
        let cost = counted.map(|(before, after)| (after.0 - before.0, after.1 - before.1));
        Ok(Measured { name: self.to_string(), result, cost })
    }
}

impl fmt::Display for Run {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_large {
            true => write!(formatter, "{} large payloads", self.concurrency),
            false => write!(
                formatter,
                "{} {} activities of {} ms",
                self.concurrency, self.config.tasks_per_instance, self.config.activity_delay_ms
            ),
        }
    }
}

//! Why a demo did not run to its end, or did not keep what it promises.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::failure::{ExitStatus, Failure};
use crate::output::OutputError;

/// Why a demo failed.
#[derive(Debug, Error)]
pub(crate) enum DemoError {
    #[error("the account of the demo does not start")]
    Start(#[from] sidereal_emulator::StartError),
    #[error("the account of the demo refuses what the schedule says")]
    Control(#[from] sidereal_emulator::ControlError),
    #[error("a region does not come back")]
    Region(#[from] sidereal_emulator::RegionError),
    #[error("a fault rule of the demo contradicts itself")]
    Fault(#[from] sidereal_emulator::InvalidFault),
    #[error("the application cannot use its account")]
    Client(#[from] sidereal::Error),
    #[error("a name of the demo is none that the service takes")]
    Name(#[from] sidereal_protocol::Error),
    #[error("the provider of the orchestrations does not start")]
    Provider(#[from] sidereal_duroxide::ProviderSetupError),
    #[error("the driver does not start: {0}")]
    Driver(String),
    #[error("an orchestration could not be started: {0}")]
    Flow(String),
    #[error("the account cannot be read: {0}")]
    Ledger(String),
    #[error("a part of the demo ended early")]
    Task(#[from] tokio::task::JoinError),
    #[error("the report {} cannot be written", path.display())]
    Report { path: PathBuf, source: io::Error },
    #[error("the demo cannot say what it sees")]
    Output(#[from] OutputError),
    #[error("the terminal cannot be drawn on")]
    Terminal(#[source] io::Error),
    #[error("the system refuses what the demo needs to run")]
    System(#[from] io::Error),
    #[error("interrupted: nothing was checked")]
    Interrupted,
    #[error(
        "the demo broke its promise: {problems} of what was found is not as it must be (listed above)"
    )]
    Broken { problems: usize },
}

impl From<DemoError> for Failure {
    fn from(error: DemoError) -> Self {
        match error {
            DemoError::Output(error) => error.into(),
            error => Self::of(ExitStatus::Failed, &error),
        }
    }
}

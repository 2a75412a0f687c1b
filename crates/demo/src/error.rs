//! Why a demo did not run to its end, or did not keep what it promises.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// Why a demo failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DemoError {
    /// The account could not start.
    #[error("the account of the demo does not start")]
    Start(#[from] sidereal_emulator::StartError),
    /// The account refused a step of the schedule.
    #[error("the account of the demo refuses what the schedule says")]
    Control(#[from] sidereal_emulator::ControlError),
    /// A region could not be brought back.
    #[error("a region does not come back")]
    Region(#[from] sidereal_emulator::RegionError),
    /// A fault rule contradicts itself.
    #[error("a fault rule of the demo contradicts itself")]
    Fault(#[from] sidereal_emulator::InvalidFault),
    /// A call of the application failed.
    #[error("the application cannot use its account")]
    Client(#[from] sidereal::Error),
    /// A name is not valid for the service.
    #[error("a name of the demo is not valid for the service")]
    Name(#[from] sidereal_protocol::Error),
    /// The provider of the orchestrations could not start.
    #[error("the provider of the orchestrations does not start")]
    Provider(#[from] sidereal_duroxide::ProviderSetupError),
    /// The driver could not start.
    #[error("the driver does not start: {0}")]
    Driver(String),
    /// An orchestration could not be started.
    #[error("an orchestration could not be started: {0}")]
    Flow(String),
    /// The account could not be read at the end.
    #[error("the account cannot be read: {0}")]
    Ledger(String),
    /// A task of the demo panicked or was cancelled.
    #[error("a part of the demo ended early")]
    Task(#[from] tokio::task::JoinError),
    /// The report could not be written.
    #[error("the report {} cannot be written", path.display())]
    Report {
        /// The file of the report.
        path: PathBuf,
        /// Why it could not be written.
        source: io::Error,
    },
    /// Standard output could not be written; `BrokenPipe` if its reader is gone.
    #[error("the demo cannot say what it sees")]
    Output(#[source] io::Error),
    /// The terminal could not be drawn on.
    #[error("the terminal cannot be drawn on")]
    Terminal(#[source] io::Error),
    /// The operating system refused a resource.
    #[error("the system refuses what the demo needs to run")]
    System(#[from] io::Error),
    /// The documents in the account differ from the expected ones.
    #[error(
        "the demo broke its promise: {problems} of what was found is not as it must be (listed above)"
    )]
    Broken {
        /// How many differences were found.
        problems: usize,
    },
}

//! `sidereal emulator`: start it, say where it is, wait for a signal or the end of its parent, stop it.

mod announce;
mod arguments;
mod load;
mod status;

use sidereal_emulator::{Emulator, StartError};
use sidereal_protocol::AccountKey;
use thiserror::Error;

pub(crate) use arguments::EmulatorArguments;

use crate::account::read_key;
use crate::command::block_on;
use crate::failure::{ExitStatus, Failure};
use crate::signals::Signals;
use crate::{input, output, state};

/// Why the emulator did not run.
#[derive(Debug, Error)]
pub(crate) enum RunError {
    #[error(transparent)]
    Start(StartError),
    #[error(
        "there is no directory to keep the certificate in, since neither XDG_STATE_HOME nor HOME is set: \
         give one with --certificate-dir"
    )]
    NoStateDirectory,
    #[error("--key: {0}")]
    Key(sidereal_protocol::Error),
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        let status = match &error {
            RunError::Key(_) => ExitStatus::InvalidInput,
            RunError::Start(_) | RunError::NoStateDirectory => ExitStatus::Failed,
        };
        Self::of(status, &error)
    }
}

/// Runs the emulator until the process is asked to end.
pub(crate) fn run(arguments: &EmulatorArguments) -> Result<(), Failure> {
    block_on(serve(arguments))
}

async fn serve(arguments: &EmulatorArguments) -> Result<(), Failure> {
    // Before anything is printed: a reader of the first line may send a signal, and without a handler its
    // default action would end the process without a graceful shutdown.
    let mut signals = Signals::listen().map_err(Failure::system)?;
    let contents = arguments.load.as_deref().map(load::read).transpose()?;
    let emulator = start(arguments).await?;
    let served = async {
        if let (Some(path), Some(contents)) = (&arguments.load, &contents) {
            output::note(&load::load(&emulator, path, contents).await?);
        }
        announce::print(&emulator, arguments)?;
        // Unbiased: the line has no end of its own.
        tokio::select! {
            () = signals.recv() => {}
            () = input::closed(), if arguments.end_with_stdin => {}
            () = status::show(emulator.account()), if !arguments.json => {}
        }
        Ok(())
    }
    .await;
    // Also after a failure: what was written is on disk before the command ends.
    emulator.shutdown().await;
    served
}

async fn start(arguments: &EmulatorArguments) -> Result<Emulator, Failure> {
    let directory = arguments.certificate_dir.clone().or_else(state::directory);
    let mut builder = Emulator::builder()
        .port(arguments.port)
        .address(arguments.address)
        .regions(arguments.regions.iter().cloned())
        .region_ports(arguments.region_ports.iter().copied())
        .multi_write(arguments.multi_write)
        .replication_delay(arguments.replication_delay)
        .partition_failover(arguments.partition_failover)
        .hedging_suppressed(arguments.suppress_hedging)
        .thin_client(arguments.thin_client)
        .consistency(arguments.consistency)
        .entra_any(arguments.entra_any)
        .enforce_throughput(arguments.enforce_throughput)
        .certificate_directory(directory.ok_or(RunError::NoStateDirectory)?);
    if let Some(partitions) = arguments.partitions {
        builder = builder.partitions(partitions);
    }
    if let Some(directory) = &arguments.data_dir {
        builder = builder.data_dir(directory);
    }
    if let Some(host) = &arguments.advertise {
        builder = builder.advertise(host.clone());
    }
    if let Some(grease) = arguments.grease() {
        builder = builder.grease(grease);
    }
    let key = match (&arguments.key, &arguments.key_file) {
        (Some(key), _) => Some(key.clone()),
        (None, Some(path)) => Some(read_key(path)?),
        (None, None) => None,
    };
    if let Some(key) = key {
        builder = builder.key(AccountKey::from_base64(key.expose_secret()).map_err(RunError::Key)?);
    }
    Ok(builder.start().await.map_err(RunError::Start)?)
}

//! `sidereal chaos`: controls a running emulator through its admin API.
//!
//! An action on the command line is one request and one way to print the answer; what the request does
//! is the emulator's matter.

mod action;
mod client;
mod fault;
mod tables;

use std::io;
use std::path::PathBuf;

use clap::Args;
use serde_json::Value;
use sidereal_emulator::AccountOptions;
use sidereal_protocol::{AccountKey, Secret};
use thiserror::Error;

pub(crate) use action::Action;
use client::Endpoint;

use crate::account::read_key;
use crate::failure::{ExitStatus, Failure};
use crate::output;
use crate::values::secret;

/// Where `sidereal emulator` listens by default.
const DEFAULT_ENDPOINT: &str = "http://127.0.0.1:8081";

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sidereal chaos regions
  sidereal chaos offline \"West US\"
  sidereal chaos online \"West US\"
  sidereal chaos remove \"West US\"
  sidereal chaos write-region \"East US\"
  sidereal chaos write-region \"East US\" --forced
  sidereal chaos replication delay \"East US\" 250ms
  sidereal chaos replication pause \"East US\"
  sidereal chaos replication resume \"East US\"
  sidereal chaos move-partition shop/orders 0 \"East US\"
  sidereal chaos split shop/orders 0
  sidereal chaos merge shop/orders 1 2
  sidereal chaos fault add --status 503 --region \"West US\" --hits 3
  sidereal chaos fault add --delay-before 2s --operation Read --probability 0.1 --name slow
  sidereal chaos fault list
  sidereal chaos fault remove slow
  sidereal chaos fault clear
  sidereal chaos counters --reset")]
pub(crate) struct ChaosArguments {
    /// Address of the running emulator, without TLS.
    #[arg(long, global = true, value_name = "URL", default_value = DEFAULT_ENDPOINT)]
    endpoint: Endpoint,

    /// Key of the account, base64 [default: the key that the published emulator has].
    // Decoded later: clap's message about a malformed value would repeat it.
    #[arg(long, global = true, value_parser = secret)]
    key: Option<Secret>,

    /// File that holds the key of the account.
    #[arg(long, global = true, value_name = "FILE", conflicts_with = "key")]
    key_file: Option<PathBuf>,

    /// Print the answer as one line of JSON.
    #[arg(long, global = true)]
    json: bool,

    #[command(subcommand)]
    action: Action,
}

/// Why an action failed; the text says what to change.
#[derive(Debug, Error)]
pub(crate) enum ChaosError {
    #[error(
        "no emulator answers at {address}: start one with `sidereal emulator`, or give its address with --endpoint"
    )]
    Connect { address: String, source: io::Error },
    #[error("the emulator at {address} does not answer: see whether it still runs")]
    TimedOut { address: String },
    #[error("the connection to the emulator failed")]
    Connection(#[from] hyper::Error),
    #[error("--key: {0}")]
    Key(sidereal_protocol::Error),
    #[error("the emulator has another key: give it with --key")]
    WrongKey,
    #[error("{message}")]
    Refused { status: http::StatusCode, message: String },
    #[error("what answers at {address} is not an emulator with an admin API: check --endpoint")]
    NotAnEmulator { address: String },
}

impl From<ChaosError> for Failure {
    fn from(error: ChaosError) -> Self {
        let status = match &error {
            ChaosError::Connect { .. }
            | ChaosError::TimedOut { .. }
            | ChaosError::Connection(_) => ExitStatus::Unavailable,
            ChaosError::WrongKey => ExitStatus::Unauthorized,
            ChaosError::Key(_) => ExitStatus::InvalidInput,
            ChaosError::Refused { status: http::StatusCode::NOT_FOUND, .. } => ExitStatus::NotFound,
            ChaosError::Refused { status: http::StatusCode::CONFLICT, .. } => ExitStatus::Conflict,
            ChaosError::Refused { .. } => ExitStatus::InvalidInput,
            ChaosError::NotAnEmulator { .. } => ExitStatus::Failed,
        };
        Self::of(status, &error)
    }
}

/// Does what the arguments ask for and prints what came of it.
pub(crate) fn run(arguments: &ChaosArguments) -> Result<(), Failure> {
    let answer = answer(arguments)?;
    let text =
        if arguments.json { format!("{answer}\n") } else { arguments.action.describe(&answer) };
    Ok(output::print(&text)?)
}

fn answer(arguments: &ChaosArguments) -> Result<Value, Failure> {
    // One request after the other: one thread is enough, and starts faster than a pool.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(Failure::system)?;
    let key = arguments.account_key()?;
    let answered = runtime.block_on(async {
        let mut answer = None;
        for call in arguments.action.calls() {
            let answered = client::send(&arguments.endpoint, &key, call).await?;
            // Counters are read before they are reset: the first response is what is printed.
            answer.get_or_insert(answered);
        }
        Ok::<_, ChaosError>(answer.unwrap_or_default())
    });
    Ok(answered?)
}

impl ChaosArguments {
    fn account_key(&self) -> Result<AccountKey, Failure> {
        let key = match (&self.key, &self.key_file) {
            (Some(key), _) => key.clone(),
            (None, Some(path)) => read_key(path)?,
            (None, None) => return Ok(AccountOptions::default().key),
        };
        Ok(AccountKey::from_base64(key.expose_secret()).map_err(ChaosError::Key)?)
    }
}

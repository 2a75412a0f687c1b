//! `sidereal chaos`: controls a running emulator through its admin API.
//!
//! An action on the command line is one request and one way to print the answer; what the request does
//! is the emulator's matter.

mod action;
mod client;
mod fault;
mod tables;

use std::io;

use clap::Args;
use sidereal_emulator::AccountOptions;
use sidereal_protocol::{AccountKey, Secret};
use thiserror::Error;

pub(crate) use action::Action;
use client::Endpoint;

use crate::arguments::secret;
use crate::output::{self, OutputError};

/// Where `sidereal emulator` listens by default.
const DEFAULT_ENDPOINT: &str = "http://127.0.0.1:8081";

#[derive(Args, Debug)]
pub(crate) struct ChaosArguments {
    /// Address of the running emulator, without TLS.
    #[arg(long, global = true, value_name = "URL", default_value = DEFAULT_ENDPOINT)]
    endpoint: Endpoint,

    /// Key of the account, base64 [default: the key that the published emulator has].
    // Decoded later: clap's message about a malformed value would repeat it.
    #[arg(long, global = true, value_parser = secret)]
    key: Option<Secret>,

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
    #[error("{0}")]
    Refused(String),
    #[error("what answers at {address} is not an emulator with an admin API: check --endpoint")]
    NotAnEmulator { address: String },
    #[error("the answer cannot be printed")]
    Output(#[from] OutputError),
    #[error("the system refuses what the command needs to run")]
    System(#[from] io::Error),
}

/// Does what the arguments ask for and prints what came of it.
pub(crate) fn run(arguments: &ChaosArguments) -> Result<(), ChaosError> {
    // One request after the other: one thread is enough, and starts faster than a pool.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let key = match &arguments.key {
        Some(key) => AccountKey::from_base64(key.expose_secret()).map_err(ChaosError::Key)?,
        None => AccountOptions::default().key,
    };
    let answer = runtime.block_on(async {
        let mut answer = None;
        for call in arguments.action.calls() {
            let answered = client::send(&arguments.endpoint, &key, call).await?;
            // Counters are read before they are reset: the first response is what is printed.
            answer.get_or_insert(answered);
        }
        Ok::<_, ChaosError>(answer.unwrap_or_default())
    })?;
    let text =
        if arguments.json { format!("{answer}\n") } else { arguments.action.describe(&answer) };
    Ok(output::print(&text)?)
}

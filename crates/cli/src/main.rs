//! The `sidereal` command.
//!
//! Arguments in, text out: what the command does is in the crates that it calls.

mod announce;
mod arguments;
mod chaos;
mod emulator;
mod output;

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;

use crate::arguments::{Arguments, Command};

fn main() -> ExitCode {
    let outcome: Result<(), Box<dyn Error>> = match Arguments::parse().command {
        Command::Emulator(arguments) => emulator::run(arguments).map_err(Into::into),
        Command::Chaos(arguments) => chaos::run(&arguments).map_err(Into::into),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => output::report(&*error),
    }
}

//! The `sidereal` command.
//!
//! Arguments in, text out: what the command does is in the crates that it calls.

mod announce;
mod arguments;
mod chaos;
mod emulator;

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
        Err(error) => {
            eprintln!("error: {}", with_causes(&*error));
            ExitCode::FAILURE
        }
    }
}

/// An error and what caused it, as one line.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!("\n  because: {error}"));
        cause = error.source();
    }
    text
}

//! The `sidereal` command.
//!
//! Arguments in, text out: what the command does is in the crates that it calls.

mod account;
mod arguments;
mod chaos;
mod command;
mod config;
mod container;
mod database;
mod defect;
mod demo;
mod emulator;
mod examples;
mod failure;
mod input;
mod item;
mod manual;
mod orch;
mod output;
mod progress;
mod signals;
mod soak;
mod sql;
mod state;
mod stress;
mod system_properties;
mod table;
mod throughput;
mod values;

use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches};

use crate::arguments::{Arguments, Command};
use crate::failure::Failure;

fn main() -> ExitCode {
    let matches = declaration().get_matches();
    let arguments = Arguments::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    defect::guarded(|| match run(arguments.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure::report(&failure),
    })
}

/// The declaration of the whole command line.
fn declaration() -> clap::Command {
    examples::with_examples(Arguments::command())
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Demo(arguments) => demo::run(arguments),
        Command::Emulator(arguments) => emulator::run(&arguments),
        Command::Chaos(arguments) => chaos::run(&arguments),
        Command::Sql(arguments) => sql::run(&arguments),
        Command::Item(arguments) => item::run(&arguments),
        Command::Db(arguments) => database::run(&arguments),
        Command::Container(arguments) => container::run(&arguments),
        Command::Orch(arguments) => orch::run(&arguments),
        Command::Stress(arguments) => stress::run(&arguments),
        Command::Soak(arguments) => soak::run(&arguments),
        Command::SoakWorker(arguments) => soak::work(&arguments),
        Command::Config(arguments) => config::run(&arguments),
        Command::Completions(arguments) => manual::completions(&arguments, declaration()),
        Command::Man(arguments) => manual::manual(&arguments, declaration()),
    }
}

//! Shared by commands on an account: a runtime, and the ways in which results are printed.

use std::io::{self, IsTerminal, Write};

use clap::{Args, ValueEnum};
use serde_json::Value;
use tokio::runtime::Builder;

use crate::failure::{ExitStatus, Failure};
use crate::output;
use crate::table;

/// Runs a command to its end.
pub(crate) fn block_on<T>(command: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
    Builder::new_multi_thread().enable_all().build().map_err(Failure::system)?.block_on(command)
}

/// How results are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// A table for people.
    Table,
    /// One JSON value a line.
    Json,
}

#[derive(Args, Debug)]
pub(crate) struct FormatArguments {
    /// How results are printed [default: table on a terminal, json otherwise].
    #[arg(long, short, global = true, value_name = "FORMAT")]
    output: Option<Format>,
}

impl FormatArguments {
    pub(crate) fn format(&self) -> Format {
        let is_terminal = io::stdout().is_terminal();
        self.output.unwrap_or(if is_terminal { Format::Table } else { Format::Json })
    }

    /// Prints rows: as a table of these columns, or each as the JSON that it came from.
    pub(crate) fn print<const N: usize>(
        &self,
        heads: [&str; N],
        rows: &[(Value, [String; N])],
    ) -> Result<(), Failure> {
        let text = match self.format() {
            Format::Json => rows.iter().map(|(value, _)| format!("{value}\n")).collect(),
            Format::Table => {
                let rows: Vec<Vec<String>> = rows.iter().map(|(_, row)| row.to_vec()).collect();
                table::render(&heads, &rows, table::terminal_width())
            }
        };
        Ok(output::print(&text)?)
    }
}

impl FormatArguments {
    /// Prints what is known of one thing: a line for each fact, or one JSON object.
    pub(crate) fn print_facts(&self, facts: &[(&str, Value)]) -> Result<(), Failure> {
        let text = match self.format() {
            Format::Json => {
                let object: serde_json::Map<String, Value> =
                    facts.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
                format!("{}\n", Value::from(object))
            }
            Format::Table => {
                let row =
                    |(name, value): &(&str, Value)| vec![(*name).to_owned(), table::cell(value)];
                let rows: Vec<Vec<String>> = facts.iter().map(row).collect();
                table::render(&["NAME", "VALUE"], &rows, table::terminal_width())
            }
        };
        Ok(output::print(&text)?)
    }
}

#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct DiagnosticsArguments {
    /// Print what happened attempt by attempt, as JSON, to standard error.
    #[arg(long, global = true)]
    diagnostics: bool,
}

impl DiagnosticsArguments {
    /// Tells what an operation went through, whatever came of it.
    pub(crate) fn of<T>(
        self,
        outcome: sidereal::Result<sidereal::Response<T>>,
    ) -> sidereal::Result<sidereal::Response<T>> {
        let diagnostics = match &outcome {
            Ok(response) => Some(response.diagnostics()),
            Err(error) => error.diagnostics(),
        };
        if let Some(diagnostics) = diagnostics.filter(|_| self.diagnostics) {
            output::note(&diagnostics.to_json());
        }
        outcome
    }
}

#[derive(Args, Debug)]
pub(crate) struct Confirmation {
    /// Do not ask first.
    #[arg(long, short)]
    yes: bool,
}

impl Confirmation {
    /// Asks whether to go on with what cannot be undone; without a terminal the flag has to say it.
    pub(crate) fn ask(&self, question: &str) -> Result<(), Failure> {
        if self.yes {
            return Ok(());
        }
        if !io::stdin().is_terminal() {
            let sentence = "there is no terminal to ask for confirmation";
            return Err(Failure::new(ExitStatus::Usage, sentence).with_hint("confirm with --yes"));
        }
        let _ = write!(io::stderr(), "{question} [y/N] "); // Unseen if closed: then the answer is no.
        let mut answer = String::new();
        io::stdin().read_line(&mut answer).map_err(Failure::system)?;
        match answer.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => Ok(()),
            _ => Err(Failure::new(ExitStatus::Failed, "not confirmed: nothing was changed")),
        }
    }
}

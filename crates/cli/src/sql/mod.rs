//! `sidereal sql`: queries over a container, given on the command line, from standard input or at a prompt.
//!
//! `statement.rs` divides text into statements and commands, `session.rs` carries them out one after the other,
//! `query.rs` reads a query page by page, and `rows.rs` makes a table of a page. Where the text comes from is
//! `input.rs`'s matter: the session does not know a terminal.

mod arguments;
mod input;
mod query;
mod rows;
mod session;
mod statement;

use std::io::{self, IsTerminal};

pub(crate) use arguments::SqlArguments;
use input::{Prompt, Script};
use session::Session;

use crate::command::block_on;
use crate::failure::{ExitStatus, Failure};

/// Runs the query of the command line, or the statements that are typed or piped in.
pub(crate) fn run(arguments: &SqlArguments) -> Result<(), Failure> {
    let is_interactive = arguments.query.is_none() && io::stdin().is_terminal();
    block_on(async {
        let mut session = Session::new(arguments, is_interactive)?;
        match &arguments.query {
            Some(text) if text.trim().is_empty() => {
                let failure = Failure::new(ExitStatus::InvalidInput, "the query is empty");
                Err(failure.with_hint("for example \"SELECT * FROM c\""))
            }
            Some(text) => session.query(text.trim().trim_end_matches(';')).await,
            None if is_interactive => session.run(&mut Prompt::open()?).await,
            None => session.run(&mut Script::new(io::stdin().lock())).await,
        }
    })
}

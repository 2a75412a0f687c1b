//! Statements and commands, one after the other.

use sidereal::CosmosClient;
use sidereal::query::ContinuationToken;

use super::arguments::{SqlArguments, parameter};
use super::input::{Line, Lines};
use super::query::{Asked, Rest, Settings, execute};
use super::statement::{StatementReader, Step};
use crate::account::ContainerName;
use crate::command::Format;
use crate::failure::{self, ExitStatus, Failure};
use crate::output;

/// Rows at a prompt before it waits for \next: what one can look at.
const ROWS_AT_A_PROMPT: u32 = 100;

/// Rows of a page unless the command line says otherwise.
const PAGE_SIZE: u32 = 100;

const HELP: &str = "\
A query ends with a semicolon and may go over several lines.

  \\use DATABASE/CONTAINER   query this container
  \\list                     the databases, or the containers of the one in use
  \\next                     the next rows of the last query
  \\param NAME=VALUE         set a parameter; \\param alone lists them
  \\format table|json        how rows are printed
  \\help                     this text
  \\quit                     leave (Ctrl-D does too; Ctrl-C gives up a query)
";

/// The state of a session: its settings, its container, the query under way.
pub(super) struct Session {
    client: CosmosClient,
    container: Option<ContainerName>,
    settings: Settings,
    /// Where the query of the command line goes on.
    continuation: Option<ContinuationToken>,
    /// A query that was stopped at `max_items`.
    stopped: Option<Asked>,
    quiet: bool,
    is_interactive: bool,
}

/// Whether there is more to do after a step.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    GoOn,
    Leave,
}

impl Session {
    pub(super) fn new(arguments: &SqlArguments, is_interactive: bool) -> Result<Self, Failure> {
        let at_prompt = is_interactive.then_some(ROWS_AT_A_PROMPT);
        Ok(Self {
            client: arguments.account.connect()?,
            container: arguments.container.clone(),
            settings: Settings {
                parameters: arguments.param.clone(),
                key: arguments.key.key()?,
                max_items: arguments.max_items.or(at_prompt),
                page_size: arguments.page_size.unwrap_or(PAGE_SIZE),
                format: arguments.format.format(),
                system: arguments.system,
                diagnostics: arguments.diagnostics,
            },
            continuation: arguments.continuation.clone(),
            stopped: None,
            quiet: arguments.quiet,
            is_interactive,
        })
    }

    /// Carries out lines until they end or one says so. At a prompt a failure is told and the next line is read;
    /// in a script the first one ends it.
    pub(super) async fn run(&mut self, lines: &mut dyn Lines) -> Result<(), Failure> {
        let mut reader = StatementReader::default();
        loop {
            let prompt = self.prompt(reader.is_within_statement());
            let (steps, is_over) = match lines.next(&prompt)? {
                Line::Text(line) => (reader.take(&line), false),
                Line::End => (Ok(reader.finish().into_iter().collect()), true),
                Line::Interrupted => {
                    reader.clear();
                    continue;
                }
            };
            let done = match steps {
                Ok(steps) => self.carry_out_or_interrupt(steps).await,
                Err(sentence) => Err(Failure::new(ExitStatus::InvalidInput, sentence)),
            };
            match done {
                Ok(Next::Leave) => return Ok(()),
                Ok(Next::GoOn) if is_over => return Ok(()),
                Ok(Next::GoOn) => {}
                Err(failure) if !self.is_interactive => return Err(failure),
                Err(failure) if failure.status() == ExitStatus::ClosedPipe => return Err(failure),
                Err(failure) => {
                    failure::report(&failure); // The status is that of the command, which goes on.
                }
            }
        }
    }

    async fn carry_out(&mut self, steps: Vec<Step>) -> Result<Next, Failure> {
        for step in steps {
            match step {
                Step::Query(text) => self.query(&text).await?,
                Step::Command(command) => {
                    if self.command(&command).await? == Next::Leave {
                        return Ok(Next::Leave);
                    }
                }
            }
        }
        Ok(Next::GoOn)
    }

    /// Steps that Ctrl-C gives up at a prompt; elsewhere it ends the process.
    async fn carry_out_or_interrupt(&mut self, steps: Vec<Step>) -> Result<Next, Failure> {
        if !self.is_interactive {
            return self.carry_out(steps).await;
        }
        // Unbiased: what is over and what is given up at the same moment may end either way.
        tokio::select! {
            done = self.carry_out(steps) => done,
            _ = tokio::signal::ctrl_c() => {
                output::note("given up");
                Ok(Next::GoOn)
            }
        }
    }

    /// Runs a query and says what it cost.
    pub(super) async fn query(&mut self, text: &str) -> Result<(), Failure> {
        let container = self.container.clone().ok_or_else(|| {
            Failure::new(ExitStatus::Usage, "no container is chosen")
                .with_hint("choose one with \\use DATABASE/CONTAINER")
        })?;
        let continuation = self.continuation.take();
        self.ask(Asked { container, text: text.to_owned(), continuation }).await
    }

    async fn ask(&mut self, mut asked: Asked) -> Result<(), Failure> {
        self.stopped = None;
        let summary = execute(&self.client, &asked, &self.settings).await?;
        if !self.quiet {
            output::note(&summary.line());
        }
        match summary.rest {
            Rest::Nothing => {}
            Rest::Lost(why) => {
                output::note(&format!("there is more, which cannot be continued: {why}"));
            }
            Rest::From(token) if self.is_interactive => {
                output::note("there is more: \\next");
                asked.continuation = Some(token);
                self.stopped = Some(asked);
            }
            Rest::From(token) => output::note(&format!("continuation: {token}")),
        }
        Ok(())
    }

    async fn command(&mut self, line: &str) -> Result<Next, Failure> {
        let (name, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim().trim_end_matches(';').trim_end();
        let invalid = |sentence: String| Failure::new(ExitStatus::InvalidInput, sentence);
        match name.trim_end_matches(';') {
            "quit" | "q" | "exit" => return Ok(Next::Leave),
            "help" | "h" | "?" => output::print(HELP)?,
            "use" | "u" => self.container = Some(rest.parse().map_err(invalid)?),
            "list" | "l" => self.list().await?,
            "next" | "n" => {
                let stopped = self.stopped.take();
                self.ask(stopped.ok_or_else(|| invalid("no query was stopped".to_owned()))?)
                    .await?;
            }
            "param" | "p" if rest.is_empty() => {
                let line = |(name, value): &(_, _)| format!("@{name} = {value}\n");
                output::print(&self.settings.parameters.iter().map(line).collect::<String>())?;
            }
            "param" | "p" => {
                let (name, value) = parameter(rest).map_err(invalid)?;
                self.settings.parameters.retain(|(known, _)| *known != name);
                self.settings.parameters.push((name, value));
            }
            "format" | "f" => {
                self.settings.format = match rest {
                    "table" => Format::Table,
                    "json" => Format::Json,
                    _ => {
                        return Err(invalid("expected \\format table or \\format json".to_owned()));
                    }
                }
            }
            unknown => {
                let failure = invalid(format!("there is no command \\{unknown}"));
                return Err(failure.with_hint("\\help lists the commands"));
            }
        }
        Ok(Next::GoOn)
    }

    async fn list(&self) -> Result<(), Failure> {
        let all = "SELECT * FROM root";
        let names: Vec<String> = match &self.container {
            None => {
                let found = self.client.query_databases(all, None).collect().await?;
                found.into_iter().map(|database| database.id).collect()
            }
            Some(ContainerName { database, .. }) => {
                let found = self.client.database(database).query_containers(all, None);
                let found = found.collect().await?;
                found.into_iter().map(|it| format!("{database}/{}", it.id)).collect()
            }
        };
        let line = |name: &String| format!("{name}\n");
        Ok(output::print(&names.iter().map(line).collect::<String>())?)
    }

    fn prompt(&self, is_within_statement: bool) -> String {
        let name = self.container.as_ref().map_or_else(|| "sql".to_owned(), ToString::to_string);
        if is_within_statement {
            return format!("{:>1$} ", "...", name.chars().count() + 1);
        }
        format!("{name}> ")
    }
}

//! A child process: its first line, its log, and its end.

use std::fs::File;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::failure::{self, Failure};

/// How long a process may take until it is ready.
pub(super) const START_BOUND: Duration = Duration::from_secs(30);

/// A running child. Killed when dropped; it ends by itself when its standard input is closed.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    /// Kept open: its end tells the child that the parent is gone.
    _input: Option<ChildStdin>,
    output: Option<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts this binary with other arguments, and appends its standard error to a file.
    pub(super) fn spawn(
        arguments: &[String],
        variables: &[(&str, &str)],
        log: &Path,
    ) -> Result<Self, Failure> {
        let unwritable = |error| Failure::file(log, "written", error);
        let log = File::options().create(true).append(true).open(log).map_err(unwritable)?;
        let binary = std::env::current_exe().map_err(Failure::system)?;
        let mut command = Command::new(binary);
        // The user's settings must not change what is tested.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("COSMOS") || text.starts_with("AZURE_COSMOS") {
                command.env_remove(name);
            }
        }
        let spawned = command
            .args(arguments)
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn();
        let mut child = spawned.map_err(Failure::system)?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        Ok(Self { child, _input: input, output: output.map(BufReader::new) })
    }

    /// Waits for the line that a process prints when it is ready.
    pub(super) async fn first_line(&mut self, process: &str) -> Result<String, Failure> {
        let failed = |sentence: String| Failure::new(failure::ExitStatus::Failed, sentence);
        let mut line = String::new();
        let Some(output) = &mut self.output else { return Ok(line) };
        match tokio::time::timeout(START_BOUND, output.read_line(&mut line)).await {
            Ok(Ok(length)) if length > 0 => Ok(line),
            Ok(Ok(_)) => Err(failed(format!("the {process} ended before it was ready"))),
            Ok(Err(error)) => Err(Failure::system(error)),
            Err(_) => {
                let seconds = START_BOUND.as_secs();
                Err(failed(format!("the {process} was not ready within {seconds} s")))
            }
        }
    }

    /// How the process has ended, if it has.
    pub(super) fn ended(&mut self) -> Result<Option<ExitStatus>, Failure> {
        self.child.try_wait().map_err(Failure::system)
    }

    /// Ends the process without a warning (SIGKILL), and waits until it is gone.
    pub(super) async fn kill(&mut self) -> Result<(), Failure> {
        self.child.kill().await.map_err(Failure::system)
    }
}

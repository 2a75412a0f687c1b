//! How a command fails: a sentence, what to do about it, and a status that scripts can tell apart.

use std::error::Error;
use std::fmt;
use std::io;
use std::process::ExitCode;

use serde_json::Value;
use sidereal::ErrorKind;

use crate::output::{OutputError, note};

/// The statuses that the command ends with, beside 0 for success and clap's 2 for a wrong command line.
///
/// `--help` lists them (`arguments.rs`), and a test compares the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum ExitStatus {
    /// Anything that has no status of its own.
    Failed = 1,
    /// The arguments contradict each other, or lack something that depends on the account.
    Usage = 2,
    /// There is no such database, container or item.
    NotFound = 3,
    /// It is there already, or it has changed since.
    Conflict = 4,
    /// The key is missing or was refused.
    Unauthorized = 5,
    /// The account does not answer, throttles, or took too long.
    Unavailable = 6,
    /// The input is malformed: a query, an item, a file.
    InvalidInput = 7,
    /// Some of the work was done, and what was not is named.
    Incomplete = 8,
    /// A defect of the command: a panic. As `EX_SOFTWARE` of `sysexits.h`.
    Defect = 70,
    /// The status that a shell reports for a process that SIGPIPE ended: 128 and the signal's number. Rust programs ignore
    /// the signal and get `EPIPE` from the write instead, so the command exits with that status itself.
    ClosedPipe = 128 + 13,
}

/// A failed command.
#[derive(Debug)]
pub(crate) struct Failure {
    status: ExitStatus,
    sentence: String,
    hint: Option<String>,
    causes: Vec<String>,
}

impl Failure {
    pub(crate) fn new(status: ExitStatus, sentence: impl Into<String>) -> Self {
        Self { status, sentence: sentence.into(), hint: None, causes: Vec::new() }
    }

    /// Says what to do about it, unless that is said already.
    #[must_use]
    pub(crate) fn with_hint(mut self, hint: impl Into<String>) -> Self {
        self.hint.get_or_insert_with(|| hint.into());
        self
    }

    /// Adds an error that led to this failure, and what led to that.
    #[must_use]
    pub(crate) fn caused_by(mut self, error: &(dyn Error + 'static)) -> Self {
        for cause in std::iter::successors(Some(error), |error| (*error).source()) {
            let cause = plain(&cause.to_string());
            // Many errors repeat what caused them at the end of their own sentence.
            if !self.causes.last().unwrap_or(&self.sentence).contains(&cause) {
                self.causes.push(cause);
            }
        }
        self
    }

    pub(crate) fn status(&self) -> ExitStatus {
        self.status
    }

    /// The causes, nearest first.
    pub(crate) fn causes(&self) -> &[String] {
        &self.causes
    }

    pub(crate) fn hint(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Tells an error whose sentences say what to do, with the causes below it.
    pub(crate) fn of(status: ExitStatus, error: &(dyn Error + 'static)) -> Self {
        Self::new(status, error.to_string()).caused_by(error)
    }

    /// The system did not do what the command needs to run.
    pub(crate) fn system(error: io::Error) -> Self {
        let sentence = "the system refuses what the command needs to run";
        Self::new(ExitStatus::Failed, sentence).caused_by(&error)
    }

    /// A file that was named cannot be read or written.
    pub(crate) fn file(path: &std::path::Path, what: &str, error: io::Error) -> Self {
        let sentence = format!("{} cannot be {what}: {error}", path.display());
        Self::new(ExitStatus::InvalidInput, sentence)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.sentence)
    }
}

impl From<OutputError> for Failure {
    fn from(error: OutputError) -> Self {
        let status = match error {
            OutputError::Closed => ExitStatus::ClosedPipe,
            OutputError::Failed(_) => ExitStatus::Failed,
        };
        Self::new(status, "the result cannot be printed").caused_by(&error)
    }
}

impl From<sidereal::Error> for Failure {
    fn from(error: sidereal::Error) -> Self {
        let (status, hint) = meaning(error.kind());
        let mut sentence = plain(&error.to_string());
        if error.may_have_been_applied() && !sentence.contains("may have been applied") {
            sentence.push_str(" (it may have been applied)");
        }
        let mut failure = Self::new(status, sentence);
        failure.hint = hint.map(str::to_owned);
        failure.caused_by(&error)
    }
}

/// A sentence of a message: the service adds lines about the request, such as its activity id, and writes the
/// errors of a query as JSON.
fn plain(message: &str) -> String {
    let line = message.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let errors = line.find('{').and_then(|at| Some((at, messages_of(&line[at..])?)));
    match errors {
        Some((at, messages)) => format!("{}{messages}", &line[..at]),
        None => line.to_owned(),
    }
}

/// The messages of `{"errors":[{"message":"…"}]}`.
fn messages_of(json: &str) -> Option<String> {
    let value: Value = serde_json::from_str(json).ok()?;
    let messages = value["errors"].as_array()?.iter().filter_map(|it| it["message"].as_str());
    let messages: Vec<&str> = messages.collect();
    (!messages.is_empty()).then(|| messages.join("; "))
}

/// Reports a failed command on standard error and returns its exit status; a closed pipe is not reported.
pub(crate) fn report(failure: &Failure) -> ExitCode {
    if failure.status() != ExitStatus::ClosedPipe {
        note(&described(failure));
    }
    ExitCode::from(failure.status() as u8)
}

/// The sentence, what caused it, and what to do about it.
fn described(failure: &Failure) -> String {
    let hint = failure.hint().map(|hint| format!("\n  hint: {hint}")).unwrap_or_default();
    let causes = failure.causes().iter().map(|cause| format!("\n  because: {cause}"));
    format!("error: {failure}{}{hint}", causes.collect::<String>())
}

/// The exit status and the hint for a kind of failure.
fn meaning(kind: ErrorKind) -> (ExitStatus, Option<&'static str>) {
    match kind {
        ErrorKind::NotFound => (ExitStatus::NotFound, None),
        ErrorKind::Conflict => (ExitStatus::Conflict, None),
        ErrorKind::PreconditionFailed => {
            (ExitStatus::Conflict, Some("read it again, and decide with what it is now"))
        }
        ErrorKind::Unauthorized => (
            ExitStatus::Unauthorized,
            Some(
                "check the key, in COSMOSDB_KEY or the file of --key-file, and this machine's clock",
            ),
        ),
        ErrorKind::Throttled => {
            (ExitStatus::Unavailable, Some("raise the container's throughput, or try again later"))
        }
        ErrorKind::Overloaded => {
            (ExitStatus::Unavailable, Some("send fewer requests at once, or raise the limit"))
        }
        ErrorKind::DeadlineExceeded => {
            (ExitStatus::Unavailable, Some("give it longer with --timeout"))
        }
        ErrorKind::Unavailable => (
            ExitStatus::Unavailable,
            Some(
                "see whether the account answers: `sidereal emulator` starts one here, --endpoint names another",
            ),
        ),
        ErrorKind::InvalidRequest => (ExitStatus::InvalidInput, None),
        _ => (ExitStatus::Failed, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_ends_the_command_as_sigpipe_would() {
        let code = |error: io::Error| format!("{:?}", report(&OutputError::from(error).into()));
        assert_eq!(code(io::ErrorKind::BrokenPipe.into()), format!("{:?}", ExitCode::from(141)));
        assert_eq!(code(io::ErrorKind::StorageFull.into()), format!("{:?}", ExitCode::FAILURE));
    }

    #[test]
    fn a_failure_is_a_sentence_its_cause_and_a_hint() {
        let failure = Failure::new(ExitStatus::NotFound, "it is not there")
            .caused_by(&io::Error::other("it was never made"))
            .with_hint("make it");
        let expected = "error: it is not there\n  because: it was never made\n  hint: make it";
        assert_eq!(described(&failure), expected);
    }

    #[test]
    fn each_kind_of_failure_has_its_status() {
        let status = |kind| meaning(kind).0;
        assert_eq!(status(ErrorKind::NotFound), ExitStatus::NotFound);
        assert_eq!(status(ErrorKind::Conflict), ExitStatus::Conflict);
        assert_eq!(status(ErrorKind::PreconditionFailed), ExitStatus::Conflict);
        assert_eq!(status(ErrorKind::Unauthorized), ExitStatus::Unauthorized);
        for kind in [
            ErrorKind::Throttled,
            ErrorKind::Overloaded,
            ErrorKind::DeadlineExceeded,
            ErrorKind::Unavailable,
        ] {
            assert_eq!(status(kind), ExitStatus::Unavailable);
            assert!(meaning(kind).1.is_some(), "{kind:?} has a hint");
        }
        assert_eq!(status(ErrorKind::InvalidRequest), ExitStatus::InvalidInput);
        assert_eq!(status(ErrorKind::LimitExceeded), ExitStatus::Failed);
    }

    #[test]
    fn the_first_hint_is_kept_for_it_knows_most() {
        let failure = Failure::new(ExitStatus::Failed, "no").with_hint("near").with_hint("far");
        assert_eq!(failure.hint(), Some("near"));
    }

    #[test]
    fn of_a_service_s_message_the_sentence_is_told() {
        assert_eq!(plain("\nno such thing\r\nActivityId: 1"), "no such thing");
        assert_eq!(
            plain("400: {\"errors\":[{\"code\":1,\"message\":\"a\"},{\"message\":\"b\"}]}"),
            "400: a; b"
        );
        assert_eq!(plain("400: {\"other\":1}"), "400: {\"other\":1}");
        assert_eq!(plain(""), "");
    }
}

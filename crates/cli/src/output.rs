//! Standard output and standard error: what the command prints, and how it ends when the reader is gone.

use std::io::{self, Write};
use std::process::ExitCode;

use thiserror::Error;

use crate::failure::{ExitStatus, Failure};

/// Why something was not printed.
#[derive(Debug, Error)]
pub(crate) enum OutputError {
    /// `EPIPE`: the next command of a pipeline, such as `head`, has read enough. Not a failure to report.
    #[error("the reader of standard output has closed it")]
    Closed,
    #[error("standard output cannot be written to")]
    Failed(#[source] io::Error),
}

impl From<io::Error> for OutputError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Failed(error),
        }
    }
}

/// Prints a text.
pub(crate) fn print(text: &str) -> Result<(), OutputError> {
    let mut out = io::stdout().lock();
    Ok(out.write_all(text.as_bytes()).and_then(|()| out.flush())?)
}

/// Prints a line of remarks to standard error, where it does not mix with the result.
pub(crate) fn note(line: &str) {
    // Standard error may be closed too, and then there is nobody to tell: `eprintln!` would panic.
    let _ = writeln!(io::stderr(), "{line}");
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_pipe_ends_the_command_as_the_signal_would_and_other_errors_fail() {
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
}

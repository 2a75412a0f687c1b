//! Standard output: what the command prints, and how it ends when the reader is gone.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use thiserror::Error;

/// What a shell reports for a process that SIGPIPE ended: 128 and the signal's number. Rust programs ignore
/// the signal and get `EPIPE` from the write instead, so the command exits with that status itself.
const ENDED_BY_SIGPIPE: u8 = 128 + 13;

/// Why something was not printed.
#[derive(Debug, Error)]
pub(crate) enum OutputError {
    /// `EPIPE`: the next command of a pipeline, such as `head`, has read enough. Not a failure to report.
    #[error("the reader of standard output has closed it")]
    Closed,
    #[error("standard output cannot be written to")]
    Failed(#[source] io::Error),
}

/// Prints a text.
pub(crate) fn print(text: &str) -> Result<(), OutputError> {
    let mut out = io::stdout().lock();
    let printed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    printed.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => OutputError::Closed,
        _ => OutputError::Failed(error),
    })
}

/// Reports a failed command on standard error and returns its exit status; a closed pipe is not reported.
pub(crate) fn report(error: &(dyn Error + 'static)) -> ExitCode {
    if causes(error).any(|cause| matches!(cause.downcast_ref(), Some(OutputError::Closed))) {
        return ExitCode::from(ENDED_BY_SIGPIPE);
    }
    let text: Vec<String> = causes(error).map(ToString::to_string).collect();
    // Standard error may be closed too, and then there is nobody to tell: `eprintln!` would panic.
    let _ = writeln!(io::stderr(), "error: {}", text.join("\n  because: "));
    ExitCode::FAILURE
}

/// An error, what caused it, what caused that, and so on.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Error)]
    #[error("a command failed")]
    struct Failed(#[source] OutputError);

    #[test]
    fn a_closed_pipe_ends_the_command_as_the_signal_would_and_other_errors_fail() {
        let closed = report(&Failed(OutputError::Closed));
        assert_eq!(format!("{closed:?}"), format!("{:?}", ExitCode::from(141)));
        let full = report(&Failed(OutputError::Failed(io::ErrorKind::StorageFull.into())));
        assert_eq!(format!("{full:?}"), format!("{:?}", ExitCode::FAILURE));
    }
}

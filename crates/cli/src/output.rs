//! Standard output and standard error: what the command prints, and how it ends when the reader is gone.

use std::io::{self, Write};

use thiserror::Error;

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

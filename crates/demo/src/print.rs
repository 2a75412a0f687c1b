//! Standard output. `println!` would panic when its reader is gone.

use std::io::{self, Write};

use crate::error::DemoError;

/// Prints a text; [`DemoError::Output`] if it cannot be written, with `BrokenPipe` if the reader is gone.
pub(crate) fn print(text: &str) -> Result<(), DemoError> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(DemoError::Output)
}

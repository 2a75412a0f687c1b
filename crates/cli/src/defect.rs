//! The last resort: a panic is a defect, and ends as a sentence and a status like any other failure.

use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::process::ExitCode;

use crate::failure::ExitStatus;
use crate::output;

/// Runs a command; if it panics, says so in one sentence.
pub(crate) fn guarded(command: impl FnOnce() -> ExitCode) -> ExitCode {
    // The hook tells, also of panics in tasks, which the runtime contains; only one in the command itself ends it.
    panic::set_hook(Box::new(|panic| output::note(&described(panic))));
    // Nothing is used after the unwinding but the exit status.
    let ended = panic::catch_unwind(AssertUnwindSafe(command));
    ended.unwrap_or_else(|_| ExitCode::from(ExitStatus::Defect as u8))
}

fn described(panic: &PanicHookInfo<'_>) -> String {
    let payload = panic.payload();
    let what = payload.downcast_ref::<&str>().copied();
    let what = what.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let what = what.unwrap_or("no reason was given").replace('\n', " ");
    let place = panic.location().map(|it| format!(" ({}:{})", it.file(), it.line()));
    format!(
        "error: this is a defect of sidereal, not of yours: {what}{}\n  \
         hint: please report it with the command line that led to it",
        place.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_with_a_status_of_its_own() {
        let ended = guarded(|| panic!("on purpose: a test of the guard"));
        let _ = panic::take_hook(); // Other tests report as usual.
        assert_eq!(format!("{ended:?}"), format!("{:?}", ExitCode::from(70)));
    }
}

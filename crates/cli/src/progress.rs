//! How far a long command is: a bar on a terminal, now and then a line elsewhere, always on standard error.

use std::io::{self, IsTerminal};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use crate::output;

/// Between two lines where there is no terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(5);

/// How often a bar without an end is redrawn.
const TICK: Duration = Duration::from_millis(120);

/// Clones are the same progress.
#[derive(Clone)]
pub(crate) struct Progress {
    what: &'static str,
    view: View,
}

#[derive(Clone)]
enum View {
    Bar(ProgressBar),
    Lines(Arc<Mutex<Instant>>),
}

impl Progress {
    /// `what` was done to items, such as "imported"; `bytes` is the length of the work where it is known.
    pub(crate) fn new(what: &'static str, bytes: Option<u64>) -> Self {
        if !io::stderr().is_terminal() {
            return Self { what, view: View::Lines(Arc::new(Mutex::new(Instant::now()))) };
        }
        let bar = bytes.map_or_else(ProgressBar::new_spinner, ProgressBar::new);
        let template = match bytes {
            Some(_) => "[{bar:30}] {percent:>3}% {msg} ({eta} left)",
            None => "{spinner} {msg} ({elapsed})",
        };
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        bar.enable_steady_tick(TICK);
        Self { what, view: View::Bar(bar) }
    }

    /// So many items are done, and so many failed.
    pub(crate) fn count(&self, done: usize, failed: usize) {
        self.show(|| self.message(done, failed));
    }

    /// Shows how far it is in words of the command's own.
    pub(crate) fn show(&self, message: impl FnOnce() -> String) {
        match &self.view {
            View::Bar(bar) => bar.set_message(message()),
            View::Lines(last) => {
                let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
                if last.elapsed() >= LINE_INTERVAL {
                    *last = Instant::now();
                    output::note(&message());
                }
            }
        }
    }

    /// So many bytes more are done.
    pub(crate) fn advance(&self, bytes: u64) {
        if let View::Bar(bar) = &self.view {
            bar.inc(bytes);
        }
    }

    /// A line that stays, above the bar.
    pub(crate) fn note(&self, line: &str) {
        match &self.view {
            View::Bar(bar) => bar.suspend(|| output::note(line)),
            View::Lines(_) => output::note(line),
        }
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        if let View::Bar(bar) = &self.view {
            bar.finish_and_clear();
        }
    }

    fn message(&self, done: usize, failed: usize) -> String {
        let failed = if failed == 0 { String::new() } else { format!(", {failed} failed") };
        format!("{done} items {}{failed}", self.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_where_there_are_any() {
        let view = View::Lines(Arc::new(Mutex::new(Instant::now())));
        let progress = Progress { what: "imported", view };
        assert_eq!(progress.message(5, 0), "5 items imported");
        assert_eq!(progress.message(5, 2), "5 items imported, 2 failed");
    }
}

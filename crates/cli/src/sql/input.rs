//! Where the statements of a session come from: a prompt with history, or a script.

use std::fs;
use std::io::BufRead;
use std::path::PathBuf;

use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Editor};

use crate::failure::{ExitStatus, Failure};
use crate::output;
use crate::state;

/// Lines that the history keeps.
const HISTORY_LINES: usize = 1000;

/// No line of a script is longer.
const MAX_LINE_BYTES: u64 = 1024 * 1024;

/// A line, or what came in its place.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    Text(String),
    /// Ctrl-C at a prompt: what was typed so far is given up.
    Interrupted,
    End,
}

/// A source of lines.
pub(super) trait Lines {
    fn next(&mut self, prompt: &str) -> Result<Line, Failure>;
}

/// The terminal, with a history that outlives the session.
pub(super) struct Prompt {
    editor: Editor<(), FileHistory>,
    history: Option<PathBuf>,
}

impl Prompt {
    pub(super) fn open() -> Result<Self, Failure> {
        let config = Config::builder()
            .max_history_size(HISTORY_LINES)
            .and_then(|config| config.history_ignore_dups(true))
            .map_err(terminal)?
            .auto_add_history(true)
            .build();
        let history = FileHistory::with_config(&config);
        let mut editor = Editor::with_history(config, history).map_err(terminal)?;
        let history = state::directory().map(|directory| directory.join("sql_history"));
        if let Some(path) = &history {
            let _ = editor.load_history(path); // The first session has none.
        }
        output::note("A query ends with a semicolon; \\help lists the commands, \\quit leaves.");
        Ok(Self { editor, history })
    }
}

impl Lines for Prompt {
    fn next(&mut self, prompt: &str) -> Result<Line, Failure> {
        match self.editor.readline(prompt) {
            Ok(text) => Ok(Line::Text(text)),
            Err(ReadlineError::Eof) => Ok(Line::End),
            Err(ReadlineError::Interrupted) => Ok(Line::Interrupted),
            Err(error) => Err(terminal(error)),
        }
    }
}

impl Drop for Prompt {
    fn drop(&mut self) {
        // A history that cannot be kept is no reason to fail.
        if let Some(path) = &self.history {
            let _ = path.parent().map(fs::create_dir_all);
            let _ = self.editor.save_history(path);
        }
    }
}

fn terminal(error: ReadlineError) -> Failure {
    Failure::new(ExitStatus::Failed, "the terminal cannot be read").caused_by(&error)
}

/// Lines of a text, such as standard input that is no terminal.
pub(super) struct Script<R> {
    text: R,
}

impl<R: BufRead> Script<R> {
    pub(super) fn new(text: R) -> Self {
        Self { text }
    }
}

impl<R: BufRead> Lines for Script<R> {
    fn next(&mut self, _: &str) -> Result<Line, Failure> {
        use std::io::Read;
        let mut line = String::new();
        let limited = &mut (&mut self.text).take(MAX_LINE_BYTES);
        let read = limited.read_line(&mut line).map_err(|error| {
            Failure::new(ExitStatus::InvalidInput, "the script cannot be read").caused_by(&error)
        })?;
        match read {
            0 => Ok(Line::End),
            _ => Ok(Line::Text(line.trim_end_matches(['\n', '\r']).to_owned())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_is_its_lines() {
        let mut script = Script::new(&b"SELECT 1\r\n;\n\nSELECT 2"[..]);
        let lines: Vec<Line> =
            std::iter::from_fn(|| script.next("").ok().filter(|it| *it != Line::End)).collect();
        let text = |text: &str| Line::Text(text.to_owned());
        assert_eq!(lines, [text("SELECT 1"), text(";"), text(""), text("SELECT 2")]);
    }

    #[test]
    fn what_is_no_text_is_refused() {
        assert!(Script::new(&b"\xff\n"[..]).next("").is_err());
    }
}

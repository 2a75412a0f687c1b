//! The live picture on a terminal: drawn over itself, with what happens to the account scrolling away above it.
//!
//! It uses neither the alternate screen nor raw mode: what was printed stays, and the interrupt key works as ever. All
//! that has to be restored is the cursor, which dropping the view does.

use std::fmt::Write as _;
use std::io::{self, Stdout, Write as _};
use std::time::Duration;

use crossterm::cursor::{Hide, MoveToColumn, MoveToPreviousLine, Show};
use crossterm::style::{Attribute, Color, ResetColor, SetAttribute, SetForegroundColor};
use crossterm::terminal::{self, BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate};
use crossterm::{Command, queue};

use super::Picture;
use super::frame::{Line, Style, frame};
use crate::error::DemoError;
use crate::schedule::Action;

/// The smallest terminal that a frame fits on; smaller ones get lines.
const LEAST_COLUMNS: u16 = 60;
const LEAST_ROWS: u16 = 18;

/// The width that is assumed of a terminal that does not report its own.
const USUAL_COLUMNS: u16 = 80;

/// The colours of the regions, in their order: of the terminal's own palette, so that they suit its background.
const REGION_COLOURS: [Color; 6] =
    [Color::Blue, Color::Magenta, Color::Cyan, Color::Yellow, Color::Green, Color::Red];

/// A terminal with a frame on it.
pub(crate) struct Live {
    out: Stdout,
    /// Lines of the frame that is there now.
    drawn: u16,
    is_coloured: bool,
}

impl Live {
    /// A live view, if the terminal is large enough.
    pub(super) fn on_terminal() -> Option<Self> {
        let (columns, rows) = terminal::size().ok()?;
        let is_coloured = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        (columns >= LEAST_COLUMNS && rows >= LEAST_ROWS).then(|| Self {
            out: io::stdout(),
            drawn: 0,
            is_coloured,
        })
    }

    /// Prints a line above the frame.
    pub(super) fn act(&mut self, at: Duration, action: &Action) -> Result<(), DemoError> {
        let line = format!("  {:>5.2} s  {action}\n", at.as_secs_f64());
        self.replace(&line, 0).map_err(DemoError::Terminal)
    }

    /// Draws a frame in the place of the one before.
    pub(super) fn draw(&mut self, picture: &Picture<'_>) -> Result<(), DemoError> {
        let columns = terminal::size().map_or(USUAL_COLUMNS, |(columns, _)| columns);
        let lines = frame(picture, usize::from(columns));
        let text = self.text(&lines);
        let count = u16::try_from(lines.len()).unwrap_or(u16::MAX);
        self.replace(&text, count).map_err(DemoError::Terminal)
    }

    /// Removes the frame.
    pub(super) fn end(&mut self) -> Result<(), DemoError> {
        self.replace("", 0).and_then(|()| self.restore()).map_err(DemoError::Terminal)
    }

    /// Writes a text over the frame; so many lines of it are the next frame.
    fn replace(&mut self, text: &str, lines: u16) -> io::Result<()> {
        let out = &mut self.out;
        queue!(out, BeginSynchronizedUpdate, Hide, MoveToColumn(0))?;
        if self.drawn > 0 {
            queue!(out, MoveToPreviousLine(self.drawn))?;
        }
        queue!(out, Clear(ClearType::FromCursorDown))?;
        out.write_all(text.as_bytes())?;
        queue!(out, EndSynchronizedUpdate)?;
        self.drawn = lines;
        out.flush()
    }

    fn restore(&mut self) -> io::Result<()> {
        // The interrupt key has the terminal drop what is on its way to it, which may be the end of an update.
        queue!(self.out, EndSynchronizedUpdate, ResetColor, Show)?;
        self.out.flush()
    }

    fn text(&self, lines: &[Line]) -> String {
        let mut text = String::new();
        for line in lines {
            for span in line {
                match self.is_coloured {
                    true => push_styled(&mut text, &span.text, span.style),
                    false => text.push_str(&span.text),
                }
            }
            text.push('\n');
        }
        text
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        let _ = self.restore(); // Best effort: there may be no terminal left.
    }
}

/// Appends a text in its style, and the way back to the usual one.
fn push_styled(line: &mut String, text: &str, style: Style) {
    match style {
        Style::Plain => {}
        Style::Bold => push(line, SetAttribute(Attribute::Bold)),
        Style::Faint => push(line, SetAttribute(Attribute::Dim)),
        Style::Good => push(line, SetForegroundColor(Color::Green)),
        Style::Warning => push(line, SetForegroundColor(Color::Yellow)),
        Style::Bad => push(line, SetForegroundColor(Color::Red)),
        Style::Region(number) => {
            push(line, SetForegroundColor(REGION_COLOURS[number % REGION_COLOURS.len()]));
        }
    }
    let _ = line.write_str(text); // A text takes everything.
    if style != Style::Plain {
        push(line, SetAttribute(Attribute::Reset));
    }
}

fn push(line: &mut String, command: impl Command) {
    let _ = command.write_ansi(line); // A text takes everything.
}

//! Tables for people: columns aligned by what a terminal shows, cut to its width.

use serde_json::Value;
use terminal_size::{Width, terminal_size};
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Between two columns.
const GAP: &str = "  ";

/// A column is not made narrower than this to fit the terminal.
const MIN_COLUMN_WIDTH: usize = 6;

/// A table with a line for its heads and one for each row: numbers to the right, the rest to the left.
///
/// `width` is the terminal's, if the table goes to one: the widest columns are shortened until it fits, as far as
/// that leaves something to read.
pub(crate) fn render<H: AsRef<str>>(
    heads: &[H],
    rows: &[Vec<String>],
    width: Option<usize>,
) -> String {
    let cell = |row: &[String], column: usize| row.get(column).map_or(0, |text| text.width());
    let natural = heads.iter().enumerate().map(|(column, head)| {
        let cells = rows.iter().map(|row| cell(row, column));
        cells.chain([head.as_ref().width()]).max().unwrap_or_default()
    });
    let widths = fitted(natural.collect(), width);
    let is_number = |column: usize| {
        let mut cells = rows.iter().filter_map(|row| row.get(column)).filter(|it| *it != NOTHING);
        !rows.is_empty() && cells.all(|text| text.parse::<f64>().is_ok())
    };
    let to_the_right: Vec<bool> = (0..heads.len()).map(is_number).collect();
    let line = |cells: Vec<&str>| {
        let padded = cells.iter().zip(&widths).zip(&to_the_right);
        let padded: Vec<String> =
            padded.map(|((cell, width), right)| pad(cell, *width, *right)).collect();
        format!("{}\n", padded.join(GAP).trim_end())
    };
    let rows = rows.iter().map(|row| line(row.iter().map(String::as_str).collect()));
    std::iter::once(line(heads.iter().map(AsRef::as_ref).collect())).chain(rows).collect()
}

/// The text that stands for a missing value.
const NOTHING: &str = "-";

/// A value as a cell: text without quotes, on one line; a dash where there is none.
pub(crate) fn cell(value: &Value) -> String {
    match value {
        Value::Null => NOTHING.to_owned(),
        Value::String(text) => printable(text),
        other => printable(&other.to_string()),
    }
}

/// The width of the terminal that standard output is, if it is one.
pub(crate) fn terminal_width() -> Option<usize> {
    use std::io::IsTerminal;
    if !std::io::stdout().is_terminal() {
        return None;
    }
    terminal_size().map(|(Width(columns), _)| usize::from(columns))
}

/// A text without what would move the cursor: an item's text must not command the terminal.
pub(crate) fn printable(text: &str) -> String {
    text.chars().map(|it| if it.is_control() { '\u{FFFD}' } else { it }).collect()
}

/// Takes from the widest columns until all fit into `width`.
fn fitted(mut widths: Vec<usize>, width: Option<usize>) -> Vec<usize> {
    let Some(width) = width else { return widths };
    let room = width.saturating_sub(GAP.len() * widths.len().saturating_sub(1));
    while widths.iter().sum::<usize>() > room {
        let over = widths.iter().sum::<usize>() - room;
        let widest = widths.iter().copied().max().unwrap_or_default();
        let next = widths.iter().copied().filter(|it| *it < widest).max().unwrap_or_default();
        let count = widths.iter().filter(|it| **it == widest).count();
        // Down to the next narrower one at most, and all that are equally wide together.
        let target =
            (widest - over.div_ceil(count).max(1).min(widest)).max(next).max(MIN_COLUMN_WIDTH);
        if target >= widest {
            break;
        }
        widths.iter_mut().filter(|it| **it == widest).for_each(|it| *it = target);
    }
    widths
}

/// A cell of exactly so many columns; what is cut off is marked.
fn pad(text: &str, width: usize, to_the_right: bool) -> String {
    let text = shortened(text, width);
    let blank = " ".repeat(width.saturating_sub(text.width()));
    if to_the_right { format!("{blank}{text}") } else { format!("{text}{blank}") }
}

/// A text of at most so many columns.
pub(crate) fn shortened(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut used = 0;
    for it in text.chars() {
        used += it.width().unwrap_or_default();
        // The mark takes one column.
        if used >= width {
            break;
        }
        kept.push(it);
    }
    kept + "…"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rows(rows: &[&[&str]]) -> Vec<Vec<String>> {
        rows.iter().map(|row| row.iter().map(|it| (*it).to_owned()).collect()).collect()
    }

    #[test]
    fn columns_are_aligned_and_numbers_stand_to_the_right() {
        let rows = rows(&[&["a", "5"], &["longer", "100"]]);
        assert_eq!(render(&["NAME", "N"], &rows, None), "NAME      N\na         5\nlonger  100\n");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let rows = rows(&[&["東京", "x"], &["Zürich", "y"]]);
        assert_eq!(render(&["CITY", "C"], &rows, None), "CITY    C\n東京    x\nZürich  y\n");
    }

    #[test]
    fn the_widest_columns_are_cut_until_the_table_fits() {
        let rows = rows(&[&["short", "a text that is much too long for this"]]);
        let table = render(&["A", "B"], &rows, Some(20));
        assert_eq!(table, "A      B\nshort  a text that …\n");
        assert!(table.lines().all(|line| line.width() <= 20), "{table}");
    }

    #[test]
    fn a_terminal_that_is_far_too_narrow_still_shows_something() {
        let rows = rows(&[&["0123456789", "0123456789", "0123456789"]]);
        let table = render(&["A", "B", "C"], &rows, Some(3));
        assert!(table.contains("01234…"), "{table}");
    }

    #[test]
    fn what_a_terminal_would_obey_is_not_printed() {
        assert_eq!(cell(&json!("a\u{1b}[2Jb\nc")), "a\u{FFFD}[2Jb\u{FFFD}c");
        assert_eq!(cell(&json!({"a": "\n"})), r#"{"a":"\n"}"#);
        assert_eq!(cell(&Value::Null), "-");
    }

    #[test]
    fn a_wide_character_is_not_cut_in_half() {
        assert_eq!(shortened("東京都", 5), "東京…");
        assert_eq!(shortened("東京都", 4), "東…");
        assert_eq!(shortened("ab", 2), "ab");
    }
}

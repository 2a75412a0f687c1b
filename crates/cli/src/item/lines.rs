//! JSON lines, read with a bound: a line that is too long is skipped, not kept.

use std::io::{self, BufRead};

use serde_json::Value;

use super::point::item_of;

/// No line is kept that is longer: the service takes items of 2 MB, and escapes may double their text.
const MAX_LINE_BYTES: usize = 4 * 1024 * 1024;

/// Lines that are read before what they hold is sent.
const CHUNK_LINES: usize = 5_000;

/// Bytes after which a chunk is not added to.
const CHUNK_BYTES: usize = 16 * 1024 * 1024;

/// Items of a text of JSON lines, a chunk at a time.
pub(super) struct ItemLines<R> {
    text: R,
    line: usize,
}

/// A part of the text: what can be sent, and what cannot.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    /// Items with the numbers of their lines.
    pub(super) items: Vec<(usize, Value)>,
    pub(super) bad: Vec<BadLine>,
    /// Bytes of the text that these lines took.
    pub(super) bytes: u64,
    pub(super) is_last: bool,
}

/// A line without its end, or why it is malformed.
type RawLine = Result<Vec<u8>, String>;

/// A line that is no item.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BadLine {
    pub(super) line: usize,
    pub(super) why: String,
}

impl<R: BufRead> ItemLines<R> {
    pub(super) fn new(text: R) -> Self {
        Self { text, line: 0 }
    }

    /// Reads the next chunk.
    pub(super) fn next_chunk(&mut self) -> io::Result<Chunk> {
        let mut chunk = Chunk::default();
        let mut held = 0;
        while chunk.items.len() + chunk.bad.len() < CHUNK_LINES && held < CHUNK_BYTES {
            let Some((line, bytes)) = self.next_line()? else {
                chunk.is_last = true;
                break;
            };
            self.line += 1;
            chunk.bytes += bytes;
            match line.and_then(|text| as_item(&text)) {
                Ok(None) => {}
                Ok(Some((item, length))) => {
                    held += length;
                    chunk.items.push((self.line, item));
                }
                Err(why) => chunk.bad.push(BadLine { line: self.line, why }),
            }
        }
        Ok(chunk)
    }

    /// A line without its end, or why it cannot be one, and how many bytes it took; `None` at the end of the text.
    fn next_line(&mut self) -> io::Result<Option<(RawLine, u64)>> {
        let (mut line, mut taken) = (Vec::new(), 0u64);
        loop {
            let available = match self.text.fill_buf() {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                other => other?,
            };
            if available.is_empty() {
                break;
            }
            let end = available.iter().position(|byte| *byte == b'\n');
            let part = &available[..end.unwrap_or(available.len())];
            // One byte too many is kept, to know of it.
            let room = (MAX_LINE_BYTES + 1).saturating_sub(line.len());
            line.extend_from_slice(&part[..part.len().min(room)]);
            let used = part.len() + usize::from(end.is_some());
            self.text.consume(used);
            taken += used as u64;
            if end.is_some() {
                break;
            }
        }
        Ok(match (taken, line.len()) {
            (0, _) => None,
            (_, length) if length > MAX_LINE_BYTES => {
                Some((Err(format!("it is longer than {MAX_LINE_BYTES} bytes")), taken))
            }
            _ => Some((Ok(line), taken)),
        })
    }
}

/// The item of a line and the length of its text; nothing where the line is blank.
fn as_item(line: &[u8]) -> Result<Option<(Value, usize)>, String> {
    let text = std::str::from_utf8(line).map_err(|_| "it is not text in UTF-8".to_owned())?;
    // Some editors begin a file with a byte order mark.
    let text = text.trim_start_matches('\u{FEFF}').trim();
    if text.is_empty() {
        return Ok(None);
    }
    item_of(text).map(|item| Some((item, text.len())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(text: &[u8]) -> Chunk {
        // A small buffer, so that lines go over its end.
        ItemLines::new(io::BufReader::with_capacity(7, text)).next_chunk().unwrap()
    }

    #[test]
    fn items_and_bad_lines_are_told_apart_by_their_numbers() {
        let text = b"\xef\xbb\xbf{\"id\":\"1\"}\r\n\n{\"id\":2}\nnonsense\n  {\"id\":\"5\"}";
        let chunk = chunk(text);
        let lines: Vec<usize> = chunk.items.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [1, 5]);
        let bad: Vec<usize> = chunk.bad.iter().map(|bad| bad.line).collect();
        assert_eq!(bad, [3, 4]);
        assert!(chunk.is_last);
        assert_eq!(chunk.bytes, text.len() as u64);
    }

    #[test]
    fn a_line_that_is_too_long_or_no_text_is_bad_and_the_next_is_read() {
        let mut text = vec![b'x'; MAX_LINE_BYTES + 1];
        text.extend(b"\n\xff\n{\"id\":\"3\"}\n");
        let chunk = ItemLines::new(&text[..]).next_chunk().unwrap();
        assert!(chunk.bad[0].why.contains("longer") && chunk.bad[1].why.contains("UTF-8"));
        assert_eq!(chunk.items[0].0, 3);
    }

    #[test]
    fn a_chunk_is_bounded_and_the_next_goes_on() {
        let text = "{\"id\":\"1\"}\n".repeat(CHUNK_LINES + 1);
        let mut lines = ItemLines::new(text.as_bytes());
        let first = lines.next_chunk().unwrap();
        assert!(first.items.len() == CHUNK_LINES && !first.is_last);
        let second = lines.next_chunk().unwrap();
        assert!(second.items.len() == 1 && second.is_last);
        assert_eq!(second.items[0].0, CHUNK_LINES + 1);
    }
}

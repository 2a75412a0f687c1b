//! Text that is written once and then shared.

use std::fmt;

use bytes::Bytes;

/// The longest text that is in the same allocation as its count. Enough for a path of names and GUIDs with its
/// partition key; a longer one has two allocations.
const INLINE: usize = 160;

/// Text on its way to shared bytes.
pub(super) struct TextBuffer {
    inline: [u8; INLINE],
    /// Of what is inline.
    length: usize,
    /// All of it, once it is longer.
    long: Vec<u8>,
}

impl TextBuffer {
    const EMPTY: Self = Self { inline: [0; INLINE], length: 0, long: Vec::new() };
}

impl AsRef<[u8]> for TextBuffer {
    fn as_ref(&self) -> &[u8] {
        match self.long.is_empty() {
            true => &self.inline[..self.length],
            false => &self.long,
        }
    }
}

impl fmt::Write for TextBuffer {
    // Paths and keys are written in pieces of a few bytes: a call for each would cost more than the copy.
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.length + text.len();
        match self.inline.get_mut(self.length..end) {
            Some(slot) if self.long.is_empty() => {
                slot.copy_from_slice(text.as_bytes());
                self.length = end;
            }
            _ => {
                if self.long.is_empty() {
                    self.long.extend_from_slice(&self.inline[..self.length]);
                }
                self.long.extend_from_slice(text.as_bytes());
            }
        }
        Ok(())
    }
}

/// Writes text into shared bytes. Unlike those made from a `String`, they do not allocate when they are first cloned.
pub(super) fn encode(write: impl FnOnce(&mut TextBuffer) -> fmt::Result) -> Bytes {
    let mut text = TextBuffer::EMPTY;
    write(&mut text).unwrap_or_default(); // A buffer takes all.
    Bytes::from_owner(text)
}

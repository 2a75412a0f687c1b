//! Effective partition keys (EPK): points of a container's ordered, hashed key space.
//!
//! The value and its order. How a key is turned into one is in `hash`.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;

use super::definition::{PartitionKeyDefinition, PartitionKeyKind, PartitionKeyVersion};
use crate::error::{Error, ErrorKind, Result, excerpt};
use crate::wire::serde_as_text;

/// Room for the three levels of a hierarchical key; only version 1 keys of long strings exceed it.
const INLINE: usize = 48;

/// A partition key after hashing: a point of the key space, in lexicographic byte order.
///
/// Trailing zero bytes do not count, because boundaries of hierarchical containers appear with and
/// without them; they are kept for printing. `Display` and `FromStr` are upper-case hexadecimal.
#[derive(Clone)]
pub struct EffectivePartitionKey(Repr);

#[derive(Clone)]
enum Repr {
    Inline { len: u8, bytes: [u8; INLINE] },
    Heap(Box<[u8]>),
}

impl EffectivePartitionKey {
    /// The beginning of the key space: no bytes.
    pub const MIN: Self = Self(Repr::Inline { len: 0, bytes: [0; INLINE] });

    /// The end of the key space, beyond every key: `FF`.
    pub const MAX: Self = {
        let mut bytes = [0; INLINE];
        bytes[0] = 0xFF;
        Self(Repr::Inline { len: 1, bytes })
    };

    /// The key with exactly these bytes.
    pub fn from_bytes(source: &[u8]) -> Self {
        if source.len() > INLINE {
            return Self(Repr::Heap(source.into()));
        }
        let mut bytes = [0; INLINE];
        bytes[..source.len()].copy_from_slice(source);
        Self(Repr::Inline { len: source.len() as u8, bytes })
    }

    /// The bytes, trailing zeros included.
    pub fn as_bytes(&self) -> &[u8] {
        match &self.0 {
            Repr::Inline { len, bytes } => &bytes[..usize::from(*len)],
            Repr::Heap(bytes) => bytes,
        }
    }

    /// The bytes that count.
    fn significant(&self) -> &[u8] {
        let bytes = self.as_bytes();
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        &bytes[..end]
    }

    /// The least effective partition key greater than this one, which makes a half-open range of a single key.
    ///
    /// Hashed keys of version 2 are fixed-width numbers, one level after the other, and are
    /// counted up at full width; a version 1 key ends in its own terminator and is counted up as
    /// it stands.
    pub fn successor(&self, definition: &PartitionKeyDefinition) -> Self {
        let mut bytes = self.as_bytes().to_vec();
        let fixed_width = definition.version() == PartitionKeyVersion::V2
            && definition.kind() != PartitionKeyKind::Range;
        if fixed_width {
            bytes.resize(bytes.len().max(16 * definition.paths().len()), 0);
        }
        for byte in bytes.iter_mut().rev() {
            let (next, carried) = byte.overflowing_add(1);
            *byte = next;
            if !carried {
                return Self::from_bytes(&bytes);
            }
        }
        Self::MAX
    }
}

impl PartialEq for EffectivePartitionKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for EffectivePartitionKey {}

impl Hash for EffectivePartitionKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.significant().hash(state);
    }
}

impl PartialOrd for EffectivePartitionKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for EffectivePartitionKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let (ours, theirs) = (self.as_bytes(), other.as_bytes());
        let common = ours.len().min(theirs.len());
        let is_more = |tail: &[u8]| tail.iter().any(|byte| *byte != 0);
        // Lookups compare hashes of one length, which differ early; the tails hardly ever matter.
        match ours[..common].cmp(&theirs[..common]) {
            Ordering::Equal if is_more(&ours[common..]) => Ordering::Greater,
            Ordering::Equal if is_more(&theirs[common..]) => Ordering::Less,
            decided => decided,
        }
    }
}

impl fmt::Display for EffectivePartitionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_bytes().iter().try_for_each(|byte| write!(f, "{byte:02X}"))
    }
}

impl fmt::Debug for EffectivePartitionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EffectivePartitionKey({self})")
    }
}

impl FromStr for EffectivePartitionKey {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let bytes = unhex(text).ok_or_else(|| {
            let message = format!(
                "\"{}\" is not an effective partition key: expected an even number of hexadecimal digits",
                excerpt(text).escape_debug()
            );
            Error::new(ErrorKind::EffectivePartitionKey, message)
        })?;
        Ok(Self::from_bytes(&bytes))
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let (pairs, odd) = text.as_bytes().as_chunks::<2>();
    if !odd.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

serde_as_text!(EffectivePartitionKey);

#[cfg(test)]
mod tests {
    use super::*;

    fn key(hex: &str) -> EffectivePartitionKey {
        hex.parse().unwrap()
    }

    #[test]
    fn trailing_zeros_do_not_count_but_are_kept() {
        assert_eq!(key("0A"), key("0A0000"));
        assert!(key("0A") < key("0A000001"));
        assert_eq!(key("0a00").to_string(), "0A00");
        assert_eq!(key(""), EffectivePartitionKey::MIN);
        assert!(key("3FFF") < EffectivePartitionKey::MAX);
    }

    #[test]
    fn a_key_longer_than_the_inline_room_behaves_the_same() {
        let long = "AB".repeat(100);
        assert_eq!(key(&long).to_string(), long);
        assert!(key("AB") < key(&long));
    }

    #[test]
    fn the_successor_counts_up_at_full_width() {
        let flat = PartitionKeyDefinition::new(["/pk"]).unwrap();
        // What the Python SDK sends as the end of a change feed over the key "a".
        let next = key("3A5381E1114EB8D3FCC90795045B49B7").successor(&flat);
        assert_eq!(next.to_string(), "3A5381E1114EB8D3FCC90795045B49B8");
        let deep = PartitionKeyDefinition::new(["/a", "/b"]).unwrap();
        let next = key("01").successor(&deep);
        assert_eq!(next.to_string(), format!("01{}01", "00".repeat(30)));
    }

    #[test]
    fn the_successor_of_the_last_key_is_the_end() {
        let flat = PartitionKeyDefinition::new(["/pk"]).unwrap();
        assert_eq!(key(&"FF".repeat(16)).successor(&flat), EffectivePartitionKey::MAX);
    }

    #[test]
    fn what_is_not_hexadecimal_is_refused() {
        for bad in ["F", "0G", "é", "0x"] {
            assert!(bad.parse::<EffectivePartitionKey>().is_err(), "{bad}");
        }
    }
}

//! How a partition key becomes an effective partition key.
//!
//! Version 2 hashes to 128 bits; a hierarchical key is the hashes of its levels one after the
//! other, so a prefix of it names a range. Version 1 hashes to 32 bits, followed by the components
//! themselves, both in an order-preserving encoding: comparing bytes compares values.

use super::definition::{PartitionKeyDefinition, PartitionKeyKind, PartitionKeyVersion};
use super::effective::EffectivePartitionKey;
use super::key::PartitionKey;
use super::murmur::{murmur3_32, murmur3_128};
use super::range::EffectivePartitionKeyRange;
use super::value::PartitionKeyValue;
use crate::error::{Error, ErrorKind, Result};

/// Strings enter the version 1 hash with at most this many UTF-16 units.
// The service's rule of version 1: long strings with one prefix share a partition, which version 2 ended.
const V1_LONGEST_STRING: usize = 100;

/// The byte each component begins with, in the hash and in the order-preserving encoding: its type tag.
mod tag {
    use super::PartitionKeyValue;

    pub(super) const NUMBER: u8 = 0x05;
    pub(super) const STRING: u8 = 0x08;

    pub(super) fn of(component: &PartitionKeyValue) -> u8 {
        match component {
            PartitionKeyValue::Undefined => 0x00,
            PartitionKeyValue::Null => 0x01,
            PartitionKeyValue::Bool(false) => 0x02,
            PartitionKeyValue::Bool(true) => 0x03,
            PartitionKeyValue::Number(_) => NUMBER,
            PartitionKeyValue::String(_) => STRING,
        }
    }
}

impl PartitionKeyDefinition {
    /// The effective partition key of a complete key.
    ///
    /// Refuses a key with fewer or more components than the definition has paths; a prefix of a
    /// hierarchical key has no single effective key, see [`effective_range`](Self::effective_range).
    pub fn effective_key(&self, key: &PartitionKey) -> Result<EffectivePartitionKey> {
        let (given, expected) = (key.components().len(), self.paths().len());
        if given != expected {
            let message = format!(
                "the container's partition key has {expected} components, the key given has {given}"
            );
            return Err(Error::new(ErrorKind::PartitionKey, message));
        }
        Ok(self.hash(key.components()))
    }

    /// The range of effective partition keys that a key covers: one for a full key, every key below it for a
    /// prefix of a hierarchical key.
    pub fn effective_range(&self, key: &PartitionKey) -> Result<EffectivePartitionKeyRange> {
        if !self.is_hierarchical() || key.components().len() >= self.paths().len() {
            let only = self.effective_key(key)?;
            let next = only.successor(self);
            return EffectivePartitionKeyRange::new(only, next);
        }
        let start = self.hash(key.components());
        // No hash begins with 0xFF: the two highest bits are cleared.
        let end = [start.as_bytes(), &[0xFF]].concat();
        EffectivePartitionKeyRange::new(start, EffectivePartitionKey::from_bytes(&end))
    }

    fn hash(&self, components: &[PartitionKeyValue]) -> EffectivePartitionKey {
        match (self.kind(), self.version()) {
            (PartitionKeyKind::Range, _) => sortable(components),
            (PartitionKeyKind::Hash, PartitionKeyVersion::V1) => hashed_v1(components),
            (PartitionKeyKind::Hash, PartitionKeyVersion::V2) => {
                EffectivePartitionKey::from_bytes(&hashed_v2(components))
            }
            (PartitionKeyKind::MultiHash, _) => hashed_by_level(components),
        }
    }
}

fn hashed_by_level(components: &[PartitionKeyValue]) -> EffectivePartitionKey {
    let mut bytes = [0; 48];
    let (levels, _) = bytes.as_chunks_mut::<16>();
    for (level, component) in levels.iter_mut().zip(components) {
        *level = hashed_v2(std::slice::from_ref(component));
    }
    EffectivePartitionKey::from_bytes(&bytes[..16 * components.len()])
}

fn hashed_v2(components: &[PartitionKeyValue]) -> [u8; 16] {
    // 0xFF ends a string: it occurs nowhere in UTF-8, so ("a", "b") and ("ab", "") differ.
    let hash = with_encoded(components, 0xFF, murmur3_128);
    // Big-endian, so that comparing bytes compares numbers.
    let mut bytes = hash.to_be_bytes();
    // The two highest bits are cleared, which leaves room above every hash for the end of the key space, FF.
    bytes[0] &= 0x3F;
    bytes
}

fn hashed_v1(components: &[PartitionKeyValue]) -> EffectivePartitionKey {
    let truncated: Vec<_> = components.iter().map(truncate).collect();
    // Version 1 ends a string with a zero byte, as C does.
    let hash = with_encoded(&truncated, 0x00, murmur3_32);
    let mut bytes = Vec::with_capacity(16);
    // The service writes the 32-bit hash as a double in its order-preserving encoding.
    push_number(&mut bytes, f64::from(hash));
    truncated.iter().for_each(|component| push_sortable(&mut bytes, component));
    EffectivePartitionKey::from_bytes(&bytes)
}

fn sortable(components: &[PartitionKeyValue]) -> EffectivePartitionKey {
    let mut bytes = Vec::new();
    components.iter().for_each(|component| push_sortable(&mut bytes, component));
    EffectivePartitionKey::from_bytes(&bytes)
}

/// Lays the components out for hashing and hands the bytes over; short keys stay on the stack.
fn with_encoded<T>(
    components: &[PartitionKeyValue],
    terminator: u8,
    hash: impl FnOnce(&[u8]) -> T,
) -> T {
    // Most keys are a GUID or shorter; a key may have 2 KB.
    const ON_STACK: usize = 256;
    let size = components.iter().map(encoded_size).sum();
    let (mut stack, mut heap) = ([0; ON_STACK], Vec::new());
    let buffer = if size <= ON_STACK {
        &mut stack[..size]
    } else {
        heap.resize(size, 0);
        &mut heap[..]
    };
    let mut filled = 0;
    let mut put = |bytes: &[u8]| {
        buffer[filled..filled + bytes.len()].copy_from_slice(bytes);
        filled += bytes.len();
    };
    for component in components {
        put(&[tag::of(component)]);
        match component {
            PartitionKeyValue::Number(number) => put(&number.get().to_le_bytes()),
            PartitionKeyValue::String(text) => {
                put(text.as_bytes());
                put(&[terminator]);
            }
            PartitionKeyValue::Undefined | PartitionKeyValue::Null | PartitionKeyValue::Bool(_) => {
            }
        }
    }
    hash(buffer)
}

fn encoded_size(component: &PartitionKeyValue) -> usize {
    match component {
        PartitionKeyValue::Undefined | PartitionKeyValue::Null | PartitionKeyValue::Bool(_) => 1,
        PartitionKeyValue::Number(_) => 1 + size_of::<f64>(),
        PartitionKeyValue::String(text) => 1 + text.len() + 1,
    }
}

/// Cuts a string to what version 1 looks at. Half a surrogate pair at the cut becomes U+FFFD.
fn truncate(component: &PartitionKeyValue) -> PartitionKeyValue {
    let PartitionKeyValue::String(text) = component else {
        return component.clone();
    };
    // Every character is at most as many UTF-16 units as UTF-8 bytes.
    if text.len() <= V1_LONGEST_STRING {
        return component.clone();
    }
    let mut units = 0;
    for (at, character) in text.char_indices() {
        units += character.len_utf16();
        match units {
            0..=V1_LONGEST_STRING => {}
            // A pair that straddles the limit leaves its first half inside.
            _ if units - character.len_utf16() < V1_LONGEST_STRING => {
                return PartitionKeyValue::from(format!("{}\u{FFFD}", &text[..at]));
            }
            _ => return PartitionKeyValue::from(&text[..at]),
        }
    }
    component.clone()
}

fn push_sortable(bytes: &mut Vec<u8>, component: &PartitionKeyValue) {
    match component {
        PartitionKeyValue::Undefined | PartitionKeyValue::Null | PartitionKeyValue::Bool(_) => {
            bytes.push(tag::of(component));
        }
        PartitionKeyValue::Number(number) => push_number(bytes, number.get()),
        PartitionKeyValue::String(text) => {
            // Each byte is raised by one so that the zero at the end sorts before any of them.
            bytes.push(tag::STRING);
            bytes.extend(text.bytes().take(V1_LONGEST_STRING + 1).map(|byte| byte.wrapping_add(1)));
            if text.len() <= V1_LONGEST_STRING {
                bytes.push(0);
            }
        }
    }
}

/// Writes a double so that its bytes sort as numbers do, in as few bytes as it needs: the top
/// eight bits, then groups of seven whose lowest bit says that another follows.
pub(super) fn push_number(bytes: &mut Vec<u8>, number: f64) {
    let bits = number.to_bits();
    let ordered = if bits >> 63 == 0 { bits ^ 1 << 63 } else { bits.wrapping_neg() };
    bytes.push(tag::NUMBER);
    bytes.push((ordered >> 56) as u8);
    let mut rest = ordered << 8;
    loop {
        let group = (rest >> 56) as u8 & 0xFE;
        rest <<= 7;
        if rest == 0 {
            return bytes.push(group);
        }
        bytes.push(group | 1);
    }
}

/// Reads a number written by [`push_number`] from the front of `bytes`; what is cut off is zero.
pub(super) fn read_number(bytes: &[u8]) -> Option<f64> {
    let (&top, groups) = bytes.strip_prefix(&[tag::NUMBER])?.split_first()?;
    let mut ordered = u64::from(top) << 56;
    for (&group, shift) in groups.iter().zip((0..=49).rev().step_by(7)) {
        ordered |= u64::from(group >> 1) << shift;
        if group & 1 == 0 {
            break;
        }
    }
    let bits = if ordered >> 63 == 1 { ordered ^ 1 << 63 } else { ordered.wrapping_neg() };
    Some(f64::from_bits(bits))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn truncated(text: &str) -> String {
        match truncate(&text.into()) {
            PartitionKeyValue::String(text) => text.to_string(),
            other => panic!("a string stays a string: {other:?}"),
        }
    }

    #[test]
    fn version_1_counts_characters_as_utf16_units() {
        assert_eq!(truncated(&"é".repeat(101)), "é".repeat(100));
        assert_eq!(truncated(&"🚀".repeat(51)), "🚀".repeat(50));
    }

    #[test]
    fn half_a_surrogate_pair_becomes_a_replacement_character() {
        let text = format!("{}🚀", "a".repeat(99));
        assert_eq!(truncated(&text), format!("{}\u{FFFD}", "a".repeat(99)));
    }

    #[test]
    fn a_key_with_the_wrong_number_of_components_is_not_hashed() {
        let flat = PartitionKeyDefinition::new(["/a"]).unwrap();
        let deep = PartitionKeyDefinition::new(["/a", "/b"]).unwrap();
        assert!(flat.effective_key(&("x", "y").into()).is_err());
        assert!(deep.effective_key(&"x".into()).is_err());
        assert!(deep.effective_range(&("x", "y", "z").into()).is_err());
    }

    #[test]
    fn a_prefix_names_the_range_of_all_keys_below_it() {
        let definition = PartitionKeyDefinition::new(["/tenant", "/user"]).unwrap();
        let tenant = definition.effective_range(&"t".into()).unwrap();
        for user in 0..50 {
            let key = definition.effective_key(&("t", user).into()).unwrap();
            assert!(tenant.contains(&key));
            let elsewhere = definition.effective_key(&("u", user).into()).unwrap();
            assert!(!tenant.contains(&elsewhere));
        }
    }

    proptest! {
        #[test]
        fn a_sortable_number_reads_back_and_sorts_as_a_number(a: f64, b: f64) {
            prop_assume!(a.is_finite() && b.is_finite());
            let (a, b) = (a + 0.0, b + 0.0);
            let written = |number| {
                let mut bytes = Vec::new();
                push_number(&mut bytes, number);
                bytes
            };
            prop_assert_eq!(read_number(&written(a)), Some(a));
            prop_assert_eq!(written(a).cmp(&written(b)), a.total_cmp(&b));
        }
    }
}

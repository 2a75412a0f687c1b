//! The keys under which records are kept: one table, ordered by kind, then by container, then by position.
//!
//! One table and not one per kind: a commit writes every page on the path to what it changed, and a second
//! table would double them.

use std::ops::Range;

use sidereal_protocol::{EffectivePartitionKey, Rid};

use crate::store::ItemName;

/// The kind of a record: the first byte of its key. The order is the order in which records are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Format = 0,
    Account = 1,
    Numbers = 2,
    Database = 3,
    Container = 4,
    Offer = 5,
    Partition = 6,
    /// An item as every region has it.
    Item = 7,
    /// Of a multi-write account: what decides between the versions of an item.
    Rank = 8,
    /// An entry of a log that some region has still to apply.
    Entry = 9,
    /// Of a multi-write account: the log sequence number that such an entry has in a region.
    Applied = 10,
    /// The part of the write-ahead log that is in the table.
    Log = 11,
}

/// A key under construction.
#[derive(Clone, Debug)]
pub(super) struct Key(Vec<u8>);

impl Key {
    pub(super) fn of(kind: Kind) -> Self {
        Self(vec![kind as u8])
    }

    pub(super) fn resource(kind: Kind, rid: Rid) -> Self {
        Self::of(kind).rid(rid)
    }

    pub(super) fn partition(kind: Kind, container: Rid, partition: u32) -> Self {
        let mut key = Self::resource(kind, container);
        key.0.extend(partition.to_be_bytes());
        key
    }

    pub(super) fn item(container: Rid, ordinal: u64) -> Self {
        Self::resource(Kind::Item, container).number(ordinal)
    }

    pub(super) fn entry(container: Rid, partition: u32, position: u64) -> Self {
        Self::partition(Kind::Entry, container, partition).number(position)
    }

    pub(super) fn applied(container: Rid, partition: u32, position: u64, region: usize) -> Self {
        let key = Self::partition(Kind::Applied, container, partition).number(position);
        key.number(region as u64)
    }

    pub(super) fn rank(container: Rid, name: &ItemName) -> Self {
        let mut key = Self::resource(Kind::Rank, container);
        // Each part with its length before it: no two names give the same key.
        for part in [name.effective_key.as_bytes(), name.key.to_header().as_bytes()] {
            key.0.extend((part.len() as u32).to_be_bytes());
            key.0.extend(part);
        }
        key.0.extend(name.id.as_bytes());
        key
    }

    /// The keys of everything that this key is a prefix of.
    pub(super) fn prefixed(&self) -> Range<Vec<u8>> {
        let mut end = self.0.clone();
        // The next key of this length. A prefix begins with its kind, which is far from 255.
        while let Some(last) = end.pop() {
            if let Some(next) = last.checked_add(1) {
                end.push(next);
                break;
            }
        }
        self.0.clone()..end
    }

    pub(super) fn number(mut self, number: u64) -> Self {
        self.0.extend(number.to_be_bytes());
        self
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    fn rid(mut self, rid: Rid) -> Self {
        self.0.extend(rid.as_bytes());
        self
    }
}

/// Reads a key's parts back, after its kind.
#[derive(Clone, Copy, Debug)]
pub(super) struct KeyParts<'a>(&'a [u8]);

impl<'a> KeyParts<'a> {
    pub(super) fn after_kind(key: &'a [u8]) -> Self {
        Self(key.get(1..).unwrap_or_default())
    }

    /// The bytes of a container's RID.
    pub(super) fn container(&mut self) -> Option<[u8; 8]> {
        self.take()
    }

    pub(super) fn partition(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    pub(super) fn number(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }

    /// The position of an entry, behind its partition.
    pub(super) fn position(&mut self) -> Option<u64> {
        self.container()?;
        self.partition()?;
        self.number()
    }

    /// The name of an item, as [`Key::rank`] writes it.
    pub(super) fn name(&mut self) -> Option<ItemName> {
        let effective_key = EffectivePartitionKey::from_bytes(self.prefixed()?);
        let key = std::str::from_utf8(self.prefixed()?).ok()?.parse().ok()?;
        let id = std::str::from_utf8(std::mem::take(&mut self.0)).ok()?.into();
        Some(ItemName { effective_key, key, id })
    }

    fn prefixed(&mut self) -> Option<&'a [u8]> {
        let length = self.take().map(u32::from_be_bytes)?;
        let (part, rest) = self.0.split_at_checked(length as usize)?;
        self.0 = rest;
        Some(part)
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (part, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container() -> Rid {
        Rid::database(7).container(9).unwrap()
    }

    #[test]
    fn a_prefix_covers_its_own_and_nothing_of_its_neighbours() {
        let range = Key::partition(Kind::Entry, container(), 255).prefixed();
        let inside = |key: Key| range.contains(&key.0);
        assert!(inside(Key::entry(container(), 255, 0)));
        assert!(inside(Key::entry(container(), 255, u64::MAX)));
        assert!(!inside(Key::entry(container(), 254, u64::MAX)));
        assert!(!inside(Key::entry(container(), 256, 0)));
    }

    #[test]
    fn the_parts_of_a_key_are_read_back() {
        let key = Key::applied(container(), 3, 11, 2);
        let mut parts = KeyParts::after_kind(key.as_bytes());
        assert_eq!(
            parts.container().as_ref().map(<[u8; 8]>::as_slice),
            Some(container().as_bytes())
        );
        assert_eq!(parts.partition(), Some(3));
        assert_eq!((parts.number(), parts.number(), parts.number()), (Some(11), Some(2), None));
    }

    #[test]
    fn the_name_of_an_item_is_read_back() {
        let name = ItemName {
            effective_key: EffectivePartitionKey::from_bytes(&[1, 0, 2]),
            key: r#"["ü",1,null]"#.parse().unwrap(),
            id: "an id".into(),
        };
        let key = Key::rank(container(), &name);
        let mut parts = KeyParts::after_kind(key.as_bytes());
        parts.container().unwrap();
        assert_eq!(parts.name(), Some(name));
        assert_eq!(KeyParts(&[0, 0, 0, 9, 1]).name(), None);
    }
}

//! The table on disk, and applying operations to it.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::Bound;

use redb::{ReadableTable, TableDefinition};
use serde::Serialize;
use sidereal_protocol::Rid;

use super::keys::Key;
use super::operation::Operation;
use super::records::RankRecord;
use crate::store::conflict::Rank;

pub(super) const TABLE: TableDefinition<'static, &[u8], &[u8]> = TableDefinition::new("records");

pub(super) type Table<'t> = redb::Table<'t, &'static [u8], &'static [u8]>;

/// A table with changes that are written last, all together (a memtable).
///
/// What changes often, such as the state of a partition, is then written once, and the rest in the order of the
/// keys, page by page: half the time of a checkpoint.
pub(super) struct Overlay<'a, 't, 'o> {
    table: &'o mut Table<'t>,
    /// By key, the new value; none where it is removed.
    changes: BTreeMap<Cow<'a, [u8]>, Option<Cow<'a, [u8]>>>,
}

impl<'a, 't, 'o> Overlay<'a, 't, 'o> {
    pub(super) fn new(table: &'o mut Table<'t>) -> Self {
        Self { table, changes: BTreeMap::new() }
    }

    /// Does what an operation says.
    pub(super) fn apply(&mut self, operation: Operation<'a>) -> Result<(), redb::Error> {
        match operation {
            Operation::Put { key, value } => self.set(key, Some(value.into())),
            Operation::Remove { key } => self.set(key, None),
            Operation::RemoveRange { from, to } => self.remove_range(from, to)?,
            Operation::PutRanked { container, key, rank, item } => {
                self.put_ranked(container, key, rank, item)?;
            }
            Operation::RemoveRank { key, rank } => {
                if self.rank_of(key)?.is_some_and(|current| current.rank == rank) {
                    self.set(key, None);
                }
            }
        }
        Ok(())
    }

    /// Stores a record under a key.
    pub(super) fn put<T: Serialize>(
        &mut self,
        key: impl Into<Cow<'a, [u8]>>,
        record: &T,
    ) -> Result<(), redb::Error> {
        let value = postcard::to_stdvec(record).map_err(|error| {
            redb::Error::Corrupted(format!("a record cannot be encoded: {error}"))
        })?;
        self.set(key, Some(value.into()));
        Ok(())
    }

    /// Writes the changes to the table.
    pub(super) fn flush(self) -> Result<(), redb::Error> {
        for (key, value) in self.changes {
            match value {
                Some(value) => drop(self.table.insert(&*key, &*value)?),
                None => drop(self.table.remove(&*key)?),
            }
        }
        Ok(())
    }

    fn set(&mut self, key: impl Into<Cow<'a, [u8]>>, value: Option<Cow<'a, [u8]>>) {
        self.changes.insert(key.into(), value);
    }

    fn remove_range(&mut self, from: &[u8], to: &[u8]) -> Result<(), redb::Error> {
        let range = (Bound::Included(from), Bound::Excluded(to));
        let changed: Vec<Cow<'a, [u8]>> =
            self.changes.range::<[u8], _>(range).map(|(key, _)| key.clone()).collect();
        changed.iter().for_each(|key| drop(self.changes.remove(key)));
        self.table.retain_in::<&[u8], _>(from..to, |_, _| false)?;
        Ok(())
    }

    fn put_ranked(
        &mut self,
        container: Rid,
        key: &'a [u8],
        rank: Rank,
        item: Option<(u64, &'a [u8])>,
    ) -> Result<(), redb::Error> {
        let current = self.rank_of(key)?;
        if current.is_some_and(|current| current.rank >= rank) {
            return Ok(());
        }
        if let Some(ordinal) = current.and_then(|current| current.ordinal) {
            self.set(Key::item(container, ordinal).into_bytes(), None);
        }
        if let Some((ordinal, value)) = item {
            self.set(Key::item(container, ordinal).into_bytes(), Some(value.into()));
        }
        self.put(key, &RankRecord { rank, ordinal: item.map(|(ordinal, _)| ordinal) })
    }

    fn rank_of(&self, key: &[u8]) -> Result<Option<RankRecord>, redb::Error> {
        // Unreadable is as good as absent: the record is written again.
        let decode = |value: &[u8]| postcard::from_bytes(value).ok();
        match self.changes.get(key) {
            Some(changed) => Ok(changed.as_deref().and_then(decode)),
            None => Ok(self.table.get(key)?.and_then(|value| decode(value.value()))),
        }
    }
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;
    use redb::{Database, ReadableTable};

    use super::*;
    use crate::clock::Timestamp;

    fn container() -> Rid {
        Rid::database(7).container(9).unwrap()
    }

    /// The records after these operations: all in one overlay, or each in one of its own.
    fn after(operations: &[Operation<'static>], together: bool) -> Vec<(Vec<u8>, Vec<u8>)> {
        let database = Database::builder().create_with_backend(InMemoryBackend::new()).unwrap();
        let transaction = database.begin_write().unwrap();
        let mut table = transaction.open_table(TABLE).unwrap();
        for part in operations.chunks(if together { operations.len() } else { 1 }) {
            let mut overlay = Overlay::new(&mut table);
            part.iter().for_each(|operation| overlay.apply(operation.clone()).unwrap());
            overlay.flush().unwrap();
        }
        let records = table.iter().unwrap().map(|record| {
            let (key, value) = record.unwrap();
            (key.value().to_vec(), value.value().to_vec())
        });
        records.collect()
    }

    #[test]
    fn operations_see_those_before_them() {
        let at = |millis| Rank::of_write(None, Timestamp::from_millis(millis), 0);
        let (container, key) = (container(), &b"rank"[..]);
        let ranked = |millis, ordinal, value| Operation::PutRanked {
            container,
            key,
            rank: at(millis),
            item: Some((ordinal, value)),
        };
        let operations = [
            Operation::Put { key: b"a1", value: b"gone" },
            Operation::Put { key: b"a2", value: b"gone" },
            Operation::Put { key: b"b", value: b"old" },
            Operation::Put { key: b"b", value: b"new" },
            Operation::RemoveRange { from: b"a", to: b"b" },
            Operation::Put { key: b"a2", value: b"written again" },
            Operation::Put { key: b"c", value: b"gone" },
            Operation::Remove { key: b"c" },
            ranked(2, 1, b"first"),
            ranked(3, 2, b"wins"),
            ranked(1, 3, b"late"),
            Operation::RemoveRank { key, rank: at(2) },
        ];
        let together = after(&operations, true);
        assert_eq!(together, after(&operations, false));
        let item = Key::item(container, 2);
        let expected: [(&[u8], &[u8]); 3] =
            [(item.as_bytes(), b"wins"), (b"a2", b"written again"), (b"b", b"new")];
        let found: Vec<(&[u8], &[u8])> = together
            .iter()
            .map(|(key, value)| (&**key, &**value))
            .filter(|it| it.0 != key)
            .collect();
        assert_eq!(found, expected);
        let dropped = [&operations[..], &[Operation::RemoveRank { key, rank: at(3) }]].concat();
        assert_eq!(after(&dropped, true).len(), 3);
    }
}

//! A commit as operations on the table: what a frame of the write-ahead log holds, and what a checkpoint applies.
//!
//! Operations are applied in their order, by a checkpoint or after a crash, and read nothing but the table; so
//! where they are applied makes no difference.

use serde::{Deserialize, Serialize};
use sidereal_protocol::Rid;

use super::keys::{Key, Kind};
use super::mutation::{LogChange, Mutation, PartitionCommit};
use super::records::{EntryRecord, ItemRecord};
use crate::store::Change;
use crate::store::conflict::Rank;
use crate::store::replication_log::SettledEntry;

/// One step on the table. Values are records in postcard's encoding.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) enum Operation<'a> {
    Put {
        key: &'a [u8],
        value: &'a [u8],
    },
    Remove {
        key: &'a [u8],
    },
    /// Removes everything from one key to another, which stays.
    RemoveRange {
        from: &'a [u8],
        to: &'a [u8],
    },
    /// Of a multi-write account: stores a version, or a tombstone, unless one of a higher rank is there.
    PutRanked {
        container: Rid,
        /// The key of the rank.
        key: &'a [u8],
        rank: Rank,
        /// The ordinal and the record of the version; none for a tombstone.
        item: Option<(u64, &'a [u8])>,
    },
    /// Of a multi-write account: removes the rank of a deleted item, unless the item was written again.
    RemoveRank {
        key: &'a [u8],
        rank: Rank,
    },
}

/// The operations of a commit, encoded one after the other.
#[derive(Debug, Default)]
pub(super) struct Operations {
    bytes: Vec<u8>,
}

impl Operations {
    /// The operations that store groups of mutations.
    pub(super) fn of(groups: &[Vec<Mutation>]) -> postcard::Result<Self> {
        let mut operations = Self::default();
        groups.iter().flatten().try_for_each(|mutation| operations.store(mutation))?;
        Ok(operations)
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Decodes operations, and calls `apply` with each.
    pub(super) fn for_each<'a, E: From<postcard::Error>>(
        mut bytes: &'a [u8],
        mut apply: impl FnMut(Operation<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        while !bytes.is_empty() {
            let (operation, rest) = postcard::take_from_bytes(bytes)?;
            apply(operation)?;
            bytes = rest;
        }
        Ok(())
    }

    fn store(&mut self, mutation: &Mutation) -> postcard::Result<()> {
        match mutation {
            Mutation::PutAccount(record) => self.put(&Key::of(Kind::Account), record),
            Mutation::PutNumbers(record) => self.put(&Key::of(Kind::Numbers), record),
            Mutation::PutDatabase(record) => {
                self.put(&Key::resource(Kind::Database, record.rid), record)
            }
            Mutation::PutContainer(record) => {
                self.put(&Key::resource(Kind::Container, record.rid), record)
            }
            Mutation::PutOffer(record) => {
                self.put(&Key::resource(Kind::Offer, record.rid), &**record)
            }
            Mutation::DeleteOffer(rid) => self.remove(&Key::resource(Kind::Offer, *rid)),
            Mutation::DeleteDatabase(rid) => {
                self.remove(&Key::resource(Kind::Database, *rid))?;
                // The RID of a container begins with that of its database.
                self.delete_contents(*rid)
            }
            Mutation::DeleteContainer(rid) => self.delete_contents(*rid),
            Mutation::Partition(commit) => self.store_partition(commit),
            Mutation::DropPartition { container, partition } => {
                let kinds = [Kind::Partition, Kind::Entry, Kind::Applied];
                kinds.into_iter().try_for_each(|kind| {
                    self.remove_prefixed(&Key::partition(kind, *container, *partition))
                })
            }
        }
    }

    /// Deletes a container, or all containers of a database, with what they hold.
    fn delete_contents(&mut self, rid: Rid) -> postcard::Result<()> {
        [Kind::Container, Kind::Partition, Kind::Item, Kind::Rank, Kind::Entry, Kind::Applied]
            .into_iter()
            .try_for_each(|kind| self.remove_prefixed(&Key::resource(kind, rid)))
    }

    fn store_partition(&mut self, commit: &PartitionCommit) -> postcard::Result<()> {
        let PartitionCommit { container, partition, changes, record } = commit;
        let (container, partition) = (*container, *partition);
        for change in changes {
            match change {
                LogChange::Appended { position, logged } => {
                    let key = Key::entry(container, partition, *position);
                    self.put(&key, &EntryRecord::of(logged))?;
                }
                LogChange::Applied { position, region, lsn } => {
                    self.put(&Key::applied(container, partition, *position, *region), lsn)?;
                }
                LogChange::Settled { settled, multi_write } => {
                    self.remove(&Key::entry(container, partition, settled.position))?;
                    match multi_write {
                        false => self.settle(container, settled)?,
                        true => {
                            let applied = Key::partition(Kind::Applied, container, partition);
                            self.remove_prefixed(&applied.number(settled.position))?;
                            self.settle_ranked(container, settled)?;
                        }
                    }
                }
                LogChange::Truncated { from } => {
                    let entries = Key::partition(Kind::Entry, container, partition);
                    let (from, to) = (entries.clone().number(*from), entries.prefixed().end);
                    self.push(&Operation::RemoveRange { from: from.as_bytes(), to: &to })?;
                }
                LogChange::TombstoneDropped(tombstone) => {
                    let key = Key::rank(container, &tombstone.name);
                    let (key, rank) = (key.as_bytes(), tombstone.rank);
                    self.push(&Operation::RemoveRank { key, rank })?;
                }
            }
        }
        self.put(&Key::partition(Kind::Partition, container, partition), record)
    }

    /// Stores what an entry did as the state that every region has.
    fn settle(&mut self, container: Rid, settled: &SettledEntry) -> postcard::Result<()> {
        settled.logged.entry.changes.iter().try_for_each(|change| match change {
            Change::Put { item } => {
                self.put(&Key::item(container, item.ordinal), &ItemRecord::of(item, &[]))
            }
            Change::Delete { item } => self.remove(&Key::item(container, item.ordinal)),
        })
    }

    /// Puts a version of a multi-write account: versions of a higher rank stay.
    fn settle_ranked(&mut self, container: Rid, settled: &SettledEntry) -> postcard::Result<()> {
        let entry = &settled.logged.entry;
        for (change, rank) in entry.changes.iter().zip(&entry.ranks) {
            let value;
            let item = match change {
                Change::Delete { .. } => None,
                Change::Put { item } => {
                    value = postcard::to_stdvec(&ItemRecord::of(item, &settled.logged.lsns))?;
                    Some((item.ordinal, value.as_slice()))
                }
            };
            let key = Key::rank(container, &change.item().name());
            let (key, rank) = (key.as_bytes(), *rank);
            self.push(&Operation::PutRanked { container, key, rank, item })?;
        }
        Ok(())
    }

    fn put<T: Serialize>(&mut self, key: &Key, record: &T) -> postcard::Result<()> {
        let value = postcard::to_stdvec(record)?;
        self.push(&Operation::Put { key: key.as_bytes(), value: &value })
    }

    fn remove(&mut self, key: &Key) -> postcard::Result<()> {
        self.push(&Operation::Remove { key: key.as_bytes() })
    }

    fn remove_prefixed(&mut self, prefix: &Key) -> postcard::Result<()> {
        let range = prefix.prefixed();
        self.push(&Operation::RemoveRange { from: &range.start, to: &range.end })
    }

    fn push(&mut self, operation: &Operation<'_>) -> postcard::Result<()> {
        self.bytes = postcard::to_extend(operation, std::mem::take(&mut self.bytes))?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Timestamp;

    #[test]
    fn operations_are_read_back_in_their_order() {
        let container = Rid::database(7).container(9).unwrap();
        let rank = Rank::of_write(None, Timestamp::from_millis(5), 1);
        let all = || {
            [
                Operation::Put { key: b"key", value: b"value" },
                Operation::Remove { key: b"key" },
                Operation::RemoveRange { from: b"a", to: b"b" },
                Operation::PutRanked { container, key: b"k", rank, item: Some((3, b"item")) },
                Operation::PutRanked { container, key: b"k", rank, item: None },
                Operation::RemoveRank { key: b"k", rank },
            ]
        };
        let mut operations = Operations::default();
        all().iter().for_each(|operation| operations.push(operation).unwrap());
        let (mut expected, bytes) = (all().into_iter(), operations.as_bytes());
        Operations::for_each::<postcard::Error>(bytes, |operation| {
            assert_eq!(Some(operation), expected.next());
            Ok(())
        })
        .unwrap();
        assert_eq!(expected.next(), None);
        let cut = &bytes[..bytes.len() - 1];
        assert!(Operations::for_each::<postcard::Error>(cut, |_| Ok(())).is_err());
    }
}

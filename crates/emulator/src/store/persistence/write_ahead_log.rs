//! The write-ahead log: a file of fixed size to which commits are appended, one frame and one `fdatasync` each.
//!
//! Its blocks are written once, with zeros, when an account begins. An `fdatasync` after an append then has one
//! block to write and no metadata: neither the file's length nor its extents change. (Blocks that `fallocate`
//! reserves are unwritten extents to ext4, and an `fdatasync` that makes them written ones commits the journal:
//! half as much again.)

use std::io;

use redb::StorageBackend;

use super::frame::{self, LogDamage};
use super::records::LogRecord;

/// Zeros are written in pieces of this size.
const ZEROS_BYTES: usize = 256 * 1024;

/// A frame's buffer is released if a commit made it larger than this: most are a block or a few.
const KEPT_BUFFER_BYTES: usize = 256 * 1024;

/// The log of an account, and where its next frame goes.
#[derive(Debug)]
pub(super) struct WriteAheadLog {
    file: Box<dyn StorageBackend>,
    /// The last checkpoint.
    record: LogRecord,
    /// The sequence number of the last frame.
    sequence: u64,
    /// Where the last frame ends.
    end: usize,
    /// The frame that is being written; kept for its capacity.
    frame: Vec<u8>,
}

/// The outcome of an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Appended {
    /// It is durable.
    Durable,
    /// It does not fit between the last frame and the end of the file; nothing was written.
    Full,
}

impl WriteAheadLog {
    /// Writes the zeros of a new log. Until the database says that there is a log it may be done again, whatever
    /// the file holds.
    pub(super) fn allocate(file: &dyn StorageBackend, capacity: usize) -> io::Result<()> {
        file.set_len(0)?;
        file.set_len(capacity as u64)?;
        let zeros = vec![0; ZEROS_BYTES.min(capacity)];
        for start in (0..capacity).step_by(ZEROS_BYTES) {
            file.write(start as u64, &zeros[..zeros.len().min(capacity - start)])?;
        }
        file.sync_data()
    }

    /// The log after a checkpoint: empty.
    pub(super) fn new(file: Box<dyn StorageBackend>, record: LogRecord) -> Self {
        Self { file, sequence: record.sequence, record, end: 0, frame: Vec::new() }
    }

    /// Appends a frame and makes it durable.
    ///
    /// After an error the log is not to be used again. In particular a failed `fdatasync` is not repeated: the
    /// kernel reports an error once and may mark the pages clean, so that the next call succeeds for data that
    /// never reached the disk ("fsyncgate", PostgreSQL 2018).
    pub(super) fn append(&mut self, payload: &[u8]) -> io::Result<Appended> {
        if frame::frame_bytes(payload.len()) > self.capacity() - self.end {
            return Ok(Appended::Full);
        }
        frame::begin(&mut self.frame);
        self.frame.extend_from_slice(payload);
        if !frame::finish(&mut self.frame, &self.record, self.sequence + 1) {
            return Ok(Appended::Full);
        }
        self.file.write(self.end as u64, &self.frame)?;
        self.file.sync_data()?;
        self.sequence += 1;
        self.end += self.frame.len();
        self.frame.clear();
        self.frame.shrink_to(KEPT_BUFFER_BYTES);
        Ok(Appended::Durable)
    }

    /// The whole file, of which it is not known where its frames end.
    pub(super) fn whole_file(&self) -> io::Result<Vec<u8>> {
        self.read(self.capacity())
    }

    /// The part of the file that holds frames.
    pub(super) fn frames(&self) -> io::Result<Vec<u8>> {
        self.read(self.end)
    }

    fn read(&self, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        self.file.read(0, &mut bytes)?;
        Ok(bytes)
    }

    /// The payloads in these bytes that the database does not have yet.
    pub(super) fn replay<'a>(&self, bytes: &'a [u8]) -> Result<Vec<&'a [u8]>, LogDamage> {
        frame::scan(bytes, &self.record)
    }

    /// Checks that as many frames were read back as were written.
    pub(super) fn check_count(&self, read: usize) -> Result<(), LogDamage> {
        let next = self.record.sequence + read as u64 + 1;
        if next > self.sequence { Ok(()) } else { Err(LogDamage::Gap { sequence: next }) }
    }

    /// The record that the database needs when it has so many commits more than it had at the last checkpoint, and the log
    /// is empty.
    pub(super) fn checkpoint_after(&self, commits: usize) -> LogRecord {
        let LogRecord { generation, sequence, .. } = self.record;
        LogRecord { generation: generation + 1, sequence: sequence + commits as u64, ..self.record }
    }

    /// Begins again at the front of the file: the database has `record`, and everything before it. Frames that are
    /// in the file belong to an earlier generation from now on.
    pub(super) fn reset(&mut self, record: LogRecord) {
        self.sequence = record.sequence;
        self.record = record;
        self.end = 0;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.end == 0
    }

    pub(super) fn is_half_full(&self) -> bool {
        self.end >= self.capacity() / 2
    }

    fn capacity(&self) -> usize {
        self.record.capacity as usize
    }
}

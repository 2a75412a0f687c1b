//! Frames of the write-ahead log: how one is written, and which of those in a file are replayed. Pure: bytes in,
//! values out.
//!
//! A generation of the log is written front to back, by one process, one frame at a time, and each frame is
//! durable before the next is written. So a crash tears the last frame at most: whatever stands before a valid
//! frame of the same generation had been synced. That is what [`scan`] tells damage from a torn tail by.

use thiserror::Error;

use super::records::LogRecord;

/// Frames begin at multiples of this, and their last block is filled with zeros: no write touches a block that
/// holds a frame already synced, so that a torn block never takes an answered write with it. The page size, so
/// that the kernel has no page to read before it is written.
pub(super) const BLOCK_BYTES: usize = 4096;

/// Checksum, length, identity, generation, sequence number.
const HEADER_BYTES: usize = 4 + 4 + 8 + 8 + 8;

/// A frame that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    identity: u64,
    generation: u64,
    sequence: u64,
    payload: &'a [u8],
}

/// Why the frames of a log cannot be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum LogDamage {
    /// A frame is broken that a later one follows: it had been synced, and its writes answered.
    #[error("frame {sequence} of the write-ahead log, which later ones follow,")]
    Gap { sequence: u64 },
    /// It was written after a checkpoint that the database does not have.
    #[error("the checkpoint before the write-ahead log, which is newer than the rest,")]
    Newer,
    /// It is another account's.
    #[error("the write-ahead log, which is another account's,")]
    Foreign,
}

/// How many bytes of the file a frame with this payload takes.
pub(super) fn frame_bytes(payload: usize) -> usize {
    (HEADER_BYTES + payload).next_multiple_of(BLOCK_BYTES)
}

/// Begins a frame in a buffer, with room for the header: the payload is appended, and [`finish`] fills it in.
pub(super) fn begin(frame: &mut Vec<u8>) {
    frame.clear();
    frame.resize(HEADER_BYTES, 0);
}

/// Fills in the header of a frame, and zeros up to the next block. `false` where the payload is too long for a
/// frame.
pub(super) fn finish(frame: &mut Vec<u8>, log: &LogRecord, sequence: u64) -> bool {
    let Some(length) = frame.len().checked_sub(HEADER_BYTES) else { return false };
    let Ok(length) = u32::try_from(length) else { return false };
    let numbers = [log.identity, log.generation, sequence].map(u64::to_le_bytes);
    frame[4..8].copy_from_slice(&length.to_le_bytes());
    frame[8..HEADER_BYTES].copy_from_slice(numbers.as_flattened());
    let checksum = crc32fast::hash(&frame[4..]);
    frame[..4].copy_from_slice(&checksum.to_le_bytes());
    frame.resize(frame.len().next_multiple_of(BLOCK_BYTES), 0);
    true
}

/// The payloads of the frames that follow what `log` says the database holds, in their order.
pub(super) fn scan<'a>(file: &'a [u8], log: &LogRecord) -> Result<Vec<&'a [u8]>, LogDamage> {
    let (mut replayed, mut rest, mut expected) = (Vec::new(), file, log.sequence + 1);
    // Files are zeroed when an account begins, so another's frames are there only if files were mixed up.
    if read(file, |_| true).is_some_and(|frame| frame.identity != log.identity) {
        return Err(LogDamage::Foreign);
    }
    while let Some(frame) = read(rest, |frame| log.is_current(frame)) {
        if frame.generation > log.generation {
            return Err(LogDamage::Newer);
        }
        if frame.sequence != expected {
            return Err(LogDamage::Gap { sequence: expected });
        }
        replayed.push(frame.payload);
        expected += 1;
        rest = rest.get(frame_bytes(frame.payload.len())..).unwrap_or_default();
    }
    // The end, or a frame that is torn or damaged: torn, if nothing follows.
    let mut blocks = (0..rest.len()).step_by(BLOCK_BYTES).map(|start| &rest[start..]);
    match blocks.find_map(|block| read(block, |frame| log.is_current(frame))) {
        None => Ok(replayed),
        Some(frame) if frame.generation > log.generation => Err(LogDamage::Newer),
        Some(_) => Err(LogDamage::Gap { sequence: expected }),
    }
}

impl LogRecord {
    /// Whether a frame was written after the checkpoint that this is of: earlier ones are in the file until they
    /// are written over.
    fn is_current(&self, frame: &Frame<'_>) -> bool {
        frame.identity == self.identity && frame.generation >= self.generation
    }
}

/// The frame at the beginning of these bytes, if it is whole. `wanted` decides by the header, before the checksum
/// is computed: inside a frame any bytes may stand where a header would.
fn read(bytes: &[u8], wanted: impl FnOnce(&Frame<'_>) -> bool) -> Option<Frame<'_>> {
    let (checksum, rest) =
        bytes.split_first_chunk().map(|(it, rest)| (u32::from_le_bytes(*it), rest))?;
    let (length, after) =
        rest.split_first_chunk().map(|(it, rest)| (u32::from_le_bytes(*it), rest))?;
    let number = |after: &'_ [u8]| after.first_chunk().copied().map(u64::from_le_bytes);
    let (identity, generation, sequence) =
        (number(after)?, number(after.get(8..)?)?, number(after.get(16..)?)?);
    let length = usize::try_from(length).ok()?;
    let payload = after.get(24..)?.get(..length)?;
    let frame = Frame { identity, generation, sequence, payload };
    let summed = rest.get(..HEADER_BYTES - 4 + length)?;
    (wanted(&frame) && crc32fast::hash(summed) == checksum).then_some(frame)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: LogRecord =
        LogRecord { identity: 7, generation: 3, sequence: 10, capacity: 1 << 16 };

    fn frame(log: &LogRecord, sequence: u64, payload: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        begin(&mut frame);
        frame.extend(payload);
        assert!(finish(&mut frame, log, sequence));
        assert_eq!(frame.len(), frame_bytes(payload.len()));
        frame
    }

    /// Frames of the current generation, from 11 on, and zeros after them.
    fn file(payloads: &[&[u8]]) -> Vec<u8> {
        let frames = (11..).zip(payloads).map(|(sequence, payload)| frame(&LOG, sequence, payload));
        let mut file = frames.collect::<Vec<_>>().concat();
        file.resize(1 << 16, 0);
        file
    }

    fn payloads(file: &[u8]) -> Result<Vec<&[u8]>, LogDamage> {
        scan(file, &LOG)
    }

    #[test]
    fn frames_are_replayed_in_their_order() {
        let long = vec![9; 3 * BLOCK_BYTES];
        let file = file(&[b"one", &long, b"", b"four"]);
        assert_eq!(payloads(&file), Ok(vec![&b"one"[..], &long, b"", b"four"]));
        assert_eq!(payloads(&vec![0; 1 << 16]), Ok(Vec::new()));
        assert_eq!(payloads(&[]), Ok(Vec::new()));
    }

    #[test]
    fn a_torn_tail_is_dropped_wherever_it_is_torn() {
        let long = vec![9; 2 * BLOCK_BYTES];
        let whole = file(&[b"one", &long]);
        for torn in (BLOCK_BYTES..4 * BLOCK_BYTES).step_by(512) {
            let mut file = whole.clone();
            file[torn..torn + 512].fill(0);
            // The padding of the last block is in no checksum.
            let survives = torn >= BLOCK_BYTES + HEADER_BYTES + long.len();
            let expected = if survives { vec![&b"one"[..], &long] } else { vec![&b"one"[..]] };
            assert_eq!(payloads(&file), Ok(expected), "torn at {torn}");
        }
    }

    #[test]
    fn a_broken_frame_that_another_follows_is_damage() {
        let mut file = file(&[b"one", &[9; 2 * BLOCK_BYTES], b"three"]);
        file[BLOCK_BYTES + 100] ^= 1;
        assert_eq!(payloads(&file), Err(LogDamage::Gap { sequence: 12 }));
        file[BLOCK_BYTES..BLOCK_BYTES + HEADER_BYTES].fill(0);
        assert_eq!(payloads(&file), Err(LogDamage::Gap { sequence: 12 }));
    }

    #[test]
    fn frames_before_the_checkpoint_are_not_replayed() {
        let before = LogRecord { generation: 2, sequence: 0, ..LOG };
        let old = [frame(&before, 9, b"a"), frame(&before, 10, b"b"), frame(&before, 11, b"c")];
        let mut file = old.concat();
        assert_eq!(payloads(&file), Ok(Vec::new()));
        // The log begins again over what it held.
        file[..BLOCK_BYTES].copy_from_slice(&frame(&LOG, 11, b"new"));
        assert_eq!(payloads(&file), Ok(vec![&b"new"[..]]));
    }

    #[test]
    fn a_frame_after_a_checkpoint_that_is_missing_is_damage() {
        let after = LogRecord { generation: 4, ..LOG };
        assert_eq!(payloads(&frame(&after, 20, b"new")), Err(LogDamage::Newer));
        let mut behind = file(&[b"one"]);
        behind[BLOCK_BYTES..2 * BLOCK_BYTES].copy_from_slice(&frame(&after, 20, b"new"));
        assert_eq!(payloads(&behind), Err(LogDamage::Newer));
    }

    #[test]
    fn the_log_of_another_account_is_damage() {
        let other = LogRecord { identity: 8, ..LOG };
        assert_eq!(payloads(&frame(&other, 11, b"one")), Err(LogDamage::Foreign));
    }

    #[test]
    fn bytes_that_look_like_a_header_inside_a_frame_are_no_frame() {
        let inner = frame(&LOG, 12, b"inner");
        let mut payload = vec![0; BLOCK_BYTES - HEADER_BYTES];
        payload.extend(&inner);
        let file = file(&[&payload]);
        assert_eq!(payloads(&file), Ok(vec![&payload[..]]));
    }
}

//! Where an evaluation stands in the nested loops over the sources of a query.
//!
//! A position is one index per source: how many of the source's values were passed. With it a run resumes in
//! the middle of one document's rows without producing those before again, however many there are.

use smallvec::{SmallVec, smallvec};

/// An index for each loop; a document without many joins takes no allocation for them.
type Indexes = SmallVec<[u64; 4]>;

/// The loops of the outermost query over one document.
#[derive(Debug, Default)]
pub(crate) struct Loops {
    /// Where the loops begin; an index is used up when its loop is entered, so that later rounds begin at 0.
    begin: Indexes,
    /// The index of each loop now.
    at: Indexes,
    /// Whether an iteration was completed: a run may pause only after some progress, or it would never end.
    progressed: bool,
    /// Whether the row that the loops are at was given to the consumer.
    taken: bool,
    /// Whether a pause is possible at all. A blocking operator loses its state in one.
    can_pause: bool,
}

impl Loops {
    /// Loops over `sources` sources that begin at a position; what the position does not tell begins at 0.
    pub(crate) fn new(sources: usize, position: &[u64], can_pause: bool) -> Self {
        let begin = (0..sources).map(|level| position.get(level).copied().unwrap_or(0)).collect();
        Self { begin, at: smallvec![0; sources], progressed: false, taken: false, can_pause }
    }

    /// The index at which a loop begins when it is entered; later rounds begin at 0.
    pub(super) fn enter(&mut self, level: usize) -> u64 {
        std::mem::take(&mut self.begin[level])
    }

    /// Where the loops resume: at the current row, or after it if it was given to the consumer.
    pub(crate) fn into_position(mut self) -> Vec<u64> {
        if let Some(last) = self.at.last_mut().filter(|_| self.taken) {
            *last += 1;
        }
        self.at.into_vec()
    }

    /// Whether the current row was given to the consumer, who wants no more for now.
    pub(crate) fn was_taken(&self) -> bool {
        self.taken
    }

    /// Notes that the consumer took the current row and wants no more for now.
    pub(super) fn row_was_taken(&mut self) {
        self.taken = true;
    }

    /// Notes that an iteration was completed.
    pub(super) fn iteration_ended(&mut self) {
        self.progressed = true;
    }

    /// Whether an iteration was completed: only then may the run pause.
    pub(super) fn has_progressed(&self) -> bool {
        self.progressed
    }

    pub(super) fn can_pause(&self) -> bool {
        self.can_pause
    }

    /// Moves the loop of a level; the loops inside it have not begun.
    pub(super) fn move_to(&mut self, level: usize, index: u64) {
        self.at[level] = index;
        self.at[level + 1..].fill(0);
    }
}

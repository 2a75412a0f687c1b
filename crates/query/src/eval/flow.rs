//! Values that stages of an evaluation exchange: whether rows follow, and whether one was taken.

use crate::error::EvalError;

/// The result of a stage; an error ends the run.
pub(crate) type Evaluated<T> = Result<T, EvalError>;

/// Whether there are more rows to come: early termination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// There may be more rows to come.
    More,
    /// Nothing that follows can change the result.
    Enough,
    /// The run stopped within the rows of a document: its consumer wants no more for now, or its steps are
    /// spent. It resumes at [`Run::position`](crate::Run::position).
    Paused,
}

/// The answer of a consumer of rows to one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It took the row and wants more.
    More,
    /// It took the row and wants no more for now.
    Last,
    /// It did not take the row, which is the first one when the run is resumed.
    Refused,
}

//! Cross-partition merge: the results of many partitions as the result of the query.
//!
//! A [`Merge`] is built from a plan and fed with pages, range by range; it gives items, or says
//! which range it needs a page of. It knows nothing of requests, so it can be driven one page at a
//! time or with as many requests in flight as the caller likes. Where a query is resumable,
//! [`Merge::state`] is the whole continuation.

mod group;
mod position;
mod source;
mod stages;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sidereal_protocol::{QueryInfo, SortOrder};
use thiserror::Error;

pub use position::Position;
pub use source::RangeProgress;
pub use stages::WindowLeft;

use group::Groups;
use source::Source;
use stages::Distinct;

/// Most groups, or most distinct rows, held at once.
// At some hundred bytes a key about a gigabyte: beyond it a client should not merge in memory.
pub const MAX_MERGED_ROWS: usize = 10_000_000;

/// A cross-partition query in progress.
#[derive(Debug)]
pub struct Merge {
    source: Source,
    sorted: bool,
    groups: Option<Groups>,
    distinct: Distinct,
    count: Option<Count>,
    window: WindowLeft,
    /// Results that waited for the last row.
    ready: VecDeque<Value>,
    /// Most groups, or most distinct rows, held at once.
    max_rows: usize,
}

/// The number of distinct rows, and the name it goes by.
#[derive(Debug)]
struct Count {
    alias: String,
    rows: Option<u64>,
}

/// The result of [`Merge::next`].
#[derive(Clone, Debug, PartialEq)]
pub enum Next {
    /// The next item of the result.
    Item(Value),
    /// Nothing can be given before the next page of this range.
    NeedPage(usize),
    /// The result is complete.
    Done,
}

/// Why a merge cannot go on.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum MergeError {
    /// A row is not of the shape the plan's query gives.
    #[error("a partition answered with a row that does not fit the plan")]
    UnexpectedRow,
    /// There is no range of this number.
    #[error("there is no range {0} in this merge")]
    NoSuchRange(usize),
    /// Too many groups or distinct rows.
    #[error("the result holds more groups or distinct rows than are allowed")]
    TooManyRows,
    /// This shape is not resumable; it has to start from the beginning.
    #[error("a query with {0} cannot be resumed; it has to start from the beginning")]
    NotResumable(&'static str),
}

/// The continuation of a merge: all that is needed to resume it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MergeState {
    /// How far each range has been given out.
    pub ranges: Vec<RangeProgress>,
    /// The rest of the row window.
    #[serde(default)]
    pub window: WindowLeft,
    /// The last row of a sorted `DISTINCT`.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "position::undefined_as_absent::present"
    )]
    pub last_distinct: Option<Value>,
}

impl Merge {
    /// A merge of the results of `ranges` ranges.
    pub fn new(info: &QueryInfo, ranges: usize) -> Self {
        Self::over(info, Source::new(row_order(info), ranges))
    }

    /// Resumes a merge from its [`state`](Self::state).
    ///
    /// A sorted range is to be asked from its [`last`](RangeProgress::last) position on, that row
    /// included; any other range for its current page again. Rows that were given are dropped here.
    ///
    /// # Errors
    ///
    /// If the shape is not resumable.
    pub fn resume(info: &QueryInfo, state: MergeState) -> Result<Self, MergeError> {
        let source = Source::resumed(row_order(info), &state.ranges);
        let mut merge = Self::over(info, source);
        merge.check_resumable()?;
        merge.window = state.window;
        if let Distinct::Ordered(last) = &mut merge.distinct {
            *last = state.last_distinct;
        }
        Ok(merge)
    }

    fn over(info: &QueryInfo, source: Source) -> Self {
        let count = info.d_count_info.as_ref();
        Self {
            source,
            sorted: !row_order(info).is_empty(),
            groups: Groups::of(info),
            distinct: Distinct::of(info.distinct_type),
            count: count.map(|count| Count { alias: count.d_count_alias.clone(), rows: Some(0) }),
            window: WindowLeft::of(info),
            ready: VecDeque::new(),
            max_rows: MAX_MERGED_ROWS,
        }
    }

    /// Bounds the groups or distinct rows that the merge holds.
    #[must_use]
    pub fn with_max_rows(mut self, rows: usize) -> Self {
        self.max_rows = rows.min(MAX_MERGED_ROWS);
        self
    }

    /// The newest row that came of a range, given or not: where what takes its place has to begin. None if the
    /// range is not sorted or no row came.
    pub fn newest_position(&self, range: usize) -> Option<&Position> {
        self.source.newest_position(range)
    }

    /// Whether a query of this plan is resumable.
    pub fn is_resumable(info: &QueryInfo) -> bool {
        Self::new(info, 0).check_resumable().is_ok()
    }

    /// Hands over the next page of a range; `last` if there are no more.
    ///
    /// # Errors
    ///
    /// If there is no such range, or a row does not fit the plan.
    pub fn feed(&mut self, range: usize, page: Vec<Value>, last: bool) -> Result<(), MergeError> {
        self.source.feed(range, page, last)
    }

    /// Replaces a range by those it was split into, and gives their numbers.
    ///
    /// Pages that were fed stay; what follows comes from the new ranges, which are to be asked for
    /// what comes after the old range's last page.
    ///
    /// # Errors
    ///
    /// If there is no such range.
    pub fn split(
        &mut self,
        range: usize,
        into: usize,
    ) -> Result<std::ops::Range<usize>, MergeError> {
        self.source.split(range, into)
    }

    /// The ranges whose next page can be asked for now.
    pub fn waiting(&self) -> impl Iterator<Item = usize> + '_ {
        let open = !self.window.is_closed();
        self.source.waiting().filter(move |_| open)
    }

    /// The next item, or what stands in its way.
    ///
    /// # Errors
    ///
    /// If a row does not fit the plan, or too much would have to be held.
    #[expect(clippy::should_implement_trait, reason = "an iterator could not ask for a page")]
    pub fn next(&mut self) -> Result<Next, MergeError> {
        loop {
            if self.window.is_closed() {
                return Ok(Next::Done);
            }
            let item = match self.combined()? {
                Next::Item(item) => item,
                other => return Ok(other),
            };
            if self.window.admits() {
                return Ok(Next::Item(item));
            }
        }
    }

    /// How far the merge has come.
    ///
    /// # Errors
    ///
    /// If the shape is not resumable.
    pub fn state(&self) -> Result<MergeState, MergeError> {
        self.check_resumable()?;
        let last_distinct = match &self.distinct {
            Distinct::Ordered(last) => last.clone(),
            Distinct::Off | Distinct::Unordered(_) => None,
        };
        Ok(MergeState { ranges: self.source.progress(), window: self.window, last_distinct })
    }

    fn check_resumable(&self) -> Result<(), MergeError> {
        match (&self.groups, &self.distinct, &self.count) {
            (Some(_), ..) => Err(MergeError::NotResumable("aggregates or GROUP BY")),
            (.., Some(_)) => Err(MergeError::NotResumable("a count of distinct rows")),
            (_, Distinct::Unordered(_), _) => Err(MergeError::NotResumable("DISTINCT")),
            _ => Ok(()),
        }
    }

    /// Rows after grouping, `DISTINCT` and counting.
    fn combined(&mut self) -> Result<Next, MergeError> {
        let Some(count) = &mut self.count else { return self.distinct_rows() };
        let Some(mut rows) = count.rows.take() else { return Ok(Next::Done) };
        loop {
            match self.distinct_rows()? {
                Next::Item(_) => rows += 1,
                Next::Done => break,
                need @ Next::NeedPage(_) => {
                    if let Some(count) = &mut self.count {
                        count.rows = Some(rows);
                    }
                    return Ok(need);
                }
            }
        }
        let alias = self.count.as_ref().map_or("", |count| count.alias.as_str());
        Ok(Next::Item(if alias.is_empty() { json!(rows) } else { json!({ alias: rows }) }))
    }

    fn distinct_rows(&mut self) -> Result<Next, MergeError> {
        loop {
            let next = self.grouped_rows()?;
            let Next::Item(row) = &next else { return Ok(next) };
            if self.distinct.is_new(row, self.max_rows)? {
                return Ok(next);
            }
        }
    }

    fn grouped_rows(&mut self) -> Result<Next, MergeError> {
        if self.groups.is_none() {
            return self.rows();
        }
        if let Some(ready) = self.ready.pop_front() {
            return Ok(Next::Item(ready));
        }
        loop {
            let next = self.rows()?;
            let Some(groups) = &mut self.groups else { return Ok(next) };
            match next {
                Next::Item(row) => groups.add(row, self.max_rows)?,
                Next::NeedPage(_) => return Ok(next),
                Next::Done => {
                    self.ready.extend(groups.finish());
                    return Ok(self.ready.pop_front().map_or(Next::Done, Next::Item));
                }
            }
        }
    }

    /// Rows as the query would give them, out of their wrapping.
    fn rows(&mut self) -> Result<Next, MergeError> {
        let next = self.source.next();
        let mut row = match next {
            Next::Item(row) if self.sorted => row,
            other => return Ok(other),
        };
        let payload = row.as_object_mut().and_then(|row| row.swap_remove("payload"));
        payload.map(Next::Item).ok_or(MergeError::UnexpectedRow)
    }
}

/// The order in which rows are merged: none where groups are sorted, which happens once they are whole.
fn row_order(info: &QueryInfo) -> Vec<SortOrder> {
    match info.group_by_expressions.is_empty() {
        true => info.order_by.clone(),
        false => Vec::new(),
    }
}

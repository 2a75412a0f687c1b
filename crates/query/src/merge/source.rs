//! Rows from several ranges as one sequence: as they come, or by a k-way merge of sorted ranges.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sidereal_protocol::SortOrder;

use super::position::Position;
use super::{MergeError, Next};

/// The rows of all ranges.
#[derive(Debug)]
pub(super) struct Source {
    /// The sort directions; empty if rows come in no order.
    orders: Vec<SortOrder>,
    ranges: Vec<RangeRows>,
    /// The range that the last row came from: the next one is taken there too if it can be, so
    /// that unsorted rows of a range stay together.
    current: usize,
}

/// The rows of one range that have come and not gone.
#[derive(Debug, Default)]
struct RangeRows {
    rows: VecDeque<Row>,
    /// How many of those rows belong to each page, oldest first.
    pages: VecDeque<u64>,
    exhausted: bool,
    progress: RangeProgress,
    /// Rows of the next page that were given before the resume.
    repeated: u64,
    /// Rows at the resume position that were given; those before it are dropped as well.
    trimming: Option<u64>,
}

#[derive(Debug)]
struct Row {
    position: Option<Position>,
    value: Value,
}

/// How far one range has been given out: enough to go on later.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RangeProgress {
    /// Pages that were given out whole.
    #[serde(default)]
    pub pages: u64,
    /// Rows of the page after those that were given; it has to be asked for again.
    #[serde(default)]
    pub page_rows: u64,
    /// Whether the range has nothing left.
    #[serde(default)]
    pub done: bool,
    /// The last row given, of a sorted query: what to resume from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Position>,
    /// How many rows at that very position were given; a `JOIN` makes several of one document.
    #[serde(default)]
    pub same_position: u64,
}

impl Source {
    pub(super) fn new(orders: Vec<SortOrder>, ranges: usize) -> Self {
        let ranges = (0..ranges).map(|_| RangeRows::default()).collect();
        Self { orders, ranges, current: 0 }
    }

    pub(super) fn resumed(orders: Vec<SortOrder>, progress: &[RangeProgress]) -> Self {
        let range = |progress: &RangeProgress| RangeRows {
            exhausted: progress.done,
            repeated: progress.page_rows,
            trimming: progress.last.is_some().then_some(progress.same_position),
            progress: progress.clone(),
            ..RangeRows::default()
        };
        Self { orders, ranges: progress.iter().map(range).collect(), current: 0 }
    }

    pub(super) fn progress(&self) -> Vec<RangeProgress> {
        let of = |range: &RangeRows| RangeProgress {
            done: range.exhausted && range.rows.is_empty(),
            ..range.progress.clone()
        };
        self.ranges.iter().map(of).collect()
    }

    /// Ranges that have no buffered rows and may have more.
    pub(super) fn waiting(&self) -> impl Iterator<Item = usize> + '_ {
        let waiting = |range: &RangeRows| range.rows.is_empty() && !range.exhausted;
        self.ranges.iter().enumerate().filter(move |(_, r)| waiting(r)).map(|(at, _)| at)
    }

    pub(super) fn feed(
        &mut self,
        at: usize,
        page: Vec<Value>,
        last: bool,
    ) -> Result<(), MergeError> {
        let sorted = !self.orders.is_empty();
        let range = self.ranges.get_mut(at).ok_or(MergeError::NoSuchRange(at))?;
        let held = range.rows.len();
        for value in page {
            if !sorted {
                match range.repeated {
                    0 => range.rows.push_back(Row { position: None, value }),
                    _ => range.repeated -= 1,
                }
                continue;
            }
            let position = Position::of_row(&value).ok_or(MergeError::UnexpectedRow)?;
            if !range.was_given(&position, &self.orders) {
                range.rows.push_back(Row { position: Some(position), value });
            }
        }
        range.pages.push_back((range.rows.len() - held) as u64);
        range.turn_pages();
        range.exhausted = last;
        Ok(())
    }

    /// Replaces a range by those it was split into; what has come of it stays.
    ///
    /// Gives the numbers of the new ranges, which go on from where the old one was asked last.
    pub(super) fn split(
        &mut self,
        at: usize,
        into: usize,
    ) -> Result<std::ops::Range<usize>, MergeError> {
        let old = self.ranges.get_mut(at).ok_or(MergeError::NoSuchRange(at))?;
        old.exhausted = true;
        // The newest row of the old range is where its successors begin.
        let last = old.newest_position().cloned();
        let same_position = last.as_ref().map_or(0, |last| old.count_at(last, &self.orders));
        let progress = RangeProgress { last, same_position, ..RangeProgress::default() };
        let first = self.ranges.len();
        self.ranges.extend((0..into).map(|_| RangeRows {
            trimming: progress.last.is_some().then_some(same_position),
            progress: progress.clone(),
            ..RangeRows::default()
        }));
        Ok(first..self.ranges.len())
    }

    pub(super) fn newest_position(&self, at: usize) -> Option<&Position> {
        self.ranges.get(at)?.newest_position()
    }

    pub(super) fn next(&mut self) -> Next {
        let chosen = match self.orders.is_empty() {
            true => self.any(),
            false => self.smallest(),
        };
        let at = match chosen {
            Ok(at) => at,
            Err(next) => return next,
        };
        self.current = at;
        match self.ranges[at].take(&self.orders) {
            Some(value) => Next::Item(value),
            None => Next::Done,
        }
    }

    /// The current range if it has a row, else the first that has.
    fn any(&self) -> Result<usize, Next> {
        let has_row = |at: &usize| self.ranges.get(*at).is_some_and(|r| !r.rows.is_empty());
        let first = std::iter::once(self.current).chain(0..self.ranges.len()).find(has_row);
        first.ok_or_else(|| self.waiting().next().map_or(Next::Done, Next::NeedPage))
    }

    /// K-way merge: the range with the smallest row, once every range has one or has nothing left.
    fn smallest(&self) -> Result<usize, Next> {
        if let Some(waiting) = self.waiting().next() {
            return Err(Next::NeedPage(waiting));
        }
        let heads = self.ranges.iter().enumerate().filter_map(|(at, range)| {
            let head = range.rows.front()?.position.as_ref()?;
            Some((at, head))
        });
        let smallest = heads.min_by(|(_, left), (_, right)| left.compare(right, &self.orders));
        smallest.map(|(at, _)| at).ok_or(Next::Done)
    }
}

impl RangeRows {
    /// The newest row that came, or the last one given.
    fn newest_position(&self) -> Option<&Position> {
        let newest = self.rows.back().and_then(|row| row.position.as_ref());
        newest.or(self.progress.last.as_ref())
    }

    fn take(&mut self, orders: &[SortOrder]) -> Option<Value> {
        let Row { position, value } = self.rows.pop_front()?;
        self.progress.page_rows += 1;
        if let Some(page) = self.pages.front_mut() {
            *page -= 1;
        }
        self.turn_pages();
        if let Some(position) = position {
            let last = self.progress.last.as_ref();
            let again = last.is_some_and(|last| last.compare(&position, orders).is_eq());
            self.progress.same_position = if again { self.progress.same_position + 1 } else { 1 };
            self.progress.last = Some(position);
        }
        Some(value)
    }

    /// Counts the pages that have nothing left.
    fn turn_pages(&mut self) {
        while self.pages.front() == Some(&0) {
            self.pages.pop_front();
            self.progress.pages += 1;
            self.progress.page_rows = 0;
        }
    }

    /// How many rows at `position` have come so far, given or not.
    fn count_at(&self, position: &Position, orders: &[SortOrder]) -> u64 {
        let is_there = |other: &Position| other.compare(position, orders).is_eq();
        let held = self.rows.iter().filter_map(|row| row.position.as_ref());
        let held = held.filter(|other| is_there(other)).count() as u64;
        let given = self.progress.last.as_ref().is_some_and(is_there);
        held + if given { self.progress.same_position } else { 0 }
    }

    /// Whether a row was given before the resume: it lies before the resume position, or is one
    /// of the rows of that document that were counted.
    fn was_given(&mut self, position: &Position, orders: &[SortOrder]) -> bool {
        let (Some(left), Some(last)) = (&mut self.trimming, &self.progress.last) else {
            return false;
        };
        match position.compare(last, orders) {
            std::cmp::Ordering::Less => true,
            std::cmp::Ordering::Equal if *left > 0 => {
                *left -= 1;
                true
            }
            _ => {
                self.trimming = None;
                false
            }
        }
    }
}

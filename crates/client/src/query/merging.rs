//! Rows that are merged: sorted, grouped, distinct. [`Merge`] decides; this feeds it.

use serde_json::Value;
use sidereal_protocol::QueryInfo;
use sidereal_query::merge::{Merge, MergeError, MergeState, Next, RangeProgress};

use super::continuation_token::{QueryState, RangeState};
use super::fan_out::{FanOut, FanOutEvent};
use super::limits::QueryLimits;
use super::page::PageFacts;
use super::request::Start;
use crate::{Error, ErrorKind, Result};

/// The state of such a query. Lanes have the numbers of the merge's ranges.
#[derive(Debug)]
pub(super) struct Merging {
    fan_out: FanOut,
    info: QueryInfo,
    merge: Merge,
    limits: QueryLimits,
    /// The range reader whose place each one has taken.
    parents: Vec<Option<usize>>,
    has_started: bool,
}

impl Merging {
    /// A merge of the range readers of a query, each of which begins where its state says.
    pub(super) fn new(
        fan_out: FanOut,
        info: QueryInfo,
        limits: QueryLimits,
        resumed: Option<(Vec<RangeState>, QueryState)>,
    ) -> Result<Self> {
        let parents = vec![None; fan_out.lanes()];
        let merge = match resumed {
            None => Merge::new(&info, fan_out.lanes()),
            Some((lanes, state)) => {
                let ranges = lanes.iter().map(progress_of).collect();
                let (window, last_distinct) = (state.window, state.last_distinct);
                let state = MergeState { ranges, window, last_distinct };
                Merge::resume(&info, state).map_err(not_resumable)?
            }
        };
        let merge = merge.with_max_rows(limits.max_merged_rows);
        Ok(Self { fan_out, info, merge, limits, parents, has_started: false })
    }

    /// The next rows: as many as fit on a page, or as many as there are without waiting if the reader would
    /// rather have them at once. None after the last.
    pub(super) async fn next_rows(
        &mut self,
        page_rows: usize,
        at_once: bool,
        facts: &mut PageFacts,
    ) -> Result<Option<Vec<Value>>> {
        self.start_lanes();
        let mut rows = Vec::new();
        while rows.len() < page_rows {
            match self.merge.next().map_err(|error| self.failed(error))? {
                Next::Item(row) => rows.push(row),
                Next::Done => {
                    self.fan_out.stop();
                    break;
                }
                Next::NeedPage(lane) => {
                    if self.feed(lane, facts)? {
                        continue;
                    }
                    if at_once && !rows.is_empty() {
                        break;
                    }
                    self.wait(facts).await?;
                }
            }
        }
        Ok((!rows.is_empty()).then_some(rows))
    }

    /// Every range reader may have the next row.
    fn start_lanes(&mut self) {
        if !std::mem::replace(&mut self.has_started, true) {
            (0..self.fan_out.lanes()).for_each(|lane| self.fan_out.need(lane));
        }
    }

    /// Hands the next page of a range reader to the merge, if it has come.
    fn feed(&mut self, lane: usize, facts: &mut PageFacts) -> Result<bool> {
        let Some(page) = self.fan_out.take(lane) else { return Ok(false) };
        let is_last = page.continuation.is_none();
        let rows = page.rows.to_values()?;
        facts.add(page.facts);
        self.merge.feed(lane, rows, is_last).map_err(|error| self.failed(error))?;
        Ok(true)
    }

    async fn wait(&mut self, facts: &mut PageFacts) -> Result<()> {
        match self.fan_out.next().await? {
            // Rows in no order are taken as they come: what is combined needs no room in the budget.
            FanOutEvent::Page(lane) if !self.is_sorted() => self.feed(lane, facts).map(drop),
            FanOutEvent::Page(_) => Ok(()),
            FanOutEvent::Gone { lane, start } => self.replace(lane, start, facts).await,
        }
    }

    fn is_sorted(&self) -> bool {
        !self.info.order_by.is_empty() && self.info.group_by_expressions.is_empty()
    }

    /// Whether rows are combined into something that cannot be taken apart again.
    fn is_grouped(&self) -> bool {
        !self.info.group_by_expressions.is_empty()
            || !self.info.aggregates.is_empty()
            || !self.info.group_by_alias_to_aggregate_type.is_empty()
    }

    /// Goes on with what has taken the place of a range reader's partition range.
    ///
    /// A sorted range goes on from its newest row. What is distinct is asked from the beginning, and what was
    /// seen is dropped again. Partial groups cannot be told from those of the successors, but none was given
    /// out: the query begins again.
    async fn replace(&mut self, lane: usize, start: Start, facts: &mut PageFacts) -> Result<()> {
        while self.feed(lane, facts)? {}
        if self.is_grouped() && self.fan_out.lane(lane).pages_taken > 0 {
            self.fan_out.restart().await?;
            let merge = Merge::new(&self.info, self.fan_out.lanes());
            self.merge = merge.with_max_rows(self.limits.max_merged_rows);
            self.parents = vec![None; self.fan_out.lanes()];
            self.has_started = false;
            self.start_lanes();
            return Ok(());
        }
        let start = match (self.is_sorted(), self.merge.newest_position(lane)) {
            (true, Some(position)) => Start::At(position.clone()),
            (true, None) => Start::Beginning,
            // Nothing of a grouped range reader was taken, so it stands where it began.
            (false, _) if self.is_grouped() => start,
            (false, _) => Start::Beginning,
        };
        let successors = self.fan_out.replace(lane, &start).await?;
        self.merge.split(lane, successors.len()).map_err(|error| self.failed(error))?;
        self.parents.extend(successors.iter().map(|_| Some(lane)));
        successors.into_iter().for_each(|successor| self.fan_out.need(successor));
        Ok(())
    }

    fn failed(&self, error: MergeError) -> Error {
        match error {
            MergeError::TooManyRows => Error::new(
                ErrorKind::LimitExceeded,
                format!(
                    "the query needs more than {} groups or distinct rows in memory: narrow it, or raise \
                     `QueryLimits::max_merged_rows`",
                    self.limits.max_merged_rows
                ),
            ),
            MergeError::NotResumable(_) => not_resumable(error),
            error => Error::caused_by(
                ErrorKind::InvalidResponse,
                "a partition range answered with rows that do not fit the query's plan",
                error,
            ),
        }
    }

    /// Where it stands; none if nothing is left.
    pub(super) fn state(&self) -> Result<Option<QueryState>> {
        let state = self.merge.state().map_err(not_resumable)?;
        if state.window.take == Some(0) {
            return Ok(None);
        }
        // A range reader that was replaced and still has rows stands for those that replaced it, which gave none yet.
        let stands_for_itself = |lane: usize| {
            let mut ancestors = std::iter::successors(self.parents[lane], |it| self.parents[*it]);
            !state.ranges[lane].done && ancestors.all(|ancestor| state.ranges[ancestor].done)
        };
        let lanes = (0..state.ranges.len()).filter(|lane| stands_for_itself(*lane));
        let mut ranges: Vec<RangeState> = lanes
            .filter(|lane| *lane < self.fan_out.lanes())
            .map(|lane| range_state(self.fan_out.lane(lane).range.clone(), &state.ranges[lane]))
            .collect();
        ranges.sort_by(|left, right| left.range.min().cmp(right.range.min()));
        let (window, last_distinct) = (state.window, state.last_distinct);
        Ok((!ranges.is_empty()).then_some(QueryState { ranges, window, last_distinct }))
    }
}

fn range_state(
    range: sidereal_protocol::EffectivePartitionKeyRange,
    progress: &RangeProgress,
) -> RangeState {
    match &progress.last {
        Some(position) => RangeState {
            range,
            start: Start::At(position.clone()),
            same_position: progress.same_position,
        },
        None => RangeState::new(range, Start::Beginning),
    }
}

fn progress_of(lane: &RangeState) -> RangeProgress {
    match &lane.start {
        Start::At(position) => RangeProgress {
            last: Some(position.clone()),
            same_position: lane.same_position,
            ..RangeProgress::default()
        },
        Start::Beginning | Start::After(_) | Start::Resumed(..) => RangeProgress::default(),
    }
}

fn not_resumable(error: MergeError) -> Error {
    Error::invalid(format!("there is no continuation token for this query: {error}"))
}

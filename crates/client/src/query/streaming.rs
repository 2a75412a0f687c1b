//! Rows as they come, range after range in the order of the key space, within a window of `TOP` or
//! `OFFSET … LIMIT`: nothing is decoded, and a page of the result is a page of one range.

use std::collections::VecDeque;

use sidereal_query::merge::WindowLeft;

use super::continuation_token::{QueryState, RangeState};
use super::fan_out::{FanOut, FanOutEvent};
use super::page::{PageFacts, Rows};
use super::request::Start;
use crate::Result;

/// The state of such a query.
#[derive(Debug)]
pub(super) struct Streaming {
    fan_out: FanOut,
    /// The range readers that are still to be read, in their order.
    order: VecDeque<usize>,
    window: WindowLeft,
    /// How many range readers are read ahead at most. With a window it begins at one and doubles with every page: the
    /// first range may well have all the rows that are wanted.
    ahead: usize,
}

impl Streaming {
    pub(super) fn new(fan_out: FanOut, window: WindowLeft) -> Self {
        let order = (0..fan_out.lanes()).collect();
        let ahead = if window.take.is_some() { 1 } else { fan_out.parallelism() };
        Self { fan_out, order, window, ahead }
    }

    /// The next page; none after the last.
    pub(super) async fn next_page(&mut self, facts: &mut PageFacts) -> Result<Option<Rows>> {
        loop {
            let Some(first) = self.order.front().copied() else { return Ok(None) };
            if self.window.take == Some(0) {
                self.order.clear();
                self.fan_out.stop();
                return Ok(None);
            }
            self.start_lanes();
            if let Some(page) = self.fan_out.take(first) {
                self.ahead = self.ahead.saturating_mul(2).min(self.fan_out.parallelism());
                facts.add(page.facts);
                let mut rows = page.rows;
                self.apply_window(&mut rows);
                self.drop_finished();
                return Ok(Some(Rows::Raw(rows)));
            }
            if self.fan_out.is_done(first) {
                self.order.pop_front();
                continue;
            }
            if let FanOutEvent::Gone { lane, start } = self.fan_out.next().await? {
                self.replace(lane, &start).await?;
            }
        }
    }

    /// The first range reader is waited for; those after it are read ahead.
    fn start_lanes(&mut self) {
        let unread = self.order.iter().filter(|lane| !self.fan_out.has_ended(**lane));
        let unread: Vec<usize> = unread.copied().take(self.ahead.max(1)).collect();
        for lane in unread {
            self.fan_out.start(lane);
        }
        if let Some(first) = self.order.front() {
            self.fan_out.need(*first);
        }
    }

    /// Puts the range readers that have taken the place of one behind it: what came of it is still to be given.
    async fn replace(&mut self, lane: usize, start: &Start) -> Result<()> {
        let successors = self.fan_out.replace(lane, start).await?;
        let at = self.order.iter().position(|it| *it == lane).map_or(self.order.len(), |at| at + 1);
        for (offset, successor) in successors.into_iter().enumerate() {
            self.order.insert(at + offset, successor);
        }
        Ok(())
    }

    fn apply_window(&mut self, rows: &mut super::fetch::RawRows) {
        let count = rows.len() as u64;
        let skipped = self.window.skip.min(count);
        let taken = self.window.take.map_or(count - skipped, |left| left.min(count - skipped));
        self.window.skip -= skipped;
        if let Some(left) = &mut self.window.take {
            *left -= taken;
        }
        // Both are at most the number of rows.
        rows.window(skipped as usize, taken as usize);
    }

    fn drop_finished(&mut self) {
        while self.order.front().is_some_and(|lane| self.fan_out.is_done(*lane)) {
            self.order.pop_front();
        }
        if self.window.take == Some(0) {
            self.order.clear();
        }
    }

    /// Where it stands; none if nothing is left.
    pub(super) fn state(&self) -> Option<QueryState> {
        let mut ranges: Vec<RangeState> = Vec::new();
        let unread = self.order.iter().filter(|lane| !self.fan_out.is_done(**lane));
        for lane in unread.map(|lane| self.fan_out.lane(*lane)) {
            let state = RangeState::new(lane.range.clone(), lane.start.clone());
            // Lanes that take the place of one with pages left have given nothing yet: it stands for them.
            let is_told =
                ranges.last_mut().is_some_and(|it| it.covers(&state) || it.extend(&state));
            if !is_told {
                ranges.push(state);
            }
        }
        (!ranges.is_empty()).then_some(QueryState {
            ranges,
            window: self.window,
            last_distinct: None,
        })
    }
}

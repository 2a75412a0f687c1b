//! The range readers of a query: started, listened to, replaced when their partition ranges are.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use sidereal_driver::ContainerMetadata;
use sidereal_protocol::{EffectivePartitionKeyRange, ResourceLink};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;

use super::budget::{Budget, RangeShare};
use super::fetch::FetchedPage;
use super::limits::MAX_GONE_IN_A_ROW;
use super::range_reader::{self, RECREATED, RangeEvent, ReaderContext};
use super::request::Start;
use super::targets::{Coverage, Target};
use crate::telemetry::in_current_context;
use crate::{Error, ErrorKind, Result};

/// The first pause before a range that is still listed is asked again after it was reported gone; it doubles.
const FIRST_GONE_PAUSE: Duration = Duration::from_millis(50);

/// Every range reader of a query. Dropping it ends their tasks.
#[derive(Debug)]
pub(super) struct FanOut {
    shared: Arc<ReaderContext>,
    budget: Arc<Budget>,
    parallelism: usize,
    container: ResourceLink,
    /// The RID of the container: another one of its name is another container.
    rid: String,
    coverage: Coverage,
    lanes: Vec<RangeReader>,
    tasks: JoinSet<()>,
    sender: UnboundedSender<(usize, RangeEvent)>,
    events: UnboundedReceiver<(usize, RangeEvent)>,
}

/// One range, and what has come of it.
#[derive(Debug)]
pub(super) struct RangeReader {
    /// The part of the key space that it reads.
    pub(super) range: EffectivePartitionKeyRange,
    target: Target,
    /// Where it begins; moves on with the pages that are taken.
    pub(super) start: Start,
    share: Arc<RangeShare>,
    is_started: bool,
    /// Whether its last page has come.
    has_ended: bool,
    pages: VecDeque<Box<FetchedPage>>,
    /// Pages that were taken.
    pub(super) pages_taken: usize,
    /// How often its range was reported gone since a page came.
    gone_in_a_row: u32,
}

/// An event of the fan-out, for its reader.
#[derive(Debug)]
pub(super) enum FanOutEvent {
    /// A range reader has a page.
    Page(usize),
    /// The partition range of a range reader is gone; pages that came before are still there.
    Gone { lane: usize, start: Start },
}

impl FanOut {
    pub(super) fn new(
        shared: ReaderContext,
        parallelism: usize,
        (container, rid): (ResourceLink, String),
        coverage: Coverage,
    ) -> Self {
        let (sender, events) = unbounded_channel();
        let budget = Arc::new(Budget::new(&shared.limits, parallelism));
        let (shared, lanes, tasks) = (Arc::new(shared), Vec::new(), JoinSet::new());
        Self { shared, budget, parallelism, container, rid, coverage, lanes, tasks, sender, events }
    }

    /// How many ranges are asked at once.
    pub(super) fn parallelism(&self) -> usize {
        self.parallelism
    }

    /// Adds a range reader, which begins to read when it is started; gives its number.
    pub(super) fn add(
        &mut self,
        (range, target): (EffectivePartitionKeyRange, Target),
        start: Start,
    ) -> usize {
        self.lanes.push(RangeReader {
            range,
            target,
            start,
            share: Arc::default(),
            is_started: false,
            has_ended: false,
            pages: VecDeque::new(),
            pages_taken: 0,
            gone_in_a_row: 0,
        });
        self.lanes.len() - 1
    }

    pub(super) fn lane(&self, number: usize) -> &RangeReader {
        &self.lanes[number]
    }

    pub(super) fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Lets a range reader read ahead of the reader, unless it does already.
    pub(super) fn start(&mut self, number: usize) {
        let lane = &mut self.lanes[number];
        if std::mem::replace(&mut lane.is_started, true) {
            return;
        }
        self.tasks.spawn(in_current_context(range_reader::run(
            number,
            lane.target.clone(),
            lane.start.clone(),
            (Arc::clone(&self.budget), Arc::clone(&lane.share)),
            Arc::clone(&self.shared),
            self.sender.clone(),
        )));
    }

    /// The reader may be waiting for a range reader from now on: it is read whatever others hold.
    pub(super) fn need(&mut self, number: usize) {
        self.start(number);
        self.budget.needs(&self.lanes[number].share);
    }

    /// Waits for something to come.
    pub(super) async fn next(&mut self) -> Result<FanOutEvent> {
        // The tasks that have ended are not kept until the query is over.
        while self.tasks.try_join_next().is_some() {}
        // The sender is this side's own too, so that there is always one.
        let Some((number, event)) = self.events.recv().await else {
            return Err(Error::invalid("the query has ended"));
        };
        let lane = &mut self.lanes[number];
        match event {
            RangeEvent::Page(page) => {
                lane.has_ended = page.continuation.is_none();
                lane.gone_in_a_row = 0;
                lane.pages.push_back(page);
                Ok(FanOutEvent::Page(number))
            }
            RangeEvent::Gone { error, start } => {
                lane.has_ended = true;
                lane.gone_in_a_row += 1;
                if lane.gone_in_a_row > MAX_GONE_IN_A_ROW {
                    return Err(error);
                }
                Ok(FanOutEvent::Gone { lane: number, start })
            }
            RangeEvent::Failed(error) => Err(error),
        }
    }

    /// The next page of a range reader, if it has come.
    pub(super) fn take(&mut self, number: usize) -> Option<Box<FetchedPage>> {
        let lane = &mut self.lanes[number];
        let page = lane.pages.pop_front()?;
        self.budget.release(&lane.share, page.rows.bytes());
        lane.pages_taken += 1;
        if let Some(continuation) = &page.continuation {
            lane.start = lane.start.after(continuation.clone());
        }
        Some(page)
    }

    /// Whether nothing more will come of a range reader, and everything that came was taken.
    pub(super) fn is_done(&self, number: usize) -> bool {
        self.lanes[number].has_ended && self.lanes[number].pages.is_empty()
    }

    /// Whether the last page of a range reader has come.
    pub(super) fn has_ended(&self, number: usize) -> bool {
        self.lanes[number].has_ended
    }

    /// Adds range readers for the partition ranges that have taken the place of a range reader's; returns their numbers,
    /// in the order of the key space.
    pub(super) async fn replace(&mut self, number: usize, start: &Start) -> Result<Vec<usize>> {
        let (range, gone_in_a_row) =
            (self.lanes[number].range.clone(), self.lanes[number].gone_in_a_row);
        let targets = self.successors(&range, &self.lanes[number].target, gone_in_a_row).await?;
        let numbers = targets.into_iter().map(|target| {
            let added = self.add(target, start.clone());
            self.lanes[added].gone_in_a_row = gone_in_a_row;
            added
        });
        Ok(numbers.collect())
    }

    async fn successors(
        &self,
        range: &EffectivePartitionKeyRange,
        old: &Target,
        gone_in_a_row: u32,
    ) -> Result<Vec<(EffectivePartitionKeyRange, Target)>> {
        let call = &self.shared.call;
        let targets = self.coverage.targets_within(range, self.refreshed().await?.ranges());
        if matches!(targets.as_slice(), [(_, same)] if same == old) {
            // Still listed: a split that is under way, or a list that is behind.
            let pause = FIRST_GONE_PAUSE * 2_u32.pow(gone_in_a_row.min(6));
            let what = "a split of a partition range was waited for";
            call.bounded(what, tokio::time::sleep(pause)).await?;
        }
        Ok(targets)
    }

    /// The container as it is now.
    async fn refreshed(&self) -> Result<Arc<ContainerMetadata>> {
        let ReaderContext { driver, call, .. } = &*self.shared;
        let what = "the container's partition ranges were being read";
        let container = call.bounded(what, driver.refresh_container(&self.container)).await??;
        match container.rid() == self.rid {
            true => Ok(container),
            false => Err(Error::new(ErrorKind::NotFound, RECREATED)),
        }
    }

    /// Begins again: the pages that have come are dropped, and every range of the query is asked from its beginning.
    pub(super) async fn restart(&mut self) -> Result<()> {
        let gone_in_a_row =
            self.lanes.iter().map(|lane| lane.gone_in_a_row).max().unwrap_or_default();
        self.stop();
        let container = self.refreshed().await?;
        for target in self.coverage.targets(container.ranges()) {
            let added = self.add(target, Start::Beginning);
            self.lanes[added].gone_in_a_row = gone_in_a_row;
        }
        Ok(())
    }

    /// Ends the range readers' tasks and forgets what has come.
    pub(super) fn stop(&mut self) {
        self.tasks.abort_all();
        self.lanes.clear();
        (self.sender, self.events) = unbounded_channel();
        // A new one: the slots of requests that were under way are given back by nobody.
        self.budget = Arc::new(Budget::new(&self.shared.limits, self.parallelism));
    }
}

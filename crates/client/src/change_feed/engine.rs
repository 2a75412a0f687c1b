//! Reading a change feed: a lane for each partition range, one page of each under way.

use std::sync::Arc;
use std::time::Duration;

use sidereal_driver::ContainerMetadata;
use sidereal_protocol::{EffectivePartitionKeyRange, ResourceLink};
use tokio::task::JoinSet;

use super::builder::ChangeFeed;
use super::page::{Cost, RawPage};
use super::request::{FetchedPage, NoPage, PageReader};
use super::start::Position;
use super::token::{Content, ScopeId};
use super::{ChangeFeedStart, ChangeFeedToken};
use crate::long_call::Call;
use crate::query::fetch::RawRows;
use crate::query::targets::{Target, targets_of};
use crate::telemetry::in_current_context;
use crate::{ContainerClient, Error, ErrorKind, Result};

/// How often in a row ranges are found gone without a page in between.
const MAX_MOVES: usize = 100;

/// A feed that is read, or is about to be.
#[derive(Debug)]
pub(super) struct Engine {
    feed: ChangeFeed,
    run: Option<FeedRun>,
}

/// A feed under way.
#[derive(Debug)]
struct FeedRun {
    container: ContainerClient,
    link: ResourceLink,
    call: Call,
    reader: Arc<PageReader>,
    /// The part of every token that does not change: all but the positions.
    token: Content,
    /// In the order of the key space.
    lanes: Vec<Lane>,
    /// The lane that was asked last.
    turn: usize,
    tasks: JoinSet<(EffectivePartitionKeyRange, Result<FetchedPage, NoPage>)>,
    parallelism: usize,
    cost: Cost,
    moves: usize,
    /// Whether the reader was told that it has caught up, and nothing has come since.
    is_told: bool,
}

/// One range.
#[derive(Debug)]
struct Lane {
    range: EffectivePartitionKeyRange,
    target: Target,
    /// How far it was given to the reader.
    position: Position,
    state: LaneState,
}

#[derive(Debug, PartialEq)]
enum LaneState {
    /// To be asked.
    Idle,
    /// A page is under way.
    Asked,
    /// It had nothing new.
    Drained,
    /// Its partition range was split or merged.
    Gone,
}

impl Engine {
    pub(super) fn new(feed: ChangeFeed) -> Self {
        Self { feed, run: None }
    }

    /// The next page; none where the reader has caught up and does not wait for more.
    ///
    /// It may be dropped and called again: no page is lost by it.
    pub(super) async fn next_page(&mut self) -> Result<Option<RawPage>> {
        let interval = self.feed.poll_interval;
        let run = match &mut self.run {
            Some(run) => run,
            run @ None => run.insert(FeedRun::start(&self.feed).await?),
        };
        run.next_page(interval).await
    }
}

impl FeedRun {
    async fn start(feed: &ChangeFeed) -> Result<Self> {
        let (container, call) = (feed.container.clone(), feed.call.clone().started());
        let link = container.link()?.clone();
        let metadata = container.driver().container(&link);
        let metadata = call.bounded("the container was being read", metadata).await??;
        let scope = ScopeId::of(&feed.scope.text());
        let token = match feed.continuation.clone() {
            Some(token) => token.into_content(metadata.rid(), &scope)?,
            None => Content {
                container: metadata.rid().to_owned(),
                scope,
                is_from_now: feed.start == ChangeFeedStart::Now,
                since: feed.start.since()?,
                ranges: vec![(feed.scope.window(&metadata)?, Position::Start)],
            },
        };
        let start =
            if token.is_from_now { ChangeFeedStart::Now } else { ChangeFeedStart::Beginning };
        let reader = PageReader::new(
            Arc::clone(container.driver()),
            (&link, &metadata),
            (start, token.since),
            feed.page_size,
            call.clone(),
        )?;
        let lanes = token.ranges.iter().flat_map(|(range, position)| {
            lanes_of(feed.scope.key_target(&metadata), range, position, &metadata)
        });
        let lanes = lanes.collect();
        Ok(Self {
            container,
            link,
            call,
            reader: Arc::new(reader),
            token,
            lanes,
            turn: 0,
            tasks: JoinSet::new(),
            parallelism: feed.parallelism,
            cost: Cost::default(),
            moves: 0,
            is_told: false,
        })
    }

    async fn next_page(&mut self, interval: Option<Duration>) -> Result<Option<RawPage>> {
        loop {
            self.replace_lanes_that_are_gone().await?;
            self.ask();
            if self.tasks.is_empty() {
                // Every lane is drained. It is asked again when the reader comes back.
                match interval {
                    _ if !self.is_told => {
                        self.is_told = true;
                        return Ok(Some(self.page(
                            RawRows::default(),
                            EffectivePartitionKeyRange::FULL,
                            true,
                        )));
                    }
                    None => {
                        self.wake();
                        self.is_told = false;
                        return Ok(None);
                    }
                    Some(interval) => {
                        let slept = tokio::time::sleep(interval);
                        self.call.bounded("the feed had nothing new", slept).await?;
                        self.wake();
                        continue;
                    }
                }
            }
            let joined = self.tasks.join_next();
            let joined = self.call.bounded("changes were being read", joined).await?;
            let Some(joined) = joined else { continue };
            let (range, outcome) = match joined {
                Ok(ended) => ended,
                // The tasks only wait for the driver: one that panics is a defect, and is passed on.
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            };
            if let Some(page) = self.settle(&range, outcome)? {
                // The next pages are under way while the program works on this one.
                self.ask();
                return Ok(Some(page));
            }
        }
    }

    /// Takes in what came of a page.
    fn settle(
        &mut self,
        range: &EffectivePartitionKeyRange,
        outcome: Result<FetchedPage, NoPage>,
    ) -> Result<Option<RawPage>> {
        let Some(lane) = self.lanes.iter_mut().find(|lane| lane.range == *range) else {
            return Ok(None);
        };
        lane.state = LaneState::Idle;
        let page = match outcome {
            Ok(page) => page,
            Err(NoPage::Failed(error)) => return Err(error),
            Err(NoPage::Gone(error)) => {
                lane.state = LaneState::Gone;
                self.moves += 1;
                return if self.moves > MAX_MOVES { Err(error) } else { Ok(None) };
            }
        };
        let FetchedPage { rows, position, response, earlier } = page;
        lane.position = position;
        self.moves = 0;
        for diagnostics in earlier.iter().chain([response.diagnostics()]) {
            self.cost.charge += diagnostics.charge();
            self.cost.requests += diagnostics.attempts().len() + diagnostics.attempts_left_out();
        }
        self.cost.diagnostics = Some(response.diagnostics().clone());
        if rows.len() == 0 {
            lane.state = LaneState::Drained;
            return Ok(None);
        }
        self.is_told = false;
        Ok(Some(self.page(rows, range.clone(), false)))
    }

    fn page(
        &mut self,
        rows: RawRows,
        range: EffectivePartitionKeyRange,
        is_caught_up: bool,
    ) -> RawPage {
        let ranges = self.lanes.iter().map(|lane| (lane.range.clone(), lane.position.clone()));
        let content = Content { ranges: ranges.collect(), ..self.token.clone() };
        let (continuation, cost) = (ChangeFeedToken(content), std::mem::take(&mut self.cost));
        RawPage { rows, range, continuation, is_caught_up, cost }
    }

    /// Asks lanes that are to be asked, as far as parallelism admits, in turn: none waits for others to be drained.
    fn ask(&mut self) {
        for _ in 0..self.lanes.len() {
            if self.tasks.len() >= self.parallelism {
                return;
            }
            self.turn = (self.turn + 1) % self.lanes.len();
            let lane = &mut self.lanes[self.turn];
            if lane.state != LaneState::Idle {
                continue;
            }
            lane.state = LaneState::Asked;
            let (reader, target) = (Arc::clone(&self.reader), lane.target.clone());
            let (range, position) = (lane.range.clone(), lane.position.clone());
            self.tasks.spawn(in_current_context(async move {
                let page = reader.fetch(&target, &position).await;
                (range, page)
            }));
        }
    }

    /// Lets drained lanes be asked again.
    fn wake(&mut self) {
        for lane in self.lanes.iter_mut().filter(|lane| lane.state == LaneState::Drained) {
            lane.state = LaneState::Idle;
        }
    }

    async fn replace_lanes_that_are_gone(&mut self) -> Result<()> {
        if self.lanes.iter().all(|lane| lane.state != LaneState::Gone) {
            return Ok(());
        }
        let refreshed = self.container.driver().refresh_container(&self.link);
        let metadata = self.call.bounded("partition ranges were being read", refreshed).await??;
        if metadata.rid() != self.token.container {
            return Err(Error::new(ErrorKind::NotFound, crate::query::range_reader::RECREATED));
        }
        let lanes = std::mem::take(&mut self.lanes);
        self.lanes = lanes
            .into_iter()
            .flat_map(|lane| match lane.state {
                LaneState::Gone => lanes_of(None, &lane.range, &lane.position, &metadata),
                LaneState::Idle | LaneState::Asked | LaneState::Drained => vec![lane],
            })
            .collect();
        Ok(())
    }
}

/// The lanes of a part of the key space: one for each partition range in it, from the same position on.
fn lanes_of(
    key: Option<Target>,
    range: &EffectivePartitionKeyRange,
    position: &Position,
    metadata: &ContainerMetadata,
) -> Vec<Lane> {
    let targets = match key {
        Some(target) => vec![(range.clone(), target)],
        None => targets_of(range, metadata.ranges()),
    };
    let lane = |(range, target)| Lane {
        range,
        target,
        position: position.clone(),
        state: LaneState::Idle,
    };
    targets.into_iter().map(lane).collect()
}

//! Processing the partition range of one lease, while it is held: read, handle, check-point, renew.

use std::pin::Pin;
use std::sync::Arc;

use sidereal_protocol::EffectivePartitionKeyRange;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::config::Config;
use super::handler::{Handler, RawChanges};
use super::lease::LeaseDocument;
use super::lease_store::{LeaseStore, MAX_TOGETHER, NotWritten};
use super::progress::Board;
use crate::ContainerClient;
use crate::change_feed::request::{FetchedPage, NoPage, PageReader};
use crate::change_feed::start::Position;
use crate::query::targets::{Target, targets_of};

/// The state that the ranges of a worker share.
#[derive(Debug)]
pub(super) struct WorkerContext {
    pub(super) feed: ContainerClient,
    pub(super) reader: PageReader,
    pub(super) leases: LeaseStore,
    pub(super) handler: Handler,
    pub(super) config: Config,
    pub(super) board: Board,
    pub(super) stopping: CancellationToken,
}

/// Why a range is no longer followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// The worker stops; the lease is given back.
    Stopped,
    /// Another worker has the lease, or it could not be renewed.
    Lost,
    /// Other leases have taken its place.
    Replaced,
}

/// The processor of one lease that this worker holds.
pub(super) struct PartitionProcessor {
    shared: Arc<WorkerContext>,
    lease: LeaseDocument,
    range: EffectivePartitionKeyRange,
    position: Position,
    target: Option<Target>,
    renew_at: Instant,
    /// Until when nobody else takes it: counted from before the write that renewed it.
    held_until: Instant,
}

/// The lease is no longer this worker's.
struct LeaseLost;

type Renewal = Pin<Box<dyn Future<Output = (Instant, Result<LeaseDocument, NotWritten>)> + Send>>;

impl PartitionProcessor {
    /// A lease that was taken, or found to be this worker's, at a moment.
    pub(super) fn new(
        shared: Arc<WorkerContext>,
        lease: LeaseDocument,
        range: EffectivePartitionKeyRange,
        since: Instant,
    ) -> Self {
        let config = &shared.config;
        let (renew_at, held_until) =
            (since + config.renew_interval(), since + config.lease_duration);
        let position = lease.position();
        Self { shared, lease, range, position, target: None, renew_at, held_until }
    }

    /// Follows the range until the lease is lost, replaced or given back.
    pub(super) async fn run(mut self) -> Ended {
        self.shared.board.begin(&self.lease.id, &self.range);
        let ended = self.follow().await.unwrap_or(Ended::Lost);
        self.shared.board.end(&self.lease.id);
        ended
    }

    async fn follow(&mut self) -> Result<Ended, LeaseLost> {
        let mut failures = 0;
        loop {
            if self.shared.stopping.is_cancelled() {
                return Ok(self.release().await);
            }
            match self.read().await? {
                Ok(page) if page.rows.len() == 0 => {
                    failures = 0;
                    self.position = page.position;
                    self.update(|it| (it.is_caught_up, it.failures) = (true, 0));
                    self.pause(self.shared.config.poll_interval).await?;
                }
                Ok(page) => {
                    failures = 0;
                    if !self.handle(page).await? {
                        return Ok(self.release().await);
                    }
                }
                Err(NoPage::Gone(error)) => {
                    let error = match self.replace().await {
                        Ok(true) => return Ok(Ended::Replaced),
                        Ok(false) => error,
                        Err(error) => error,
                    };
                    failures += 1;
                    // A merge: what took the place of the range is asked at once.
                    if failures > 1 {
                        self.failed(failures, &error.to_string()).await?;
                    }
                }
                Err(NoPage::Failed(error)) => {
                    failures += 1;
                    self.failed(failures, &error.to_string()).await?;
                }
            }
        }
    }

    /// The next page.
    async fn read(&mut self) -> Result<Result<FetchedPage, NoPage>, LeaseLost> {
        let (shared, position) = (Arc::clone(&self.shared), self.position.clone());
        let (range, known) = (self.range.clone(), self.target.clone());
        let (target, page) = self
            .kept(async move {
                let target = match known {
                    Some(target) => target,
                    None => match target_of(&shared.feed, &range).await {
                        Ok(target) => target,
                        Err(no_page) => return (None, Err(no_page)),
                    },
                };
                let page = shared.reader.fetch(&target, &position).await;
                (Some(target), page)
            })
            .await?;
        // A range that is gone is looked up again.
        self.target = target.filter(|_| !matches!(page, Err(NoPage::Gone(_))));
        Ok(page)
    }

    /// Has a page handled, however often that takes, and notes it. Says whether it was before the worker stops.
    async fn handle(&mut self, page: FetchedPage) -> Result<bool, LeaseLost> {
        let FetchedPage { rows, position, .. } = page;
        let mut attempt = 0;
        loop {
            attempt += 1;
            let changes = RawChanges { rows: rows.clone(), range: self.range.clone(), attempt };
            let (handler, timeout) =
                (self.shared.handler.clone(), self.shared.config.handler_timeout);
            match self.kept(async move { handler.handle(changes, timeout).await }).await? {
                Ok(()) => break,
                Err(why) => self.failed(attempt, &why).await?,
            }
            if self.shared.stopping.is_cancelled() {
                return Ok(false);
            }
        }
        self.position = position;
        self.check_point().await?;
        let count = rows.len() as u64;
        self.update(|it| {
            (it.handled, it.failures, it.is_caught_up) = (it.handled + count, 0, false);
        });
        Ok(true)
    }

    /// Notes how far the range was handled. Nothing more is handled before that: what is not noted comes again.
    async fn check_point(&mut self) -> Result<(), LeaseLost> {
        let mut failures = 0;
        loop {
            let started = Instant::now();
            let next = self.lease.next().handled_to(&self.position);
            let leases = self.shared.leases.clone();
            // Within the time that the lease is held: another worker may have it after that.
            let written = tokio::time::timeout_at(self.held_until, leases.write(next)).await;
            match written.map_err(|_| LeaseLost)? {
                Ok(lease) => {
                    self.renewed(started, lease);
                    return Ok(());
                }
                Err(NotWritten::Lost) => return Err(LeaseLost),
                Err(NotWritten::Failed(error)) => {
                    failures += 1;
                    self.failed(failures, &error.to_string()).await?;
                }
            }
        }
    }

    /// Replaces the lease if its range is more than one partition range now; says whether it is replaced. A merge
    /// leaves it: it goes on with a part of the merged range.
    async fn replace(&mut self) -> crate::Result<bool> {
        let link = self.shared.feed.link()?;
        let metadata = self.shared.feed.driver().refresh_container(link).await?;
        let targets = targets_of(&self.range, metadata.ranges());
        if targets.len() < 2 {
            return Ok(false);
        }
        let parent = self.lease.clone().handled_to(&self.position);
        let children = parent.children(&targets, MAX_TOGETHER);
        match self.shared.leases.replace(&parent, &children).await {
            // Replaced by another worker, or by an attempt whose answer was lost: what is stored is looked at again.
            Err(error) if is_no_longer_there(&error) => Ok(true),
            replaced => replaced.map(|()| true),
        }
    }

    /// Gives the lease back, for another worker to take at once.
    async fn release(&mut self) -> Ended {
        let free = self.lease.next().handled_to(&self.position).owned_by(None);
        // Best effort: the lease expires by itself.
        let _ = self.shared.leases.write(free).await;
        Ended::Stopped
    }

    /// Tells of a failure and waits before the next attempt.
    async fn failed(&mut self, failures: u32, why: &str) -> Result<(), LeaseLost> {
        tracing::warn!(
            lease = self.lease.id,
            failures,
            why,
            "a range of a change feed is not handled"
        );
        self.update(|it| (it.failures, it.last_error) = (failures, Some(why.to_owned())));
        self.pause(self.shared.config.backoff_after(failures)).await
    }

    fn update(&self, change: impl FnOnce(&mut super::RangeProgress)) {
        self.shared.board.update(&self.lease.id, change);
    }

    /// Waits, unless the worker stops.
    async fn pause(&mut self, wait: std::time::Duration) -> Result<(), LeaseLost> {
        let stopping = self.shared.stopping.clone();
        self.kept(async move {
            tokio::select! {
                biased;
                () = stopping.cancelled() => {}
                () = tokio::time::sleep(wait) => {}
            }
        })
        .await
    }

    /// Does something while the lease is renewed beside it. It is dropped when the lease is lost.
    async fn kept<T>(&mut self, work: impl Future<Output = T>) -> Result<T, LeaseLost> {
        tokio::pin!(work);
        let mut renewal: Option<Renewal> = None;
        loop {
            let (renew_at, held_until) = (self.renew_at, self.held_until);
            tokio::select! {
                // The work first: what was handled is noted, even if the lease is about to end.
                biased;
                output = &mut work => {
                    // The next write needs the etag that a renewal under way is about to change.
                    if let Some(renewal) = renewal {
                        let ended = tokio::time::timeout_at(held_until, renewal).await;
                        self.settle(ended.map_err(|_| LeaseLost)?)?;
                    }
                    return Ok(output);
                }
                ended = poll_renewal(&mut renewal), if renewal.is_some() => {
                    renewal = None;
                    self.settle(ended)?;
                }
                () = tokio::time::sleep_until(held_until) => return Err(LeaseLost),
                () = tokio::time::sleep_until(renew_at), if renewal.is_none() => {
                    renewal = Some(self.renewal());
                }
            }
        }
    }

    fn renewal(&self) -> Renewal {
        let (leases, next) = (self.shared.leases.clone(), self.lease.next());
        let started = Instant::now();
        Box::pin(async move { (started, leases.write(next).await) })
    }

    fn settle(
        &mut self,
        (started, renewed): (Instant, Result<LeaseDocument, NotWritten>),
    ) -> Result<(), LeaseLost> {
        match renewed {
            Ok(lease) => self.renewed(started, lease),
            Err(NotWritten::Lost) => return Err(LeaseLost),
            // Again soon, as long as it is held.
            Err(NotWritten::Failed(error)) => {
                tracing::warn!(lease = self.lease.id, %error, "a lease was not renewed");
                self.renew_at = Instant::now() + self.shared.config.renew_interval() / 4;
            }
        }
        Ok(())
    }

    fn renewed(&mut self, started: Instant, lease: LeaseDocument) {
        self.lease = lease;
        self.renew_at = started + self.shared.config.renew_interval();
        self.held_until = started + self.shared.config.lease_duration;
    }
}

/// Whether a batch was refused because the lease that it replaces is another by now, or gone.
fn is_no_longer_there(error: &crate::Error) -> bool {
    matches!(error.kind(), crate::ErrorKind::PreconditionFailed | crate::ErrorKind::NotFound)
}

async fn poll_renewal(
    renewal: &mut Option<Renewal>,
) -> (Instant, Result<LeaseDocument, NotWritten>) {
    match renewal {
        Some(renewal) => renewal.await,
        None => std::future::pending().await,
    }
}

/// The target of a part of the key space. A part that spans several partition ranges counts as gone (split).
pub(super) async fn target_of(
    feed: &ContainerClient,
    range: &EffectivePartitionKeyRange,
) -> Result<Target, NoPage> {
    let link = feed.link().map_err(NoPage::Failed)?;
    let metadata = feed.driver().container(link).await;
    let metadata = metadata.map_err(|error| NoPage::Failed(error.into()))?;
    let mut targets = targets_of(range, metadata.ranges());
    match (targets.pop(), targets.is_empty()) {
        (Some((_, target)), true) => Ok(target),
        _ => Err(NoPage::Gone(crate::Error::new(
            crate::ErrorKind::Unavailable,
            "the range of the lease is more than one partition range",
        ))),
    }
}

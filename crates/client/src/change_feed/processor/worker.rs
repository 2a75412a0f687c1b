//! A worker: looks at the leases of all workers now and then, takes its share, and follows the range of each.

use std::collections::BTreeMap;
use std::sync::Arc;

use sidereal_protocol::Etag;
use tokio::task::{Id, JoinSet};
use tokio::time::Instant;

use super::balance::{Seen, balance};
use super::lease::{LeaseDocument, confirmed, covered, holes};
use super::lease_store::NotWritten;
use super::partition_processor::{Ended, PartitionProcessor, WorkerContext};
use crate::Result;
use crate::change_feed::start::Position;

/// A worker of a processor.
pub(super) struct Worker {
    shared: Arc<WorkerContext>,
    /// When each lease was first seen as it is, by its id.
    observed: BTreeMap<String, (Option<Etag>, Instant)>,
    processors: JoinSet<Ended>,
    /// The lease that each task follows.
    followed: BTreeMap<Id, String>,
}

impl Worker {
    pub(super) fn new(shared: Arc<WorkerContext>) -> Self {
        let (observed, followed) = (BTreeMap::new(), BTreeMap::new());
        Self { shared, observed, processors: JoinSet::new(), followed }
    }

    /// Works until it is stopped; then gives its leases back.
    pub(super) async fn run(mut self) {
        let stopping = self.shared.stopping.clone();
        let interval = self.shared.config.acquire_interval;
        while !stopping.is_cancelled() {
            if let Err(error) = self.look().await {
                tracing::warn!(%error, "the leases of a change feed could not be read");
            }
            tokio::select! {
                biased;
                () = stopping.cancelled() => {}
                () = self.until_replaced() => {}
                () = tokio::time::sleep(interval) => {}
            }
        }
        while self.processors.join_next().await.is_some() {}
    }

    /// Waits until a range is no longer followed and there is something to do at once: others took its place.
    async fn until_replaced(&mut self) {
        loop {
            match self.processors.join_next_with_id().await {
                Some(Ok((task, ended))) => {
                    self.followed.remove(&task);
                    if ended == Ended::Replaced {
                        return;
                    }
                }
                // A defect of this crate, and no reason to stop the other ranges: the lease is followed again at the next look.
                Some(Err(error)) => {
                    tracing::error!(%error, "a range of a change feed is no longer followed");
                    self.followed.remove(&error.id());
                }
                None => std::future::pending().await,
            }
        }
    }

    /// Looks at all leases and takes those that are to be this worker's.
    async fn look(&mut self) -> Result<()> {
        let started = Instant::now();
        let mut leases = self.shared.leases.list().await?;
        let missing = holes(&leases);
        if !missing.is_empty() {
            leases = self.shared.leases.list().await?;
        }
        for hole in confirmed(&missing, &holes(&leases)) {
            let lease = LeaseDocument::new(&self.shared.config.processor, &hole, &Position::Start);
            self.shared.leases.create(&lease).await?;
        }
        for lease in covered(&leases) {
            tracing::warn!(lease = lease.id, "a lease that others cover is deleted");
            self.shared.leases.delete(lease).await?;
        }
        let seen = self.observe(&leases, started);
        let me = self.shared.config.instance.clone();
        // Also those that name this worker and are not followed: others may have seen them unchanged for nearly their
        // duration, and would take them from a worker that begins without having renewed them.
        let resumed = leases.iter().filter(|lease| lease.owner.as_ref() == Some(&me));
        let wanted: Vec<&str> = resumed.map(|lease| lease.id.as_str()).collect();
        let balanced = balance(&seen, &me);
        for id in wanted.into_iter().chain(balanced.iter().map(String::as_str)) {
            let Some(lease) = leases.iter().find(|lease| lease.id == id) else { continue };
            if self.followed.values().any(|followed| followed == id) {
                continue;
            }
            let taken = Instant::now();
            match self.shared.leases.write(lease.next().owned_by(Some(&me))).await {
                Ok(lease) => self.follow(lease, taken),
                // Another worker was faster.
                Err(NotWritten::Lost) => {}
                Err(NotWritten::Failed(error)) => return Err(error),
            }
        }
        Ok(())
    }

    fn follow(&mut self, lease: LeaseDocument, since: Instant) {
        let Some(range) = lease.range() else { return };
        let id = lease.id.clone();
        let processor = PartitionProcessor::new(Arc::clone(&self.shared), lease, range, since);
        let task = self.processors.spawn(processor.run());
        self.followed.insert(task.id(), id);
    }

    /// Notes the leases as they are now, and which have expired: one that stays as it is for its duration is expired.
    fn observe(&mut self, leases: &[LeaseDocument], now: Instant) -> Vec<Seen> {
        let before = std::mem::take(&mut self.observed);
        let duration = self.shared.config.lease_duration;
        let see = |lease: &LeaseDocument| {
            let known = before.get(&lease.id).filter(|(etag, _)| *etag == lease.etag);
            let since = known.map_or(now, |(_, since)| *since);
            self.observed.insert(lease.id.clone(), (lease.etag.clone(), since));
            let is_expired = now.saturating_duration_since(since) >= duration;
            Seen { id: lease.id.clone(), owner: lease.owner.clone(), is_expired }
        };
        leases.iter().map(see).collect()
    }
}

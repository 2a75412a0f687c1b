//! Holds writes back while their write region, or their partition in it, does not serve.
//!
//! In an account with one write region such a write has nowhere else to go. Instead of asking again and again, all
//! writes concerned wait for the account to name another write region, and one at a time probes, with exponential
//! back-off and jitter (half-open circuit breaker). An outage of a region is told by connections; one of a partition
//! by writes that have used up their retries.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arc_swap::ArcSwap;
use tokio::sync::{Notify, Semaphore, SemaphorePermit, watch};
use tokio_util::sync::CancellationToken;

use super::{AccountEndpointState, PartitionId};
use crate::exchange::Endpoint;
use crate::retry::Backoff;
use crate::system::{Clock, TaskSpawner};

/// The most outages that are kept: beyond it, writes retry by themselves.
const MAX_OUTAGES: usize = 10_000;

/// The pauses between probes. The longest one is how late writes learn that their region serves again.
const PROBE_BACKOFF: Backoff =
    Backoff { initial: Duration::from_millis(100), longest: Duration::from_secs(2), factor: 2.0 };

/// How long a probe of a region that answers is kept for a write that can be repeated. Then one that cannot may be the
/// probe: it takes the risk that its outcome is unknown only where no other write could find out.
const REPEATABLE_FIRST: Duration = Duration::from_secs(1);

/// How long an outage is kept although no write asks about it.
const IDLE_TIME: Duration = Duration::from_secs(10 * 60);

/// The extent of an outage of writes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OutageScope {
    /// The endpoint of the write region.
    pub(crate) endpoint: Endpoint,
    /// One partition of it, or the whole region.
    pub(crate) partition: Option<PartitionId>,
}

/// How the outage of a write region or partition has shown itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutageCause {
    /// The region does not answer. Only the account can tell which region has taken its place.
    Lost,
    /// It answers that it cannot serve the write.
    Refused,
}

impl OutageScope {
    pub(crate) fn region(endpoint: Endpoint) -> Self {
        Self { endpoint, partition: None }
    }
}

/// The outages of an account's writes.
#[derive(Debug)]
pub(crate) struct WriteGate {
    outages: ArcSwap<BTreeMap<OutageScope, Arc<Outage>>>,
    /// Whether there are any. Beside the map, because every write asks.
    is_closed: AtomicBool,
    /// Whether a region is lost, for the task that reads the account.
    is_lost: watch::Sender<bool>,
    clock: Clock,
    tasks: TaskSpawner,
}

/// One outage, and the writes that wait for its end.
#[derive(Debug)]
pub(crate) struct Outage {
    cause: OutageCause,
    /// FIFO. At most one permit: the right to probe.
    probes: Semaphore,
    /// Permits for writes that cannot be repeated.
    late_probes: Semaphore,
    /// A probe has ended, whatever came of it.
    probed: Notify,
    over: CancellationToken,
}

/// The right to be the one write that probes; returned when it is dropped.
#[derive(Debug)]
pub(crate) struct WriteProbe(Arc<Outage>);

impl Drop for WriteProbe {
    fn drop(&mut self) {
        // `notify_one` keeps a permit: the next probe starts even if its waiter has not begun to wait.
        self.0.probed.notify_one();
    }
}

impl WriteGate {
    pub(crate) fn new(clock: Clock, tasks: TaskSpawner) -> Arc<Self> {
        Arc::new(Self {
            outages: ArcSwap::default(),
            is_closed: AtomicBool::new(false),
            is_lost: watch::Sender::default(),
            clock,
            tasks,
        })
    }

    /// Whether some writes are held back.
    pub(crate) fn is_closed(&self) -> bool {
        // Relaxed: a hint. A write that misses it is sent, and fails or succeeds by itself.
        self.is_closed.load(Ordering::Relaxed)
    }

    /// The outage that a write meets: of its region, or of its partition.
    pub(crate) fn outage(
        &self,
        endpoint: &Endpoint,
        partition: Option<&PartitionId>,
    ) -> Option<Arc<Outage>> {
        let outages = self.outages.load();
        let of = |partition: Option<&PartitionId>| {
            let scope = OutageScope { endpoint: endpoint.clone(), partition: partition.cloned() };
            outages.get(&scope).cloned()
        };
        of(None).or_else(|| partition.and_then(|it| of(Some(it))))
    }

    /// The endpoint of the write region that is lost, if it is.
    pub(crate) fn lost_region(&self) -> Option<Endpoint> {
        let outages = self.outages.load();
        let lost = outages.iter().find(|(_, it)| it.cause == OutageCause::Lost);
        lost.map(|(scope, _)| scope.endpoint.clone())
    }

    /// Holds writes back from now on.
    pub(crate) fn close(self: &Arc<Self>, scope: OutageScope, cause: OutageCause) {
        if self.outages.load().contains_key(&scope) {
            return;
        }
        let outage = Arc::new(Outage::new(cause));
        self.change(|outages| {
            if outages.len() < MAX_OUTAGES {
                outages.entry(scope.clone()).or_insert_with(|| Arc::clone(&outage));
            }
        });
        let is_ours =
            self.outages.load().get(&scope).is_some_and(|known| Arc::ptr_eq(known, &outage));
        if is_ours {
            tracing::warn!(endpoint = %scope.endpoint, partition = ?scope.partition, "writes wait");
            let (gate, tasks) = (Arc::downgrade(self), self.tasks.clone());
            let clock = self.clock.clone();
            self.tasks.spawn("write-probe", async move {
                tokio::select! {
                    biased; // The shutdown first: nothing is probed any more.
                    () = tasks.shutdown_requested() => {}
                    () = outage.over.cancelled() => {}
                    () = outage.pace(&clock) => {
                        // Idle: no write asks about it.
                        if let Some(gate) = gate.upgrade() {
                            gate.open(&scope);
                        }
                    }
                }
            });
        }
    }

    /// Notes that a lost region has answered something: a write that cannot be repeated may probe it.
    pub(crate) fn answered(&self, endpoint: &Endpoint) {
        let outages = self.outages.load();
        if let Some(outage) = outages.get(&OutageScope::region(endpoint.clone()))
            && outage.late_probes.available_permits() == 0
        {
            outage.late_probes.add_permits(1);
        }
    }

    /// Lets the writes of a region or partition go on. Says whether they were held back.
    pub(crate) fn open(&self, scope: &OutageScope) -> bool {
        self.open_all(|it| it == scope)
    }

    /// Lets writes go on that are not about the account's write region any more.
    pub(crate) fn sync(&self, account: &AccountEndpointState) {
        if !self.is_closed() {
            return;
        }
        let writer = match account.write_endpoints() {
            [only] if !account.is_multi_write() => Some(&only.endpoint),
            _ => None,
        };
        self.open_all(|it| writer != Some(&it.endpoint));
    }

    /// Waits until a write region is lost.
    pub(crate) async fn until_lost(&self) {
        let mut is_lost = self.is_lost.subscribe();
        // The sender is the gate's own, so the wait cannot fail.
        let _ = is_lost.wait_for(|is_lost| *is_lost).await;
    }

    fn open_all(&self, is_over: impl Fn(&OutageScope) -> bool) -> bool {
        let before = self.change(|outages| outages.retain(|scope, _| !is_over(scope)));
        let mut is_any = false;
        for (scope, outage) in before.iter().filter(|(scope, _)| is_over(scope)) {
            is_any = true;
            outage.over.cancel();
            tracing::info!(endpoint = %scope.endpoint, partition = ?scope.partition, "writes go on");
        }
        is_any
    }

    fn change(
        &self,
        change: impl Fn(&mut BTreeMap<OutageScope, Arc<Outage>>),
    ) -> Arc<BTreeMap<OutageScope, Arc<Outage>>> {
        let before = self.outages.rcu(|outages| {
            let mut outages = BTreeMap::clone(outages);
            change(&mut outages);
            outages
        });
        // Both are told from the map as it is now: of two changes at once the later one tells of both.
        self.is_lost.send_modify(|is_lost| {
            let outages = self.outages.load();
            *is_lost = outages.values().any(|it| it.cause == OutageCause::Lost);
            // Relaxed: ordered by the lock of `send_modify`, which is taken for changes alone and not on the way of a request.
            self.is_closed.store(!outages.is_empty(), Ordering::Relaxed);
        });
        before
    }
}

impl Outage {
    fn new(cause: OutageCause) -> Self {
        Self {
            cause,
            probes: Semaphore::new(0),
            late_probes: Semaphore::new(0),
            probed: Notify::new(),
            over: CancellationToken::new(),
        }
    }

    /// Waits until the outage is over, or until the write is the one to probe.
    pub(crate) async fn over_or_probe(self: Arc<Self>, is_repeatable: bool) -> Option<WriteProbe> {
        tokio::select! {
            // The end first: a probe would be one more than needed.
            biased;
            () = self.over.cancelled() => return None,
            // The semaphores are never closed.
            permit = self.probes.acquire(), if is_repeatable => permit.ok().map(SemaphorePermit::forget),
            permit = self.late_probes.acquire() => permit.ok().map(SemaphorePermit::forget),
        };
        Some(WriteProbe(Arc::clone(&self)))
    }

    /// Admits one probe after the other, until no write wants to be one.
    async fn pace(&self, clock: &Clock) {
        for number in 0.. {
            tokio::time::sleep(PROBE_BACKOFF.before(number, clock.random())).await;
            self.probes.add_permits(1);
            let mut probed = std::pin::pin!(self.probed.notified());
            if tokio::time::timeout(REPEATABLE_FIRST, &mut probed).await.is_ok() {
                continue;
            }
            // Taken back, unless a write has claimed it and is under way. Not of a region that is silent: a write that
            // cannot be repeated would only be lost there.
            if self.cause == OutageCause::Refused
                && let Ok(unclaimed) = self.probes.try_acquire()
            {
                unclaimed.forget();
                self.late_probes.add_permits(1);
            }
            let is_late = tokio::time::timeout(IDLE_TIME, probed).await.is_err();
            let unclaimed = self.probes.available_permits() + self.late_probes.available_permits();
            if is_late && unclaimed > 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::account_endpoint_state::tests::{account, endpoint};
    use super::*;
    use crate::system::BackgroundTaskManager;

    fn gate() -> (Arc<WriteGate>, BackgroundTaskManager) {
        let tasks = BackgroundTaskManager::new();
        let clock = Clock::simulated(7, std::time::SystemTime::UNIX_EPOCH);
        (WriteGate::new(clock, tasks.spawner()), tasks)
    }

    fn west() -> OutageScope {
        OutageScope::region(endpoint("West"))
    }

    fn partition(range: u32) -> PartitionId {
        PartitionId { container_rid: "rid".into(), range: range.into() }
    }

    fn meets(gate: &WriteGate, range: u32) -> Option<Arc<Outage>> {
        gate.outage(&endpoint("West"), Some(&partition(range)))
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_is_of_a_region_or_of_one_partition() {
        let (gate, _tasks) = gate();
        assert!(!gate.is_closed());
        gate.close(OutageScope { partition: Some(partition(1)), ..west() }, OutageCause::Refused);
        assert!(gate.is_closed() && meets(&gate, 1).is_some() && meets(&gate, 2).is_none());
        assert_eq!(gate.lost_region(), None);
        gate.close(west(), OutageCause::Lost);
        assert!(meets(&gate, 2).is_some());
        assert_eq!(gate.lost_region(), Some(endpoint("West")));
        assert!(gate.outage(&endpoint("East"), Some(&partition(1))).is_none());
        assert!(gate.open(&west()) && !gate.open(&west()));
        assert!(meets(&gate, 1).is_some() && meets(&gate, 2).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn writes_probe_one_at_a_time_with_back_off_and_go_on_together() {
        let (gate, _tasks) = gate();
        gate.close(west(), OutageCause::Lost);
        let probes = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let writes: Vec<_> = (0..100)
            .map(|_| {
                let (gate, probes) = (Arc::clone(&gate), Arc::clone(&probes));
                tokio::spawn(async move {
                    while let Some(outage) = meets(&gate, 1) {
                        let probe = outage.over_or_probe(true).await;
                        if probe.is_some() {
                            let before = probes.fetch_add(1, Ordering::SeqCst);
                            tokio::time::sleep(Duration::from_millis(500)).await;
                            assert_eq!(probes.load(Ordering::SeqCst), before + 1, "one at a time");
                        }
                    }
                })
            })
            .collect();
        tokio::time::sleep(Duration::from_secs(60)).await;
        // At most one for each pause and probe, the longest pause being two seconds less a quarter.
        let probed = probes.load(Ordering::SeqCst);
        assert!((24..=36).contains(&probed), "{probed}");
        gate.open(&west());
        for write in writes {
            write.await.unwrap();
        }
        assert!(!gate.is_closed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_that_cannot_be_repeated_probes_only_if_no_other_does() {
        let (gate, _tasks) = gate();
        gate.close(west(), OutageCause::Refused);
        let outage = meets(&gate, 1).unwrap();
        let started = Instant::from(tokio::time::Instant::now());
        let (unrepeatable, repeatable) =
            tokio::join!(Arc::clone(&outage).over_or_probe(false), async {
                let probe = Arc::clone(&outage).over_or_probe(true).await;
                let took = Instant::from(tokio::time::Instant::now()) - started;
                assert!(took <= PROBE_BACKOFF.initial);
                probe
            });
        assert!(unrepeatable.is_some() && repeatable.is_some());
        let took = Instant::from(tokio::time::Instant::now()) - started;
        assert!(took >= REPEATABLE_FIRST, "after the other had ended: {took:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn an_unrepeatable_write_probes_a_silent_region_once_it_has_answered() {
        let (gate, _tasks) = gate();
        gate.close(west(), OutageCause::Lost);
        let wait = meets(&gate, 1).unwrap().over_or_probe(false);
        let mut wait = std::pin::pin!(wait);
        assert!(tokio::time::timeout(Duration::from_secs(60), &mut wait).await.is_err());
        gate.answered(&endpoint("West"));
        assert!(wait.await.is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn a_probe_that_is_given_up_makes_room_for_the_next() {
        let (gate, _tasks) = gate();
        gate.close(west(), OutageCause::Lost);
        for _ in 0..5 {
            let probe = meets(&gate, 1).unwrap().over_or_probe(true).await;
            drop(probe);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_ends_with_its_write_region_and_when_no_write_asks() {
        let (gate, tasks) = gate();
        gate.close(west(), OutageCause::Lost);
        gate.sync(&account(&["West", "East"], &[]));
        assert!(gate.is_closed());
        gate.sync(&account(&["East", "West"], &[]));
        assert!(!gate.is_closed());
        gate.close(west(), OutageCause::Lost);
        tokio::time::sleep(IDLE_TIME + Duration::from_secs(10)).await;
        assert!(!gate.is_closed());
        assert_eq!(tasks.running(), 0);
    }
}

//! One shard: a client, its streams, and statistics of its requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::ShardingConfig;
use super::selection::ShardView;
use super::shard_health::ShardStats;
use super::stream_slots::{DrainStart, StreamSlots};
use crate::exchange::HttpError;
use crate::transport::{HttpClient, StreamLimit};

/// One client among those of an endpoint.
#[derive(Debug)]
pub(super) struct ClientShard {
    id: u64,
    client: Arc<dyn HttpClient>,
    slots: StreamSlots,
    /// Notified once, when the last request of a draining shard has ended.
    drained: Notify,
    is_ready: AtomicBool,
    readiness: watch::Sender<Readiness>,
    /// When it is replaced because of its age.
    expires: Duration,
    counters: Counters,
}

/// Whether the first connection of a shard is made.
#[derive(Clone, Debug)]
enum Readiness {
    Connecting,
    Ready,
    Failed(HttpError),
}

/// Statistics for selection and health checks. Times are nanoseconds since the pool was created.
///
/// All are Relaxed: each stands alone, nothing is published through them, and a health check that reads
/// one a moment too early decides again at the next sweep.
#[derive(Debug)]
struct Counters {
    created: Duration,
    last_success: AtomicU64,
    last_request: AtomicU64,
    busy_since: AtomicU64,
    consecutive_failures: AtomicU32,
    total_requests: AtomicU64,
    total_failures: AtomicU64,
}

impl ClientShard {
    /// A shard whose connection is still to be made; `now` counts from the pool's creation.
    pub(super) fn connecting(
        id: u64,
        client: Arc<dyn HttpClient>,
        now: Duration,
        max_age: Duration,
    ) -> Self {
        let (created, now) = (now, nanoseconds(now));
        Self {
            id,
            client,
            slots: StreamSlots::new(),
            drained: Notify::new(),
            is_ready: AtomicBool::new(false),
            readiness: watch::Sender::new(Readiness::Connecting),
            expires: created.saturating_add(max_age),
            counters: Counters {
                created,
                last_success: AtomicU64::new(now),
                last_request: AtomicU64::new(now),
                busy_since: AtomicU64::new(now),
                consecutive_failures: AtomicU32::new(0),
                total_requests: AtomicU64::new(0),
                total_failures: AtomicU64::new(0),
            },
        }
    }

    /// Its number among those of the endpoint, never reused.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// The HTTP client that sends its requests.
    pub(super) fn client(&self) -> &Arc<dyn HttpClient> {
        &self.client
    }

    /// The connection is made.
    pub(super) fn mark_ready(&self) {
        // Release: pairs with the Acquire in `is_ready`; who sees the flag sees the client connected.
        self.is_ready.store(true, Ordering::Release);
        self.readiness.send_replace(Readiness::Ready);
    }

    /// There will be no connection.
    pub(super) fn mark_failed(&self, error: HttpError) {
        self.readiness.send_replace(Readiness::Failed(error));
    }

    /// Waits until the connection is made or has failed.
    pub(super) async fn connect_outcome(&self) -> Result<(), HttpError> {
        // A watch, not a notification: who subscribes after the outcome sees it at once.
        let mut readiness = self.readiness.subscribe();
        let known = readiness.wait_for(|now| !matches!(now, Readiness::Connecting)).await;
        match &*known.expect("the sender lives as long as the shard") {
            Readiness::Failed(error) => Err(error.clone()),
            Readiness::Ready | Readiness::Connecting => Ok(()),
        }
    }

    /// Whether its connection was made.
    pub(super) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Acquire)
    }

    /// Whether it is to be replaced because of its age.
    pub(super) fn is_past_its_age(&self, now: Duration) -> bool {
        self.is_ready() && now >= self.expires
    }

    /// Whether its connection has ended, or takes no more streams.
    pub(super) fn is_closed(&self) -> bool {
        self.is_ready() && self.client.stream_limit() == StreamLimit::Closed
    }

    /// Reserves a stream below the limit in force; says how many are in use then.
    pub(super) fn try_reserve(&self, config: &ShardingConfig) -> Option<u32> {
        let limit = self.client.stream_limit().within(config.max_streams_per_client);
        self.slots.try_reserve(limit).ok()
    }

    /// Gives a stream back.
    pub(super) fn release(&self) {
        if self.slots.release() {
            self.drained.notify_one();
        }
    }

    /// Gives out no more streams.
    pub(super) fn start_draining(&self) -> DrainStart {
        self.slots.start_draining()
    }

    /// Waits until the last stream of a draining shard is released.
    pub(super) async fn drained(&self) {
        // `notify_one` stores a permit, so a release before this wait is not lost.
        self.drained.notified().await;
    }

    /// The shard as selection sees it.
    pub(super) fn view(&self, config: &ShardingConfig) -> ShardView {
        let failures = self.counters.consecutive_failures.load(Ordering::Relaxed);
        ShardView {
            in_use: self.slots.in_use(),
            // A draining shard may still be in a list that was loaded earlier.
            limit: match self.slots.is_draining() {
                true => 0,
                false => self.client.stream_limit().within(config.max_streams_per_client),
            },
            is_ready: self.is_ready(),
            is_failing: failures >= config.consecutive_failure_threshold,
        }
    }

    /// Whether a response came at a moment or after it.
    pub(super) fn has_answered_since(&self, moment: Duration) -> bool {
        // Relaxed: a statistic. A shard that never had a response carries its creation as its last one.
        let last = Duration::from_nanos(self.counters.last_success.load(Ordering::Relaxed));
        last >= moment && last > self.counters.created
    }

    /// The shard as health checks see it.
    pub(super) fn stats(&self) -> ShardStats {
        // Relaxed: each figure stands alone, and a check that reads one late is a sweep late.
        let time =
            |nanoseconds: &AtomicU64| Duration::from_nanos(nanoseconds.load(Ordering::Relaxed));
        ShardStats {
            inflight: self.slots.in_use(),
            last_success: time(&self.counters.last_success),
            last_request: time(&self.counters.last_request),
            busy_since: time(&self.counters.busy_since),
            consecutive_failures: self.counters.consecutive_failures.load(Ordering::Relaxed),
            total_requests: self.counters.total_requests.load(Ordering::Relaxed),
            total_failures: self.counters.total_failures.load(Ordering::Relaxed),
        }
    }

    /// A request begins; `in_use` is the number of streams with it.
    pub(super) fn record_start(&self, in_use: u32, now: Duration) {
        let now = nanoseconds(now);
        // Relaxed, here and below: see `stats`.
        self.counters.last_request.store(now, Ordering::Relaxed);
        self.counters.total_requests.fetch_add(1, Ordering::Relaxed);
        if in_use == 1 {
            self.counters.busy_since.store(now, Ordering::Relaxed);
        }
    }

    /// A response came, whatever its status: the connection works.
    pub(super) fn record_success(&self, now: Duration) {
        self.counters.last_success.store(nanoseconds(now), Ordering::Relaxed);
        // Read first: a store on every response would take the cache line from all other cores.
        if self.counters.consecutive_failures.load(Ordering::Relaxed) != 0 {
            self.counters.consecutive_failures.store(0, Ordering::Relaxed);
        }
    }

    /// No response came.
    pub(super) fn record_failure(&self) {
        self.counters.consecutive_failures.fetch_add(1, Ordering::Relaxed);
        self.counters.total_failures.fetch_add(1, Ordering::Relaxed);
    }
}

/// Saturates after 584 years.
fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

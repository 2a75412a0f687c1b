//! One shard: a client, its streams, and what is known of its requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Notify, watch};

use super::ShardingConfig;
use super::selection::ShardView;
use super::shard_health::ShardStats;
use super::stream_slots::StreamSlots;
use crate::transport::{HttpClient, HttpError, StreamLimit};

/// A client among those of an endpoint.
#[derive(Debug)]
pub(super) struct ClientShard {
    pub(super) id: u64,
    pub(super) client: Arc<dyn HttpClient>,
    pub(super) slots: StreamSlots,
    /// Told once, when a retired shard's last request has ended.
    pub(super) drained: Notify,
    is_ready: AtomicBool,
    readiness: watch::Sender<Readiness>,
    counters: Counters,
}

/// Whether the first connection of a shard is made.
#[derive(Clone, Debug)]
enum Readiness {
    Connecting,
    Ready,
    Failed(HttpError),
}

/// Times are nanoseconds since the pool began.
#[derive(Debug)]
struct Counters {
    last_success: AtomicU64,
    last_request: AtomicU64,
    busy_since: AtomicU64,
    consecutive_failures: AtomicU32,
    total_requests: AtomicU64,
    total_failures: AtomicU64,
}

impl ClientShard {
    /// A shard whose connection is still to be made.
    pub(super) fn connecting(id: u64, client: Arc<dyn HttpClient>, age: Duration) -> Self {
        let now = nanoseconds(age);
        Self {
            id,
            client,
            slots: StreamSlots::new(),
            drained: Notify::new(),
            is_ready: AtomicBool::new(false),
            readiness: watch::Sender::new(Readiness::Connecting),
            counters: Counters {
                last_success: AtomicU64::new(now),
                last_request: AtomicU64::new(now),
                busy_since: AtomicU64::new(now),
                consecutive_failures: AtomicU32::new(0),
                total_requests: AtomicU64::new(0),
                total_failures: AtomicU64::new(0),
            },
        }
    }

    /// Tells everyone who waits that the connection is there.
    pub(super) fn became_ready(&self) {
        self.is_ready.store(true, Ordering::Release);
        self.readiness.send_replace(Readiness::Ready);
    }

    /// Tells everyone who waits that there will be no connection.
    pub(super) fn failed_to_connect(&self, error: HttpError) {
        self.readiness.send_replace(Readiness::Failed(error));
    }

    /// Waits until it is clear whether the connection is there.
    pub(super) async fn settled(&self) -> Result<(), HttpError> {
        let mut readiness = self.readiness.subscribe();
        let settled = readiness.wait_for(|now| !matches!(now, Readiness::Connecting)).await;
        match &*settled.expect("the sender lives as long as the shard") {
            Readiness::Failed(error) => Err(error.clone()),
            Readiness::Ready | Readiness::Connecting => Ok(()),
        }
    }

    /// Whether its connection was made.
    pub(super) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Acquire)
    }

    /// Whether its connection is over, or takes no more streams.
    pub(super) fn has_ended(&self) -> bool {
        self.is_ready() && self.client.stream_limit() == StreamLimit::Closed
    }

    /// What selection sees.
    pub(super) fn view(&self, config: &ShardingConfig) -> ShardView {
        let failures = self.counters.consecutive_failures.load(Ordering::Relaxed);
        ShardView {
            in_use: self.slots.in_use(),
            // One that is being taken out may still be in the list.
            limit: match self.slots.is_retired() {
                true => 0,
                false => self.client.stream_limit().within(config.max_streams_per_client),
            },
            is_ready: self.is_ready(),
            is_doubtful: failures >= config.consecutive_failure_threshold,
        }
    }

    /// What health checks see.
    pub(super) fn stats(&self) -> ShardStats {
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

    /// Notes that a request begins; `in_use` is the number of streams with it.
    pub(super) fn began(&self, in_use: u32, now: Duration) {
        let now = nanoseconds(now);
        self.counters.last_request.store(now, Ordering::Relaxed);
        self.counters.total_requests.fetch_add(1, Ordering::Relaxed);
        if in_use == 1 {
            self.counters.busy_since.store(now, Ordering::Relaxed);
        }
    }

    /// Notes that an answer came, whatever it said: the connection works.
    pub(super) fn succeeded(&self, now: Duration) {
        self.counters.last_success.store(nanoseconds(now), Ordering::Relaxed);
        if self.counters.consecutive_failures.load(Ordering::Relaxed) != 0 {
            self.counters.consecutive_failures.store(0, Ordering::Relaxed);
        }
    }

    /// Notes that no answer came.
    pub(super) fn failed(&self) {
        self.counters.consecutive_failures.fetch_add(1, Ordering::Relaxed);
        self.counters.total_failures.fetch_add(1, Ordering::Relaxed);
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

//! A peer that answers, a transport that talks to it, and whatever is put between the two.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sidereal_driver::fault_injection::{
    FaultInjectingHttpClientFactory, FaultInjectionCondition, FaultInjectionResult,
    FaultInjectionRule,
};
use sidereal_driver::transport::NetHttpClientFactory;
use sidereal_driver::transport::internals::PoolSnapshot;
use tokio::task::JoinHandle;

use sidereal_testing::fixture::{Client, Executed, Setup, endpoint, joined};
use sidereal_testing::peers::{Peer, Reply, ServedPeer, Speaks};
use sidereal_testing::within_timeout;

/// Past the grace period of a failing shard.
pub(crate) const AFTER_GRACE: Duration = Duration::from_secs(3);

/// Past the threshold of a read hang.
pub(crate) const AFTER_A_HANG: Duration = Duration::from_secs(16);

/// Past the idle timeout.
pub(crate) const AFTER_IDLENESS: Duration = Duration::from_secs(61);

pub(crate) struct FaultFixture {
    pub(crate) peer: ServedPeer,
    pub(crate) client: Client,
    pub(crate) faults: Arc<FaultInjectingHttpClientFactory>,
}

impl FaultFixture {
    /// At most so many shards with at most so many streams each, and no faults yet.
    pub(crate) fn new(most: u32, streams: u32, change: impl FnOnce(&mut Setup)) -> Self {
        let faults = Arc::new(faultless());
        let setup = Setup::over(Arc::clone(&faults) as _).shards(most, streams);
        // What is evicted on purpose need not drain.
        let setup = setup.with(|setup| setup.sharding.eviction_drain_timeout = Duration::ZERO);
        let peer = Peer::cleartext(Speaks::Http2).serve(|_| Reply::ok("found"));
        Self { peer, client: setup.with(change).start(), faults }
    }

    /// Does this to every request, or to every connection, from now on.
    pub(crate) fn inject(&self, fault: FaultInjectionResult) -> Arc<FaultInjectionRule> {
        self.faults.add(FaultInjectionRule::new("everywhere", fault))
    }

    /// Does this to the first shard from now on.
    pub(crate) fn inject_into_first(&self, fault: FaultInjectionResult) -> Arc<FaultInjectionRule> {
        let first = FaultInjectionCondition::any().client(0);
        self.faults.add(FaultInjectionRule::new("first", fault).when(first))
    }

    pub(crate) fn url(&self) -> String {
        self.peer.url()
    }

    /// Reads through the pipeline, which repeats what it may.
    pub(crate) async fn read(&self) -> Executed {
        within_timeout("a read", self.client.execute(self.client.read(&self.url(), "/"))).await
    }

    /// Writes, through the pipeline, what must not be written twice.
    pub(crate) async fn write(&self) -> Executed {
        let write = self.client.write(&self.url(), "/", "{}");
        within_timeout("a write", self.client.execute(write)).await
    }

    /// Begins reads and lets them be.
    pub(crate) fn begin_reads(&self, count: usize) -> Vec<JoinHandle<Executed>> {
        let read = || self.client.execute(self.client.read(&self.url(), "/"));
        (0..count).map(|_| tokio::spawn(read())).collect()
    }

    /// Reads that must succeed; says over which shards.
    pub(crate) async fn reads_succeed(&self, count: usize) -> Vec<u64> {
        let mut shards = Vec::new();
        for _ in 0..count {
            shards.push(shard_of_success(&self.read().await));
        }
        shards
    }

    /// Sends requests once each, and lets each of them fail.
    pub(crate) async fn fail(&self, count: usize) {
        for _ in 0..count {
            let sent = within_timeout("a failure", self.client.send(&self.url(), "/")).await;
            sent.outcome.unwrap_err();
        }
    }

    /// Runs a health sweep as if so much time had passed.
    pub(crate) fn sweep(&self, after: Duration, cpu_load: Option<f64>) {
        self.client.transport.sweep(Instant::now() + after, cpu_load);
    }

    /// The shards that there are, from the oldest to the youngest.
    pub(crate) fn shards(&self) -> Vec<u64> {
        ids(&self.client.snapshot(&self.url()))
    }

    /// Waits until there are these shards, all of them connected.
    pub(crate) async fn until_shards(&self, expected: &[u64]) {
        let there = |pool: &PoolSnapshot| {
            ids(pool) == expected && pool.shards.iter().all(|shard| shard.is_ready)
        };
        self.client.until(&self.url(), there).await;
    }

    /// Waits until a rule was applied so often.
    pub(crate) async fn until_hits(&self, rule: &FaultInjectionRule, hits: u64) {
        self.client.until(&self.url(), |_| rule.hits() == hits).await;
    }

    pub(crate) fn clients_created(&self) -> u64 {
        self.faults.clients_created(&endpoint(&self.url()))
    }
}

/// The driver's own clients, with no faults yet.
pub(crate) fn faultless() -> FaultInjectingHttpClientFactory {
    FaultInjectingHttpClientFactory::new(Arc::new(NetHttpClientFactory::new()))
}

/// Waits for reads that must succeed.
pub(crate) async fn all_succeed(reads: Vec<JoinHandle<Executed>>) {
    for read in reads {
        joined(read).await.body();
    }
}

/// The shard that the answer came over.
fn shard_of_success(executed: &Executed) -> u64 {
    assert_eq!(executed.body(), "found");
    executed.diagnostics.attempts().last().unwrap().shard.unwrap()
}

fn ids(pool: &PoolSnapshot) -> Vec<u64> {
    pool.shards.iter().map(|shard| shard.id).collect()
}

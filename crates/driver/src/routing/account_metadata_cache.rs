//! Reads the account's properties: first when an operation needs them, then in the background and on demand.
//!
//! One task reads, so reads are single-flight and outlive the operations that wait for them. It asks the
//! global endpoint, and the others beside it if that one is slow to answer. While writes are held back because their
//! region does not serve, it reads again and again, with back-off, until the account names another write region.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use http::uri::PathAndQuery;
use http::{HeaderValue, Method};
use sidereal_protocol::headers::names;
use sidereal_protocol::{AccountLocation, AccountProperties, ResourceType};
use tokio::sync::{Notify, watch};

use super::refresh_allowance::{OutageReads, RefreshAllowance};
use super::window::jittered;
use super::{LocationPolicy, LocationStateStore, WriteGate};
use crate::diagnostics::{DiagnosticsContextBuilder, ExecutionContext};
use crate::exchange::Endpoint;
use crate::options::{AvailabilityOptions, OptionLayers};
use crate::retry::{Budgets, RequestKind, Retries};
use crate::system::{Clock, TaskSpawner};
use crate::transport::{
    AdaptiveTransport, AuthorizationContext, HeaderList, TransportOutcome, TransportPipeline,
    TransportRequest,
};

/// How often the account is read when nothing asks for it, give or take a fifth.
const REFRESH_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// The jitter of that interval: the processes of one roll-out would read the account in the same second for ever.
const REFRESH_JITTER: f64 = 0.2;

/// The longest that one endpoint may take to answer before the next one is asked. Operations wait for it.
const READ_TIMEOUT: Duration = Duration::from_secs(5);

/// The head start of each endpoint before the next one is asked too (as Happy Eyeballs, RFC 8305): the
/// global endpoint may be in a region that is lost without an error.
const STAGGER: Duration = Duration::from_millis(500);

/// How long other endpoints may take once one has answered that the write region has not changed.
const OTHERS_WAIT: Duration = Duration::from_secs(1);

/// Keeps a [`LocationStateStore`] up to date.
#[derive(Debug)]
pub(crate) struct AccountMetadataCache {
    store: Arc<LocationStateStore>,
    transport: Arc<TransportPipeline>,
    /// Tells whether writes wait for another write region.
    gate: Arc<WriteGate>,
    /// Where connections to endpoints are closed that left the account.
    pools: Vec<Arc<AdaptiveTransport>>,
    /// Which of the account's locations are used. Its custom endpoints are asked when the global endpoint and those
    /// of the account do not answer.
    policy: LocationPolicy,
    budgets: Budgets,
    clock: Clock,
    /// Requests a read of the account.
    wanted: Notify,
    /// An operation waits for it.
    awaited: Notify,
    reads: watch::Sender<ReadProgress>,
}

/// How many reads have begun and how many of them have ended, with whatever outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct ReadProgress {
    begun: u64,
    ended: u64,
    /// When the last one began.
    begun_at: Option<Instant>,
    /// When the last one began that the account answered.
    answered_at: Option<Instant>,
    /// Whether the reading task has ended: the driver is shutting down.
    is_over: bool,
}

impl ReadProgress {
    /// Whether the account is known as a read found it that began after a moment. Not at it: which of the two was
    /// first cannot be told.
    fn are_answered_since(&self, moment: Instant) -> bool {
        self.answered_at.is_some_and(|at| at > moment)
    }

    /// Whether a read is under way that began after a moment.
    fn are_under_way_since(&self, moment: Instant) -> bool {
        self.begun > self.ended && self.begun_at.is_some_and(|at| at > moment)
    }
}

impl AccountMetadataCache {
    pub(crate) fn new(
        store: Arc<LocationStateStore>,
        transport: Arc<TransportPipeline>,
        gate: Arc<WriteGate>,
        pools: Vec<Arc<AdaptiveTransport>>,
        policy: LocationPolicy,
        options: &OptionLayers,
        clock: Clock,
    ) -> Arc<Self> {
        let budgets = budgets_of(options);
        Arc::new(Self {
            store,
            transport,
            gate,
            pools,
            policy,
            budgets,
            clock,
            wanted: Notify::new(),
            awaited: Notify::new(),
            reads: watch::Sender::default(),
        })
    }

    /// Starts the task that reads. Without it, the account stays what it was.
    pub(crate) fn start(self: &Arc<Self>, tasks: &TaskSpawner) {
        let (cache, spawner) = (Arc::downgrade(self), tasks.clone());
        // Made before the task, so that it tells of the end also if the task is not started.
        let over = ReadsOver(cache.clone());
        tasks.spawn("account-refresh", async move {
            let _over = over;
            refresh_until_shutdown(&cache, &spawner).await;
        });
    }

    /// Waits until the account has been asked about itself once. Whether it answered is not said: an
    /// operation on an account that does not answer fails by itself, and knows better why.
    pub(crate) async fn until_read(&self) {
        let mut reads = self.reads.subscribe();
        // Also if a read has failed before: the next one is due when its interval has passed.
        self.wanted.notify_one();
        // The sender is this cache's own, so the wait cannot fail.
        let _ = reads.wait_for(|reads| reads.ended > 0 || reads.is_over).await;
    }

    /// Asks for a read, and does not wait for it.
    pub(crate) fn request_refresh(&self) {
        self.wanted.notify_one();
    }

    /// Waits for a read of the account that is newer than the start of an attempt that was refused as out of date.
    ///
    /// A read that began after that start is new enough, or the change is younger still; then the next attempt is refused as well and
    /// starts after that read. Else this waits for a read that begins after this call: at once, if the allowance has
    /// one left for those who wait.
    pub(crate) async fn refreshed_since(&self, attempt_started: Instant) {
        let mut reads = self.reads.subscribe();
        let before = *reads.borrow();
        if before.are_under_way_since(attempt_started) {
            // The sender is a field of this cache, so the wait cannot fail: nor can the one below.
            let _ = reads.wait_for(|reads| reads.ended >= before.begun || reads.is_over).await;
        }
        if reads.borrow().are_answered_since(attempt_started) {
            return;
        }
        let begun = reads.borrow().begun;
        self.awaited.notify_one();
        let _ = reads.wait_for(|reads| reads.ended > begun || reads.is_over).await;
    }

    /// Waits until something holds of the account, looking again after each read.
    pub(crate) async fn until(&self, holds: impl Fn() -> bool) {
        let mut reads = self.reads.subscribe();
        // The sender is this cache's own, so the wait cannot fail.
        let _ = reads.wait_for(|_| holds()).await;
    }

    /// Reads the account once, from the first endpoint that answers.
    async fn read(&self) {
        // Callers that asked before it begins are served by it: a permit that stayed would be one more read. Before it
        // counts as begun: who asks after that wants the next one.
        for asked in [&self.wanted, &self.awaited] {
            std::pin::pin!(asked.notified()).as_mut().enable();
        }
        let begun_at = Clock::now();
        self.reads.send_modify(|reads| {
            reads.begun += 1;
            reads.begun_at = Some(begun_at);
        });
        let properties = self.ask_endpoints().await;
        let is_answered = properties.is_some();
        if let Some(properties) = properties {
            self.take_in(properties);
        }
        self.reads.send_modify(|reads| {
            reads.ended += 1;
            if is_answered {
                reads.answered_at = Some(begun_at);
            }
        });
    }

    /// Asks one endpoint after another, each beside those that have not answered yet. The first answer counts; while a
    /// write region is out, the first that names another one, for some regions hear of a change later than others.
    async fn ask_endpoints(&self) -> Option<AccountProperties> {
        let lost_writer = self.gate.lost_region();
        let mut endpoints = self.endpoints_to_ask();
        // Last: it is the least likely to answer.
        endpoints.sort_by_key(|it| Some(it) == lost_writer.as_ref());
        let is_news = |properties: &AccountProperties| {
            let writer = properties.writable_locations.first();
            lost_writer.is_none() || names_another(writer, lost_writer.as_ref())
        };
        let (mut endpoints, mut reads) = (endpoints.into_iter(), FuturesUnordered::new());
        let mut unchanged: Option<(AccountProperties, Instant)> = None;
        loop {
            match endpoints.next() {
                Some(endpoint) => reads.push(self.read_at(endpoint)),
                None if reads.is_empty() => return unchanged.map(|(properties, _)| properties),
                None => {}
            }
            let stagger = async {
                match endpoints.len() {
                    0 => std::future::pending().await,
                    _ => tokio::time::sleep(STAGGER).await,
                }
            };
            let patience = async {
                match &unchanged {
                    Some((_, until)) => tokio::time::sleep_until((*until).into()).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased; // Answers before timers.
                Some(answer) = reads.next() => match answer {
                    Some((endpoint, _)) if Some(&endpoint) == lost_writer.as_ref() => {
                        self.gate.answered(&endpoint);
                    }
                    Some((_, properties)) if is_news(&properties) => return Some(properties),
                    Some((_, properties)) => {
                        unchanged.get_or_insert((properties, Clock::now() + OTHERS_WAIT));
                    }
                    None => {}
                },
                () = stagger => {}
                () = patience => return unchanged.map(|(properties, _)| properties),
            }
        }
    }

    fn take_in(&self, properties: AccountProperties) {
        let (properties, refused) = self.policy.admit(properties);
        for (location, refusal) in refused {
            tracing::warn!(
                region = location.name.as_str(),
                endpoint = location.database_account_endpoint,
                "a region is not used: {}",
                refusal.sentence()
            );
        }
        for left in self.store.sync_account_properties(&properties, Clock::now()) {
            tracing::info!(endpoint = %left, "an endpoint left the account");
            self.pools.iter().for_each(|pool| pool.forget(&left));
        }
        self.gate.sync(&self.store.snapshot().account);
    }

    /// The global endpoint, then those of the account, then those of the settings, each once.
    fn endpoints_to_ask(&self) -> Vec<Endpoint> {
        let snapshot = self.store.snapshot();
        let account = &snapshot.account;
        let known = account.read_endpoints().iter().chain(account.write_endpoints());
        let all = std::iter::once(account.default_endpoint())
            .chain(known)
            .map(|it| &it.endpoint)
            .chain(&self.policy.custom_endpoints);
        let mut endpoints: Vec<Endpoint> = Vec::new();
        for endpoint in all {
            if !endpoints.contains(endpoint) {
                endpoints.push(endpoint.clone());
            }
        }
        endpoints
    }

    async fn read_at(&self, endpoint: Endpoint) -> Option<(Endpoint, AccountProperties)> {
        match read_account(&self.transport, &endpoint, self.budgets, &self.clock).await {
            TransportOutcome::Success(response) => serde_json::from_slice(&response.body)
                .inspect_err(|error| tracing::warn!(%error, "the account's answer is not readable"))
                .ok()
                .map(|properties| (endpoint, properties)),
            _ => {
                tracing::debug!(%endpoint, "the account could not be read here");
                None
            }
        }
    }
}

/// Whether a location is at another endpoint.
fn names_another(location: Option<&AccountLocation>, endpoint: Option<&Endpoint>) -> bool {
    let address = location.and_then(|it| it.database_account_endpoint.parse::<Endpoint>().ok());
    address.is_some() && address.as_ref() != endpoint
}

/// The retry budgets of a read of the account: another endpoint, not another connection, for operations wait.
pub(super) fn budgets_of(options: &OptionLayers) -> Budgets {
    let unset = AvailabilityOptions::default();
    Budgets { connection: Retries::of(0), ..Budgets::new(&options.availability(&unset)) }
}

/// Reads the account at an endpoint.
pub(super) async fn read_account(
    transport: &TransportPipeline,
    endpoint: &Endpoint,
    budgets: Budgets,
    clock: &Clock,
) -> TransportOutcome {
    let (started, activity_id) = (Clock::now(), clock.new_id());
    let mut diagnostics = DiagnosticsContextBuilder::new(activity_id, started);
    let mut headers = HeaderList::default();
    // Without it the account does not tell where its second gateway is.
    headers.insert(names::USE_THIN_CLIENT, HeaderValue::from_static("true"));
    let request = TransportRequest {
        method: Method::GET,
        endpoint: endpoint.clone(),
        // Of the global endpoint; an answer about the account shows nothing of its data.
        slot: 0,
        region: None,
        partition_range: None,
        path: PathAndQuery::from_static("/"),
        headers,
        body: bytes::Bytes::new(),
        auth_context: AuthorizationContext {
            resource_type: ResourceType::DatabaseAccount,
            signed_link: "".into(),
        },
        activity_id,
        execution_context: ExecutionContext::Initial,
        kind: RequestKind::Read,
        started: Some(started),
        deadline: Some(started + READ_TIMEOUT),
        slow_after: None,
        budgets,
    };
    transport.execute(&request, &mut diagnostics).await.outcome
}

/// Tells waiters that the reading task has ended, for whatever reason.
struct ReadsOver(Weak<AccountMetadataCache>);

impl Drop for ReadsOver {
    fn drop(&mut self) {
        if let Some(cache) = self.0.upgrade() {
            cache.reads.send_modify(|reads| reads.is_over = true);
        }
    }
}

/// Reads when asked and every few minutes, until the driver or its cache is gone.
async fn refresh_until_shutdown(cache: &Weak<AccountMetadataCache>, tasks: &TaskSpawner) {
    let mut allowance = RefreshAllowance::full(Clock::now());
    let mut outage_reads = OutageReads::default();
    let mut was_read = false;
    while let Some(current) = cache.upgrade() {
        tokio::select! {
            // The shutdown first: a read would open connections that it closes again.
            biased;
            () = tasks.shutdown_requested() => return,
            cause = current.until_due(was_read, &allowance, &outage_reads) => match cause {
                // With a schedule of their own: they leave the allowance to those that wait.
                ReadCause::Outage => outage_reads = outage_reads.after_read(Clock::now()),
                ReadCause::Asked => allowance = allowance.after_read(Clock::now()),
            },
        }
        if current.gate.lost_region().is_none() {
            outage_reads = OutageReads::default();
        }
        was_read = true;
        tokio::select! {
            biased; // The shutdown first, as above.
            () = tasks.shutdown_requested() => return,
            () = current.read() => {}
        }
    }
}

impl AccountMetadataCache {
    /// Waits until the account is to be read, and may be.
    async fn until_due(
        &self,
        was_read: bool,
        allowance: &RefreshAllowance,
        outage_reads: &OutageReads,
    ) -> ReadCause {
        let awaited = self.awaited.notified();
        let in_passing = async {
            match was_read {
                // Without a request, the read waits for the first operation: a driver that is not used reads
                // nothing.
                false => self.wanted.notified().await,
                true => {
                    // Whether it was asked for or not, it is time.
                    let interval = jittered(REFRESH_INTERVAL, REFRESH_JITTER, self.clock.random());
                    let _ = tokio::time::timeout(interval, self.wanted.notified()).await;
                }
            }
            tokio::time::sleep_until(allowance.in_passing().into()).await;
        };
        let in_outage = async {
            self.gate.until_lost().await;
            let due = outage_reads.due(Clock::now(), self.clock.random());
            tokio::time::sleep_until(due.into()).await;
        };
        tokio::select! {
            // Those who wait first: they may be served earlier.
            biased;
            () = in_outage => return ReadCause::Outage,
            () = awaited => tokio::time::sleep_until(allowance.awaited().into()).await,
            () = in_passing => {}
        }
        ReadCause::Asked
    }
}

/// Why the account is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadCause {
    /// An operation asked for it, or the interval has passed.
    Asked,
    /// Writes wait for another write region.
    Outage,
}

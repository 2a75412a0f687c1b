//! Asks an endpoint that was avoided whether it serves again, before operations return to it.
//!
//! A probe reads the account, and asks partitions that failed there: a gateway answers for the account by itself, also while
//! the partitions behind it do not serve.
//!
//! One task probes, when an operation comes upon an endpoint that is due; so a recovering region meets one
//! request at a time, and an application that sends nothing probes nothing.

use std::sync::{Arc, Weak};
use std::time::Duration;

use http::header::IF_NONE_MATCH;
use http::{HeaderValue, Method};
use sidereal_protocol::headers::names;
use sidereal_protocol::{OperationType, RequestPath, ResourceLink, ResourceType};
use tokio::sync::Notify;

use super::account_metadata_cache::{budgets_of, read_account};
use super::{
    ContainerCache, CosmosEndpoint, LocationEffect, LocationStateStore, PartitionId, Traffic,
};
use crate::CosmosOperation;
use crate::diagnostics::{DiagnosticsContextBuilder, ExecutionContext};
use crate::options::OptionLayers;
use crate::retry::{Budgets, Effect, Question, RequestKind, UnavailableReason, row_of};
use crate::system::{Clock, TaskSpawner};
use crate::transport::{
    AuthorizationContext, HeaderList, TransportOutcome, TransportPipeline, TransportRequest,
};

/// The most partitions that one probe asks. One that serves is enough: a partition may be sick by itself.
const MAX_PARTITIONS_ASKED: usize = 3;

/// How long a partition may take to answer.
const PARTITION_TIMEOUT: Duration = Duration::from_secs(5);

/// Probes the endpoints of an account.
#[derive(Debug)]
pub(crate) struct EndpointProber {
    store: Arc<LocationStateStore>,
    /// The containers, for the names of those whose partitions have failed.
    containers: Arc<ContainerCache>,
    /// The pipeline of operations: their connections are what must work again.
    transport: Arc<TransportPipeline>,
    budgets: Budgets,
    clock: Clock,
    wanted: Notify,
}

impl EndpointProber {
    /// A prober whose task runs until the driver or the prober is gone.
    pub(crate) fn start(
        store: Arc<LocationStateStore>,
        containers: Arc<ContainerCache>,
        transport: Arc<TransportPipeline>,
        options: &OptionLayers,
        clock: Clock,
        tasks: &TaskSpawner,
    ) -> Arc<Self> {
        let (budgets, wanted) = (budgets_of(options), Notify::new());
        let prober = Arc::new(Self { store, containers, transport, budgets, clock, wanted });
        let (weak, spawner) = (Arc::downgrade(&prober), tasks.clone());
        tasks.spawn("endpoint-probe", async move { probe_until_shutdown(&weak, &spawner).await });
        prober
    }

    /// Asks for the endpoints to be probed that are due, and does not wait for it.
    pub(crate) fn request(&self) {
        self.wanted.notify_one();
    }

    async fn probe_due(&self) {
        let snapshot = Arc::clone(&self.store.snapshot());
        for endpoint in snapshot.account.due_for_probe(Clock::now()) {
            self.probe(endpoint).await;
        }
    }

    async fn probe(&self, endpoint: &CosmosEndpoint) {
        let address = &endpoint.endpoint;
        // Any other response, a refusal included, is one of an endpoint that works.
        let Some(reason) = self.failure_at(endpoint).await else {
            tracing::info!(endpoint = %address, "an endpoint serves again");
            return self.store.endpoint_recovered(address, Clock::now());
        };
        tracing::debug!(endpoint = %address, ?reason, "an endpoint still fails");
        let (endpoint, traffic) = (endpoint.clone(), Traffic::Reads);
        let mark = LocationEffect::MarkEndpointUnavailable { endpoint, reason, traffic };
        self.store.apply(&[mark], Clock::now(), |_| 0);
    }

    /// Why an endpoint does not serve, if it does not: it fails to answer for the account, or for every partition that is
    /// asked.
    async fn failure_at(&self, endpoint: &CosmosEndpoint) -> Option<UnavailableReason> {
        let address = &endpoint.endpoint;
        let outcome = read_account(&self.transport, address, self.budgets, &self.clock).await;
        let mut failure = failure_in(&outcome);
        if failure.is_some() {
            return failure;
        }
        let snapshot = Arc::clone(&self.store.snapshot());
        let failed = snapshot.partitions.last_failed_at(address, MAX_PARTITIONS_ASKED);
        for partition in failed {
            let Some(container) = self.containers.link_of(&partition.container_rid) else {
                continue;
            };
            let Some(outcome) = self.ask_partition(endpoint, &container, &partition).await else {
                continue;
            };
            failure = failure_in(&outcome);
            if failure.is_none() {
                break;
            }
        }
        failure
    }

    /// Asks a partition for its changes from now on: nothing comes back, and its replica has to answer.
    async fn ask_partition(
        &self,
        endpoint: &CosmosEndpoint,
        container: &str,
        partition: &PartitionId,
    ) -> Option<TransportOutcome> {
        let container: ResourceLink = container.parse().ok()?;
        let path = RequestPath::feed(container, ResourceType::Document).ok()?;
        let operation = CosmosOperation::new(OperationType::ReadFeed, path);
        let range = HeaderValue::from_str(partition.range.as_str()).ok()?;
        let (started, activity_id) = (Clock::now(), self.clock.new_id());
        let mut diagnostics = DiagnosticsContextBuilder::new(activity_id, started);
        let mut headers = HeaderList::default();
        headers.insert(names::A_IM, HeaderValue::from_static("Incremental Feed"));
        headers.insert(IF_NONE_MATCH, HeaderValue::from_static("*"));
        headers.insert(names::MAX_ITEM_COUNT, HeaderValue::from_static("1"));
        headers.insert(names::PARTITION_KEY_RANGE_ID, range);
        let request = TransportRequest {
            method: Method::GET,
            endpoint: endpoint.endpoint.clone(),
            slot: endpoint.slot,
            region: endpoint.region.clone(),
            partition_range: Some(partition.range.clone()),
            path: operation.encoded().path().ok()?,
            headers,
            body: bytes::Bytes::new(),
            auth_context: AuthorizationContext {
                resource_type: ResourceType::Document,
                signed_link: Arc::clone(&operation.encoded().signed_link),
            },
            activity_id,
            execution_context: ExecutionContext::CircuitBreakerProbe,
            kind: RequestKind::Read,
            started: Some(started),
            deadline: Some(started + PARTITION_TIMEOUT),
            slow_after: None,
            budgets: self.budgets,
        };
        Some(self.transport.execute(&request, &mut diagnostics).await.outcome)
    }
}

/// Why the endpoint stays avoided after a probe, by the retry matrix; `None` if it serves.
fn failure_in(outcome: &TransportOutcome) -> Option<UnavailableReason> {
    let row = row_of(&Question { kind: RequestKind::Read, outcome: outcome.attempt_outcome() });
    row.effects.iter().find_map(|effect| match effect {
        Effect::MarkEndpoint(reason) => Some(*reason),
        _ => None,
    })
}

async fn probe_until_shutdown(prober: &Weak<EndpointProber>, tasks: &TaskSpawner) {
    while let Some(current) = prober.upgrade() {
        tokio::select! {
            // The shutdown first: a probe would open connections that it closes again.
            biased;
            () = tasks.shutdown_requested() => return,
            () = async { current.wanted.notified().await; current.probe_due().await } => {}
        }
    }
}

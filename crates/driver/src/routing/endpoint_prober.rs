//! Asks an endpoint that was avoided whether it serves again, before operations return to it.
//!
//! One task probes, when an operation comes upon an endpoint that is due; so a recovering region meets one
//! request at a time, and an application that sends nothing probes nothing.

use std::sync::{Arc, Weak};

use tokio::sync::Notify;

use super::account_metadata_cache::{budgets_of, read_account};
use super::{CosmosEndpoint, LocationEffect, LocationStateStore, Traffic};
use crate::options::OptionLayers;
use crate::retry::{Budgets, Effect, Question, RequestKind, row_of};
use crate::system::{Clock, TaskSpawner};
use crate::transport::TransportPipeline;

/// Probes the endpoints of an account.
#[derive(Debug)]
pub(crate) struct EndpointProber {
    store: Arc<LocationStateStore>,
    /// The connections of operations: they are what has to work again.
    transport: Arc<TransportPipeline>,
    budgets: Budgets,
    clock: Clock,
    wanted: Notify,
}

impl EndpointProber {
    /// A prober whose task runs until the driver or the prober is gone.
    pub(crate) fn start(
        store: Arc<LocationStateStore>,
        transport: Arc<TransportPipeline>,
        options: &OptionLayers,
        clock: Clock,
        tasks: &TaskSpawner,
    ) -> Arc<Self> {
        let (budgets, wanted) = (budgets_of(options), Notify::new());
        let prober = Arc::new(Self { store, transport, budgets, clock, wanted });
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
        let outcome = read_account(&self.transport, address, self.budgets, &self.clock).await;
        let row = row_of(&Question { kind: RequestKind::Read, met: outcome.met() });
        let failing = row.effects.iter().find_map(|effect| match effect {
            Effect::MarkEndpoint(reason) => Some(*reason),
            _ => None,
        });
        // Any other response, a refusal included, is one of an endpoint that works.
        let Some(reason) = failing else {
            tracing::info!(endpoint = %address, "an endpoint serves again");
            return self.store.endpoint_recovered(address);
        };
        tracing::debug!(endpoint = %address, status = %outcome.status(), "an endpoint still fails");
        let (endpoint, traffic) = (endpoint.clone(), Traffic::Reads);
        let mark = LocationEffect::MarkEndpointUnavailable { endpoint, reason, traffic };
        self.store.apply(&[mark], Clock::now(), |_| 0);
    }
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

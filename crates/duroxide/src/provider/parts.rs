//! The parts of a provider, put together from the lowest to the highest.

use std::sync::Arc;

use crate::ack::TurnCommitter;
use crate::admin::Admin;
use crate::context::Context;
use crate::deletions::Deletions;
use crate::enqueue::Enqueuer;
use crate::fetch::TurnFetcher;
use crate::last_fetch::LastFetches;
use crate::leases::{CosmosDBLeaseProvider, InMemoryLeaseProvider, LeaseProvider, LeaseSettings};
use crate::outbox::Outbox;
use crate::poller::Poller;
use crate::reader::Reader;
use crate::sessions::SessionTable;
use crate::store::Store;
use crate::turn_locks::TurnLocks;
use crate::workers::ActivityQueue;
use crate::{CosmosDBProviderConfig, Leases};

/// The lease providers of a configuration.
pub(super) struct OpenLeases {
    pub(super) orchestrations: Arc<dyn LeaseProvider>,
    workers: Arc<dyn LeaseProvider>,
}

impl OpenLeases {
    pub(super) fn new(config: &CosmosDBProviderConfig, store: &Store) -> Self {
        let (orchestrations, workers): (Arc<dyn LeaseProvider>, Arc<dyn LeaseProvider>) =
            match &config.leases {
                Leases::InMemory => (
                    Arc::new(InMemoryLeaseProvider::new(config.orch_concurrency)),
                    Arc::new(InMemoryLeaseProvider::new(config.worker_concurrency)),
                ),
                Leases::CosmosDB => {
                    let settings = LeaseSettings {
                        duration: config.lease_duration,
                        dispatchers: config.orch_concurrency,
                    };
                    let leases = CosmosDBLeaseProvider::new(store.clone(), settings);
                    let workers = leases.for_workers(config.worker_concurrency);
                    (Arc::new(leases), Arc::new(workers))
                }
                Leases::Custom { orchestrations, workers } => {
                    (Arc::clone(orchestrations), Arc::clone(workers))
                }
            };
        Self { orchestrations, workers }
    }
}

/// The parts of a provider.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) locks: Arc<TurnLocks>,
    pub(super) turns: Arc<TurnFetcher>,
    pub(super) sessions: Arc<SessionTable>,
    pub(super) activities: Arc<ActivityQueue>,
    pub(super) outbox: Arc<Outbox>,
    pub(super) committer: Arc<TurnCommitter>,
    pub(super) enqueuer: Enqueuer,
    pub(super) reader: Arc<Reader>,
    pub(super) admin: Arc<Admin>,
    pub(super) poller: Arc<Poller>,
}

impl Parts {
    pub(super) fn new(
        context: &Context,
        leases: &OpenLeases,
        deletions: Deletions,
        is_short_poll: bool,
    ) -> Self {
        let deletions = Arc::new(deletions);
        let fetches = Arc::new(LastFetches::default());
        let locks = Arc::new(TurnLocks::new(context));
        let turns = Arc::new(TurnFetcher::new(
            context,
            Arc::clone(&leases.orchestrations),
            Arc::clone(&locks),
            Arc::clone(&deletions),
            is_short_poll,
        ));
        let sessions = Arc::new(SessionTable::new(context));
        let activities = Arc::new(ActivityQueue::new(
            context,
            Arc::clone(&leases.workers),
            Arc::clone(&turns),
            Arc::clone(&sessions),
            Arc::clone(&fetches),
            is_short_poll,
        ));
        let outbox = Arc::new(Outbox::new(context, Arc::clone(&turns), Arc::clone(&deletions)));
        let committer = Arc::new(TurnCommitter::new(
            context,
            Arc::clone(&locks),
            Arc::clone(&turns),
            Arc::clone(&activities),
            Arc::clone(&outbox),
        ));
        let enqueuer = Enqueuer::new(context, Arc::clone(&turns));
        let reader = Arc::new(Reader::new(context, fetches));
        let (admin_outbox, admin_reader) = (Arc::clone(&outbox), Arc::clone(&reader));
        let admin =
            Arc::new(Admin::new(context, admin_reader, admin_outbox, Arc::clone(&deletions)));
        let poller = Arc::new(Poller {
            store: context.store.clone(),
            dispatch: Arc::clone(&context.dispatch),
            processes: Arc::clone(&context.processes),
            tasks: context.tasks.clone(),
            leases: Arc::clone(&leases.orchestrations),
            worker_leases: Arc::clone(&leases.workers),
            turns: Arc::clone(&turns),
            locks: Arc::clone(&locks),
            activities: Arc::clone(&activities),
            outbox: Arc::clone(&outbox),
            deletions,
        });
        Self {
            locks,
            turns,
            sessions,
            activities,
            outbox,
            committer,
            enqueuer,
            reader,
            admin,
            poller,
        }
    }
}

//! The state of an account that handlers need: options, catalog, topology, throughput.
//!
//! The innermost layer: nothing here knows fault rules, counters or the admin API, which act on an
//! account from outside.

use std::sync::Arc;

use sidereal_protocol::{
    ConsistencyLevel, CosmosStatus, PartitionKeyRangeId, PartitionSessionToken, RegionName,
};

use crate::clock::Timestamp;
use crate::error::{Result, ServiceError};
use crate::options::AccountOptions;
use crate::request::ClassifiedRequest;
use crate::store::persistence::{
    AccountRecord, CommitQueue, DataDirectoryError, Mutation, RestoredState, Storage,
};
use crate::store::{Catalog, Container, Partition, ReplicaProgress, StalenessBound, WriteContext};
use crate::topology::{SharedTopology, Topology};
use crate::transient;

/// The state of an account.
#[derive(Debug)]
pub(crate) struct AccountState {
    pub(crate) options: AccountOptions,
    pub(crate) catalog: Catalog,
    pub(crate) topology: SharedTopology,
    /// Where changes are stored, in an account that is kept on disk.
    pub(crate) commits: Option<Arc<CommitQueue>>,
}

impl AccountState {
    /// An empty account.
    pub(crate) fn new(options: AccountOptions) -> Self {
        let topology = SharedTopology::new(initial_topology(&options));
        Self { options, catalog: Catalog::default(), topology, commits: None }
    }

    /// The account that a data directory holds: a new one where there is none yet.
    pub(crate) fn open(
        mut options: AccountOptions,
        storage: Storage,
    ) -> std::result::Result<Self, DataDirectoryError> {
        let state = RestoredState::load(&storage)?;
        if let Some(account) = &state.account {
            adopt_regions(&mut options, account)?;
        }
        let mut topology = initial_topology(&options);
        topology.stored = true;
        if let Some(account) = &state.account {
            topology.restore(&account.topology);
        }
        // A delay that is asked for now goes before the one that was kept.
        if !options.replication_delay.is_zero() {
            for region in &mut topology.regions {
                region.replication.delay = options.replication_delay;
            }
        }
        let commits = Arc::new(CommitQueue::new(storage));
        let catalog = Catalog::restored(state, topology.replica_set(), Arc::clone(&commits))
            .map_err(|what| DataDirectoryError::Damaged { what })?;
        let topology = SharedTopology::new(topology);
        let account = Self { options, catalog, topology, commits: Some(commits) };
        account.store_topology();
        if let Some(commits) = &account.commits {
            commits.commit();
            if let Some(reason) = commits.failure() {
                return Err(DataDirectoryError::Unwritable { reason: reason.to_owned() });
            }
        }
        Ok(account)
    }

    /// Replaces the topology by a changed copy.
    pub(crate) fn change_topology(&self, change: impl FnOnce(&mut Topology)) {
        self.topology.change(change);
        self.store_topology();
    }

    /// Queues the topology as it is now. Of two concurrent changes the later may be queued twice, and the
    /// earlier not at all.
    fn store_topology(&self) {
        let Some(commits) = &self.commits else { return };
        self.topology.read(|topology| {
            commits.enqueue(vec![Mutation::PutAccount(AccountRecord {
                regions: self.options.regions.clone(),
                multi_write: self.options.multi_write,
                topology: topology.record(),
            })]);
        });
    }

    /// Whether the account is kept on disk.
    pub(crate) fn is_stored(&self) -> bool {
        self.commits.is_some()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.options.clock.now()
    }

    /// Refuses a request to a partition whose throughput is spent, if throughput is enforced; and what a draw refuses.
    pub(crate) fn admit(
        &self,
        request: &ClassifiedRequest,
        container: &Container,
        partition: &Partition,
    ) -> Result<()> {
        transient::refuse(request, partition)?;
        let now = request.now;
        if !self.options.enforce_throughput {
            return Ok(());
        }
        let own = self.catalog.offer_of(container.rid);
        let shared = || container.rid.database_rid().and_then(|rid| self.catalog.offer_of(rid));
        let Some(offer) = own.or_else(shared) else { return Ok(()) };
        // The service divides provisioned throughput evenly among physical partitions, so a hot partition
        // is throttled while the container as a whole is not.
        let units = f64::from(offer.throughput.ceiling()) / container.partitions().len() as f64;
        partition.budget.admit(now, units).map_err(ServiceError::throttled)
    }

    /// Deducts a request's charge from the partition's throughput.
    pub(crate) fn spend(&self, partition: &Partition, now: Timestamp, units: f64) {
        if self.options.enforce_throughput {
            partition.budget.spend(now, units);
        }
    }

    /// Region, time and staleness bound of a write, if the region that it reached accepts writes of the
    /// partition.
    pub(crate) fn write_context<'a>(
        &self,
        request: &'a ClassifiedRequest,
        partition: &Partition,
    ) -> Result<WriteContext<'a>> {
        // A client that does not allow tentative writes does not know of several write regions: the
        // service refuses its writes everywhere but in the first one.
        let tentative =
            request.topology.multi_write && request.typed().allows_tentative_writes()?;
        if !tentative && partition.write_region(&request.topology, request.now) != request.region {
            return Err(ServiceError::write_forbidden());
        }
        let staleness = match self.options.consistency {
            ConsistencyLevel::Strong => StalenessBound::Zero,
            ConsistencyLevel::BoundedStaleness => {
                StalenessBound::Entries(self.options.max_staleness)
            }
            _ => StalenessBound::Unbounded,
        };
        let ClassifiedRequest { region, topology, now, .. } = request;
        Ok(WriteContext { region: *region, topology, now: *now, staleness })
    }

    /// Refuses a read whose session has seen more than the replica has (404/1002). Clients retry it in
    /// another region, and may ask for the partition's hub alone: 403/3 elsewhere.
    pub(crate) fn check_session(
        &self,
        request: &ClassifiedRequest,
        partition: &Partition,
        progress: &ReplicaProgress,
    ) -> Result<()> {
        let topology = &request.topology;
        if !topology.multi_write
            && request.typed().is_hub_region_only()?
            && partition.write_region(topology, request.now) != request.region
        {
            return Err(ServiceError::write_forbidden());
        }
        let Some(token) = request.typed().session_token()? else { return Ok(()) };
        let level = request.typed().consistency_level()?.unwrap_or(self.options.consistency);
        if level != ConsistencyLevel::Session {
            return Ok(());
        }
        let behind = |token: &PartitionSessionToken| {
            let truncated =
                version_of(token).is_some_and(|version| version < request.topology.version);
            !truncated && !progress.covers(token)
        };
        // After a split or merge a client still has the tokens of the parents, which bound the child's.
        let parents = partition.parents.iter().map(PartitionKeyRangeId::as_str);
        match token.inherited(partition.id.as_str(), parents) {
            Some(token)
                if behind(&token)
                    || transient::is_session_refused(request, partition, progress, &token) =>
            {
                Err(ServiceError::new(
                    CosmosStatus::READ_SESSION_NOT_AVAILABLE,
                    "The read session is not available for the input session token.",
                ))
            }
            _ => Ok(()),
        }
    }
}

/// The topology that the options describe.
fn initial_topology(options: &AccountOptions) -> Topology {
    let mut topology = Topology::new(&options.regions, options.multi_write);
    for region in &mut topology.regions {
        region.replication.delay = options.replication_delay;
        region.advertised_url =
            options.advertised_urls.get(&region.name).map(|url| url.to_string().into());
    }
    topology
}

/// Takes the regions of a kept account over, unless others were asked for.
fn adopt_regions(
    options: &mut AccountOptions,
    kept: &AccountRecord,
) -> std::result::Result<(), DataDirectoryError> {
    let default = AccountOptions::default();
    let asked = options.regions != default.regions || options.multi_write != default.multi_write;
    let same = options.regions == kept.regions && options.multi_write == kept.multi_write;
    if asked && !same {
        return Err(DataDirectoryError::OtherRegions {
            kept: describe(&kept.regions, kept.multi_write),
            asked: describe(&options.regions, options.multi_write),
        });
    }
    options.regions.clone_from(&kept.regions);
    options.multi_write = kept.multi_write;
    Ok(())
}

fn describe(regions: &[RegionName], multi_write: bool) -> String {
    let names: Vec<&str> = regions.iter().map(RegionName::as_str).collect();
    let suffix = if multi_write { " (all of which accept writes)" } else { "" };
    format!("{}{suffix}", names.join(", "))
}

/// A token of an earlier version may name entries that a forced failover truncated. They never arrive, so
/// such a token does not hold a read up.
fn version_of(token: &PartitionSessionToken) -> Option<i64> {
    match token {
        PartitionSessionToken::Vector(vector) => Some(vector.version()),
        PartitionSessionToken::Simple { .. } => None,
    }
}

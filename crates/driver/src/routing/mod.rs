//! Where operations go: what is known of the account's regions and partitions, and how it changes.
//!
//! The pictures of an account (`account_endpoint_state.rs`) and of partitions that are served elsewhere
//! (`partition_endpoint_state.rs`), the choice of an endpoint from them (`endpoint_resolution.rs`), what
//! outcomes say of them (`effects.rs`), who is to blame for a failure (`blame.rs`) and how often the account may
//! be read (`refresh_allowance.rs`) are values and pure functions. `location_state_store.rs` holds the current
//! pictures. Three parts wait: `account_metadata_cache.rs` reads the
//! account and probes its endpoints, `container_cache.rs` reads containers and their partition ranges, and
//! `write_gate.rs` holds writes back that have nowhere to go.

mod account_endpoint_state;
mod account_metadata_cache;
mod blame;
mod container_cache;
mod container_metadata;
mod container_reader;
mod effects;
mod endpoint_prober;
mod endpoint_resolution;
mod location_policy;
mod location_snapshot;
mod location_state_store;
mod metadata_reader;
mod partition;
mod partition_endpoint_state;
mod partition_failover_config;
mod refresh_allowance;
mod refresh_pace;
mod slowness;
mod window;
mod write_gate;

pub(crate) use account_endpoint_state::{AccountEndpointState, CosmosEndpoint, RegionPreference};
use account_endpoint_state::{
    build_account_endpoint_state, endpoints_that_left, expire_unavailable_endpoints,
    mark_endpoint_available, mark_endpoint_unavailable,
};
pub(crate) use account_metadata_cache::AccountMetadataCache;
pub(crate) use container_cache::{ContainerCache, Stale};
pub use container_metadata::ContainerMetadata;
pub(crate) use effects::{LocationEffect, LocationEffects, OutcomeSite, of_lost_request};
pub(crate) use endpoint_prober::EndpointProber;
pub(crate) use endpoint_resolution::{
    FailedEndpoints, Route, RouteRequest, is_elsewhere_left, is_reachable_elsewhere, resolve_hedge,
    resolve_route, serving_session_home, session_home,
};
pub(crate) use location_policy::LocationPolicy;
pub(crate) use location_snapshot::LocationSnapshot;
pub(crate) use location_state_store::LocationStateStore;
pub(crate) use metadata_reader::{MetadataFuture, MetadataReader};
pub(crate) use partition::{Partition, PartitionId, TICKS, Tick, Traffic};
use partition_endpoint_state::{
    Mechanism, PartitionEndpointState, PartitionFailoverEntry, PartitionHealth,
    UnavailablePartition, claim_probe, expire_partition_overrides, forget_partitions,
    forget_writes, mark_partition_recovered, mark_partition_unavailable, note_slow_probe,
    note_writes_served_at, sync_partition_endpoint_state,
};
pub(crate) use partition_failover_config::PartitionFailoverConfig;
pub(crate) use write_gate::{OutageCause, OutageScope, WriteGate, WriteProbe};

//! Where operations go: what is known of the account's regions, and how it changes.
//!
//! The picture of an account (`account_endpoint_state.rs`), the choice of an endpoint from it
//! (`endpoint_resolution.rs`) and what outcomes say of it (`effects.rs`) are values and pure functions.
//! `location_state_store.rs` holds the current picture, and `account_metadata_cache.rs` is the one part that
//! waits: it reads the account.

mod account_endpoint_state;
mod account_metadata_cache;
mod effects;
mod endpoint_resolution;
mod location_state_store;

pub(crate) use account_endpoint_state::{AccountEndpointState, CosmosEndpoint, RegionPreference};
use account_endpoint_state::{
    build_account_endpoint_state, endpoints_that_left, expire_unavailable_endpoints,
    mark_endpoint_unavailable,
};
pub(crate) use account_metadata_cache::AccountMetadataCache;
pub(crate) use effects::{LocationEffect, LocationEffects};
pub(crate) use endpoint_resolution::{
    FailedEndpoints, Wanted, is_elsewhere_left, resolve_endpoint,
};
pub(crate) use location_state_store::{LocationSnapshot, LocationStateStore};

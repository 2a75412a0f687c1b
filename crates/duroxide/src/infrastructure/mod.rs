//! The database and the container: created if they are missing, checked if they exist.

mod creation;
mod schema;
mod throughput;

use sidereal::prelude::*;
use sidereal_protocol::AccountProperties;

use crate::ProviderSetupError;
use crate::clock::ProviderClock;
use crate::config::CosmosDBProviderConfig;
use crate::definition::{check, properties};
use crate::region::{RegionDecision, RegionQuestion, RequestTerms, check_consistency, decide};
use crate::store::Store;
use creation::{Step, explain, open};
use schema::{await_schema, read_schema, store_schema};
use throughput::warn_if_low;

/// Agrees with the other providers on the region of the container, once the account takes writes in several. The first one
/// stores its proposal; each proposes the region that took the writes before.
pub(crate) async fn agree_on_region(
    container: &ContainerClient,
    account: &AccountProperties,
    proposal: RegionName,
) -> Result<RegionName, ProviderSetupError> {
    let terms = RequestTerms::only_in(&proposal, account);
    let there = read_schema(container, &terms).await?;
    if let Some(stored) = there.as_ref().and_then(|there| there.region.clone()) {
        return Ok(stored);
    }
    let stored = store_schema(container, &terms, there, Some(proposal.clone())).await?;
    Ok(stored.region.unwrap_or(proposal))
}

/// The store of a provider, and its region.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) store: Store,
    /// The region that all requests go to, if the account has several write regions.
    pub(crate) region: Option<RegionName>,
}

/// Opens the container, checks it, and decides on its region.
pub(crate) async fn prepare(
    client: &CosmosClient,
    config: &CosmosDBProviderConfig,
) -> Result<Prepared, ProviderSetupError> {
    let account = client.read_account().await;
    let account = account.map_err(|error| explain(Step::ReadAccount, error, config))?;
    let account = account.into_properties()?;
    check_consistency(&account).map_err(ProviderSetupError::mismatch)?;
    let wanted = properties(&config.container);
    let opened = open(client, config, &wanted).await?;
    let nearest = opened.region().cloned();
    check(&opened.into_properties()?).map_err(ProviderSetupError::mismatch)?;
    let container = client.database(&config.database).container(&config.container);
    // In an account with several write regions, the one that all providers agree on without asking.
    let agreed = match account.write_region() {
        Some(region) if account.is_multi_write() => RequestTerms::only_in(region, &account),
        _ => RequestTerms::anywhere(&account),
    };
    let schema = read_schema(&container, &agreed).await?;
    let decision = decide(RegionQuestion {
        account: &account,
        is_first: schema.is_none(),
        stored: schema.as_ref().and_then(|schema| schema.region.as_ref()),
        nearest: nearest.as_ref(),
        moved_to: config.moved_to.as_ref(),
    });
    let region = match decision.map_err(ProviderSetupError::mismatch)? {
        RegionDecision::NotNeeded => None,
        RegionDecision::Stored(region) | RegionDecision::Store(region) => Some(region),
    };
    let stored = store_schema(&container, &agreed, schema, region).await?;
    let region = stored.region.filter(|_| account.is_multi_write());
    let terms = match &region {
        Some(region) => RequestTerms::only_in(region, &account),
        None => RequestTerms::anywhere(&account),
    };
    if region.is_some() {
        await_schema(&container, &terms).await?;
    }
    if !config.account.is_embedded() {
        warn_if_low(client, config).await;
    }
    let clock = ProviderClock::new(config.clock.clone());
    Ok(Prepared { store: Store::new(container, clock, terms), region })
}

//! Which region of the account a container's orchestrations live in.
//!
//! A lock is granted by a condition on an etag, and in an account with several write regions each region judges the
//! condition by its own replica: two regions could both grant the same lock. So all requests of all providers of a
//! container go to one region, which is stored with the container.

use std::time::{Duration, Instant};

use sidereal::options::{AvailabilityOptions, ClientMethodOptions, RequestOptions};
use sidereal::prelude::*;
use sidereal_protocol::{AccountProperties, ConsistencyLevel, ReadConsistencyStrategy};

/// How long the driver waits within a request that a lock waits for: less than a quarter of the runtime's shortest lock.
const BRIEF_WAIT: Duration = Duration::from_secs(1);

/// How long a renewal may take. It is small, and conditional on an etag, so another attempt does no harm.
const RENEWAL_TIMEOUT: Duration = Duration::from_secs(2);

/// The terms of every request of a provider: region, consistency, retry budget.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestTerms {
    pub(crate) request: RequestOptions,
    pub(crate) availability: AvailabilityOptions,
    /// Set to a moment that is over, nothing is sent any more.
    deadline: Option<Instant>,
}

impl RequestTerms {
    /// Nothing is sent any more.
    pub(crate) fn nothing() -> Self {
        Self { deadline: Some(tokio::time::Instant::now().into_std()), ..Self::default() }
    }

    /// Requests that go wherever the account's single write region, or the nearest copy, is.
    pub(crate) fn anywhere(account: &AccountProperties) -> Self {
        let mut terms = Self::default();
        // An application may read with less elsewhere; locks and histories are read as the account promises.
        terms.request.consistency_level = Some(account.default_consistency());
        terms.request.read_consistency_strategy = Some(ReadConsistencyStrategy::Default);
        // An operator may enable more write regions. By then every request must be pinned to one of them.
        terms.availability.single_write_region_only = Some(true);
        terms
    }

    /// Requests that go to one region.
    pub(crate) fn only_in(region: &RegionName, account: &AccountProperties) -> Self {
        let locations = account.readable_locations.iter().chain(&account.writable_locations);
        let mut others: Vec<RegionName> = Vec::new();
        for location in locations {
            if location.name != *region && !others.contains(&location.name) {
                others.push(location.name.clone());
            }
        }
        let mut terms = Self::anywhere(account);
        terms.request.excluded_regions = Some(others);
        terms.availability.hedging_enabled = Some(false);
        terms.availability.single_write_region_only = Some(false);
        terms
    }

    /// Terms for a request that holds up a lock or something else that expires: the driver gives up soon, and the
    /// provider tries again, with the lock renewed in between.
    pub(crate) fn brief(&self) -> Self {
        let mut terms = self.clone();
        terms.availability.max_throttle_wait = Some(BRIEF_WAIT);
        terms.availability.max_write_region_wait = Some(BRIEF_WAIT);
        terms.availability.retry_max_backoff = Some(BRIEF_WAIT);
        terms
    }

    /// Terms for the renewal of a lock: a request that is not answered is given up while there is time for another.
    pub(crate) fn of_renewal(&self) -> Self {
        let mut terms = self.brief();
        terms.availability.end_to_end_timeout = Some(RENEWAL_TIMEOUT);
        terms
    }

    /// The options of a call on an item.
    pub(crate) fn item(&self) -> Option<ItemOptions<'static>> {
        let (request, availability) = (self.request.clone(), self.availability.clone());
        let method_options = ClientMethodOptions { deadline: self.deadline, ..Default::default() };
        Some(ItemOptions { method_options, request, availability, ..ItemOptions::default() })
    }

    /// The options of a query.
    pub(crate) fn query(&self) -> QueryOptions<'static> {
        let (request, availability) = (self.request.clone(), self.availability.clone());
        let method_options = ClientMethodOptions { deadline: self.deadline, ..Default::default() };
        QueryOptions { method_options, request, availability }
    }
}

/// Refuses an account whose reads may be older than the reader's own writes: a turn would be replayed from a
/// history that lacks the last one.
pub(crate) fn check_consistency(account: &AccountProperties) -> Result<(), String> {
    let level = account.default_consistency();
    if level >= ConsistencyLevel::Session {
        return Ok(());
    }
    Err(format!(
        "the account's default consistency is {level}, with which a runtime may not see its own writes: \
         set it to Session or stronger"
    ))
}

/// The region that the documents name, or are to name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RegionDecision {
    /// The account has one write region: conditions are judged there, and nothing is pinned.
    NotNeeded,
    /// As stored.
    Stored(RegionName),
    /// To be stored: the first provider's, or where the operator moves the container to.
    Store(RegionName),
}

/// The facts by which a container's region is decided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegionQuestion<'a> {
    pub(crate) account: &'a AccountProperties,
    /// Whether providers were here before.
    pub(crate) is_first: bool,
    /// The region in the schema document.
    pub(crate) stored: Option<&'a RegionName>,
    /// The region that answers this process.
    pub(crate) nearest: Option<&'a RegionName>,
    /// Where the operator moves the container to.
    pub(crate) moved_to: Option<&'a RegionName>,
}

/// Decides on the region of a container; a sentence if none can be chosen.
pub(crate) fn decide(question: RegionQuestion<'_>) -> Result<RegionDecision, String> {
    let RegionQuestion { account, is_first, stored, nearest, moved_to } = question;
    if !account.is_multi_write() {
        return Ok(RegionDecision::NotNeeded);
    }
    let is_there =
        |region: &RegionName| account.writable_locations.iter().any(|it| it.name == *region);
    let regions = || {
        let names: Vec<&str> =
            account.writable_locations.iter().map(|it| it.name.as_str()).collect();
        names.join(", ")
    };
    const MOVE: &str = "with every provider of it stopped, move it with \
         CosmosDBProviderConfig::with_region_moved_risking_duplicates";
    if let Some(region) = moved_to {
        return match is_there(region) {
            true if stored == Some(region) => Ok(RegionDecision::Stored(region.clone())),
            true => Ok(RegionDecision::Store(region.clone())),
            false => {
                Err(format!("the account has no region {region}: move to one of {}", regions()))
            }
        };
    }
    match stored {
        Some(region) if is_there(region) => Ok(RegionDecision::Stored(region.clone())),
        Some(region) => Err(format!(
            "the container's orchestrations live in {region}, which is no write region of the account any more \
             (it has {}): {MOVE}",
            regions()
        )),
        None if is_first => {
            let nearest = nearest.filter(|region| is_there(region));
            let region = nearest.or_else(|| account.write_region());
            region
                .cloned()
                .map(RegionDecision::Store)
                .ok_or_else(|| "the account has no write region".to_owned())
        }
        None => Err(format!(
            "the account takes writes in several regions ({}), and the container does not say in which of them \
             its orchestrations live: {MOVE}",
            regions()
        )),
    }
}

/// The reaction of a provider to the account as it is now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum AccountChange {
    /// It goes on, in its region or in the only one.
    GoOn,
    /// The account takes writes in several regions, and the container is not pinned: to this one, which took them before.
    Pin(RegionName),
    /// It cannot go on; a sentence says why.
    End(String),
}

/// Decides what an account that is read again means for a provider that is pinned to a region, or whose last single write
/// region is known.
pub(crate) fn follow(
    account: &AccountProperties,
    pinned: Option<&RegionName>,
    last_writer: Option<&RegionName>,
) -> AccountChange {
    if let Err(sentence) = check_consistency(account) {
        return AccountChange::End(sentence);
    }
    let takes_writes =
        |region: &&RegionName| account.writable_locations.iter().any(|it| it.name == **region);
    match pinned {
        Some(region) if takes_writes(&region) => AccountChange::GoOn,
        // Elsewhere the same locks could be granted again.
        Some(region) => AccountChange::End(format!(
            "the region {region} of the container has left the account's write regions"
        )),
        None if !account.is_multi_write() => AccountChange::GoOn,
        None => match last_writer.filter(takes_writes).or_else(|| account.write_region()) {
            Some(region) => AccountChange::Pin(region.clone()),
            None => AccountChange::End("the account has no write region".to_owned()),
        },
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn account(is_multi_write: bool, regions: &[&str], consistency: &str) -> AccountProperties {
        let location =
            |name: &&str| json!({"name": name, "databaseAccountEndpoint": "https://localhost/"});
        let locations: Vec<_> = regions.iter().map(location).collect();
        serde_json::from_value(json!({
            "id": "account",
            "writableLocations": locations,
            "readableLocations": locations,
            "enableMultipleWriteLocations": is_multi_write,
            "userConsistencyPolicy": {"defaultConsistencyLevel": consistency},
        }))
        .unwrap()
    }

    fn question(account: &AccountProperties) -> RegionQuestion<'_> {
        RegionQuestion { account, is_first: false, stored: None, nearest: None, moved_to: None }
    }

    #[test]
    fn an_account_with_one_write_region_needs_no_pin() {
        let account = account(false, &["West US"], "Session");
        let west: RegionName = "West US".into();
        assert_eq!(decide(question(&account)), Ok(RegionDecision::NotNeeded));
        let stored = RegionQuestion { stored: Some(&west), ..question(&account) };
        assert_eq!(decide(stored), Ok(RegionDecision::NotNeeded));
    }

    #[test]
    fn the_first_provider_stores_its_nearest_region_and_the_others_follow() {
        let account = account(true, &["West US", "East US"], "Session");
        let (east, mars): (RegionName, RegionName) = ("East US".into(), "Mars".into());
        let first = RegionQuestion { is_first: true, nearest: Some(&east), ..question(&account) };
        assert_eq!(decide(first), Ok(RegionDecision::Store(east.clone())));
        let elsewhere =
            RegionQuestion { is_first: true, nearest: Some(&mars), ..question(&account) };
        assert_eq!(decide(elsewhere), Ok(RegionDecision::Store("West US".into())));
        let next = RegionQuestion { stored: Some(&east), ..question(&account) };
        assert_eq!(decide(next), Ok(RegionDecision::Stored(east)));
    }

    #[test]
    fn a_region_that_is_missing_or_gone_is_refused_with_the_way_out() {
        let account = account(true, &["West US", "East US"], "Session");
        let missing = decide(question(&account)).unwrap_err();
        assert!(missing.contains("with_region_moved_risking_duplicates"), "{missing}");
        let mars: RegionName = "Mars".into();
        let gone =
            decide(RegionQuestion { stored: Some(&mars), ..question(&account) }).unwrap_err();
        assert!(gone.contains("Mars") && gone.contains("West US, East US"), "{gone}");
        let moved = decide(RegionQuestion { moved_to: Some(&mars), ..question(&account) });
        assert!(moved.unwrap_err().contains("move to one of West US, East US"));
    }

    #[test]
    fn an_operator_moves_a_container_by_name() {
        let account = account(true, &["West US", "East US"], "Session");
        let (west, east): (RegionName, RegionName) = ("West US".into(), "East US".into());
        let moved =
            RegionQuestion { stored: Some(&west), moved_to: Some(&east), ..question(&account) };
        assert_eq!(decide(moved), Ok(RegionDecision::Store(east.clone())));
        let again =
            RegionQuestion { stored: Some(&east), moved_to: Some(&east), ..question(&account) };
        assert_eq!(decide(again), Ok(RegionDecision::Stored(east)));
    }

    #[test]
    fn a_pinned_request_excludes_every_other_region_and_is_not_hedged() {
        let account = account(true, &["West US", "East US", "North Europe"], "Strong");
        let terms = RequestTerms::only_in(&"East US".into(), &account);
        let others: Vec<RegionName> = vec!["West US".into(), "North Europe".into()];
        assert_eq!(terms.request.excluded_regions, Some(others));
        assert_eq!(terms.availability.hedging_enabled, Some(false));
        assert_eq!(terms.request.consistency_level, Some(ConsistencyLevel::Strong));
    }

    #[test]
    fn an_account_that_takes_more_write_regions_is_pinned_to_the_former() {
        let (one, two) = (
            account(false, &["East US"], "Session"),
            account(true, &["West US", "East US"], "Session"),
        );
        let (west, east): (RegionName, RegionName) = ("West US".into(), "East US".into());
        assert_eq!(follow(&one, None, Some(&east)), AccountChange::GoOn);
        assert_eq!(follow(&two, None, Some(&east)), AccountChange::Pin(east.clone()));
        assert_eq!(follow(&two, None, None), AccountChange::Pin(west.clone()));
        assert_eq!(follow(&two, Some(&east), None), AccountChange::GoOn);
        assert!(matches!(follow(&one, Some(&west), None), AccountChange::End(_)));
        let weak = account(false, &["East US"], "Eventual");
        assert!(matches!(follow(&weak, None, None), AccountChange::End(_)));
    }

    #[test]
    fn an_account_weaker_than_session_is_refused() {
        for (level, is_refused) in [
            ("Strong", false),
            ("BoundedStaleness", false),
            ("Session", false),
            ("ConsistentPrefix", true),
            ("Eventual", true),
        ] {
            let checked = check_consistency(&account(false, &["West US"], level));
            assert_eq!(checked.is_err(), is_refused, "{level}");
        }
    }
}

//! Which locations of an account are used: those that the configured endpoint vouches for. Pure.
//!
//! The account's description comes over the network, and requests with their signatures follow it. So it must not
//! lead from `https` to `http`, nor to hosts that have nothing to do with the endpoint that the application named.

use std::collections::BTreeSet;

use sidereal_protocol::{AccountLocation, AccountProperties};

use crate::exchange::Endpoint;

/// Requirements on the locations of an account.
#[derive(Clone, Debug)]
pub(crate) struct LocationPolicy {
    /// The endpoint of the account, as it was configured.
    pub(crate) endpoint: Endpoint,
    /// Endpoints that the settings name beside it.
    pub(crate) custom_endpoints: Vec<Endpoint>,
    /// Whether the account's locations are used at all.
    pub(crate) is_discovery_enabled: bool,
    /// Hosts that may be reached in cleartext, and that may have any name.
    pub(crate) emulator_hosts: BTreeSet<String>,
    /// Hosts, or suffixes that begin with a dot, that are trusted whatever the endpoint's host is.
    pub(crate) location_hosts: BTreeSet<String>,
}

/// Why a location is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LocationRefusal {
    /// It is in cleartext, and the configured endpoint is not.
    WeakerScheme,
    /// Its host is not one of the account's.
    ForeignHost,
}

impl LocationRefusal {
    /// The problem, and the setting that allows it.
    pub(crate) const fn sentence(self) -> &'static str {
        match self {
            Self::WeakerScheme => {
                "its endpoint is http:// and the account's is https://: name the host in \
                 client_options.emulator_hosts if it is an emulator"
            }
            Self::ForeignHost => {
                "its host has nothing to do with the account's endpoint: name it in \
                 account.location_hosts if it is the account's, or set account.endpoint_discovery to false"
            }
        }
    }
}

impl LocationPolicy {
    /// The account's description with the locations that may be used, and the others with the reason.
    pub(crate) fn admit(
        &self,
        mut properties: AccountProperties,
    ) -> (AccountProperties, Vec<(AccountLocation, LocationRefusal)>) {
        if !self.is_discovery_enabled {
            return (self.stay_at_endpoint(properties), Vec::new());
        }
        let mut refused = Vec::new();
        let lists = [&mut properties.writable_locations, &mut properties.readable_locations];
        for locations in lists {
            locations.retain(|location| match self.refusal(location) {
                None => true,
                Some(refusal) => {
                    refused.push((location.clone(), refusal));
                    false
                }
            });
        }
        (properties, refused)
    }

    /// The description without its locations. That several regions accept writes stays known, for writes are
    /// then marked as such: their locations are all at the configured endpoint.
    fn stay_at_endpoint(&self, mut properties: AccountProperties) -> AccountProperties {
        match properties.is_multi_write() {
            false => properties.writable_locations.clear(),
            true => properties.writable_locations.iter_mut().for_each(|location| {
                location.database_account_endpoint = self.endpoint.as_str().to_owned();
            }),
        }
        properties.readable_locations.clear();
        properties.thin_client_readable_locations.clear();
        properties.thin_client_writable_locations.clear();
        properties
    }

    fn refusal(&self, location: &AccountLocation) -> Option<LocationRefusal> {
        // One that is no endpoint is left out, and logged, where endpoints are made of locations.
        let endpoint: Endpoint = location.database_account_endpoint.parse().ok()?;
        if self.emulator_hosts.iter().any(|host| host.eq_ignore_ascii_case(endpoint.host())) {
            return None;
        }
        if self.endpoint.is_tls() && !endpoint.is_tls() {
            return Some(LocationRefusal::WeakerScheme);
        }
        let is_vouched_for = std::iter::once(&self.endpoint)
            .chain(&self.custom_endpoints)
            .any(|own| is_of_one_account(own, &endpoint));
        let is_trusted =
            || self.location_hosts.iter().any(|pattern| names_host(pattern, endpoint.host()));
        (!is_vouched_for && !is_trusted()).then_some(LocationRefusal::ForeignHost)
    }
}

/// Whether a host is the named one, or ends with the named suffix.
fn names_host(pattern: &str, host: &str) -> bool {
    let pattern = pattern.to_ascii_lowercase();
    match pattern.starts_with('.') {
        true => host.ends_with(&pattern),
        false => host == pattern,
    }
}

/// Whether an endpoint may be a region's of the account at another: the same host, one below it or beside it
/// (`contoso-westus.documents.azure.com` and `contoso.documents.azure.com`), or both on this machine.
fn is_of_one_account(own: &Endpoint, other: &Endpoint) -> bool {
    let (own_host, other_host) = (own.host(), other.host());
    if own_host == other_host || (own.is_loopback() && other.is_loopback()) {
        return true;
    }
    let is_below =
        |domain: &str| other_host.strip_suffix(domain).is_some_and(|labels| labels.ends_with('.'));
    let is_address = |host: &str| host.parse::<std::net::IpAddr>().is_ok();
    if is_address(own_host) || is_address(other_host) {
        return false;
    }
    // A domain of one label (`.com`) belongs to no account.
    let parent = own_host.split_once('.').map(|(_, parent)| parent).filter(|it| it.contains('.'));
    is_below(own_host) || parent.is_some_and(is_below)
}

#[cfg(test)]
mod tests {
    use sidereal_protocol::RegionName;

    use super::*;

    fn policy(endpoint: &str) -> LocationPolicy {
        LocationPolicy {
            endpoint: endpoint.parse().unwrap(),
            custom_endpoints: Vec::new(),
            is_discovery_enabled: true,
            emulator_hosts: BTreeSet::new(),
            location_hosts: BTreeSet::new(),
        }
    }

    fn location(endpoint: &str) -> AccountLocation {
        AccountLocation {
            name: RegionName::from("West US"),
            database_account_endpoint: endpoint.to_owned(),
        }
    }

    fn refusal(policy: &LocationPolicy, endpoint: &str) -> Option<LocationRefusal> {
        policy.refusal(&location(endpoint))
    }

    const CONTOSO: &str = "https://contoso.documents.azure.com/";

    #[test]
    fn regions_are_beside_or_below_the_account_s_own_host() {
        let of_contoso = policy(CONTOSO);
        for regional in [
            "https://contoso-westus.documents.azure.com:443/",
            "https://CONTOSO.documents.azure.com/",
            "https://westus.contoso.documents.azure.com",
        ] {
            assert_eq!(refusal(&of_contoso, regional), None, "{regional}");
        }
        for foreign in [
            "https://evil.com/",
            "https://documents.azure.com.evil.com/",
            "https://evildocuments.azure.com/",
            "https://127.0.0.1:8081/",
        ] {
            let refused = Some(LocationRefusal::ForeignHost);
            assert_eq!(refusal(&of_contoso, foreign), refused, "{foreign}");
        }
        // Everything is below `com`.
        let short = refusal(&policy("https://contoso.com"), "https://evil.com");
        assert_eq!(short, Some(LocationRefusal::ForeignHost));
    }

    #[test]
    fn https_does_not_become_http() {
        let of_contoso = policy(CONTOSO);
        let refused = Some(LocationRefusal::WeakerScheme);
        assert_eq!(refusal(&of_contoso, "http://contoso-westus.documents.azure.com/"), refused);
        let local = policy("https://localhost:8081");
        assert_eq!(refusal(&local, "http://127.0.0.1:8082"), refused);
        assert_eq!(refusal(&policy("http://localhost:8081"), "https://127.0.0.1:8082"), None);
    }

    #[test]
    fn emulators_are_on_this_machine_or_named() {
        let mut local = policy("http://localhost:8081");
        assert_eq!(refusal(&local, "http://127.0.0.1:8082"), None);
        assert_eq!(refusal(&local, "http://[::1]:8082"), None);
        assert_eq!(refusal(&local, "http://emulator:8082"), Some(LocationRefusal::ForeignHost));
        local.emulator_hosts.insert("Emulator".to_owned());
        assert_eq!(refusal(&local, "http://emulator:8082"), None);
        let in_compose = policy("https://cosmos:8081");
        assert_eq!(refusal(&in_compose, "https://cosmos:8082"), None);
    }

    #[test]
    fn hosts_that_the_settings_name_are_trusted() {
        let mut forwarded = policy("https://cosmos.contoso.com/");
        let regional = "https://contoso-westus.documents.azure.com/";
        assert!(refusal(&forwarded, regional).is_some());
        forwarded.location_hosts.insert(".Documents.azure.com".to_owned());
        assert_eq!(refusal(&forwarded, regional), None);
        let mut custom = policy("https://cosmos.contoso.com/");
        custom.custom_endpoints.push(CONTOSO.parse().unwrap());
        assert_eq!(refusal(&custom, regional), None);
    }

    #[test]
    fn refused_locations_are_left_out_and_told() {
        let good = location("https://contoso-westus.documents.azure.com/");
        let bad = location("https://evil.com/");
        let properties = AccountProperties {
            writable_locations: vec![good.clone()],
            readable_locations: vec![good.clone(), bad.clone()],
            ..AccountProperties::default()
        };
        let (admitted, refused) = policy(CONTOSO).admit(properties);
        assert_eq!(admitted.writable_locations.len(), 1);
        assert_eq!(admitted.readable_locations, [good]);
        assert_eq!(refused, [(bad, LocationRefusal::ForeignHost)]);
    }

    #[test]
    fn without_discovery_only_the_configured_endpoint_is_left() {
        let both = vec![location("https://evil.com/"), location("https://127.0.0.1:8081/")];
        let mut policy = policy("https://forwarded:8081");
        policy.is_discovery_enabled = false;
        for is_multi_write in [false, true] {
            let (admitted, refused) = policy.admit(AccountProperties {
                writable_locations: both.clone(),
                readable_locations: both.clone(),
                enable_multiple_write_locations: is_multi_write,
                ..AccountProperties::default()
            });
            assert!(admitted.readable_locations.is_empty() && refused.is_empty());
            assert_eq!(admitted.is_multi_write(), is_multi_write);
            let mut left = admitted.writable_locations.iter();
            assert!(left.all(|it| it.database_account_endpoint == "https://forwarded:8081"));
        }
    }
}

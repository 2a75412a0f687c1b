//! The host that an account advertises: a name or an address, and what URLs and certificates make of it.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use rustls::pki_types::ServerName;
use sidereal_protocol::RegionName;
use thiserror::Error;

/// Stands for the name of a region in a host.
const REGION: &str = "{region}";

/// A host under which clients reach the emulator: a DNS name or an IP address, without a port.
///
/// A name with `{region}` is a name for each region: `cosmos-{region}.example` is `cosmos-westus.example` for West US,
/// and `cosmos.example` for the account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdvertisedHost {
    account: ServerName<'static>,
    /// The pattern of the regions' hosts, with [`REGION`] for the name. Without one, they have the account's host.
    of_region: Option<Box<str>>,
}

/// A text that is not a host.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "expected a host that clients can connect to, such as localhost, 192.0.2.1 or cosmos-{REGION}.example, without a port"
)]
pub struct InvalidHost;

impl FromStr for AdvertisedHost {
    type Err = InvalidHost;

    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        if !text.contains(REGION) {
            return Ok(Self { account: server_name(text)?, of_region: None });
        }
        // The account's name is without the region and what divides it from the rest.
        let divided = [format!("-{REGION}"), format!("{REGION}-"), format!("{REGION}.")];
        let account = divided.iter().fold(text.to_owned(), |text, it| text.replace(it, ""));
        let host = Self { account: server_name(&account)?, of_region: Some(text.into()) };
        match host.for_region(&RegionName::from_static("West US")) == host {
            true => Err(InvalidHost),
            false => Ok(host),
        }
    }
}

/// Parses a host that clients can connect to.
fn server_name(text: &str) -> Result<ServerName<'static>, InvalidHost> {
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    match ServerName::try_from(bare.to_owned()).map_err(|_| InvalidHost)? {
        // Every interface is what a server listens on, not where a client connects to.
        ServerName::IpAddress(address) if IpAddr::from(address).is_unspecified() => {
            Err(InvalidHost)
        }
        name => Ok(name),
    }
}

impl AdvertisedHost {
    /// The host of a region; that of the account where the region's name makes no host.
    pub(crate) fn for_region(&self, region: &RegionName) -> Self {
        let of_region = self.of_region.as_deref();
        let name =
            of_region.and_then(|it| server_name(&it.replace(REGION, &region.normalized())).ok());
        name.map_or_else(|| self.clone(), |account| Self { account, of_region: None })
    }

    /// The name that a certificate for this host is made out to.
    pub(crate) fn server_name(&self) -> &ServerName<'static> {
        &self.account
    }

    /// Replaces the host of a URL: scheme and port stay.
    pub(crate) fn in_url(&self, url: &str) -> String {
        let (scheme, authority) = url.split_once("://").unwrap_or(("http", url));
        match port_of(authority) {
            Some(port) => format!("{scheme}://{self}:{port}"),
            None => format!("{scheme}://{self}"),
        }
    }
}

/// The port of an authority, if it has one; the last colon may also be one of an IPv6 address.
fn port_of(authority: &str) -> Option<&str> {
    let (_, port) = authority.rsplit_once(':')?;
    port.bytes().all(|byte| byte.is_ascii_digit()).then_some(port)
}

/// As it stands in a URL: an IPv6 address is in brackets (RFC 3986, section 3.2.2).
impl fmt::Display for AdvertisedHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.account {
            ServerName::IpAddress(address) => match IpAddr::from(*address) {
                IpAddr::V4(address) => write!(f, "{address}"),
                IpAddr::V6(address) => write!(f, "[{address}]"),
            },
            name => f.write_str(&name.to_str()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_takes_the_place_of_another_in_a_url() {
        for (host, url, expected) in [
            ("cosmos", "https://127.0.0.1:8081", "https://cosmos:8081"),
            ("192.0.2.1", "http://localhost", "http://192.0.2.1"),
            ("::1", "https://[2001:db8::2]:8081", "https://[::1]:8081"),
            ("[::1]", "https://[2001:db8::2]", "https://[::1]"),
            ("emulator.example", "https://a:1", "https://emulator.example:1"),
        ] {
            let host: AdvertisedHost = host.parse().unwrap();
            assert_eq!(host.in_url(url), expected);
        }
    }

    #[test]
    fn a_host_with_a_place_for_the_region_is_one_for_each() {
        let west = RegionName::from_static("West US");
        for (host, account, of_west) in [
            ("cosmos-{region}.example", "cosmos.example", "cosmos-westus.example"),
            ("{region}.localhost", "localhost", "westus.localhost"),
            ("{region}-cosmos", "cosmos", "westus-cosmos"),
            ("cosmos", "cosmos", "cosmos"),
        ] {
            let host: AdvertisedHost = host.parse().unwrap();
            assert_eq!(host.to_string(), account);
            assert_eq!(host.for_region(&west).to_string(), of_west);
            // A region whose name makes no valid host has the account's.
            let odd = "x".repeat(300).as_str().into();
            assert_eq!(host.for_region(&odd).to_string(), account);
        }
    }

    #[test]
    fn what_clients_cannot_connect_to_is_no_host() {
        for text in [
            "",
            "0.0.0.0",
            "::",
            "a b",
            "host:8081",
            "https://host",
            "a/b",
            "[::1]:80",
            "-",
            "{region}",
            "a b-{region}",
        ] {
            assert_eq!(text.parse::<AdvertisedHost>(), Err(InvalidHost), "{text}");
        }
    }
}

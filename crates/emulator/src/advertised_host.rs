//! The host that an account advertises: a name or an address, and what URLs and certificates make of it.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use rustls::pki_types::ServerName;
use thiserror::Error;

/// A host under which clients reach the emulator: a DNS name or an IP address, without a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdvertisedHost(ServerName<'static>);

/// A text that is not a host.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error(
    "expected a host that clients can connect to, such as localhost or 192.0.2.1, without a port"
)]
pub struct InvalidHost;

impl FromStr for AdvertisedHost {
    type Err = InvalidHost;

    fn from_str(text: &str) -> Result<Self, InvalidHost> {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        let name = ServerName::try_from(bare.to_owned()).map_err(|_| InvalidHost)?;
        match &name {
            // Every interface is what a server listens on, not where a client connects to.
            ServerName::IpAddress(address) if IpAddr::from(*address).is_unspecified() => {
                Err(InvalidHost)
            }
            _ => Ok(Self(name)),
        }
    }
}

impl AdvertisedHost {
    /// The name that a certificate for this host is made out to.
    pub(crate) fn server_name(&self) -> &ServerName<'static> {
        &self.0
    }

    /// The same URL on this host: scheme and port stay.
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
        match &self.0 {
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
    fn what_clients_cannot_connect_to_is_no_host() {
        for text in
            ["", "0.0.0.0", "::", "a b", "host:8081", "https://host", "a/b", "[::1]:80", "-"]
        {
            assert_eq!(text.parse::<AdvertisedHost>(), Err(InvalidHost), "{text}");
        }
    }
}

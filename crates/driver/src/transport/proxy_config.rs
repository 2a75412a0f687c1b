//! The proxy of connections: address, credentials, and the hosts that bypass it.

use std::fmt;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::Uri;
use percent_encoding::percent_decode_str;
use sidereal_protocol::Secret;

/// An HTTP proxy that is asked for a tunnel (`CONNECT`).
///
/// The credentials in its address are kept for the proxy alone; they appear in no output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyConfig {
    host: String,
    port: u16,
    /// The value of `Proxy-Authorization`.
    authorization: Option<Secret>,
    bypass: Vec<String>,
}

impl ProxyConfig {
    /// Reads an address such as `http://user:password@proxy.contoso.com:3128`.
    ///
    /// # Errors
    ///
    /// A sentence about what was expected, which does not repeat the address.
    pub fn parse(address: &str) -> Result<Self, InvalidProxy> {
        let address = match address.contains("://") {
            true => address.to_owned(),
            false => format!("http://{address}"),
        };
        let uri: Uri = address.parse().map_err(|_| InvalidProxy("it is not a URI"))?;
        if uri.scheme_str() != Some("http") {
            return Err(InvalidProxy(
                "only proxies spoken to in cleartext (http://) are supported",
            ));
        }
        let host =
            uri.host().filter(|host| !host.is_empty()).ok_or(InvalidProxy("it has no host"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        // From the right: an unencoded `@` in a password still belongs to it.
        let credentials = uri.authority().and_then(|all| all.as_str().rsplit_once('@'));
        let authorization = credentials.map(|(credentials, _)| basic(credentials));
        Ok(Self { host, port: uri.port_u16().unwrap_or(80), authorization, bypass: Vec::new() })
    }

    /// Bypasses the proxy for these hosts: `contoso.com` and `.contoso.com` mean the domain and
    /// everything below it, `*` everything.
    #[must_use]
    pub fn bypassing<'a>(mut self, hosts: impl IntoIterator<Item = &'a str>) -> Self {
        let hosts = hosts.into_iter().map(|host| host.trim().trim_start_matches('.'));
        self.bypass = hosts.filter(|host| !host.is_empty()).map(str::to_ascii_lowercase).collect();
        self
    }

    /// The proxy that the environment names for encrypted connections, with its exceptions.
    ///
    /// # Errors
    ///
    /// The variable names something that is no proxy.
    pub fn from_lookup(
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, InvalidProxy> {
        // The lower-case spelling first, as curl has it.
        let either = |upper: &str| {
            lookup(&upper.to_ascii_lowercase())
                .or_else(|| lookup(upper))
                .filter(|value| !value.is_empty())
        };
        let Some(address) = either("HTTPS_PROXY").or_else(|| either("ALL_PROXY")) else {
            return Ok(None);
        };
        let exceptions = either("NO_PROXY").unwrap_or_default();
        Ok(Some(Self::parse(&address)?.bypassing(exceptions.split(','))))
    }

    /// The proxy's host.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The proxy's port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The value of `Proxy-Authorization`.
    pub(crate) fn authorization(&self) -> Option<&Secret> {
        self.authorization.as_ref()
    }

    /// Whether connections to a host go through the proxy.
    #[must_use]
    pub fn serves(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        !self.bypass.iter().any(|exception| {
            exception == "*"
                || host == *exception
                || host.strip_suffix(exception.as_str()).is_some_and(|rest| rest.ends_with('.'))
        })
    }
}

/// Basic authentication (RFC 7617). Base64 makes it a header value, whatever the password holds.
fn basic(credentials: &str) -> Secret {
    let plain = percent_decode_str(credentials).collect::<Vec<u8>>();
    // User-id and password are joined by a colon, also if one is empty (section 2).
    let plain = match plain.contains(&b':') {
        true => plain,
        false => [plain.as_slice(), b":"].concat(),
    };
    Secret::new(format!("Basic {}", STANDARD.encode(plain)))
}

/// An address that is no proxy; the sentence says why, and does not repeat the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidProxy(&'static str);

impl fmt::Display for InvalidProxy {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "the proxy's address cannot be used: {}; expected one such as http://proxy:3128",
            self.0
        )
    }
}

impl std::error::Error for InvalidProxy {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_are_sent_to_the_proxy_and_shown_to_nobody() {
        let proxy = ProxyConfig::parse("http://me:s%40cret@proxy.contoso.com:3128").unwrap();
        assert_eq!((proxy.host(), proxy.port()), ("proxy.contoso.com", 3128));
        assert_eq!(proxy.authorization().unwrap().expose_secret(), "Basic bWU6c0BjcmV0");
        let shown = format!("{proxy:?} {:?}", proxy.authorization());
        assert!(!shown.contains("s%40cret") && !shown.contains("bWU6"), "{shown}");
    }

    #[test]
    fn a_host_without_a_scheme_is_a_proxy_too() {
        let proxy = ProxyConfig::parse("proxy:3128").unwrap();
        assert_eq!((proxy.host(), proxy.port(), proxy.authorization()), ("proxy", 3128, None));
    }

    #[test]
    fn what_is_no_proxy_is_refused_without_repeating_it() {
        for bad in ["https://hunter2@proxy", "socks5://hunter2@proxy", "http://", "http://hunter2@"]
        {
            let error = ProxyConfig::parse(bad).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn exceptions_are_a_host_and_everything_below_it() {
        let proxy = ProxyConfig::parse("proxy:1").unwrap().bypassing([".contoso.com", "localhost"]);
        assert!(!proxy.serves("contoso.com") && !proxy.serves("A.Contoso.com"));
        assert!(!proxy.serves("localhost"));
        assert!(proxy.serves("notcontoso.com"));
        assert!(!ProxyConfig::parse("proxy:1").unwrap().bypassing(["*"]).serves("any"));
    }

    #[test]
    fn the_environment_names_the_proxy_and_its_exceptions() {
        let lookup = |name: &str| match name {
            "HTTPS_PROXY" => Some("http://upper:1".to_owned()),
            "https_proxy" => Some("http://lower:2".to_owned()),
            "NO_PROXY" => Some("localhost, .internal".to_owned()),
            _ => None,
        };
        let proxy = ProxyConfig::from_lookup(lookup).unwrap().unwrap();
        assert_eq!((proxy.host(), proxy.port()), ("lower", 2));
        assert!(!proxy.serves("db.internal"));
        assert_eq!(ProxyConfig::from_lookup(|_| None), Ok(None));
    }
}

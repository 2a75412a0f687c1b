//! Where requests are sent: a scheme, a host and a port.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};

use super::{HttpError, HttpErrorKind, RequestSentStatus};

/// The most endpoints of an account that tables by endpoint have room for. More regions than any account has.
pub(crate) const MAX_ENDPOINT_SLOTS: usize = 64;

/// An address of an account: what connections are made to, and what pools are kept by.
///
/// Two endpoints are equal if scheme, host and port are, whatever path they were written with. Cloning
/// one copies no text.
#[derive(Clone)]
pub struct Endpoint(Arc<EndpointParts>);

struct EndpointParts {
    /// `https://host:port`, in lower case and with the port.
    text: String,
    scheme: Scheme,
    authority: Authority,
    host: String,
    port: u16,
    is_loopback: bool,
}

impl Endpoint {
    /// The endpoint of a URI.
    ///
    /// # Errors
    ///
    /// [`HttpErrorKind::InvalidRequest`] if the URI has no host, or a scheme other than `https` and `http`.
    pub fn of(uri: &Uri) -> Result<Self, HttpError> {
        let refuse = |why: &str| {
            HttpError::new(
                HttpErrorKind::InvalidRequest,
                RequestSentStatus::NotSent,
                format!("\"{}\" is not an endpoint: {why}", without_credentials(uri)),
            )
        };
        let scheme = uri.scheme().cloned().ok_or_else(|| refuse("it must begin with https://"))?;
        let default_port = match scheme.as_str() {
            "https" => 443,
            "http" => 80,
            _ => return Err(refuse("only https:// and http:// are spoken")),
        };
        // Hosts compare without regard to case (RFC 3986, section 6.2.2.1), and pools are kept by endpoint.
        let host = uri.host().ok_or_else(|| refuse("it has no host"))?.to_ascii_lowercase();
        let port = uri.port_u16().unwrap_or(default_port);
        // The default port is left out of `Host` and `:authority` (RFC 9110, section 4.2.3): some gateways
        // route by the exact text.
        let authority = match port == default_port {
            true => Authority::try_from(host.as_str()),
            false => Authority::try_from(format!("{host}:{port}")),
        };
        let authority = authority.map_err(|_| refuse("its host cannot be read"))?;
        let text = format!("{scheme}://{host}:{port}");
        let is_loopback = is_loopback(without_brackets(&host));
        Ok(Self(Arc::new(EndpointParts { text, scheme, authority, host, port, is_loopback })))
    }

    /// Scheme, host and port, such as `https://contoso.documents.azure.com:443`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// Whether connections are encrypted.
    #[must_use]
    pub fn is_tls(&self) -> bool {
        self.0.scheme == Scheme::HTTPS
    }

    /// The host, an IPv6 address without its brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        without_brackets(&self.0.host)
    }

    /// Whether it is on this machine: a loopback address, or a name that means one (RFC 6761, section 6.3).
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        self.0.is_loopback
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.0.port
    }

    /// Host and port as HTTP writes them; the scheme's own port is left out.
    #[must_use]
    pub fn authority(&self) -> &Authority {
        &self.0.authority
    }

    /// The address of a path at this endpoint.
    #[must_use]
    pub fn uri(&self, path: PathAndQuery) -> Uri {
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(self.0.scheme.clone());
        parts.authority = Some(self.0.authority.clone());
        parts.path_and_query = Some(path);
        Uri::from_parts(parts).expect("a scheme, an authority and a path make a URI")
    }
}

fn without_brackets(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

fn is_loopback(host: &str) -> bool {
    let address = host.parse::<std::net::IpAddr>();
    address.is_ok_and(|it| it.is_loopback()) || host == "localhost" || host.ends_with(".localhost")
}

/// A URI with the part before the @ removed: it may hold a password.
fn without_credentials(uri: &Uri) -> String {
    let text = uri.to_string();
    match text.split_once('@') {
        Some((_, rest)) => format!("…@{rest}"),
        None => text,
    }
}

impl FromStr for Endpoint {
    type Err = HttpError;

    fn from_str(text: &str) -> Result<Self, HttpError> {
        let uri: Uri = text.parse().map_err(|_| {
            HttpError::new(
                HttpErrorKind::InvalidRequest,
                RequestSentStatus::NotSent,
                "an endpoint must be a URI such as https://contoso.documents.azure.com/",
            )
        })?;
        Self::of(&uri)
    }
}

impl PartialEq for Endpoint {
    fn eq(&self, other: &Self) -> bool {
        // The pointer first: on the hot path an endpoint is compared with its own clone.
        Arc::ptr_eq(&self.0, &other.0) || self.0.text == other.0.text
    }
}

impl Eq for Endpoint {}

impl Ord for Endpoint {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        // The pointer first, as in `eq`.
        match Arc::ptr_eq(&self.0, &other.0) {
            true => std::cmp::Ordering::Equal,
            false => self.0.text.cmp(&other.0.text),
        }
    }
}

impl PartialOrd for Endpoint {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl std::hash::Hash for Endpoint {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.text.hash(state);
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.text)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Endpoint({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_scheme_host_and_port_alone() {
        let endpoint: Endpoint = "https://Contoso.documents.azure.com/dbs/d".parse().unwrap();
        assert_eq!(endpoint.as_str(), "https://contoso.documents.azure.com:443");
        assert_eq!(Some(endpoint), "https://contoso.documents.azure.com:443".parse().ok());
    }

    #[test]
    fn loopback_is_this_machine_by_address_or_name() {
        let is_loopback = |url: &str| url.parse::<Endpoint>().unwrap().is_loopback();
        for own in ["http://127.0.0.9", "http://[::1]:1", "http://LOCALHOST", "http://a.localhost"]
        {
            assert!(is_loopback(own), "{own}");
        }
        for other in ["http://10.0.0.1", "http://notlocalhost", "http://localhost.contoso.com"] {
            assert!(!is_loopback(other), "{other}");
        }
    }

    #[test]
    fn a_path_is_put_behind_the_authority() {
        let endpoint: Endpoint = "http://127.0.0.1:8081".parse().unwrap();
        let uri = endpoint.uri(PathAndQuery::from_static("/dbs/d"));
        assert_eq!(uri, "http://127.0.0.1:8081/dbs/d");
        assert!(!endpoint.is_tls());
    }

    #[test]
    fn an_address_of_version_six_loses_its_brackets_as_a_host() {
        let endpoint: Endpoint = "https://[::1]:8081/".parse().unwrap();
        assert_eq!((endpoint.host(), endpoint.port()), ("::1", 8081));
        assert_eq!(endpoint.authority(), "[::1]:8081");
    }

    #[test]
    fn what_is_no_endpoint_is_refused_and_a_password_is_not_repeated() {
        for bad in ["contoso", "ftp://contoso/", "/dbs", ""] {
            let error = bad.parse::<Endpoint>().unwrap_err();
            assert_eq!(error.kind(), HttpErrorKind::InvalidRequest, "{bad}");
        }
        let error = "ftp://user:hunter2@contoso/".parse::<Endpoint>().unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}

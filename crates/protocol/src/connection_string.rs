//! Connection strings: `AccountEndpoint=…;AccountKey=…;`.

use std::str::FromStr;

use http::Uri;

use crate::auth::AccountKey;
use crate::error::{Error, ErrorKind, Result};
use crate::secret::Secret;

/// The endpoint and key of an account, as the portal hands them out.
///
/// `Debug` redacts the key, and every other setting, which may be a secret too. `Display` is not implemented:
/// printing would either leak the key or produce something that does not read back; see [`expose_secret`](Self::expose_secret).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionString {
    endpoint: Uri,
    key: AccountKey,
    other: Vec<(String, Secret)>,
}

impl ConnectionString {
    /// A connection string of these two parts; refuses an endpoint that is no URL of a host.
    pub fn new(endpoint: &str, key: AccountKey) -> Result<Self> {
        Ok(Self { endpoint: parse_endpoint(endpoint)?, key, other: Vec::new() })
    }

    /// The account's endpoint.
    pub fn endpoint(&self) -> &Uri {
        &self.endpoint
    }

    /// The account's key.
    pub fn key(&self) -> &AccountKey {
        &self.key
    }

    /// Any other setting, its name in any case.
    pub fn setting(&self, name: &str) -> Option<&str> {
        let (_, value) = self.other.iter().find(|(key, _)| key.eq_ignore_ascii_case(name))?;
        Some(value.expose_secret())
    }

    /// The whole text, key included; never print it.
    pub fn expose_secret(&self) -> String {
        let mut text =
            format!("AccountEndpoint={};AccountKey={};", self.endpoint, self.key.expose_secret());
        for (name, value) in &self.other {
            text.push_str(&format!("{name}={};", value.expose_secret()));
        }
        text
    }
}

impl FromStr for ConnectionString {
    type Err = Error;

    /// Reads `name=value` parts separated by semicolons; names in any case, each at most once.
    fn from_str(text: &str) -> Result<Self> {
        let mut parts: Vec<(String, Secret)> = Vec::new();
        for part in text.split(';').map(str::trim).filter(|part| !part.is_empty()) {
            // A part may hold the key, so it is not repeated in the message.
            let (name, value) =
                part.split_once('=').ok_or_else(|| refusal("a part of it has no ="))?;
            let (name, value) = (name.trim(), value.trim());
            if name.is_empty() {
                return Err(refusal("a part of it has no name"));
            }
            if parts.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
                return Err(refusal("a part of it appears twice"));
            }
            parts.push((name.to_owned(), Secret::new(value)));
        }
        let mut take = |name: &str| {
            let at = parts.iter().position(|(known, _)| known.eq_ignore_ascii_case(name))?;
            Some(parts.remove(at).1)
        };
        let endpoint =
            take("AccountEndpoint").ok_or_else(|| refusal("AccountEndpoint is missing"))?;
        let key = take("AccountKey").ok_or_else(|| refusal("AccountKey is missing"))?;
        let key = AccountKey::from_base64(key.expose_secret())
            .map_err(|error| refusal(&error.to_string()))?;
        Ok(Self { endpoint: parse_endpoint(endpoint.expose_secret())?, key, other: parts })
    }
}

fn parse_endpoint(text: &str) -> Result<Uri> {
    let refuse = || refusal("AccountEndpoint is not an http or https URL");
    let endpoint: Uri = text.parse().map_err(|_| refuse())?;
    match (endpoint.scheme_str(), endpoint.host()) {
        (Some("http" | "https"), Some(host)) if !host.is_empty() => Ok(endpoint),
        _ => Err(refuse()),
    }
}

fn refusal(why: &str) -> Error {
    let message = format!(
        "the connection string is not valid: {why}; expected AccountEndpoint=https://…;AccountKey=…;"
    );
    Error::new(ErrorKind::ConnectionString, message)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_come_in_any_case_and_order() {
        let text = " accountKEY=c2VjcmV0 ; ACCOUNTENDPOINT=https://x.documents.azure.com:443/;Database=shop";
        let parsed: ConnectionString = text.parse().unwrap();
        assert_eq!(parsed.endpoint().to_string(), "https://x.documents.azure.com:443/");
        assert_eq!(parsed.key().expose_secret(), "c2VjcmV0");
        assert_eq!(parsed.setting("database"), Some("shop"));
    }

    #[test]
    fn a_value_may_contain_equals_signs() {
        let parsed: ConnectionString =
            "AccountEndpoint=http://localhost:8081;AccountKey=YQ==".parse().unwrap();
        assert_eq!(parsed.key().expose_secret(), "YQ==");
    }

    #[test]
    fn a_refusal_says_which_part_without_repeating_the_key() {
        for (bad, expected) in [
            ("", "AccountEndpoint is missing"),
            ("AccountEndpoint=https://x/", "AccountKey is missing"),
            ("AccountEndpoint=x;AccountKey=c2VjcmV0", "http or https"),
            ("AccountEndpoint=ftp://x/;AccountKey=c2VjcmV0", "http or https"),
            ("AccountEndpoint=https://x/;AccountKey=c2VjcmV0;AccountKey=c2VjcmV0", "twice"),
            ("AccountEndpoint=https://x/;AccountKey=c2V!cmV0", "base64"),
            ("AccountEndpoint=https://x/;c2VjcmV0", "no ="),
        ] {
            let error = bad.parse::<ConnectionString>().unwrap_err().to_string();
            assert!(error.contains(expected) && !error.contains("c2V"), "{bad}: {error}");
        }
    }

    #[test]
    fn the_key_is_never_shown() {
        let parsed: ConnectionString =
            "AccountEndpoint=https://x/;AccountKey=c2VjcmV0".parse().unwrap();
        assert!(!format!("{parsed:?}").contains("c2V"));
    }

    proptest! {
        #[test]
        fn a_connection_string_reads_back(
            host in "[a-z][a-z0-9-]{0,20}",
            port: u16,
            secret in prop::collection::vec(any::<u8>(), 1..80),
            name in "[A-Z][a-z]{3,9}",
            value in "[a-zA-Z0-9=_-]{0,20}",
        ) {
            use base64::Engine as _;
            let key = base64::engine::general_purpose::STANDARD.encode(secret);
            let text = format!("AccountEndpoint=https://{host}:{port}/;AccountKey={key};{name}={value};");
            let parsed: ConnectionString = text.parse().unwrap();
            prop_assert_eq!(parsed.expose_secret(), text);
            prop_assert_eq!(parsed.expose_secret().parse(), Ok(parsed));
        }
    }
}

//! Authorization: an account key that signs, a token of Entra ID that is renewed, or a resource token.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::SystemTime;

use http::{HeaderValue, Method};
use sidereal_protocol::{AccountKey, SignedRequest};

use super::AuthorizationContext;
use super::credential::{Credential, resource_header};
use super::headers_policy::DateHeader;
use super::token_cache::TokenCache;
use crate::exchange::{Endpoint, HttpError, HttpErrorKind, RequestSentStatus};
use crate::options::OptionLayers;
use crate::system::TaskSpawner;

/// Puts the authorization on requests.
#[derive(Debug)]
pub struct AuthorizationPolicy {
    kind: Kind,
    /// Hosts beside this machine to which a key's signatures may go in cleartext.
    emulator_hosts: BTreeSet<String>,
}

/// The settings of authorization.
#[derive(Clone, Debug)]
pub struct AuthorizationOptions {
    /// The scope of Entra tokens.
    pub scope: Arc<str>,
    /// Hosts beside this machine that signatures of an account key may be sent to over `http://`.
    pub emulator_hosts: BTreeSet<String>,
}

impl From<&OptionLayers> for AuthorizationOptions {
    fn from(options: &OptionLayers) -> Self {
        let hosts = options.client_options().emulator_hosts().cloned();
        Self {
            scope: options.account().entra_scope().as_str().into(),
            emulator_hosts: hosts.unwrap_or_default(),
        }
    }
}

#[derive(Debug)]
enum Kind {
    Key(AccountKey),
    Fixed(HeaderValue),
    Tokens(TokenCache),
}

impl AuthorizationPolicy {
    /// Authorizes with a credential; tokens are fetched in tasks of the spawner's owner.
    #[must_use]
    pub fn new(credential: Credential, options: AuthorizationOptions, tasks: &TaskSpawner) -> Self {
        let AuthorizationOptions { scope, emulator_hosts } = options;
        let kind = match credential {
            Credential::Key(key) => Kind::Key(key),
            Credential::Resource(signature) => Kind::Fixed(
                resource_header(&signature).expect("a percent-encoded signature is a header"),
            ),
            Credential::Entra(source) => {
                Kind::Tokens(TokenCache::new(source, scope, tasks.clone()))
            }
        };
        Self { kind, emulator_hosts }
    }

    /// Whether a new credential can be fetched where the old one was refused.
    #[must_use]
    pub fn is_renewable(&self) -> bool {
        matches!(self.kind, Kind::Tokens(_))
    }

    /// Refuses endpoints that are not encrypted: an eavesdropper could use a token (RFC 6750, section 5.2), or
    /// send another body with a signature, for as long as its date is valid.
    ///
    /// # Errors
    ///
    /// [`HttpErrorKind::InvalidRequest`] for cleartext, but to an emulator.
    pub(super) fn check_endpoint(&self, endpoint: &Endpoint) -> Result<(), HttpError> {
        if endpoint.is_tls() || endpoint.is_loopback() {
            return Ok(());
        }
        let is_named =
            || self.emulator_hosts.iter().any(|host| host.eq_ignore_ascii_case(endpoint.host()));
        let sentence = match self.kind {
            Kind::Tokens(_) | Kind::Fixed(_) => {
                "a token is sent over https:// only: anyone who reads it on the way could use it"
                    .into()
            }
            // The key of an emulator is published: a signature with it protects nothing.
            Kind::Key(_) if is_named() => return Ok(()),
            Kind::Key(_) => Cow::Owned(format!(
                "an account key is used over https:// only, and {endpoint} is neither that nor an \
                 emulator on this machine: write https://, or name the host of an emulator in \
                 client_options.emulator_hosts"
            )),
        };
        Err(HttpError::new(HttpErrorKind::InvalidRequest, RequestSentStatus::NotSent, sentence))
    }

    /// The authorization of a request.
    pub(super) async fn authorize(
        &self,
        method: &Method,
        context: &AuthorizationContext,
        date: &DateHeader,
        now: SystemTime,
    ) -> Result<HeaderValue, HttpError> {
        match &self.kind {
            Kind::Key(key) => Ok(key.authorize(&SignedRequest::new(
                method,
                context.resource_type,
                &context.signed_link,
                date.signed.as_lower(),
            ))),
            // Shares its bytes: a clone copies no text.
            Kind::Fixed(value) => Ok(value.clone()),
            Kind::Tokens(cache) => cache.header(now).await,
        }
    }

    /// Invalidates the token that was refused, so that the next request fetches one with the claims that the
    /// service demands. Says whether another token is there or will be: a token that was fetched a moment ago
    /// for the same reason is kept.
    pub(super) fn renew(&self, refused: Option<&HeaderValue>, claims: Option<Arc<str>>) -> bool {
        match &self.kind {
            Kind::Tokens(cache) => cache.renew(refused, claims),
            Kind::Key(_) | Kind::Fixed(_) => false,
        }
    }
}

#[cfg(test)]
mod tests;

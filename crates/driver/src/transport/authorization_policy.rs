//! Authorization: an account key that signs, a token of Entra ID that is renewed, or a resource token.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;

use http::{HeaderValue, Method};
use sidereal_protocol::{AccountKey, AuthorizationToken, Secret, SignedRequest};

use super::headers_policy::DateHeader;
use super::token_cache::TokenCache;
use super::{AuthorizationContext, Endpoint, HttpError, HttpErrorKind, RequestSentStatus};
use crate::options::OptionLayers;
use crate::system::TaskSpawner;

/// What requests are authorized with. It appears in no output.
#[derive(Clone)]
pub enum Credential {
    /// The key of the account: every request is signed.
    Key(AccountKey),
    /// Tokens of Entra ID, fetched from their source and renewed in time.
    Entra(Arc<dyn AccessTokenSource>),
    /// The signature of a resource token, which the service made for one user and resource.
    Resource(Secret),
}

impl Credential {
    /// A resource token, as the service gave it.
    ///
    /// # Errors
    ///
    /// The token cannot be sent as a header.
    pub fn resource_token(token: &str) -> Result<Self, sidereal_protocol::Error> {
        // The service hands out the whole header text; callers also keep the signature alone.
        let signature = token.rsplit_once("sig=").map_or(token, |(_, signature)| signature);
        let signature = Secret::new(signature);
        // Checked here, where the caller can do something about it.
        resource_header(&signature)?;
        Ok(Self::Resource(signature))
    }
}

fn resource_header(signature: &Secret) -> Result<HeaderValue, sidereal_protocol::Error> {
    AuthorizationToken::Resource { signature: signature.clone() }.header_value()
}

/// By hand, because a source of tokens need not be `Debug`, and what it would print is not ours to trust.
impl fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Key(_) => "Credential::Key",
            Self::Entra(_) => "Credential::Entra",
            Self::Resource(_) => "Credential::Resource",
        })
    }
}

/// Where access tokens come from.
pub trait AccessTokenSource: Send + Sync {
    /// Fetches a fresh token: not one from a cache that the service has refused.
    fn fetch<'a>(&'a self, request: &'a TokenRequest) -> AccessTokenFuture<'a>;
}

/// The reason why a token is fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TokenRequest {
    /// The scope, such as `https://cosmos.azure.com/.default`: see `CosmosAccountOptions::entra_scope`.
    pub scope: Arc<str>,
    /// The claims that the service demands (JSON), if it has refused a token for the lack of them: continuous
    /// access evaluation (CAE).
    pub claims: Option<Arc<str>>,
}

/// A token that is on its way.
pub type AccessTokenFuture<'a> = Pin<
    Box<
        dyn Future<Output = Result<AccessToken, Box<dyn std::error::Error + Send + Sync>>>
            + Send
            + 'a,
    >,
>;

/// A token and its expiry.
#[derive(Clone, Debug)]
pub struct AccessToken {
    /// The token.
    pub secret: Secret,
    /// When it expires.
    pub expires_on: SystemTime,
}

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

    /// Whether requests may be sent to an endpoint: whoever reads a token could use it (RFC 6750, section 5.2), and
    /// whoever reads a signature could send another body with it, for as long as its date is valid.
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
                "a token is sent over https:// only: whoever reads it on the way could use it"
                    .into()
            }
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

#[cfg(feature = "entra")]
mod entra {
    use azure_core::credentials::TokenCredential;
    use sidereal_protocol::Secret;

    use super::{AccessToken, AccessTokenFuture, AccessTokenSource, Arc, Credential, TokenRequest};

    impl Credential {
        /// A credential of the Azure SDK.
        #[must_use]
        pub fn entra(credential: Arc<dyn TokenCredential>) -> Self {
            Self::Entra(Arc::new(AzureCredential(credential)))
        }
    }

    struct AzureCredential(Arc<dyn TokenCredential>);

    impl AccessTokenSource for AzureCredential {
        fn fetch<'a>(&'a self, request: &'a TokenRequest) -> AccessTokenFuture<'a> {
            Box::pin(async {
                // The SDK's options have no field for claims, so the token is fetched without them.
                let token = self.0.get_token(&[&request.scope], None).await?;
                Ok(AccessToken {
                    secret: Secret::new(token.token.secret()),
                    expires_on: token.expires_on.into(),
                })
            })
        }
    }
}

#[cfg(test)]
mod tests;

//! Authorization: an account key that signs, a token of Entra ID that is renewed, or a resource token.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;

use http::{HeaderValue, Method};
use sidereal_protocol::{AccountKey, AuthorizationToken, Secret, SignedRequest};

use super::headers_policy::DateHeader;
use super::token_cache::TokenCache;
use super::{AuthorizationContext, HttpError};
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

/// What a token is fetched for.
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
pub struct AuthorizationPolicy(Kind);

#[derive(Debug)]
enum Kind {
    Key(AccountKey),
    Fixed(HeaderValue),
    Tokens(TokenCache),
}

impl AuthorizationPolicy {
    /// Authorizes with a credential; tokens for the scope are fetched in tasks of the spawner's owner.
    #[must_use]
    pub fn new(credential: Credential, scope: &str, tasks: &TaskSpawner) -> Self {
        Self(match credential {
            Credential::Key(key) => Kind::Key(key),
            Credential::Resource(signature) => Kind::Fixed(
                resource_header(&signature).expect("a percent-encoded signature is a header"),
            ),
            Credential::Entra(source) => {
                Kind::Tokens(TokenCache::new(source, scope.into(), tasks.clone()))
            }
        })
    }

    /// Whether a new credential can be fetched where the old one was refused.
    #[must_use]
    pub fn is_renewable(&self) -> bool {
        matches!(self.0, Kind::Tokens(_))
    }

    /// Whether what is sent could be used by whoever reads it (RFC 6750, section 5.2), unlike a signature of
    /// one request.
    #[must_use]
    pub fn is_bearer(&self) -> bool {
        matches!(self.0, Kind::Tokens(_) | Kind::Fixed(_))
    }

    /// The authorization of a request.
    pub(super) async fn authorize(
        &self,
        method: &Method,
        context: &AuthorizationContext,
        date: &DateHeader,
        now: SystemTime,
    ) -> Result<HeaderValue, HttpError> {
        match &self.0 {
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
        match &self.0 {
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

//! Credentials: an account key, a source of access tokens, or a resource token.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::SystemTime;

use http::HeaderValue;
use sidereal_protocol::{AccountKey, AuthorizationToken, Secret};

/// The credential of an account. Never printed.
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
    /// `sidereal_protocol::ErrorKind::Authorization` if the token cannot be sent as a header.
    pub fn resource_token(token: &str) -> Result<Self, sidereal_protocol::Error> {
        // The service hands out the whole header text; callers also keep the signature alone.
        let signature = token.rsplit_once("sig=").map_or(token, |(_, signature)| signature);
        let signature = Secret::new(signature);
        // Checked here, where the caller can do something about it.
        resource_header(&signature)?;
        Ok(Self::Resource(signature))
    }
}

/// The header of a resource token.
pub(super) fn resource_header(signature: &Secret) -> Result<HeaderValue, sidereal_protocol::Error> {
    AuthorizationToken::Resource { signature: signature.clone() }.header_value()
}

/// By hand, because a source of tokens need not be `Debug`, and its output could hold secrets.
impl fmt::Debug for Credential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Key(_) => "Credential::Key",
            Self::Entra(_) => "Credential::Entra",
            Self::Resource(_) => "Credential::Resource",
        })
    }
}

/// A source of access tokens of Entra ID.
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

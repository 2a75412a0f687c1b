//! Authorization: an account key that signs, a token of Entra ID that is renewed, or a resource token.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwapOption;
use http::{HeaderValue, Method};
use sidereal_protocol::{AccountKey, AuthorizationToken, Secret, SignedRequest};
use tokio::sync::Semaphore;

use super::headers_policy::DateHeader;
use super::{AuthorizationContext, HttpError, HttpErrorKind, RequestSentStatus};

/// A token is renewed this long before it expires, while the old one still serves. Entra's tokens live an
/// hour or more; five minutes cover several slow or failing fetches.
const RENEW_AHEAD: Duration = Duration::from_secs(5 * 60);

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
    /// A fresh token for the service.
    fn fetch(&self) -> AccessTokenFuture<'_>;
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
    /// Authorizes with a credential.
    #[must_use]
    pub fn new(credential: Credential) -> Self {
        Self(match credential {
            Credential::Key(key) => Kind::Key(key),
            Credential::Resource(signature) => Kind::Fixed(
                resource_header(&signature).expect("a percent-encoded signature is a header"),
            ),
            Credential::Entra(source) => Kind::Tokens(TokenCache::new(source)),
        })
    }

    /// Whether a new credential can be fetched where the old one was refused.
    #[must_use]
    pub fn is_renewable(&self) -> bool {
        matches!(self.0, Kind::Tokens(_))
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

    /// Invalidates the token that was refused, so that the next request fetches one.
    pub(super) fn invalidate(&self, refused: Option<&HeaderValue>) {
        if let Kind::Tokens(cache) = &self.0 {
            cache.invalidate(refused);
        }
    }
}

/// The token in use, replaced whole. Fetching is single-flight.
struct TokenCache {
    source: Arc<dyn AccessTokenSource>,
    current: ArcSwapOption<CachedToken>,
    /// Set by the request that renews ahead of time; the others go on with the old token.
    is_renewing: AtomicBool,
    /// One permit: requests without a token wait for the one that fetches it. A semaphore, since a request
    /// that is cancelled while it fetches must let the next one try.
    fetching: Semaphore,
}

struct CachedToken {
    header: HeaderValue,
    expires_on: SystemTime,
}

impl TokenCache {
    fn new(source: Arc<dyn AccessTokenSource>) -> Self {
        Self {
            source,
            current: ArcSwapOption::empty(),
            is_renewing: AtomicBool::new(false),
            fetching: Semaphore::new(1),
        }
    }

    async fn header(&self, now: SystemTime) -> Result<HeaderValue, HttpError> {
        let current = self.current.load_full();
        let Some(token) = current.filter(|token| token.expires_on > now) else {
            return self.fetch_single_flight(now).await;
        };
        // Acquire: pairs with the Release of `RenewalGuard`; who wins the flag sees the token that the last
        // renewal stored.
        if token.expires_on > now + RENEW_AHEAD || self.is_renewing.swap(true, Ordering::AcqRel) {
            return Ok(token.header.clone());
        }
        let renewing = RenewalGuard(&self.is_renewing);
        let renewed = self.fetch().await;
        drop(renewing);
        match renewed {
            Ok(header) => Ok(header),
            Err(error) => {
                tracing::warn!(%error, "token renewal failed; the current token is used until it expires");
                Ok(token.header.clone())
            }
        }
    }

    /// Fetches a token, single-flight: requests that come meanwhile wait and take it too.
    async fn fetch_single_flight(&self, now: SystemTime) -> Result<HeaderValue, HttpError> {
        let _permit = self.fetching.acquire().await.expect("nobody closes it");
        // Looked at again: the holder of the permit before us may have fetched it.
        if let Some(token) = self.current.load_full().filter(|token| token.expires_on > now) {
            return Ok(token.header.clone());
        }
        self.fetch().await
    }

    async fn fetch(&self) -> Result<HeaderValue, HttpError> {
        let failed = |sentence: &'static str| {
            HttpError::new(HttpErrorKind::InvalidRequest, RequestSentStatus::NotSent, sentence)
        };
        let token = self.source.fetch().await.map_err(|error| {
            // The source's own text may quote a secret: it stays in the error's `source`, and logs and
            // diagnostics leave it out.
            failed("the credential gave no token: check its identity and its permissions")
                .caused_by(SourceFailure(error))
        })?;
        let header = AuthorizationToken::Entra { access_token: token.secret }
            .header_value()
            .map_err(|_| failed("the credential gave a token that cannot be sent as a header"))?;
        let cached = CachedToken { header: header.clone(), expires_on: token.expires_on };
        self.current.store(Some(Arc::new(cached)));
        Ok(header)
    }

    fn invalidate(&self, refused: Option<&HeaderValue>) {
        let current = self.current.load();
        // Compared and swapped: another request may have fetched a new one already, which must stay.
        if let Some(token) = current.as_ref()
            && refused.is_none_or(|refused| *refused == token.header)
        {
            self.current.compare_and_swap(&current, None);
        }
    }
}

/// By hand, as for `Credential`.
impl fmt::Debug for TokenCache {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TokenCache").finish_non_exhaustive()
    }
}

/// Lets others renew again, also when the renewal is cancelled.
struct RenewalGuard<'a>(&'a AtomicBool);

impl Drop for RenewalGuard<'_> {
    fn drop(&mut self) {
        // Release: pairs with the Acquire of the swap that takes the flag.
        self.0.store(false, Ordering::Release);
    }
}

/// Why a source gave no token. A type of its own, because a boxed error is no `Error` itself.
#[derive(Debug)]
struct SourceFailure(Box<dyn std::error::Error + Send + Sync>);

impl fmt::Display for SourceFailure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

impl std::error::Error for SourceFailure {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

#[cfg(feature = "entra")]
mod entra {
    use azure_core::credentials::TokenCredential;
    use sidereal_protocol::{ENTRA_SCOPE, Secret};

    use super::{AccessToken, AccessTokenFuture, AccessTokenSource, Arc, Credential};

    impl Credential {
        /// A credential of the Azure SDK.
        #[must_use]
        pub fn entra(credential: Arc<dyn TokenCredential>) -> Self {
            Self::Entra(Arc::new(AzureCredential(credential)))
        }
    }

    struct AzureCredential(Arc<dyn TokenCredential>);

    impl AccessTokenSource for AzureCredential {
        fn fetch(&self) -> AccessTokenFuture<'_> {
            Box::pin(async {
                let token = self.0.get_token(&[ENTRA_SCOPE], None).await?;
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

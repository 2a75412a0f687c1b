//! Access tokens: fetched by one task for all requests, renewed ahead of their expiry.
//!
//! The fetch belongs to no request: it is a task of the driver's owner, so a caller that gives up does not
//! take it along, and a source that hangs holds up only those who have no valid token. After a failure the
//! source is left alone for a cool-down, in which the failure answers for it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwapOption;
use http::HeaderValue;
use sidereal_protocol::AuthorizationToken;
use tokio::sync::watch;

use super::credential::{AccessTokenSource, TokenRequest};
use crate::exchange::{HttpError, HttpErrorKind, RequestSentStatus};
use crate::system::{Clock, TaskSpawner};

/// A token is renewed this long before it expires, while the old one still serves. Entra's tokens live an
/// hour or more; five minutes cover several slow or failing fetches.
const RENEW_AHEAD: Duration = Duration::from_secs(5 * 60);

/// How long a source is not asked again after it failed: long enough that requests do not ask a failing
/// directory one by one, short beside the time that an outage of it lasts.
const COOL_DOWN: Duration = Duration::from_secs(2);

/// The longest that one fetch may take. A managed identity may take tens of seconds after a start.
const FETCH_TIMEOUT: Duration = Duration::from_secs(60);

/// The least age of a token that is replaced, but for the first one that the service refuses: a clock that runs
/// ahead, or a directory whose tokens the service refuses, must not cost a fetch per request. Short beside the
/// life of a token.
const MIN_AGE: Duration = Duration::from_secs(30);

/// The token in use, replaced whole. Fetching is single-flight.
pub(super) struct TokenCache {
    shared: Arc<TokenState>,
    tasks: TaskSpawner,
}

/// The state that the fetching task shares with requests.
struct TokenState {
    source: Arc<dyn AccessTokenSource>,
    scope: Arc<str>,
    /// The claims that the service demands of the next token, and that it refused the last one.
    refusal: ArcSwapOption<Refusal>,
    current: ArcSwapOption<CachedToken>,
    /// The last fetch, if it failed.
    failure: ArcSwapOption<Failure>,
    is_fetching: AtomicBool,
    /// The number of fetches that have ended. A watch: a subscriber from before the end sees it, however late it looks.
    ended: watch::Sender<u64>,
}

struct CachedToken {
    header: HeaderValue,
    expires_on: SystemTime,
    fetched_at: Instant,
    /// Why it was fetched, if the service had refused the one before it.
    refusal: Option<Arc<Refusal>>,
}

/// A token that the service refused.
#[derive(Debug, PartialEq, Eq)]
struct Refusal {
    /// The claims that it demands.
    claims: Option<Arc<str>>,
}

impl CachedToken {
    fn is_young(&self) -> bool {
        Clock::now().saturating_duration_since(self.fetched_at) < MIN_AGE
    }

    /// Whether it serves at a moment. One that was fetched just now does whatever its expiry: the clock here may
    /// run ahead, and the service decides.
    fn is_usable(&self, now: SystemTime) -> bool {
        self.expires_on > now || self.is_young()
    }
}

struct Failure {
    error: HttpError,
    /// Until then the source is not asked again.
    until: Instant,
}

impl TokenCache {
    /// A cache without a token; its fetches are tasks of the spawner's owner.
    pub(super) fn new(
        source: Arc<dyn AccessTokenSource>,
        scope: Arc<str>,
        tasks: TaskSpawner,
    ) -> Self {
        let shared = TokenState {
            source,
            scope,
            refusal: ArcSwapOption::empty(),
            current: ArcSwapOption::empty(),
            failure: ArcSwapOption::empty(),
            is_fetching: AtomicBool::new(false),
            ended: watch::Sender::new(0),
        };
        Self { shared: Arc::new(shared), tasks }
    }

    /// The header of a token that is valid at `now`. Only a request without one waits for a fetch.
    pub(super) async fn header(&self, now: SystemTime) -> Result<HeaderValue, HttpError> {
        if let Some(token) = self.valid_at(now) {
            if token.expires_on <= now + RENEW_AHEAD && !token.is_young() {
                // A failure is logged where it happens; the valid token serves meanwhile.
                let _ = self.start_fetch();
            }
            return Ok(token.header.clone());
        }
        // Each round is a fetch that another request's refusal invalidated meanwhile; the deadline bounds them.
        loop {
            // Before the second look: a fetch that ends after the look is then not missed.
            let mut ended = self.shared.ended.subscribe();
            if let Some(token) = self.valid_at(now) {
                return Ok(token.header.clone());
            }
            self.start_fetch()?;
            ended.changed().await.expect("the sender lives as long as the cache");
            if let Some(failure) = self.shared.failure.load_full() {
                return Err(failure.error.clone());
            }
            // Whatever its expiry: the source's clock may differ, and the service decides.
            if let Some(token) = self.shared.current.load_full() {
                return Ok(token.header.clone());
            }
        }
    }

    /// Forgets the token that was refused, so that the next request fetches one. Says whether there is or will be
    /// another.
    pub(super) fn renew(&self, refused: Option<&HeaderValue>, claims: Option<Arc<str>>) -> bool {
        let current = self.shared.current.load();
        let Some(token) = current.as_ref() else { return true };
        // Another request may have fetched a new one already, which must stay.
        if refused.is_some_and(|refused| *refused != token.header) {
            return true;
        }
        let refusal = Refusal { claims };
        // The second refusal in a row for the same reason: yet another token would be refused too.
        if token.is_young() && token.refusal.as_deref() == Some(&refusal) {
            return false;
        }
        // Before the token is gone: a request without one fetches the next for this reason.
        self.shared.refusal.store(Some(Arc::new(refusal)));
        self.shared.current.compare_and_swap(&current, None);
        true
    }

    fn valid_at(&self, now: SystemTime) -> Option<Arc<CachedToken>> {
        self.shared.current.load_full().filter(|token| token.is_usable(now))
    }

    /// Starts a fetch, unless one is under way. Within the cool-down, the last failure instead.
    fn start_fetch(&self) -> Result<(), HttpError> {
        if let Some(failure) = self.shared.failure.load_full()
            && Clock::now() < failure.until
        {
            return Err(failure.error.clone());
        }
        // AcqRel: pairs with the Release of `FetchGuard`; who wins the flag sees what the last fetch stored.
        if self.shared.is_fetching.swap(true, Ordering::AcqRel) {
            return Ok(());
        }
        let guard = FetchGuard { shared: Arc::clone(&self.shared), is_done: false };
        let started = self.tasks.spawn("token-fetch", guard.fetch());
        started.then_some(()).ok_or_else(|| {
            let sentence = "the driver is shut down: no token is fetched";
            HttpError::new(HttpErrorKind::Closed, RequestSentStatus::NotSent, sentence)
        })
    }
}

/// By hand: a source of tokens need not be `Debug`, and its output could hold secrets.
impl fmt::Debug for TokenCache {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("TokenCache").finish_non_exhaustive()
    }
}

/// One fetch. However it ends, also by a panic or an abort, it wakes the waiters and lets the next one begin.
struct FetchGuard {
    shared: Arc<TokenState>,
    is_done: bool,
}

impl FetchGuard {
    async fn fetch(mut self) {
        let refusal = self.shared.refusal.load_full();
        let claims = refusal.as_ref().and_then(|it| it.claims.clone());
        let request = TokenRequest { scope: Arc::clone(&self.shared.scope), claims };
        let fetching = token_from(&*self.shared.source, &request, refusal.clone());
        let outcome = match tokio::time::timeout(FETCH_TIMEOUT, fetching).await {
            Ok(outcome) => outcome,
            Err(_) => Err(fetch_error("the credential gave no token within a minute")),
        };
        match outcome {
            Ok(token) => {
                // Answered, unless another refusal came meanwhile.
                self.shared.refusal.compare_and_swap(&refusal, None);
                self.shared.current.store(Some(Arc::new(token)));
                self.shared.failure.store(None);
            }
            Err(error) => self.fail(error),
        }
        self.is_done = true;
    }

    fn fail(&self, error: HttpError) {
        tracing::warn!(%error, "no token was fetched; a valid one is used until it expires");
        let until = Clock::now() + COOL_DOWN;
        self.shared.failure.store(Some(Arc::new(Failure { error, until })));
    }
}

impl Drop for FetchGuard {
    fn drop(&mut self) {
        if !self.is_done {
            self.fail(fetch_error("fetching a token ended before it was done"));
        }
        // Release: pairs with the swap in `start_fetch`.
        self.shared.is_fetching.store(false, Ordering::Release);
        // Last: who is woken finds the outcome, and may fetch again.
        self.shared.ended.send_modify(|count| *count += 1);
    }
}

async fn token_from(
    source: &dyn AccessTokenSource,
    request: &TokenRequest,
    refusal: Option<Arc<Refusal>>,
) -> Result<CachedToken, HttpError> {
    let token = source.fetch(request).await.map_err(|error| {
        // The source's own text may quote a secret: it stays in the error's `source`, and logs and
        // diagnostics leave it out.
        fetch_error("the credential gave no token: check its identity and its permissions")
            .caused_by(SourceFailure(error))
    })?;
    let header = AuthorizationToken::Entra { access_token: token.secret }
        .header_value()
        .map_err(|_| fetch_error("the credential gave a token that cannot be sent as a header"))?;
    Ok(CachedToken { header, expires_on: token.expires_on, fetched_at: Clock::now(), refusal })
}

fn fetch_error(sentence: &'static str) -> HttpError {
    HttpError::new(HttpErrorKind::InvalidRequest, RequestSentStatus::NotSent, sentence)
}

/// The failure of a token source. A type of its own, because a boxed error does not implement `Error`.
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

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use sidereal_protocol::{AccountKey, ResourceType};

use super::*;
use crate::exchange::RequestSentStatus;
use crate::options::OptionLayers;
use crate::system::{BackgroundTaskManager, Clock};
use crate::transport::credential::{
    AccessToken, AccessTokenFuture, AccessTokenSource, Credential, TokenRequest,
};
use crate::transport::headers_policy::CosmosHeadersPolicy;

/// Gives `token-1`, `token-2` and so on, each good for an hour; or refuses.
#[derive(Default)]
struct Counting {
    fetched: AtomicU32,
    is_broken: AtomicBool,
}

impl AccessTokenSource for Counting {
    fn fetch<'a>(&'a self, _: &'a TokenRequest) -> AccessTokenFuture<'a> {
        Box::pin(async {
            let number = self.fetched.fetch_add(1, Ordering::SeqCst) + 1;
            tokio::task::yield_now().await;
            if self.is_broken.load(Ordering::SeqCst) {
                return Err("the directory is not reachable".into());
            }
            let expires_on = at(3_600 * u64::from(number));
            Ok(AccessToken { secret: format!("token-{number}").into(), expires_on })
        })
    }
}

fn at(seconds: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(seconds)
}

async fn authorize(policy: &AuthorizationPolicy, seconds: u64) -> Result<String, HttpError> {
    let headers = CosmosHeadersPolicy::new(&OptionLayers::default(), &Clock::system());
    let date = headers.date(at(1_493_254_272));
    let context = AuthorizationContext {
        resource_type: ResourceType::Database,
        signed_link: "dbs/ToDoList".into(),
    };
    let header = policy.authorize(&Method::GET, &context, &date, at(seconds)).await?;
    assert!(header.is_sensitive());
    Ok(header.to_str().unwrap().to_owned())
}

fn counting() -> (Arc<Counting>, Policy) {
    let source = Arc::new(Counting::default());
    let credential = Credential::Entra(Arc::clone(&source) as Arc<dyn AccessTokenSource>);
    (source, Policy::new(credential))
}

fn options() -> AuthorizationOptions {
    let emulator_hosts = BTreeSet::from(["Emulator".to_owned()]);
    AuthorizationOptions { scope: "https://scope".into(), emulator_hosts }
}

/// A policy and the owner of its fetches.
#[derive(Debug)]
struct Policy {
    policy: AuthorizationPolicy,
    tasks: BackgroundTaskManager,
}

impl Policy {
    fn new(credential: Credential) -> Self {
        let tasks = BackgroundTaskManager::new();
        Self { policy: AuthorizationPolicy::new(credential, options(), &tasks.spawner()), tasks }
    }

    /// Waits until no fetch is under way.
    async fn settled(&self) {
        while self.tasks.running() > 0 {
            tokio::task::yield_now().await;
        }
    }
}

impl std::ops::Deref for Policy {
    type Target = AuthorizationPolicy;

    fn deref(&self) -> &AuthorizationPolicy {
        &self.policy
    }
}

/// The example of the service's documentation of access control.
#[tokio::test]
async fn a_key_signs_the_documented_request_as_documented() {
    let key = AccountKey::from_base64(
        "dsZQi3KtZmCv1ljt3VNWNm7sQUF1y5rJfC6kv5JiwvW0EndXdDku/dkKBp8/ufDToSxLzR4y+O/0H/t4bQtVNw==",
    );
    let policy = Policy::new(Credential::Key(key.unwrap()));
    let header = authorize(&policy, 0).await.unwrap();
    assert!(header.ends_with("c09PEVJrgp2uQRkr934kFbTqhByc7TVr3OHyqlu%2Bc%2Bc%3D"), "{header}");
    assert!(!policy.is_renewable());
}

#[tokio::test(start_paused = true)]
async fn a_token_is_fetched_once_and_renewed_before_it_expires() {
    let (source, policy) = counting();
    for second in [0, 10, 3_299] {
        assert!(authorize(&policy, second).await.unwrap().ends_with("token-1"));
    }
    tokio::time::sleep(Duration::from_secs(3_299)).await;
    // The valid token serves while the next is fetched.
    assert!(authorize(&policy, 3_301).await.unwrap().ends_with("token-1"));
    policy.settled().await;
    assert!(authorize(&policy, 3_301).await.unwrap().ends_with("token-2"));
    assert_eq!(source.fetched.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn the_first_fetch_is_single_flight() {
    let (source, policy) = counting();
    let policy = Arc::new(policy);
    let asking = (0..20).map(|_| {
        let policy = Arc::clone(&policy);
        tokio::spawn(async move { authorize(&policy, 0).await.unwrap() })
    });
    for asked in asking.collect::<Vec<_>>() {
        assert!(asked.await.unwrap().ends_with("token-1"));
    }
    assert_eq!(source.fetched.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_cannot_be_renewed_serves_until_it_expires() {
    let (source, policy) = counting();
    authorize(&policy, 0).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3_500)).await;
    source.is_broken.store(true, Ordering::SeqCst);
    assert!(authorize(&policy, 3_500).await.unwrap().ends_with("token-1"));
    policy.settled().await;
    let error = authorize(&policy, 3_600).await.unwrap_err();
    assert_eq!(error.request_sent(), RequestSentStatus::NotSent);
    assert!(error.chain().contains("the directory is not reachable"));
}

#[tokio::test]
async fn a_refused_token_is_invalidated_unless_a_newer_one_is_there() {
    let (_, policy) = counting();
    let first = authorize(&policy, 0).await.unwrap();
    let first = HeaderValue::from_str(&first).unwrap();
    assert!(policy.renew(Some(&first), None));
    assert!(authorize(&policy, 0).await.unwrap().ends_with("token-2"));
    assert!(policy.renew(Some(&first), None));
    assert!(authorize(&policy, 0).await.unwrap().ends_with("token-2"));
}

/// Where the service refused every token, each request cost a fetch.
#[tokio::test(start_paused = true)]
async fn tokens_that_are_refused_in_a_row_are_not_fetched_one_by_one() {
    let (source, policy) = counting();
    let refuse = async |claims: Option<&str>| {
        let refused = HeaderValue::from_str(&authorize(&policy, 0).await.unwrap()).unwrap();
        policy.renew(Some(&refused), claims.map(Arc::from))
    };
    assert!(refuse(None).await);
    assert!(!refuse(None).await && !refuse(None).await);
    assert_eq!(source.fetched.load(Ordering::SeqCst), 2);
    // Another reason, and later the same again.
    assert!(refuse(Some("{}")).await);
    assert!(!refuse(Some("{}")).await);
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert!(refuse(Some("{}")).await);
    authorize(&policy, 0).await.unwrap();
    assert_eq!(source.fetched.load(Ordering::SeqCst), 4);
}

/// With a clock that ran ahead by more than a token's life, each request cost a fetch.
#[tokio::test(start_paused = true)]
async fn a_token_that_is_expired_by_our_clock_serves_for_a_while() {
    let (source, policy) = counting();
    for _ in 0..10 {
        assert!(authorize(&policy, 1_000_000).await.unwrap().ends_with("token-1"));
    }
    assert_eq!(source.fetched.load(Ordering::SeqCst), 1);
    tokio::time::sleep(Duration::from_secs(31)).await;
    assert!(authorize(&policy, 1_000_000).await.unwrap().ends_with("token-2"));
}

/// A source that never answers, or only after a while.
struct Slow {
    fetched: AtomicU32,
    after: Option<Duration>,
}

impl AccessTokenSource for Slow {
    fn fetch<'a>(&'a self, _: &'a TokenRequest) -> AccessTokenFuture<'a> {
        Box::pin(async {
            let number = self.fetched.fetch_add(1, Ordering::SeqCst) + 1;
            match (number, self.after) {
                // The first token comes at once, and is good for an hour.
                (1, None) => {}
                (_, None) => std::future::pending().await,
                (_, Some(after)) => tokio::time::sleep(after).await,
            }
            Ok(AccessToken { secret: format!("token-{number}").into(), expires_on: at(3_600) })
        })
    }
}

fn slow(after: Option<Duration>) -> (Arc<Slow>, Arc<Policy>) {
    let source = Arc::new(Slow { fetched: AtomicU32::new(0), after });
    let credential = Credential::Entra(Arc::clone(&source) as Arc<dyn AccessTokenSource>);
    (source, Arc::new(Policy::new(credential)))
}

/// With four minutes left and a directory that hung, every request waited for it until its deadline.
#[tokio::test(start_paused = true)]
async fn a_valid_token_serves_while_its_source_hangs() {
    let (source, policy) = slow(None);
    authorize(&policy, 0).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3_360)).await;
    for _ in 0..10 {
        let before = Clock::now();
        assert!(authorize(&policy, 3_360).await.unwrap().ends_with("token-1"));
        assert_eq!(Clock::now(), before, "no request waits");
        tokio::task::yield_now().await;
    }
    assert_eq!(source.fetched.load(Ordering::SeqCst), 2);
}

/// The first fetch died with its caller, and so did the next: of twenty callers none succeeded.
#[tokio::test(start_paused = true)]
async fn a_fetch_outlives_the_caller_that_started_it() {
    let (source, policy) = slow(Some(Duration::from_secs(3)));
    for _ in 0..2 {
        let impatient = tokio::time::timeout(Duration::from_secs(1), authorize(&policy, 0));
        assert!(impatient.await.is_err());
    }
    let patient = tokio::time::timeout(Duration::from_millis(1_500), authorize(&policy, 0));
    assert!(patient.await.expect("the first fetch has gone on").unwrap().ends_with("token-1"));
    assert_eq!(source.fetched.load(Ordering::SeqCst), 1);
}

/// A failing directory was asked by every waiter in turn.
#[tokio::test(start_paused = true)]
async fn a_failing_token_source_is_asked_once_and_then_cools_down() {
    let (source, policy) = counting();
    source.is_broken.store(true, Ordering::SeqCst);
    let policy = Arc::new(policy);
    let asking = (0..20).map(|_| {
        let policy = Arc::clone(&policy);
        tokio::spawn(async move { authorize(&policy, 0).await })
    });
    for asked in asking.collect::<Vec<_>>() {
        assert!(asked.await.unwrap().is_err());
    }
    assert!(authorize(&policy, 0).await.is_err());
    assert_eq!(source.fetched.load(Ordering::SeqCst), 1);
    source.is_broken.store(false, Ordering::SeqCst);
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(authorize(&policy, 0).await.unwrap().ends_with("token-2"));
}

#[tokio::test(start_paused = true)]
async fn a_source_that_hangs_for_a_minute_is_asked_again() {
    let (source, policy) = slow(None);
    authorize(&policy, 0).await.unwrap();
    tokio::time::sleep(Duration::from_secs(3_360)).await;
    assert!(authorize(&policy, 3_360).await.is_ok());
    tokio::time::sleep(Duration::from_secs(63)).await;
    assert!(authorize(&policy, 3_361).await.is_ok());
    tokio::task::yield_now().await;
    assert_eq!(source.fetched.load(Ordering::SeqCst), 3);
}

/// A key was used over any http:// URL, and a reader of the signature could send another body with it.
#[tokio::test]
async fn cleartext_is_for_emulators_alone() {
    let key = Policy::new(Credential::Key(AccountKey::from_base64("c2VjcmV0").unwrap()));
    let (_, tokens) = counting();
    let resource = Policy::new(Credential::resource_token("sig=abc").unwrap());
    let allowed = |policy: &Policy, url: &str| {
        let outcome = policy.check_endpoint(&url.parse().unwrap());
        outcome.map_err(|error| assert_eq!(error.kind(), HttpErrorKind::InvalidRequest)).is_ok()
    };
    for policy in [&key, &tokens, &resource] {
        for url in ["https://contoso.documents.azure.com", "http://localhost:8081", "http://[::1]"]
        {
            assert!(allowed(policy, url), "{url}");
        }
        assert!(!allowed(policy, "http://contoso.documents.azure.com"));
    }
    let emulator = "http://emulator:8081";
    assert!(
        allowed(&key, emulator) && !allowed(&tokens, emulator) && !allowed(&resource, emulator)
    );
}

#[tokio::test]
async fn after_a_shutdown_no_token_is_fetched() {
    let (source, policy) = counting();
    let _ = policy.tasks.shutdown(Duration::ZERO).await;
    let error = authorize(&policy, 0).await.unwrap_err();
    assert_eq!(error.kind(), crate::exchange::HttpErrorKind::Closed);
    assert_eq!(source.fetched.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_resource_token_is_sent_as_the_service_made_it() {
    let credential = Credential::resource_token("type=resource&ver=1&sig=abc+/=;x;").unwrap();
    let policy = Policy::new(credential);
    let header = authorize(&policy, 0).await.unwrap();
    assert_eq!(header, "type%3Dresource%26ver%3D1%26sig%3Dabc%2B%2F%3D%3Bx%3B");
}

#[tokio::test]
async fn no_credential_shows_its_secret() {
    let key = AccountKey::from_base64("c2VjcmV0a2V5").unwrap();
    let (_, tokens) = counting();
    authorize(&tokens, 0).await.unwrap();
    let token = AccessToken { secret: "token-9".into(), expires_on: at(0) };
    let shown = format!(
        "{:?} {:?} {tokens:?} {token:?} {:?}",
        Credential::Key(key.clone()),
        Policy::new(Credential::Key(key)),
        Policy::new(Credential::resource_token("sig=tellnoone").unwrap()),
    );
    for secret in ["c2Vj", "token-1", "token-9", "tellnoone"] {
        assert!(!shown.contains(secret), "{shown}");
    }
}

#[cfg(feature = "entra")]
mod entra {
    use azure_core::credentials::{
        AccessToken as AzureToken, TokenCredential, TokenRequestOptions,
    };
    use azure_core::time::OffsetDateTime;

    use super::*;

    /// A credential of the Azure SDK that writes down what it is asked for.
    #[derive(Debug)]
    struct Directory;

    #[async_trait::async_trait]
    impl TokenCredential for Directory {
        async fn get_token(
            &self,
            scopes: &[&str],
            _options: Option<TokenRequestOptions<'_>>,
        ) -> azure_core::Result<AzureToken> {
            assert_eq!(scopes, ["https://scope"]);
            Ok(AzureToken::new(
                "from-the-directory",
                OffsetDateTime::from_unix_timestamp(60).unwrap(),
            ))
        }
    }

    #[tokio::test]
    async fn a_credential_of_the_azure_sdk_is_asked_for_the_scope() {
        let policy = Policy::new(Credential::entra(Arc::new(Directory)));
        let header = authorize(&policy, 0).await.unwrap();
        assert_eq!(header, "type%3Daad%26ver%3D1.0%26sig%3Dfrom-the-directory");
        assert!(policy.is_renewable());
    }
}

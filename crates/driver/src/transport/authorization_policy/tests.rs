use std::sync::atomic::AtomicU32;
use std::time::UNIX_EPOCH;

use sidereal_protocol::ResourceType;

use super::*;
use crate::options::OptionLayers;
use crate::transport::headers_policy::CosmosHeadersPolicy;

/// Gives `token-1`, `token-2` and so on, each good for an hour; or refuses.
#[derive(Default)]
struct Counting {
    fetched: AtomicU32,
    is_broken: AtomicBool,
}

impl AccessTokenSource for Counting {
    fn fetch(&self) -> AccessTokenFuture<'_> {
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
    let headers = CosmosHeadersPolicy::new(&OptionLayers::default());
    let date = headers.date(at(1_493_254_272));
    let context = AuthorizationContext {
        resource_type: ResourceType::Database,
        signed_link: "dbs/ToDoList".to_owned(),
    };
    let header = policy.authorize(&Method::GET, &context, &date, at(seconds)).await?;
    assert!(header.is_sensitive());
    Ok(header.to_str().unwrap().to_owned())
}

fn counting() -> (Arc<Counting>, AuthorizationPolicy) {
    let source = Arc::new(Counting::default());
    let credential = Credential::Entra(Arc::clone(&source) as Arc<dyn AccessTokenSource>);
    (source, AuthorizationPolicy::new(credential))
}

/// The example of the service's documentation of access control.
#[tokio::test]
async fn a_key_signs_the_documented_request_as_documented() {
    let key = AccountKey::from_base64(
        "dsZQi3KtZmCv1ljt3VNWNm7sQUF1y5rJfC6kv5JiwvW0EndXdDku/dkKBp8/ufDToSxLzR4y+O/0H/t4bQtVNw==",
    );
    let policy = AuthorizationPolicy::new(Credential::Key(key.unwrap()));
    let header = authorize(&policy, 0).await.unwrap();
    assert!(header.ends_with("c09PEVJrgp2uQRkr934kFbTqhByc7TVr3OHyqlu%2Bc%2Bc%3D"), "{header}");
    assert!(!policy.is_renewable());
}

#[tokio::test]
async fn a_token_is_fetched_once_and_renewed_before_it_expires() {
    let (source, policy) = counting();
    for second in [0, 10, 3_299] {
        assert!(authorize(&policy, second).await.unwrap().ends_with("token-1"));
    }
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

#[tokio::test]
async fn a_token_that_cannot_be_renewed_serves_until_it_expires() {
    let (source, policy) = counting();
    authorize(&policy, 0).await.unwrap();
    source.is_broken.store(true, Ordering::SeqCst);
    assert!(authorize(&policy, 3_500).await.unwrap().ends_with("token-1"));
    let error = authorize(&policy, 3_600).await.unwrap_err();
    assert_eq!(error.request_sent(), RequestSentStatus::NotSent);
    assert!(error.chain().contains("the directory is not reachable"));
}

#[tokio::test]
async fn a_refused_token_is_invalidated_unless_a_newer_one_is_there() {
    let (_, policy) = counting();
    let first = authorize(&policy, 0).await.unwrap();
    let first = HeaderValue::from_str(&first).unwrap();
    policy.invalidate(Some(&first));
    assert!(authorize(&policy, 0).await.unwrap().ends_with("token-2"));
    policy.invalidate(Some(&first));
    assert!(authorize(&policy, 0).await.unwrap().ends_with("token-2"));
}

#[tokio::test]
async fn a_resource_token_is_sent_as_the_service_made_it() {
    let credential = Credential::resource_token("type=resource&ver=1&sig=abc+/=;x;").unwrap();
    let policy = AuthorizationPolicy::new(credential);
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
        AuthorizationPolicy::new(Credential::Key(key)),
        AuthorizationPolicy::new(Credential::resource_token("sig=tellnoone").unwrap()),
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
            assert_eq!(scopes, ["https://cosmos.azure.com/.default"]);
            Ok(AzureToken::new(
                "from-the-directory",
                OffsetDateTime::from_unix_timestamp(60).unwrap(),
            ))
        }
    }

    #[tokio::test]
    async fn a_credential_of_the_azure_sdk_is_asked_for_the_service_s_scope() {
        let policy = AuthorizationPolicy::new(Credential::entra(Arc::new(Directory)));
        let header = authorize(&policy, 0).await.unwrap();
        assert_eq!(header, "type%3Daad%26ver%3D1.0%26sig%3Dfrom-the-directory");
        assert!(policy.is_renewable());
    }
}

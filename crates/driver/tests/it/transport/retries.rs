//! Retries at the same endpoint and their limits: throttling, tokens, peers that stop reading.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use sidereal_driver::diagnostics::Phase;
use sidereal_driver::transport::internals::TransportOutcome;
use sidereal_driver::transport::{
    AccessToken, AccessTokenFuture, AccessTokenSource, Credential, HttpErrorKind,
    RequestSentStatus, TokenRequest,
};

use super::factory;
use sidereal_testing::fixture::{Executed, Setup, joined};
use sidereal_testing::peers::{Answer, Peer, Reply, ServedPeer, Speaks};

fn throttled(retry_after: &str) -> Reply {
    Answer::new(429, "").header("x-ms-retry-after-ms", retry_after).into()
}

/// A peer that throttles the first requests and answers those after them.
fn throttling_peer(first: usize, retry_after: &'static str) -> ServedPeer {
    Peer::cleartext(Speaks::Http2).serve(move |request| match request.ordinal {
        ordinal if ordinal < first => throttled(retry_after),
        _ => Answer::new(200, "served").header("x-ms-request-charge", "2.5").into(),
    })
}

/// The code of an error response.
fn refused(executed: &Executed) -> u16 {
    match &executed.outcome {
        TransportOutcome::HttpError(response) => response.status.code(),
        other => panic!("expected a refusal, got {other:?}"),
    }
}

#[tokio::test]
async fn throttling_is_retried_after_back_off_and_recorded() {
    let peer = throttling_peer(2, "2");
    let short = Duration::from_millis(1);
    let client = Setup::over(factory()).with(|setup| setup.budgets.backoff.initial = short).start();
    let executed = client.execute(client.write(&peer.url(), "/", "{}")).await;
    assert_eq!(executed.body(), "served");
    let attempts = executed.diagnostics.attempts();
    let codes: Vec<u16> = attempts.iter().map(|it| it.status.unwrap().code()).collect();
    assert_eq!(codes, [429, 429, 200]);
    let after = Some(Duration::from_millis(2));
    let waits: Vec<_> = attempts.iter().map(|it| it.decision.unwrap().after()).collect();
    assert_eq!(waits, [after, after, None]);
    assert_eq!(executed.diagnostics.charge(), 2.5);
    assert_eq!(peer.seen().accepted(), 1, "throttling says nothing about the connection");
}

/// An eavesdropper can use a token, unlike a signature of one request.
#[tokio::test]
async fn no_token_is_sent_in_cleartext_to_another_machine() {
    let token = Credential::resource_token("type=resource&ver=1&sig=tellnoone").unwrap();
    let client = Setup::over(factory()).with(|setup| setup.credential = token).start();
    let url = "http://192.0.2.1:8081";
    let executed = client.execute(client.read(url, "/")).await;
    assert_eq!(executed.error().kind(), HttpErrorKind::InvalidRequest);
    assert_eq!(executed.error().request_sent(), RequestSentStatus::NotSent);
    assert!(client.snapshot(url).shards.is_empty(), "no connection is made");
    let peer = throttling_peer(0, "");
    assert_eq!(client.execute(client.read(&peer.url(), "/")).await.body(), "served");
}

#[tokio::test]
async fn throttling_is_final_when_the_retries_are_used_up() {
    let peer = throttling_peer(usize::MAX, "0");
    let few = |setup: &mut Setup| {
        setup.budgets.throttle.retries.most = 3;
        setup.budgets.backoff.initial = Duration::from_millis(1);
    };
    let client = Setup::over(factory()).with(few).start();
    let executed = client.execute(client.read(&peer.url(), "/")).await;
    assert_eq!((refused(&executed), peer.seen().arrivals.len()), (429, 4));
}

#[tokio::test]
async fn a_wait_longer_than_the_budget_or_the_deadline_is_not_begun() {
    let peer = throttling_peer(usize::MAX, "3600000");
    let client = Setup::over(factory()).start();
    let executed = client.execute(client.read(&peer.url(), "/")).await;
    assert_eq!((refused(&executed), peer.seen().arrivals.len()), (429, 1));

    let peer = throttling_peer(usize::MAX, "20000");
    let mut request = client.read(&peer.url(), "/");
    request.deadline = Some(Instant::now() + Duration::from_secs(10));
    assert_eq!(refused(&client.execute(request).await), 429);
    assert_eq!(peer.seen().arrivals.len(), 1);
}

/// Tokens `token-1`, `token-2` and so on, or none.
#[derive(Default)]
struct Tokens {
    fetched: AtomicUsize,
    fails: bool,
    /// The claims that tokens were fetched with.
    claims: Mutex<Vec<String>>,
}

impl AccessTokenSource for Tokens {
    fn fetch<'a>(&'a self, request: &'a TokenRequest) -> AccessTokenFuture<'a> {
        assert_eq!(&*request.scope, "https://cosmos.azure.com/.default");
        self.claims.lock().unwrap().extend(request.claims.as_deref().map(str::to_owned));
        let number = self.fetched.fetch_add(1, Ordering::Relaxed) + 1;
        Box::pin(async move {
            if self.fails {
                return Err("secret-of-the-source".into());
            }
            let expires_on = SystemTime::now() + Duration::from_secs(3600);
            Ok(AccessToken { secret: format!("token-{number}").into(), expires_on })
        })
    }
}

/// A peer that takes one token and finds all others too old, and the source of both.
fn with_tokens(accepted: &'static str, tokens: Tokens) -> (ServedPeer, Arc<Tokens>, Setup) {
    let too_old = Answer::new(401, "").header("x-ms-substatus", "5006");
    refusing_with(too_old, accepted, tokens)
}

/// A peer that takes one token and answers all others with a refusal, and the source of both.
fn refusing_with(
    refusal: Answer,
    accepted: &'static str,
    tokens: Tokens,
) -> (ServedPeer, Arc<Tokens>, Setup) {
    let peer = Peer::cleartext(Speaks::Http2).serve(move |request| {
        match request.header("authorization").is_some_and(|it| it.contains(accepted)) {
            true => Reply::ok("served"),
            false => refusal.clone().into(),
        }
    });
    let tokens = Arc::new(tokens);
    let credential = Credential::Entra(Arc::clone(&tokens) as Arc<dyn AccessTokenSource>);
    let setup = Setup::over(factory()).with(|setup| setup.credential = credential);
    (peer, tokens, setup)
}

#[tokio::test]
async fn a_refused_token_is_renewed_once() {
    let (peer, tokens, setup) = with_tokens("token-2", Tokens::default());
    let client = setup.start();
    let executed = client.execute(client.write(&peer.url(), "/", "{}")).await;
    assert_eq!(executed.body(), "served");
    client.execute(client.read(&peer.url(), "/")).await.body();
    assert_eq!((tokens.fetched.load(Ordering::Relaxed), peer.seen().arrivals.len()), (2, 3));
}

/// A revoked token was used until it expired.
#[tokio::test]
async fn a_token_that_lacks_claims_is_renewed_with_them() {
    let challenge = "Bearer error=\"insufficient_claims\", claims=\"eyJhIjoxfQ==\"";
    let refusal = Answer::new(401, "").header("www-authenticate", challenge);
    let (peer, tokens, setup) = refusing_with(refusal, "token-2", Tokens::default());
    let client = setup.start();
    client.execute(client.read(&peer.url(), "/")).await.body();
    assert_eq!(*tokens.claims.lock().unwrap(), ["{\"a\":1}"]);
    assert_eq!(peer.seen().arrivals.len(), 2);
}

/// Each operation that does not exist for Entra took the token from all other requests.
#[tokio::test]
async fn an_operation_that_entra_has_not_renews_no_token() {
    let refusal = Answer::new(403, "").header("x-ms-substatus", "5300");
    let (peer, tokens, setup) = refusing_with(refusal, "no token is", Tokens::default());
    let client = setup.start();
    for _ in 0..3 {
        let executed = client.execute(client.read(&peer.url(), "/")).await;
        assert_eq!(refused(&executed), 403);
    }
    assert_eq!((tokens.fetched.load(Ordering::Relaxed), peer.seen().arrivals.len()), (1, 3));
}

#[tokio::test]
async fn a_new_token_that_is_refused_too_is_final() {
    let (peer, tokens, setup) = with_tokens("no token is", Tokens::default());
    let client = setup.start();
    let executed = client.execute(client.read(&peer.url(), "/")).await;
    assert_eq!((refused(&executed), peer.seen().arrivals.len()), (401, 2));
    assert_eq!(tokens.fetched.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_source_without_a_token_fails_the_request_before_it_is_sent() {
    let tokens = Tokens { fails: true, ..Tokens::default() };
    let (peer, _, setup) = with_tokens("token-1", tokens);
    let client = setup.start();
    let executed = client.execute(client.read(&peer.url(), "/")).await;
    assert_eq!(executed.error().kind(), HttpErrorKind::InvalidRequest);
    assert_eq!(executed.error().request_sent(), RequestSentStatus::NotSent);
    assert!(executed.error().to_string().contains("gave no token"), "{}", executed.error());
    let told = format!("{} {}", executed.diagnostics, executed.diagnostics.to_json());
    assert!(!told.contains("secret-of-the-source"), "{told}");
    assert_eq!(peer.seen().accepted(), 0);
}

#[tokio::test]
async fn a_peer_that_stops_reading_ends_at_the_deadline_and_blocks_nobody_else() {
    let peer = Peer::cleartext(Speaks::Http2).with_receive_buffer(16 * 1024);
    let peer = peer.serve(|_| Reply::ok("heard"));
    let client = Setup::over(factory()).shards(2, 1).start();
    client.get_ok(&peer.url(), "/ready").await;
    peer.stop_reading(0);
    let mut large = client.write(&peer.url(), "/large", Bytes::from(vec![b' '; 8 << 20]));
    large.deadline = Some(Instant::now() + Duration::from_millis(500));
    let large = tokio::spawn(client.execute(large));
    client.until_inflight(&peer.url(), 1).await;
    for _ in 0..20 {
        client.get_ok(&peer.url(), "/small").await;
    }
    let executed = joined(large).await;
    let TransportOutcome::DeadlineExceeded { phase, request_sent } = executed.outcome else {
        panic!("expected the deadline to pass, got {:?}", executed.outcome);
    };
    assert_eq!((phase, request_sent), (Phase::AwaitingAnswer, RequestSentStatus::MaybeSent));
    client.until_idle(&peer.url()).await;
    assert_eq!(peer.seen().accepted(), 2);
}

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use azure_core::http::AsyncRawResponse;
use azure_core::http::headers::Headers;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sidereal_testing::sdk::cleartext_client;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::sync::Notify;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::*;
use crate::diagnostics::{ExecutionContext, Phase};
use crate::options::OptionLayers;

/// The longest that anything is waited for; only a failing test waits so long.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A server on loopback. It says what it was asked, and is silent about `/silence`.
struct Server {
    endpoint: Endpoint,
    asked: Arc<Notify>,
    _serving: AbortOnDropHandle<()>,
}

impl Server {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = endpoint_of(&listener);
        let asked = Arc::new(Notify::new());
        let serving = tokio::spawn(serve(listener, Arc::clone(&asked)));
        Self { endpoint, asked, _serving: AbortOnDropHandle::new(serving) }
    }
}

fn endpoint_of(listener: &TcpListener) -> Endpoint {
    format!("http://{}", listener.local_addr().unwrap()).parse().unwrap()
}

async fn serve(listener: TcpListener, asked: Arc<Notify>) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let asked = Arc::clone(&asked);
        let service = service_fn(move |request| answer(request, Arc::clone(&asked)));
        let connection = hyper::server::conn::http1::Builder::new();
        connections.spawn(connection.serve_connection(TokioIo::new(stream), service));
    }
}

async fn answer(
    request: http::Request<Incoming>,
    asked: Arc<Notify>,
) -> Result<http::Response<Full<Bytes>>, Infallible> {
    asked.notify_one();
    if request.uri().path() == "/silence" {
        std::future::pending::<()>().await;
    }
    let (head, body) = request.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    let answer = http::Response::builder()
        .status(449)
        .header("x-asked", format!("{} {}", head.method, head.uri))
        .header("x-said", head.headers["x-ms-documentdb-partitionkey"].clone())
        .header("x-ms-request-charge", "2.83");
    Ok(answer.body(Full::new(body)).unwrap())
}

fn client(endpoint: &Endpoint) -> Arc<dyn HttpClient> {
    AzureCoreHttpClientFactory::new(cleartext_client).create(endpoint, &config())
}

fn config() -> HttpClientConfig {
    HttpClientConfig::data_plane(&OptionLayers::default()).unwrap()
}

fn diagnostics(endpoint: &Endpoint) -> RequestDiagnostics {
    let started = Instant::now();
    RequestDiagnostics::new(ExecutionContext::Initial, None, endpoint.clone(), started)
}

fn get(endpoint: &Endpoint, path: &str) -> HttpRequest {
    http::Request::get(endpoint.uri(path.parse().unwrap())).body(Bytes::new()).unwrap()
}

#[tokio::test]
async fn a_request_and_its_answer_pass_unchanged() {
    let server = Server::start().await;
    let (client, mut diagnostics) = (client(&server.endpoint), diagnostics(&server.endpoint));
    let uri = server.endpoint.uri("/dbs/shop/colls/a%20b/docs?x=%C3%A9".parse().unwrap());
    let body = Bytes::from(vec![7_u8; 100_000]);
    let request = http::Request::post(uri)
        .header("x-ms-documentdb-partitionkey", r#"["k\u00e9y"]"#)
        .body(body.clone())
        .unwrap();
    let answer = timeout(TIMEOUT, client.execute(request, &mut diagnostics)).await.unwrap();
    let answer = answer.unwrap();
    assert_eq!(answer.status().as_u16(), 449);
    assert_eq!(answer.headers()["x-asked"], "POST /dbs/shop/colls/a%20b/docs?x=%C3%A9");
    assert_eq!(answer.headers()["x-said"], r#"["k\u00e9y"]"#);
    assert_eq!(answer.headers()["x-ms-request-charge"], "2.83");
    assert_eq!(answer.into_body(), body);
    assert_eq!(diagnostics.request_sent, RequestSentStatus::MaybeSent);
    assert!(diagnostics.time_to_headers().is_some());
    assert_eq!(diagnostics.phase(), Phase::ReadingBody);
}

#[tokio::test]
async fn closing_ends_a_hanging_request_as_maybe_sent_and_refuses_the_next() {
    let server = Server::start().await;
    let (client, mut diagnostics) = (client(&server.endpoint), diagnostics(&server.endpoint));
    let hanging = client.execute(get(&server.endpoint, "/silence"), &mut diagnostics);
    let closing = async {
        server.asked.notified().await;
        client.close();
    };
    let both = async { tokio::join!(hanging, closing) };
    let (outcome, ()) = timeout(TIMEOUT, both).await.unwrap();
    let error = outcome.unwrap_err();
    let evicted = HttpErrorKind::Evicted;
    assert_eq!((error.kind(), error.request_sent()), (evicted, RequestSentStatus::MaybeSent));

    let error = client.execute(get(&server.endpoint, "/"), &mut diagnostics).await.unwrap_err();
    assert_eq!((error.kind(), error.request_sent()), (evicted, RequestSentStatus::NotSent));
}

#[tokio::test]
async fn a_refused_connection_is_told_from_a_lost_one() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = endpoint_of(&listener);
    let (client, mut diagnostics) = (client(&endpoint), diagnostics(&endpoint));
    let lost = client.execute(get(&endpoint, "/"), &mut diagnostics);
    let hanging_up = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.read_u8().await.unwrap();
    };
    let both = async { tokio::join!(lost, hanging_up) };
    let lost = timeout(TIMEOUT, both).await.unwrap().0.unwrap_err();
    drop(listener);
    let refused = client.execute(get(&endpoint, "/"), &mut diagnostics);
    let refused = timeout(TIMEOUT, refused).await.unwrap().unwrap_err();

    assert_eq!(lost.kind(), HttpErrorKind::ConnectionLost);
    assert_eq!(refused.kind(), HttpErrorKind::Connect);
    for error in [lost, refused] {
        assert_eq!(error.request_sent(), RequestSentStatus::MaybeSent, "{error:?}");
    }
}

#[tokio::test]
async fn what_the_sdk_cannot_express_is_refused_before_it_is_sent() {
    let endpoint: Endpoint = "http://127.0.0.1:1".parse().unwrap();
    let client = client(&endpoint);
    let mut odd_header = get(&endpoint, "/");
    odd_header.headers_mut().insert("x-odd", HeaderValue::from_bytes(b"\xff").unwrap());
    let mut odd_method = get(&endpoint, "/");
    *odd_method.method_mut() = http::Method::TRACE;
    // An item may be called "..": its path must not become that of its container.
    let odd_path = get(&endpoint, "/dbs/shop/colls/orders/docs/%2e%2e");
    for request in [odd_header, odd_method, odd_path] {
        let mut diagnostics = diagnostics(&endpoint);
        let error = client.execute(request, &mut diagnostics).await.unwrap_err();
        assert_eq!(error.kind(), HttpErrorKind::InvalidRequest, "{error}");
        assert_eq!(diagnostics.request_sent, RequestSentStatus::NotSent);
    }
}

#[test]
fn headers_of_the_same_name_are_joined() {
    let request = http::Request::get("http://127.0.0.1/").header("x-a", "1").header("x-a", "2");
    let request = azure_request(request.body(Bytes::new()).unwrap()).unwrap();
    let name = azure_core::http::headers::HeaderName::from_static("x-a");
    assert_eq!(request.headers().get_optional_str(&name), Some("1, 2"));
}

/// A response's body that arrives in pieces.
struct Pieces(VecDeque<&'static [u8]>);

impl Stream for Pieces {
    type Item = azure_core::Result<Bytes>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Ready(self.0.pop_front().map(|piece| Ok(Bytes::from_static(piece))))
    }
}

#[tokio::test]
async fn pieces_of_a_body_are_put_together_in_order() {
    let cases: [&[&'static [u8]]; 4] =
        [&[], &[b"one"], &[b"", b"o", b"n", b"", b"e"], &[b"on", b"e"]];
    for pieces in cases {
        let body = Box::pin(Pieces(pieces.iter().copied().collect()));
        let status = azure_core::http::StatusCode::Ok;
        let answer = AsyncRawResponse::new(status, Headers::new(), body);
        let whole = whole(answer.into_body(), 3).await.unwrap();
        assert_eq!(whole, pieces.concat(), "{pieces:?}");
    }
}

#[tokio::test]
async fn an_answer_over_the_limit_is_refused() {
    let body = |length| {
        let status = azure_core::http::StatusCode::Ok;
        AsyncRawResponse::from_bytes(status, Headers::new(), vec![0; length]).into_body()
    };
    assert_eq!(whole(body(10), 10).await.unwrap().len(), 10);
    let error = whole(body(11), 10).await.unwrap_err();
    assert_eq!(error.kind(), HttpErrorKind::ResponseTooLarge);
}

/// A truncated body was taken for the whole, since the peer had ended the stream without an error.
#[test]
fn a_body_is_truncated_if_it_is_shorter_than_its_content_length() {
    let truncated = |status: u16, length: &'static str| {
        let response = http::Response::builder().status(status).header("content-length", length);
        is_truncated(&response.body(Bytes::from_static(b"half")).unwrap())
    };
    assert!(truncated(200, "8"));
    // As long as it said, compressed on its way, without a body of its own, and no number at all.
    for (status, length) in [(200, "4"), (200, "2"), (304, "8"), (200, "some")] {
        assert!(!truncated(status, length), "{status} {length}");
    }
}

#[test]
fn each_client_has_a_fresh_one_of_the_sdk() {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let factory = AzureCoreHttpClientFactory::new(|| {
        MADE.fetch_add(1, Ordering::Relaxed);
        cleartext_client()
    });
    let endpoint = "http://127.0.0.1:1".parse().unwrap();
    let clients = [(); 3].map(|()| factory.create(&endpoint, &config()));
    assert_eq!((MADE.load(Ordering::Relaxed), clients.len()), (3, 3));
}

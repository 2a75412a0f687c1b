//! The server's bounds, with a test handler and limits short enough to reach.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{Handler, Limits, Listener, Server, ServerSetup};
use crate::certificate::{Certificate, CertificateNames};
use crate::outcome::ConnectionOutcome;

/// No test waits longer than this; it is far beyond what any of them needs.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A limit that a test waits for.
const SHORT: Duration = Duration::from_millis(50);

const PROBE: &str = "GET /probe HTTP/1.1\r\nhost: sidereal\r\n\r\n";

async fn start(
    limits: Limits,
    handler: impl Fn(Request<Bytes>) -> Response<Bytes> + Send + Sync + 'static,
) -> Server {
    let names = CertificateNames::new(Ipv4Addr::LOCALHOST.into(), None);
    let tls = Certificate::generate(SystemTime::now(), &names).unwrap().server_config().unwrap();
    let setup =
        ServerSetup { tls, handler: Synchronous(handler), limits, stop: CancellationToken::new() };
    let listener = Listener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
    Server::start(listener, setup).unwrap()
}

/// A function as a handler.
struct Synchronous<F>(F);

impl<F> Handler for Synchronous<F>
where
    F: Fn(Request<Bytes>) -> Response<Bytes> + Send + Sync + 'static,
{
    async fn handle(&self, request: Request<Bytes>) -> ConnectionOutcome {
        ConnectionOutcome::Response((self.0)(request))
    }
}

/// Answers with the method, the URI and the size of the body.
fn echo(request: Request<Bytes>) -> Response<Bytes> {
    let text = format!("{} {} {}", request.method(), request.uri(), request.body().len());
    Response::new(Bytes::from(text))
}

async fn connect(server: &Server) -> TcpStream {
    TcpStream::connect(server.address()).await.unwrap()
}

/// Reads the server's bytes until it closes the connection.
async fn read_to_end(stream: &mut TcpStream) -> String {
    let mut said = Vec::new();
    let read = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut said)).await;
    let _ = read.expect("the server closes the connection"); // A reset is an end as well.
    String::from_utf8(said).unwrap()
}

/// Reads the server's bytes up to and including `end`.
async fn read_until(stream: &mut TcpStream, end: &str) -> String {
    let mut said = Vec::new();
    while !String::from_utf8_lossy(&said).ends_with(end) {
        let read = tokio::time::timeout(TIMEOUT, stream.read_buf(&mut said)).await;
        assert_ne!(read.expect("the server answers").unwrap(), 0, "closed before {end:?}");
    }
    String::from_utf8(said).unwrap()
}

/// Sends a request head and body over HTTP/1.1 and reads the answer.
async fn exchange(server: &Server, head: &str, body: &[u8]) -> String {
    let mut stream = connect(server).await;
    let length = body.len();
    let head =
        format!("{head}host: sidereal\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    read_to_end(&mut stream).await
}

async fn exchange_http2(address: SocketAddr, request: Request<Full<Bytes>>) -> Response<Bytes> {
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let driver = tokio::spawn(connection);
    let response = sender.send_request(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    driver.abort();
    Response::from_parts(parts, body)
}

#[tokio::test]
async fn a_panicking_handler_answers_500_and_the_connection_lives_on() {
    let server = start(Limits::default(), |request| match request.uri().path() {
        "/panic" => panic!("as the test asks"),
        _ => echo(request),
    })
    .await;
    let mut stream = connect(&server).await;
    stream.write_all(b"GET /panic HTTP/1.1\r\nhost: sidereal\r\n\r\n").await.unwrap();
    let answer = read_until(&mut stream, "}").await;
    assert!(answer.starts_with("HTTP/1.1 500 "), "{answer}");
    assert!(answer.contains(r#""code":"InternalServerError""#), "{answer}");

    stream.write_all(PROBE.as_bytes()).await.unwrap();
    let answer = read_until(&mut stream, " 0").await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_request_does_not_hold_up_the_others_of_its_connection() {
    let (release, released) = std::sync::mpsc::channel::<()>();
    let released = Mutex::new(released);
    let server = start(Limits::default(), move |request| {
        if request.method() == Method::POST {
            let released = released.lock().unwrap();
            released.recv_timeout(TIMEOUT).expect("the other request is answered meanwhile");
        }
        echo(request)
    })
    .await;
    let stream = connect(&server).await;
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let driver = tokio::spawn(connection);
    let uri = format!("http://{}/", server.address());
    let body = Full::new(Bytes::from_static(b"query"));
    let slow = tokio::spawn(sender.send_request(Request::post(&uri).body(body).unwrap()));
    let quick = sender.send_request(Request::get(&uri).body(Full::default()).unwrap());
    let quick = tokio::time::timeout(TIMEOUT, quick).await.unwrap().unwrap();
    assert_eq!(quick.status(), StatusCode::OK);
    release.send(()).unwrap();
    assert_eq!(slow.await.unwrap().unwrap().status(), StatusCode::OK);
    driver.abort();
}

#[tokio::test]
async fn a_body_over_the_limit_is_read_to_its_end_and_answered_413() {
    let limits = Limits { max_body_bytes: 1024, ..Limits::default() };
    let server = start(limits, echo).await;
    let fitting = exchange(&server, "POST /docs HTTP/1.1\r\n", &[b'x'; 1024]).await;
    assert!(fitting.ends_with("POST http://sidereal/docs 1024"), "{fitting}");

    // More than the buffers of a socket hold: the client is still sending when the limit is passed.
    let refused = exchange(&server, "POST /docs HTTP/1.1\r\n", &vec![b'x'; 8 << 20]).await;
    assert!(refused.starts_with("HTTP/1.1 413 "), "{refused}");
    assert!(refused.contains(r#""code":"RequestEntityTooLarge""#), "{refused}");

    let body = Full::new(Bytes::from(vec![b'x'; 1 << 20]));
    let request = Request::post(format!("http://{}/docs", server.address())).body(body).unwrap();
    let refused = exchange_http2(server.address(), request).await;
    assert_eq!(refused.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn a_declared_length_beyond_all_bounds_is_refused_before_it_is_sent() {
    let limits = Limits { max_body_bytes: 16, max_discarded_bytes: 16, ..Limits::default() };
    let server = start(limits, echo).await;
    let mut stream = connect(&server).await;
    let head = "POST /docs HTTP/1.1\r\nhost: sidereal\r\ncontent-length: 1000000\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let refused = read_to_end(&mut stream).await;
    assert!(refused.starts_with("HTTP/1.1 413 "), "{refused}");
}

#[tokio::test]
async fn a_batch_may_be_larger_than_an_item() {
    let limits = Limits { max_body_bytes: 16, max_batch_body_bytes: 64, ..Limits::default() };
    let server = start(limits, echo).await;
    let head = "POST /docs HTTP/1.1\r\nx-ms-cosmos-is-batch-request: True\r\n";
    let answer = exchange(&server, head, &[b'x'; 64]).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let answer = exchange(&server, head, &[b'x'; 65]).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[tokio::test]
async fn headers_over_the_limit_are_refused_in_both_protocols() {
    let server = start(Limits::default(), echo).await;
    let large = "x".repeat(Limits::default().max_header_bytes as usize);
    let answer = exchange(&server, &format!("GET / HTTP/1.1\r\nx-large: {large}\r\n"), b"").await;
    assert!(answer.starts_with("HTTP/1.1 431 "), "{answer}");

    let stream = connect(&server).await;
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let driver = tokio::spawn(connection);
    let request = Request::get(format!("http://{}/", server.address())).header("x-large", large);
    let refused = sender.send_request(request.body(Full::<Bytes>::default()).unwrap()).await;
    let status = refused.map(|response| response.status());
    assert!(!matches!(status, Ok(status) if status.is_success()), "{status:?}");
    driver.abort();
}

#[tokio::test]
async fn a_client_that_says_nothing_or_half_a_head_is_dropped() {
    let limits = Limits { first_request: SHORT, ..Limits::default() };
    let server = start(limits, echo).await;
    for beginning in ["", "GET /probe HT", "PRI * HTTP/2.0\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"]
    {
        let mut stream = connect(&server).await;
        stream.write_all(beginning.as_bytes()).await.unwrap();
        let mut said = Vec::new();
        let end = tokio::time::timeout(TIMEOUT, stream.read_to_end(&mut said)).await;
        assert!(end.is_ok(), "not dropped after {beginning:?}");
    }
}

#[tokio::test]
async fn a_client_that_stops_in_the_tls_handshake_is_dropped() {
    let limits = Limits { tls_handshake: SHORT, ..Limits::default() };
    let server = start(limits, echo).await;
    let mut stream = connect(&server).await;
    stream.write_all(&[0x16, 0x03, 0x01]).await.unwrap();
    assert_eq!(read_to_end(&mut stream).await, "");
}

#[tokio::test]
async fn an_idle_connection_is_closed() {
    let limits = Limits { idle: SHORT, first_request: SHORT, ..Limits::default() };
    let server = start(limits, echo).await;
    let mut stream = connect(&server).await;
    stream.write_all(PROBE.as_bytes()).await.unwrap();
    let said = read_to_end(&mut stream).await;
    assert!(said.starts_with("HTTP/1.1 200 "), "{said}");
}

#[tokio::test]
async fn a_body_that_does_not_arrive_is_answered_408() {
    let limits = Limits { body: SHORT, ..Limits::default() };
    let server = start(limits, echo).await;
    let mut stream = connect(&server).await;
    let head = "POST /docs HTTP/1.1\r\nhost: sidereal\r\ncontent-length: 10\r\n\r\nhalf";
    stream.write_all(head.as_bytes()).await.unwrap();
    let answer = read_to_end(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
}

#[tokio::test]
async fn connections_beyond_the_bound_wait_in_the_backlog() {
    let limits = Limits { max_connections: 1, ..Limits::default() };
    let server = start(limits, echo).await;
    let mut first = connect(&server).await;
    first.write_all(PROBE.as_bytes()).await.unwrap();
    read_until(&mut first, " 0").await;

    let mut second = connect(&server).await;
    second.write_all(PROBE.as_bytes()).await.unwrap();
    let early = tokio::time::timeout(SHORT, second.readable()).await;
    assert!(early.is_err(), "answered while the only effective_key was taken");
    drop(first);
    read_until(&mut second, " 0").await;
}

#[tokio::test]
async fn a_shutdown_lets_the_request_in_flight_finish() {
    let server = start(Limits::default(), echo).await;
    let address = server.address();
    let mut stream = connect(&server).await;
    // The interim answer shows that the server has the head and is waiting for the body.
    let head = "POST /docs HTTP/1.1\r\nhost: sidereal\r\nexpect: 100-continue\r\n\
                content-length: 4\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    read_until(&mut stream, "100 Continue\r\n\r\n").await;

    let (done, mut is_done) = oneshot::channel();
    tokio::spawn(async move {
        server.shutdown().await;
        let _ = done.send(()); // The test may have failed already.
    });
    let closed = async {
        while TcpStream::connect(address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TIMEOUT, closed).await.expect("the port is closed at once");
    assert!(is_done.try_recv().is_err(), "over while a request was in flight");
    stream.write_all(b"body").await.unwrap();
    let answer = read_to_end(&mut stream).await;
    assert!(answer.ends_with("POST http://sidereal/docs 4"), "{answer}");
    tokio::time::timeout(TIMEOUT, is_done).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_shutdown_does_not_wait_for_ever() {
    let limits = Limits { shutdown: SHORT, ..Limits::default() };
    let server = start(limits, echo).await;
    let mut stream = connect(&server).await;
    let head = "POST /docs HTTP/1.1\r\nhost: sidereal\r\nexpect: 100-continue\r\n\
                content-length: 4\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    read_until(&mut stream, "100 Continue\r\n\r\n").await;
    tokio::time::timeout(TIMEOUT, server.shutdown()).await.expect("the limit ends the wait");
    assert_eq!(read_to_end(&mut stream).await, "");
}

#[tokio::test]
async fn the_handler_sees_the_scheme_and_host_that_the_client_used() {
    let server = start(Limits::default(), echo).await;
    let answer = exchange(&server, "GET /dbs?x=1 HTTP/1.1\r\n", b"").await;
    assert!(answer.ends_with("GET http://sidereal/dbs?x=1 0"), "{answer}");

    let request = Request::get(format!("http://localhost:{}/dbs", server.address().port()));
    let request = request.body(Full::default()).unwrap();
    let answer = exchange_http2(server.address(), request).await;
    let expected = format!("GET http://localhost:{}/dbs 0", server.address().port());
    assert_eq!(answer.body(), expected.as_bytes());

    // HTTP/1.0 knows no host: the address of the server stands in.
    let mut stream = connect(&server).await;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await.unwrap();
    let answer = read_to_end(&mut stream).await;
    assert!(answer.ends_with(&format!("GET http://{}/ 0", server.address())), "{answer}");
}

#[tokio::test]
async fn the_answer_to_head_has_the_length_and_not_the_body() {
    let server = start(Limits::default(), echo).await;
    let answer = exchange(&server, "HEAD /dbs HTTP/1.1\r\n", b"").await;
    let expected = format!("content-length: {}", "HEAD http://sidereal/dbs 0".len());
    assert!(answer.contains(&expected) && answer.ends_with("\r\n\r\n"), "{answer}");

    let uri = format!("http://{}/dbs", server.address());
    let request = Request::builder().method(Method::HEAD).uri(uri);
    let answer = exchange_http2(server.address(), request.body(Full::default()).unwrap()).await;
    assert!(answer.headers().contains_key("content-length") && answer.body().is_empty());
}

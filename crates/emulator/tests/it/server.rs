//! The emulator over real sockets: one port for every protocol, several emulators in one process.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response, StatusCode, Version};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use sidereal_emulator::{Emulator, FaultEffect, FaultRule, Grease, Latitude, StartError};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// No test waits longer than this; it is far beyond what any of them needs.
const TIMEOUT: Duration = Duration::from_secs(20);

async fn start() -> Emulator {
    Emulator::builder().start().await.unwrap()
}

/// The host and port of an emulator.
fn authority(emulator: &Emulator) -> &str {
    emulator.http_endpoint().trim_start_matches("http://").trim_end_matches('/')
}

async fn connect(emulator: &Emulator) -> TcpStream {
    TcpStream::connect(authority(emulator)).await.unwrap()
}

/// A TLS connection from a client that trusts nothing but the emulator's certificate.
async fn connect_tls(emulator: &Emulator, name: &str, protocols: &[&str]) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    let pem = emulator.certificate_pem().as_bytes();
    roots.add(CertificateDer::from_pem_slice(pem).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = protocols.iter().map(|name| name.as_bytes().to_vec()).collect();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let stream = connect(emulator).await;
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

fn probe(scheme: &str, emulator: &Emulator) -> Request<Empty<Bytes>> {
    let uri = format!("{scheme}://{}/probe", authority(emulator));
    Request::get(uri).header("host", authority(emulator)).body(Empty::new()).unwrap()
}

async fn over_http1<S>(stream: S, request: Request<Empty<Bytes>>) -> Response<Bytes>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    let driver = tokio::spawn(connection);
    let answer = whole(sender.send_request(request)).await;
    driver.abort();
    answer
}

async fn over_http2<S>(stream: S, mut request: Request<Empty<Bytes>>) -> Response<Bytes>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    request.headers_mut().remove("host");
    let (mut sender, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    let driver = tokio::spawn(connection);
    let answer = whole(sender.send_request(request)).await;
    driver.abort();
    answer
}

async fn whole(
    response: impl Future<Output = hyper::Result<Response<hyper::body::Incoming>>>,
) -> Response<Bytes> {
    let response = tokio::time::timeout(TIMEOUT, response).await.unwrap().unwrap();
    let (parts, body) = response.into_parts();
    Response::from_parts(parts, body.collect().await.unwrap().to_bytes())
}

#[tokio::test]
async fn one_port_speaks_http_1_and_http_2_in_cleartext_and_over_tls() {
    let emulator = start().await;
    let clear = over_http1(connect(&emulator).await, probe("http", &emulator)).await;
    assert_eq!((clear.status(), clear.version()), (StatusCode::OK, Version::HTTP_11));
    let clear = over_http2(connect(&emulator).await, probe("http", &emulator)).await;
    assert_eq!((clear.status(), clear.version()), (StatusCode::OK, Version::HTTP_2));

    let stream = connect_tls(&emulator, "localhost", &["http/1.1"]).await;
    let encrypted = over_http1(stream, probe("https", &emulator)).await;
    assert_eq!((encrypted.status(), encrypted.version()), (StatusCode::OK, Version::HTTP_11));
    let stream = connect_tls(&emulator, "localhost", &["h2"]).await;
    let encrypted = over_http2(stream, probe("https", &emulator)).await;
    assert_eq!((encrypted.status(), encrypted.version()), (StatusCode::OK, Version::HTTP_2));
}

#[tokio::test]
async fn the_protocol_is_negotiated_and_http_2_preferred() {
    let emulator = start().await;
    for (offered, agreed) in [
        (&["http/1.1", "h2"][..], Some(&b"h2"[..])),
        (&["h2"], Some(b"h2")),
        (&["http/1.1"], Some(b"http/1.1")),
        (&[], None),
    ] {
        let stream = connect_tls(&emulator, "localhost", offered).await;
        assert_eq!(stream.get_ref().1.alpn_protocol(), agreed, "{offered:?}");
    }
}

#[tokio::test]
async fn the_certificate_holds_for_every_name_of_the_loopback() {
    let emulator = start().await;
    for name in ["localhost", "127.0.0.1", "::1"] {
        let stream = connect_tls(&emulator, name, &["http/1.1"]).await;
        let answer = over_http1(stream, probe("https", &emulator)).await;
        assert_eq!(answer.status(), StatusCode::OK, "{name}");
    }
}

#[tokio::test]
async fn a_connection_may_have_twenty_streams_or_as_many_as_asked_for() {
    let many = Emulator::builder().max_concurrent_streams(50).start().await.unwrap();
    for (emulator, streams) in [(start().await, 20), (many, 50)] {
        let stream = connect(&emulator).await;
        let (sender, mut connection) = h2::client::handshake(stream).await.unwrap();
        let mut sender = sender.ready().await.unwrap();
        let request = Request::get(format!("{}probe", emulator.http_endpoint())).body(()).unwrap();
        let (response, _) = sender.send_request(request, true).unwrap();
        // The settings come ahead of the first answer.
        let mut response = std::pin::pin!(response);
        let answered = std::future::poll_fn(|context| {
            let ended = std::pin::Pin::new(&mut connection).poll(context);
            assert!(ended.is_pending(), "the server closed the connection");
            response.as_mut().poll(context)
        });
        tokio::time::timeout(TIMEOUT, answered).await.unwrap().unwrap();
        assert_eq!(connection.max_concurrent_send_streams(), streams);
    }
}

#[tokio::test]
async fn several_emulators_live_in_one_process() {
    let (first, second) = (start().await, start().await);
    assert_ne!(first.endpoint(), second.endpoint());
    for emulator in [&first, &second] {
        let answer = over_http1(connect(emulator).await, probe("http", emulator)).await;
        assert_eq!(answer.status(), StatusCode::OK);
    }
    first.shutdown().await;
    let answer = over_http1(connect(&second).await, probe("http", &second)).await;
    assert_eq!(answer.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_dropped_emulator_gives_its_port_back() {
    let emulator = start().await;
    let address = authority(&emulator).to_owned();
    drop(emulator);
    let refused = async {
        while TcpStream::connect(&address).await.is_ok() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(TIMEOUT, refused).await.expect("the port is closed");
}

#[tokio::test]
async fn a_port_in_use_is_named_with_the_way_out() {
    let emulator = start().await;
    let port = authority(&emulator).rsplit(':').next().unwrap().parse().unwrap();
    let error = Emulator::builder().port(port).start().await.unwrap_err();
    assert!(matches!(error, StartError::PortInUse { port: p, .. } if p == port), "{error:?}");
    assert!(error.to_string().contains(&format!("port {port} is in use")), "{error}");
    assert!(error.to_string().contains("--port 0"), "{error}");
}

#[tokio::test]
async fn a_number_of_partitions_that_cannot_be_is_refused() {
    let error = Emulator::builder().partitions(0).start().await.unwrap_err();
    assert!(error.to_string().contains("from 1 to"), "{error}");
}

#[tokio::test]
async fn the_connection_string_holds_endpoint_and_key() {
    let emulator = start().await;
    let text = emulator.connection_string();
    let parsed: sidereal_protocol::ConnectionString = text.parse().unwrap();
    assert_eq!(parsed.endpoint().to_string(), emulator.endpoint());
    assert_eq!(parsed.key().expose_secret(), emulator.key().expose_secret());
}

#[tokio::test]
async fn a_connection_that_a_fault_resets_ends_as_abruptly_over_tls() {
    let emulator = start().await;
    let mut stream = connect_tls(&emulator, "localhost", &["http/1.1"]).await;
    emulator.account().add_fault(FaultRule::new(FaultEffect::ResetBefore)).unwrap();
    stream.write_all(b"GET /probe HTTP/1.1\r\nhost: sidereal\r\n\r\n").await.unwrap();
    let read = tokio::time::timeout(TIMEOUT, stream.read(&mut [0; 16])).await.unwrap();
    assert_eq!(read.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
}

/// More requests than a connection of an account that closes them has.
const MORE_THAN_A_CONNECTION_HAS: usize = 1_000;

#[tokio::test]
async fn an_account_with_grease_closes_connections_after_any_response() {
    let grease = Grease::new(1).only([Latitude::ClosedConnections]);
    let emulator = Emulator::builder().grease(grease).start().await.unwrap();
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(connect(&emulator).await)).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut answered = 0;
    while answered < MORE_THAN_A_CONNECTION_HAS && sender.ready().await.is_ok() {
        let Ok(response) = sender.send_request(probe("http", &emulator)).await else { break };
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes().len(), 0);
        answered += 1;
    }
    assert!((1..MORE_THAN_A_CONNECTION_HAS).contains(&answered), "{answered}");
    connection.await.unwrap().unwrap();

    let stream = TokioIo::new(connect(&emulator).await);
    let (mut sender, connection) = http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let mut answered = 0;
    while answered < MORE_THAN_A_CONNECTION_HAS && sender.ready().await.is_ok() {
        let mut request = probe("http", &emulator);
        request.headers_mut().remove("host");
        let Ok(response) = sender.send_request(request).await else { break };
        assert_eq!(response.status(), StatusCode::OK);
        answered += 1;
    }
    assert!((1..MORE_THAN_A_CONNECTION_HAS).contains(&answered), "{answered}");
    connection.await.unwrap().unwrap();
}

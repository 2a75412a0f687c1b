//! Connections through a proxy: tunnels, refusals, and credentials that nobody sees.

use std::net::{Ipv4Addr, TcpListener};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sidereal_driver::transport::{HttpErrorKind, ProxyConfig, RequestSentStatus};

use super::factory;
use sidereal_testing::fixture::{Executed, Setup};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use sidereal_testing::peers::{Certificates, ConnectProxy, Peer, Reply, ServedPeer, Speaks};

const PASSWORD: &str = "hunter2-proxy";

/// A peer with TLS, and clients that trust it and go through the proxy at the address.
fn behind(proxy: &str) -> (ServedPeer, Setup) {
    let certificates = Certificates::new();
    let peer = Peer::tls(Speaks::Both, &certificates.loopback()).serve(|_| Reply::ok("answered"));
    let proxy = ProxyConfig::parse(proxy).unwrap();
    let setup = Setup::over(factory()).trusting(&certificates);
    (peer, setup.with(|setup| setup.client.proxy = Some(proxy)))
}

fn with_password(proxy: &ConnectProxy, password: &str) -> String {
    format!("http://me:{password}@{}", proxy.address())
}

async fn read(setup: Setup, peer: &ServedPeer) -> Executed {
    let client = setup.start();
    client.execute(client.read(&peer.url(), "/")).await
}

#[tokio::test]
async fn requests_go_through_a_tunnel_with_the_credentials_of_the_address() {
    let proxy = ConnectProxy::with_credentials("me", PASSWORD).await;
    let (peer, setup) = behind(&with_password(&proxy, PASSWORD));
    assert_eq!(read(setup, &peer).await.body(), "answered");
    let seen = proxy.seen();
    assert_eq!((seen.requests.len(), seen.tunnels), (1, 1));
    assert_eq!(seen.requests[0].method, "CONNECT");
    assert_eq!(seen.requests[0].target, format!("localhost:{}", peer.address().port()));
}

#[tokio::test]
async fn a_407_asks_for_the_proxy_s_credentials() {
    let proxy = ConnectProxy::with_credentials("me", PASSWORD).await;
    let (peer, setup) = behind(&proxy.url());
    let executed = read(setup, &peer).await;
    let error = executed.error();
    assert_eq!(error.kind(), HttpErrorKind::Proxy);
    assert_eq!(error.request_sent(), RequestSentStatus::NotSent);
    assert!(error.to_string().contains("wants credentials"), "{error}");
    assert_eq!((proxy.seen().requests.len(), peer.seen().accepted()), (1, 0));
}

#[tokio::test]
async fn a_refusal_by_the_proxy_is_not_retried() {
    let proxy = ConnectProxy::refusing(403, "not from here").await;
    let (peer, setup) = behind(&proxy.url());
    let executed = read(setup, &peer).await;
    assert_eq!(executed.error().kind(), HttpErrorKind::Proxy);
    assert!(executed.error().to_string().contains("403"), "{}", executed.error());
    assert_eq!((proxy.seen().requests.len(), peer.seen().accepted()), (1, 0));
}

/// A proxy that restarted, or could not reach the endpoint for a moment, failed the request for good.
#[tokio::test]
async fn a_proxy_that_fails_for_the_moment_is_asked_again() {
    for says in ["", "HTTP/1.1 503 Service Unavailable\r\n\r\n"] {
        let proxy = ConnectProxy::with_credentials("me", PASSWORD).await;
        let front = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://me:{PASSWORD}@{}", front.local_addr().unwrap());
        let behind_it = proxy.address();
        tokio::spawn(async move {
            let (mut first, _) = front.accept().await.unwrap();
            let mut request = [0; 1024];
            let _ = first.read(&mut request).await.unwrap();
            first.write_all(says.as_bytes()).await.unwrap();
            drop(first);
            let (mut client, _) = front.accept().await.unwrap();
            let mut server = tokio::net::TcpStream::connect(behind_it).await.unwrap();
            let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        });
        let (peer, setup) = behind(&address);
        let executed = read(setup, &peer).await;
        assert_eq!(executed.body(), "answered", "{says}");
        assert_eq!(executed.diagnostics.attempts().len(), 2);
    }
}

#[tokio::test]
async fn a_silent_proxy_ends_with_the_connect_timeout() {
    let proxy = ConnectProxy::silent().await;
    let (peer, setup) = behind(&proxy.url());
    let short_timeout = |it: &mut Setup| it.client.connect_timeout = Duration::from_millis(200);
    let executed = read(setup.with(short_timeout), &peer).await;
    assert_eq!(executed.error().kind(), HttpErrorKind::Connect);
    assert_eq!(executed.error().request_sent(), RequestSentStatus::NotSent);
    assert_eq!((executed.diagnostics.attempts().len(), peer.seen().accepted()), (2, 0));
}

#[tokio::test]
async fn an_unreachable_proxy_is_named_in_the_error() {
    // The port was free a moment ago; a process that takes it meanwhile is not a proxy.
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    let (peer, setup) = behind(&format!("http://127.0.0.1:{port}"));
    let executed = read(setup, &peer).await;
    assert!(executed.error().to_string().contains("the proxy 127.0.0.1"), "{}", executed.error());
    assert_eq!(executed.error().request_sent(), RequestSentStatus::NotSent);
}

#[tokio::test]
async fn hosts_in_no_proxy_are_reached_directly() {
    let proxy = ConnectProxy::refusing(403, "").await;
    let (peer, setup) = behind(&proxy.url());
    let except = |setup: &mut Setup| {
        let proxy = setup.client.proxy.take().unwrap();
        setup.client.proxy = Some(proxy.bypassing(["localhost"]));
    };
    assert_eq!(read(setup.with(except), &peer).await.body(), "answered");
    assert!(proxy.seen().requests.is_empty());
}

#[tokio::test]
async fn credentials_of_a_proxy_are_shown_to_nobody_else() {
    let proxy = ConnectProxy::with_credentials("me", "another").await;
    let (peer, setup) = behind(&with_password(&proxy, PASSWORD));
    let config = format!("{:?}", setup.client);
    let executed = read(setup, &peer).await;
    let error = executed.error();
    let shown = format!(
        "{config} {error} {error:?} {} {:?} {} {}",
        error.chain(),
        executed.diagnostics,
        executed.diagnostics,
        executed.diagnostics.to_json(),
    );
    let encoded = STANDARD.encode(format!("me:{PASSWORD}"));
    assert!(!shown.contains(PASSWORD) && !shown.contains(&encoded), "{shown}");
    assert_eq!(proxy.seen().requests[0].authorization, Some(format!("Basic {encoded}")));
}

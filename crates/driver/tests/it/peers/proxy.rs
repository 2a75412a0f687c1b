//! Proxies for CONNECT.

use std::net::SocketAddr;

use tokio::net::TcpStream;

use super::{exchange, get, http2_over, whole};
use sidereal_testing::peers::{ConnectProxy, Peer, Reply, ServedPeer, Speaks};

fn served() -> ServedPeer {
    Peer::cleartext(Speaks::Http2).serve(|_| Reply::ok("through"))
}

fn connect(target: impl ToString, fields: &str) -> String {
    let target = target.to_string();
    format!("CONNECT {target} HTTP/1.1\r\nhost: {target}\r\n{fields}\r\n")
}

async fn socket_to(address: SocketAddr) -> TcpStream {
    TcpStream::connect(address).await.unwrap()
}

#[tokio::test]
async fn a_tunnel_carries_what_is_sent_through_it() {
    let (peer, proxy) = (served(), ConnectProxy::open().await);
    let mut socket = socket_to(proxy.address()).await;
    let answer = exchange(&mut socket, &connect(peer.address(), ""), "\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 200 "));
    let mut client = http2_over(socket).await;
    assert_eq!(whole(get(&mut client, "/")).await.unwrap().body(), "through");
    let seen = proxy.seen();
    assert_eq!(seen.requests[0].target, peer.address().to_string());
    assert_eq!((seen.requests[0].authorization.as_ref(), seen.open_tunnels), (None, 1));
    drop(client);
    assert_eq!(proxy.until(|seen| seen.open_tunnels == 0).await.tunnels, 1);
}

#[tokio::test]
async fn a_tunnel_leads_where_the_test_wants_it_to() {
    let peer = served();
    let proxy = ConnectProxy::open_to(peer.address()).await;
    let mut socket = socket_to(proxy.address()).await;
    exchange(&mut socket, &connect("account.example:443", ""), "\r\n\r\n").await;
    let mut client = http2_over(socket).await;
    whole(get(&mut client, "/")).await.unwrap();
}

#[tokio::test]
async fn no_tunnel_leads_beyond_loopback() {
    let proxy = ConnectProxy::open().await;
    let mut socket = socket_to(proxy.address()).await;
    let answer = exchange(&mut socket, &connect("account.example:443", ""), "there").await;
    assert!(answer.starts_with("HTTP/1.1 502 "));
}

#[tokio::test]
async fn credentials_are_asked_for_and_checked() {
    let (peer, proxy) = (served(), ConnectProxy::with_credentials("user", "pass").await);
    let with = |field| connect(peer.address(), field);
    for missing in [with(""), with("proxy-authorization: Basic d3Jvbmc6cGFzcw==\r\n")] {
        let mut socket = socket_to(proxy.address()).await;
        let answer = exchange(&mut socket, &missing, "required").await;
        assert!(
            answer.starts_with("HTTP/1.1 407 ") && answer.contains("proxy-authenticate: Basic")
        );
    }
    let mut socket = socket_to(proxy.address()).await;
    let right = with("Proxy-Authorization: Basic dXNlcjpwYXNz\r\n");
    assert!(exchange(&mut socket, &right, "\r\n\r\n").await.starts_with("HTTP/1.1 200 "));
    let seen = proxy.seen();
    assert_eq!((seen.requests.len(), seen.tunnels), (3, 1));
    assert_eq!(seen.requests[2].authorization.as_deref(), Some("Basic dXNlcjpwYXNz"));
}

#[tokio::test]
async fn a_refusal_has_a_status_and_a_body() {
    let proxy = ConnectProxy::refusing(403, "not from here").await;
    let mut socket = socket_to(proxy.address()).await;
    let answer = exchange(&mut socket, &connect("localhost:1", ""), "not from here").await;
    assert!(answer.starts_with("HTTP/1.1 403 "));
}

#[tokio::test]
async fn a_silent_proxy_takes_the_request_and_nothing_follows() {
    let proxy = ConnectProxy::silent().await;
    let socket = socket_to(proxy.address()).await;
    socket.try_write(connect("localhost:1", "").as_bytes()).unwrap();
    proxy.until(|seen| seen.requests.len() == 1).await;
    assert!(socket.try_read(&mut [0]).is_err_and(|e| e.kind() == std::io::ErrorKind::WouldBlock));
}

//! HTTP/1.1, over sockets without TLS.

use std::io::ErrorKind;

use h2::Reason;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::{exchange, get, http2_to, whole};
use sidereal_testing::peers::{Answer, Gate, Peer, Protocol, Reply, Speaks};
use sidereal_testing::within_timeout;

const GET: &str = "GET /1 HTTP/1.1\r\nHost: localhost\r\n\r\n";

#[tokio::test]
async fn a_connection_is_kept_from_one_request_to_the_next() {
    let peer = Peer::cleartext(Speaks::Http1)
        .serve(|request| Answer::new(201, request.body.clone()).header("etag", "\"1\"").into());
    let mut client = TcpStream::connect(peer.address()).await.unwrap();
    let post = "POST /2 HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\n\r\nbody";
    let first = exchange(&mut client, GET, "\r\n\r\n").await;
    assert!(first.starts_with("HTTP/1.1 201 ") && first.contains("\r\ncontent-length: 0\r\n"));
    let second = exchange(&mut client, post, "body").await;
    assert!(second.contains("\r\netag: \"1\"\r\n"));
    let seen = peer.seen();
    assert_eq!((seen.accepted(), seen.paths()), (1, vec!["/1", "/2"]));
    assert_eq!(seen.connections[0].protocol, Some(Protocol::Http1));
    assert_eq!((seen.open_streams(), seen.most_streams), (0, 1));
}

#[tokio::test]
async fn a_held_request_is_released_and_counted() {
    let peer = Peer::cleartext(Speaks::Http1).serve(|_| Reply::hold());
    let mut client = TcpStream::connect(peer.address()).await.unwrap();
    client.try_write(GET.as_bytes()).unwrap();
    assert_eq!(peer.until(|seen| seen.held == 1).await.open_streams(), 1);
    peer.release_next(1);
    exchange(&mut client, "", "\r\n\r\n").await;
    drop(client);
    peer.until(|seen| seen.open_connections() == 0).await;
}

#[tokio::test]
async fn an_answer_can_wait_in_the_middle_of_its_body() {
    let gate = Gate::new();
    let rest = Reply::Finish("whole".into()).when(&gate);
    let reply = Reply::begin(Answer::new(200, "half "), rest);
    let peer = Peer::cleartext(Speaks::Http1).serve(move |_| reply.clone());
    let mut client = TcpStream::connect(peer.address()).await.unwrap();
    exchange(&mut client, GET, "\r\n5\r\nhalf \r\n").await;
    gate.open();
    assert_eq!(exchange(&mut client, "", "0\r\n\r\n").await, "5\r\nwhole\r\n0\r\n\r\n");
}

#[tokio::test]
async fn a_reset_is_that_of_the_connection() {
    let peer = Peer::cleartext(Speaks::Http1).serve(|_| Reply::Reset(Reason::CANCEL));
    let mut client = TcpStream::connect(peer.address()).await.unwrap();
    client.try_write(GET.as_bytes()).unwrap();
    let error = within_timeout("the reset", client.read_u8()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_peer_that_speaks_both_follows_the_client() {
    let peer = Peer::cleartext(Speaks::Both).serve(|_| Reply::ok("both"));
    let mut plain = TcpStream::connect(peer.address()).await.unwrap();
    exchange(&mut plain, GET, "both").await;
    let mut framed = http2_to(peer.address()).await;
    assert_eq!(whole(get(&mut framed, "/2")).await.unwrap().body(), "both");
    let protocols: Vec<_> = peer.seen().connections.iter().map(|seen| seen.protocol).collect();
    assert_eq!(protocols, [Some(Protocol::Http1), Some(Protocol::Http2)]);
}

//! Connections that a test drives frame by frame.

use std::io::ErrorKind;
use std::time::Duration;

use bytes::Bytes;
use h2::Reason;
use http::Request;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::{RawClient, get, http2_to, whole};
use sidereal_testing::peers::{Answer, Frame, Peer, PeerConnection, PeerSettings, Speaks};
use sidereal_testing::within_timeout;

type Client = h2::client::SendRequest<Bytes>;

async fn connected(settings: PeerSettings) -> (PeerConnection, Client) {
    let peer = Peer::cleartext(Speaks::Http2).with_settings(settings);
    tokio::join!(peer.accept(), http2_to(peer.address()))
}

#[tokio::test]
async fn a_request_is_read_and_answered() {
    let (mut peer, mut client) = connected(PeerSettings::new()).await;
    let request = Request::post("http://localhost/dbs?x=1").header("x-ms-date", "now");
    let (response, mut body) = client.send_request(request.body(()).unwrap(), false).unwrap();
    body.send_data(Bytes::from_static(b"{}"), true).unwrap();

    let request = peer.next_request().await;
    assert_eq!((request.method.as_str(), request.path.as_str()), ("POST", "/dbs?x=1"));
    assert_eq!(
        (request.authority.as_str(), request.header("x-ms-date")),
        ("localhost", Some("now"))
    );
    assert_eq!(request.body, "{}");
    assert_eq!(peer.open_streams(), 1);

    peer.respond(request.stream, Answer::new(201, "made").header("etag", "\"1\"")).await;
    let response = whole(response).await.unwrap();
    assert_eq!((response.status().as_u16(), &response.body()[..]), (201, &b"made"[..]));
    assert_eq!(response.headers()["etag"], "\"1\"");
    assert_eq!(peer.open_streams(), 0);
}

#[tokio::test]
async fn heads_longer_than_a_frame_pass_in_both_directions() {
    let (mut peer, mut client) = connected(PeerSettings::new()).await;
    let long = "x".repeat(40_000);
    let request = Request::get("http://localhost/").header("long", &long).body(()).unwrap();
    let response = client.send_request(request, true).unwrap().0;
    let request = peer.next_request().await;
    assert_eq!(request.header("long"), Some(long.as_str()));
    peer.respond(request.stream, Answer::new(200, "").header("long", &long)).await;
    assert_eq!(whole(response).await.unwrap().headers()["long"], long.as_str());
}

#[tokio::test]
async fn bodies_larger_than_the_windows_pass_in_both_directions() {
    let (mut peer, mut client) = connected(PeerSettings::new()).await;
    let large = Bytes::from(vec![7; 1_000_000]);
    let request = Request::post("http://localhost/").body(()).unwrap();
    let (response, mut body) = client.send_request(request, false).unwrap();
    body.send_data(large.clone(), true).unwrap();
    let request = peer.next_request().await;
    assert_eq!(request.body, large);

    let response = tokio::spawn(whole(response));
    peer.respond_head(request.stream, 200).await;
    peer.send_data(request.stream, large.clone(), true).await;
    peer.until_sent().await;
    assert_eq!(*response.await.unwrap().unwrap().body(), large);
}

#[tokio::test]
async fn without_credit_a_client_sends_what_the_window_allows() {
    let (mut peer, mut client) = connected(PeerSettings::new().initial_window_size(1000)).await;
    peer.give_credit(false);
    let request = Request::post("http://localhost/").body(()).unwrap();
    let (_response, mut body) = client.send_request(request, false).unwrap();
    peer.ping().await; // The settings have reached the client.
    body.send_data(Bytes::from(vec![7; 5000]), true).unwrap();
    let mut received = 0;
    while received < 1000 {
        received += peer.recv_until(size_of_data).await;
    }
    peer.ping().await; // A client that went on would have gone on by now.
    peer.send(Frame::WindowUpdate { stream: 1, increment: 500 }).await;
    while received < 1500 {
        received += peer.recv_until(size_of_data).await;
    }
    assert_eq!(received, 1500);
}

fn size_of_data(frame: &Frame) -> Option<usize> {
    match frame {
        Frame::Data { bytes, .. } => Some(bytes.len()),
        _ => None,
    }
}

#[tokio::test]
async fn a_limit_on_streams_can_be_lowered_later() {
    let (mut peer, client) = connected(PeerSettings::new().max_concurrent_streams(20)).await;
    peer.ping().await;
    assert_eq!(client.current_max_send_streams(), 20);
    peer.send_settings(PeerSettings::new().max_concurrent_streams(3)).await;
    peer.ping().await;
    assert_eq!(client.current_max_send_streams(), 3);
}

#[tokio::test]
async fn the_last_stream_of_a_goaway_is_for_the_test_to_choose() {
    let (mut peer, mut client) = connected(PeerSettings::new()).await;
    let (first, second) = (get(&mut client, "/1"), get(&mut client, "/2"));
    let served = peer.next_request().await.stream;
    peer.next_request().await;
    assert_eq!((served, peer.last_stream()), (1, 3));
    peer.go_away(served, Reason::NO_ERROR).await;
    peer.respond(served, 200).await;
    assert_eq!(whole(first).await.unwrap().status(), 200);
    assert!(whole(second).await.unwrap_err().is_go_away());
}

#[tokio::test]
async fn a_reset_carries_its_reason_both_ways() {
    let (mut peer, mut client) = connected(PeerSettings::new()).await;
    let refused = get(&mut client, "/refused");
    let stream = peer.next_request().await.stream;
    peer.reset(stream, Reason::REFUSED_STREAM).await;
    assert_eq!(whole(refused).await.unwrap_err().reason(), Some(Reason::REFUSED_STREAM));

    let given_up = get(&mut client, "/given-up");
    let stream = peer.next_request().await.stream;
    drop(given_up);
    assert_eq!(peer.recv_reset(stream).await, Reason::CANCEL);
    assert_eq!(peer.open_streams(), 0);
}

#[tokio::test]
async fn pings_are_answered_unless_the_test_forbids_it() {
    let peer = Peer::cleartext(Speaks::Http2);
    let (mut peer, mut client) = tokio::join!(peer.accept(), RawClient::to(peer.address()));
    client.send(Frame::Ping([1; 8])).await;
    peer.recv_until(|frame| (*frame == Frame::Ping([1; 8])).then_some(())).await;
    peer.answer_pings(false);
    client.send(Frame::Ping([2; 8])).await;
    peer.recv_until(|frame| (*frame == Frame::Ping([2; 8])).then_some(())).await;
    peer.go_away(0, Reason::NO_ERROR).await;

    assert_eq!(client.recv().await, Frame::Settings(PeerSettings::new()));
    assert_eq!(client.recv().await, Frame::SettingsAck);
    assert_eq!(client.recv().await, Frame::Pong([1; 8]));
    assert!(matches!(client.recv().await, Frame::GoAway { .. }));
}

#[tokio::test]
async fn a_connection_ends_in_order_or_with_a_reset() {
    let peer = Peer::cleartext(Speaks::Http2);
    let (accepted, client) = accepted_and_raw(&peer).await;
    accepted.close();
    assert_eq!(end_of(client).await, ErrorKind::UnexpectedEof);
    let (accepted, client) = accepted_and_raw(&peer).await;
    accepted.abort().await;
    assert_eq!(end_of(client).await, ErrorKind::ConnectionReset);
}

async fn accepted_and_raw(peer: &Peer) -> (PeerConnection, TcpStream) {
    let connect = TcpStream::connect(peer.address());
    let (accepted, client) = tokio::join!(peer.accept_without_settings(), connect);
    (accepted, client.unwrap())
}

async fn end_of(mut client: TcpStream) -> ErrorKind {
    within_timeout("the end", client.read_u8()).await.unwrap_err().kind()
}

#[tokio::test]
async fn the_end_of_the_client_is_the_end_of_the_frames() {
    let (mut peer, client) = connected(PeerSettings::new()).await;
    drop(client);
    peer.until_closed().await;
}

#[tokio::test]
async fn a_peer_that_stopped_reading_stays_connected() {
    let peer = Peer::cleartext(Speaks::Http2).with_receive_buffer(4096);
    let (accepted, client) = tokio::join!(peer.accept(), RawClient::to(peer.address()));
    let kept = accepted.stop_reading();
    let filling = async {
        while client.socket.writable().await.is_ok() {
            let _ = client.socket.try_write(&[0; 4096]); // Full again, if it could not.
        }
    };
    // Only a client that stays stuck shows that nobody reads.
    assert!(tokio::time::timeout(Duration::from_millis(500), filling).await.is_err());
    let stuck = client.socket.try_write(&[0]).unwrap_err();
    assert_eq!(stuck.kind(), ErrorKind::WouldBlock);
    drop(kept);
}

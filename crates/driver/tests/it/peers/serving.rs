//! Peers that serve by a behaviour.

use bytes::Bytes;
use h2::Reason;

use super::{RawClient, get, http2_to, whole};
use sidereal_testing::peers::{Answer, Frame, Gate, Peer, PeerSettings, Reply, ServedPeer, Speaks};

fn served(behaviour: impl Fn(&str) -> Reply + Send + Sync + 'static) -> ServedPeer {
    Peer::cleartext(Speaks::Http2).serve(move |request| behaviour(&request.path))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_streams_on_fifty_connections_are_held_and_released() {
    let peer = served(|_| Reply::hold());
    let mut responses = Vec::new();
    for connection in 0..50 {
        let mut client = http2_to(peer.address()).await;
        let paths = (0..20).map(|stream| format!("/{connection}/{stream}"));
        responses.extend(paths.map(|path| get(&mut client, &path)));
    }
    let seen = peer.until(|seen| seen.held == 1000).await;
    assert_eq!((seen.open_streams(), seen.most_streams), (1000, 1000));
    assert_eq!((seen.accepted(), seen.open_connections()), (50, 50));
    assert_eq!(seen.most_streams_on_a_connection(), 20);

    peer.release_all();
    for response in responses {
        assert_eq!(whole(response).await.unwrap().status(), 200);
    }
    let seen = peer.until(|seen| seen.open_streams() == 0).await;
    assert_eq!((seen.arrivals.len(), seen.cancelled()), (1000, 0));
}

#[tokio::test]
async fn held_requests_are_released_in_the_order_of_their_arrival() {
    let peer = served(|_| Reply::hold());
    let (mut one, mut other) = (http2_to(peer.address()).await, http2_to(peer.address()).await);
    let first = get(&mut one, "/1");
    peer.until(|seen| seen.held == 1).await;
    let second = get(&mut other, "/2");
    peer.until(|seen| seen.held == 2).await;
    let third = get(&mut one, "/3");
    let seen = peer.until(|seen| seen.held == 3).await;
    assert_eq!(seen.paths(), ["/1", "/2", "/3"]);

    peer.release_next(2);
    whole(first).await.unwrap();
    whole(second).await.unwrap();
    assert_eq!((peer.seen().held, peer.seen().open_streams()), (1, 1));
    peer.release_all();
    whole(third).await.unwrap();
    whole(get(&mut one, "/4")).await.unwrap();
}

#[tokio::test]
#[should_panic(expected = "only 0 requests were held")]
async fn releasing_more_than_is_held_fails_the_test() {
    served(|_| Reply::hold()).release_next(1);
}

#[tokio::test]
async fn a_client_over_its_stream_limit_is_served_and_recorded() {
    let settings = PeerSettings::new().max_concurrent_streams(20);
    let peer = Peer::cleartext(Speaks::Http2).with_settings(settings).serve(|_| Reply::hold());
    let mut client = RawClient::to(peer.address()).await;
    for stream in 0..25 {
        client.get(2 * stream + 1, "/").await;
    }
    let seen = peer.until(|seen| seen.held == 25).await;
    assert_eq!(seen.most_streams_on_a_connection(), 25);
}

#[tokio::test]
async fn a_cancelled_request_is_counted_and_no_longer_held() {
    let peer = served(|_| Reply::hold());
    let mut client = http2_to(peer.address()).await;
    let (given_up, kept) = (get(&mut client, "/given-up"), get(&mut client, "/kept"));
    peer.until(|seen| seen.held == 2).await;
    drop(given_up);
    let seen = peer.until(|seen| seen.cancelled() == 1).await;
    assert_eq!((seen.held, seen.open_streams()), (1, 1));
    peer.release_next(1);
    whole(kept).await.unwrap();
}

#[tokio::test]
async fn a_behaviour_tells_connections_apart() {
    let peer = Peer::cleartext(Speaks::Http2).serve(|request| match request.connection {
        0 => Reply::Reset(Reason::HTTP_1_1_REQUIRED),
        _ => Reply::ok(format!("{} {}", request.ordinal, request.path)),
    });
    let (mut bad, mut good) = (http2_to(peer.address()).await, http2_to(peer.address()).await);
    let reset = whole(get(&mut bad, "/a")).await.unwrap_err();
    assert_eq!(reset.reason(), Some(Reason::HTTP_1_1_REQUIRED));
    assert_eq!(whole(get(&mut good, "/b")).await.unwrap().body(), "1 /b");
}

#[tokio::test]
async fn an_answer_can_wait_in_the_middle_of_its_body() {
    let (gate, answer) = (Gate::new(), Answer::new(200, "half "));
    let rest = Reply::Finish(Bytes::from_static(b"whole")).when(&gate);
    let reply = Reply::begin(answer, rest);
    let peer = served(move |_| reply.clone());
    let mut client = http2_to(peer.address()).await;
    let mut body = get(&mut client, "/").await.unwrap().into_body();
    assert_eq!(body.data().await.unwrap().unwrap(), "half ");
    gate.open();
    assert_eq!(body.data().await.unwrap().unwrap(), "whole");
    assert!(body.data().await.is_none());
}

#[tokio::test]
async fn a_connection_can_be_lost_under_its_requests() {
    let peer = served(|path| match path {
        "/close" => Reply::Close,
        "/abort" => Reply::Abort,
        _ => Reply::Hang,
    });
    for path in ["/close", "/abort"] {
        let mut client = http2_to(peer.address()).await;
        let hanging = get(&mut client, "/hang");
        let ended = get(&mut client, path);
        assert!(whole(ended).await.is_err());
        assert!(whole(hanging).await.is_err());
        let seen = peer.until(|seen| seen.open_connections() == 0).await;
        assert_eq!(seen.open_streams(), 0);
    }
}

#[tokio::test]
async fn a_test_reaches_a_connection_at_any_time() {
    let peer = served(|_| Reply::Hang);
    let mut client = http2_to(peer.address()).await;
    let response = get(&mut client, "/");
    peer.until(|seen| seen.open_streams() == 1).await;
    peer.send_settings(0, PeerSettings::new().max_concurrent_streams(7));
    peer.go_away(0, 0, Reason::ENHANCE_YOUR_CALM);
    let error = whole(response).await.unwrap_err();
    assert_eq!((error.is_remote(), error.reason()), (true, Some(Reason::ENHANCE_YOUR_CALM)));
    assert_eq!(client.current_max_send_streams(), 7);
}

#[tokio::test]
async fn a_connection_that_stopped_reading_reads_nothing_more() {
    let peer = served(|_| Reply::ok("heard"));
    let (mut deaf, mut other) = (http2_to(peer.address()).await, http2_to(peer.address()).await);
    whole(get(&mut deaf, "/before")).await.unwrap();
    peer.stop_reading(0);
    peer.send(0, Frame::Settings(PeerSettings::new().max_concurrent_streams(9)));
    // Commands are obeyed in turn, so once the settings are here the peer reads no more.
    while deaf.current_max_send_streams() != 9 {
        tokio::task::yield_now().await;
    }
    let _unheard = get(&mut deaf, "/unheard");
    whole(get(&mut other, "/after")).await.unwrap();
    assert_eq!(peer.seen().paths(), ["/before", "/after"]);
}

#[tokio::test]
async fn a_peer_that_stops_accepting_keeps_its_connections() {
    let peer = served(|_| Reply::ok(""));
    let mut client = http2_to(peer.address()).await;
    whole(get(&mut client, "/1")).await.unwrap();
    peer.stop_accepting().await;
    assert!(tokio::net::TcpStream::connect(peer.address()).await.is_err());
    whole(get(&mut client, "/2")).await.unwrap();
}

#[tokio::test]
#[should_panic(expected = "something went wrong at the peer")]
async fn a_panic_in_the_behaviour_fails_the_test() {
    let peer = served(|_| panic!("the behaviour's own"));
    let mut client = http2_to(peer.address()).await;
    let _response = get(&mut client, "/");
    peer.until(|_| false).await;
}

#[tokio::test]
#[should_panic(expected = "not the preface of HTTP/2")]
async fn a_client_that_breaks_the_protocol_fails_the_test() {
    let peer = served(|_| Reply::Hang);
    let socket = tokio::net::TcpStream::connect(peer.address()).await.unwrap();
    socket.try_write(b"GET / HTTP/1.1\r\n").unwrap();
    peer.until(|_| false).await;
}

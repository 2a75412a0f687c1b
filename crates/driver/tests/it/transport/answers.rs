//! Unusual answers, and bytes that are not an answer.

use bytes::Bytes;
use h2::Reason;
use sidereal_driver::transport::internals::TransportOutcome;
use sidereal_driver::transport::{HttpErrorKind, HttpVersions, RequestSentStatus};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::factory;
use sidereal_testing::fixture::{Executed, Setup, joined};
use sidereal_testing::peers::{Answer, Frame, Peer, Reply, Speaks};
use sidereal_testing::within_timeout;

/// More than a peer takes before it has given credit for it.
fn large() -> Bytes {
    Bytes::from(vec![b' '; 4 << 20])
}

/// The code and the body of an error response.
fn refused(executed: &Executed) -> (u16, &[u8]) {
    match &executed.outcome {
        TransportOutcome::HttpError(response) => (response.status.code(), &response.body),
        other => panic!("expected a refusal, got {other:?}"),
    }
}

/// So is a request answered that the service finds too large.
#[tokio::test]
async fn a_response_before_the_whole_request_was_read_is_accepted() {
    let peer = Peer::cleartext(Speaks::Http2);
    let client = Setup::over(factory()).start();
    let writing = tokio::spawn(client.execute(client.write(&peer.url(), "/", large())));
    let mut connection = peer.accept().await;
    connection.give_credit(false);
    let stream = connection
        .recv_until(|frame| match frame {
            Frame::Headers { stream, .. } => Some(*stream),
            _ => None,
        })
        .await;
    connection.respond(stream, Answer::new(413, "too large")).await;
    connection.reset(stream, Reason::NO_ERROR).await;
    assert_eq!(refused(&joined(writing).await), (413, b"too large".as_slice()));
    connection.ping().await;
}

#[tokio::test]
async fn a_response_truncated_by_a_reset_is_an_error() {
    let begun = Answer::new(200, "half").header("content-length", "8");
    let reply = Reply::begin(begun, Reply::Reset(Reason::NO_ERROR));
    let peer = Peer::cleartext(Speaks::Http2).serve(move |_| reply.clone());
    let client = Setup::over(factory()).start();
    let executed = client.execute(client.write(&peer.url(), "/", "{}")).await;
    assert_eq!(executed.error().request_sent(), RequestSentStatus::MaybeSent);
}

#[tokio::test]
async fn an_early_response_of_http_1_is_accepted() {
    let peer = Peer::cleartext(Speaks::Http1);
    let client = Setup::over(factory()).versions(HttpVersions::Negotiate).start();
    let writing = tokio::spawn(client.execute(client.write(&peer.url(), "/", large())));
    let mut stream = peer.accept_stream().await.unwrap();
    stream.read_u8().await.unwrap();
    let answer =
        b"HTTP/1.1 413 Too Large\r\ncontent-length: 9\r\nconnection: close\r\n\r\ntoo large";
    stream.write_all(answer).await.unwrap();
    assert_eq!(refused(&joined(writing).await), (413, b"too large".as_slice()));
    // The client leaves a connection on which it has not finished.
    let mut rest = tokio::io::sink();
    let leaving = tokio::io::copy(&mut stream, &mut rest);
    let _ = within_timeout("the client to leave", leaving).await; // In order or not: it is gone.
}

#[tokio::test]
async fn a_connection_of_http_1_that_reads_no_further_is_not_used_again() {
    let peer = Peer::cleartext(Speaks::Http1);
    let client = Setup::over(factory()).versions(HttpVersions::Negotiate).start();
    let writing = tokio::spawn(client.execute(client.write(&peer.url(), "/", large())));
    let mut stuck = peer.accept_stream().await.unwrap();
    stuck.write_all(b"HTTP/1.1 413 Too Large\r\ncontent-length: 0\r\n\r\n").await.unwrap();
    assert_eq!(refused(&joined(writing).await).0, 413);
    let url = peer.url();
    let _peer = peer.serve(|_| Reply::ok(""));
    client.get_ok(&url, "/").await;
}

own_client_only! {
    "the errors of an SDK do not tell streams and protocols from connections";

    #[tokio::test]
    async fn a_connection_that_violates_the_protocol_is_replaced() {
        let peer = Peer::cleartext(Speaks::Http2).serve(|request| match request.connection {
            0 => Reply::hold(),
            _ => Reply::ok("kept"),
        });
        let client = Setup::over(factory()).start();
        let read = tokio::spawn(client.execute(client.read(&peer.url(), "/read")));
        let write = tokio::spawn(client.execute(client.write(&peer.url(), "/write", "{}")));
        peer.until(|seen| seen.held == 2).await;
        peer.send(0, Frame::Data { stream: 0, bytes: Bytes::from_static(b"?"), end: false });
        assert_eq!(joined(read).await.body(), "kept");
        let written = joined(write).await;
        assert_eq!(written.error().kind(), HttpErrorKind::Protocol);
        assert_eq!(written.error().request_sent(), RequestSentStatus::MaybeSent);
        peer.until(|seen| !seen.connections[0].open).await;
    }
}

own_client_only! {
    "the errors of an SDK do not tell streams and protocols from connections";

    #[tokio::test]
    async fn a_peer_without_http_2_is_named_in_the_error() {
        let peer = Peer::cleartext(Speaks::Http2);
        let client = Setup::over(factory()).start();
        let writing = tokio::spawn(client.execute(client.write(&peer.url(), "/", "{}")));
        let mut stream = peer.accept_stream().await.unwrap();
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        let executed = joined(writing).await;
        assert_eq!(executed.error().kind(), HttpErrorKind::Protocol);
    }
}

#[tokio::test]
async fn a_response_over_the_size_limit_is_an_error() {
    for (speaks, versions) in [
        (Speaks::Http2, HttpVersions::Http2PriorKnowledge),
        (Speaks::Http1, HttpVersions::Negotiate),
    ] {
        let body = Bytes::from(vec![b' '; (64 << 20) + 1]);
        let peer = Peer::cleartext(speaks).serve(move |request| match request.path.as_str() {
            "/endless" => Reply::ok(body.clone()),
            _ => Reply::ok(""),
        });
        let client = Setup::over(factory()).versions(versions).start();
        let executed = client.execute(client.write(&peer.url(), "/endless", "{}")).await;
        assert_eq!(executed.error().kind(), HttpErrorKind::ResponseTooLarge);
        assert!(executed.error().to_string().contains("longer than"), "{}", executed.error());
        client.get_ok(&peer.url(), "/").await;
    }
}

//! Connections that end under their requests: who is sent again, and who must not be.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use h2::Reason;
use sidereal_driver::diagnostics::Decision;
use sidereal_driver::transport::internals::{TransportOutcome, TransportRequest};
use sidereal_driver::transport::{HttpErrorKind, RequestSentStatus};
use tokio::task::JoinHandle;

use super::factory;
use sidereal_testing::fixture::{Client, Executed, Setup, joined, numbered};
use sidereal_testing::peers::{Peer, Reply, Seen, ServedPeer, Speaks};

/// Says that any stream may still be served.
const ANY_STREAM: u32 = (1 << 31) - 1;

/// A peer that holds what comes over its first connection and answers what comes over another.
fn first_connection_holds() -> ServedPeer {
    Peer::cleartext(Speaks::Http2).serve(|request| match request.connection {
        0 => Reply::hold(),
        _ => Reply::ok(""),
    })
}

fn client() -> Client {
    let quick = |setup: &mut Setup| setup.budgets.backoff.initial = Duration::from_millis(1);
    Setup::over(factory()).shards(4, 20).with(quick).start()
}

fn begin(
    client: &Client,
    requests: impl IntoIterator<Item = TransportRequest>,
) -> Vec<JoinHandle<Executed>> {
    requests.into_iter().map(|request| tokio::spawn(client.execute(request))).collect()
}

fn writes(client: &Client, url: &str, count: usize) -> Vec<TransportRequest> {
    numbered(count).map(|path| client.write(url, &path, "{}")).collect()
}

/// The paths that arrived over a connection on streams above `last`.
fn above(seen: &Seen, connection: usize, last: u32) -> Vec<&str> {
    let there = seen.arrivals.iter().filter(|it| it.connection == connection && it.stream > last);
    sorted(there.map(|it| it.path.as_str()).collect())
}

fn sorted(mut paths: Vec<&str>) -> Vec<&str> {
    paths.sort_unstable();
    paths
}

#[tokio::test]
async fn streams_up_to_the_last_finish_and_those_above_are_sent_again_once() {
    let peer = first_connection_holds();
    let client = client();
    let tasks = begin(&client, writes(&client, &peer.url(), 10));
    peer.until(|seen| seen.held == 10).await;
    peer.go_away(0, 9, Reason::NO_ERROR);
    let seen = peer.until(|seen| seen.arrivals.len() == 15).await;
    assert_eq!(above(&seen, 1, 0), above(&seen, 0, 9));
    peer.release_all();
    for task in tasks {
        joined(task).await.body();
    }
    assert_eq!((peer.seen().arrivals.len(), peer.seen().accepted()), (15, 2));
    peer.until(|seen| seen.open_connections() == 1).await;
}

own_client_only! {
    "of a request given to the client of an SDK nobody knows whether it was sent";

    #[tokio::test]
    async fn a_goaway_with_an_error_code_fails_no_request() {
        let peer = first_connection_holds();
        let client = client();
        let tasks = begin(&client, writes(&client, &peer.url(), 5));
        peer.until(|seen| seen.held == 5).await;
        peer.go_away(0, 0, Reason::ENHANCE_YOUR_CALM);
        for task in tasks {
            let executed = joined(task).await;
            executed.body();
            let first = &executed.diagnostics.attempts()[0];
            assert_eq!(first.request_sent, RequestSentStatus::NotProcessed);
        }
        assert_eq!(peer.seen().arrivals.len(), 10);
    }
}

#[tokio::test]
async fn a_close_after_goaway_loses_only_processed_streams() {
    let peer = first_connection_holds();
    let client = client();
    let tasks = begin(&client, writes(&client, &peer.url(), 4));
    let seen = peer.until(|seen| seen.held == 4).await;
    peer.go_away(0, 3, Reason::NO_ERROR);
    peer.close(0);
    let not_taken: Vec<String> = above(&seen, 0, 3).iter().map(|&path| path.to_owned()).collect();
    for (task, path) in tasks.into_iter().zip(numbered(4)) {
        let outcome = joined(task).await.outcome;
        if not_taken.contains(&path) {
            assert!(matches!(outcome, TransportOutcome::Success(_)), "{path}: {outcome:?}");
        } else {
            assert_eq!(outcome.request_sent(), RequestSentStatus::MaybeSent, "{path}: {outcome:?}");
        }
    }
    assert_eq!(peer.seen().arrivals.len(), 6);
}

/// Each such end cost a request its first attempt, and under many of them some used up all attempts.
#[tokio::test]
async fn a_graceful_shutdown_in_two_goaways_costs_no_request_and_no_attempt() {
    let peer = first_connection_holds();
    let client = client();
    let mut tasks = begin(&client, writes(&client, &peer.url(), 5));
    peer.until(|seen| seen.held == 5).await;
    peer.go_away(0, ANY_STREAM, Reason::NO_ERROR);
    peer.release_next(1);
    peer.until(|seen| seen.open_streams() == 4).await;
    client.until_inflight(&peer.url(), 4).await;
    // An answer that came after the announcement has been read; so has the announcement.
    tasks.extend(begin(&client, [client.write(&peer.url(), "/late", "{}")]));
    let seen = peer.until(|seen| seen.arrivals.len() == 6).await;
    assert_eq!(above(&seen, 1, 0), ["/late"]);
    peer.go_away(0, 9, Reason::NO_ERROR);
    peer.release_all();
    for task in tasks {
        let executed = joined(task).await;
        executed.body();
        assert_eq!(executed.diagnostics.attempts().len(), 1);
    }
    assert_eq!(peer.seen().arrivals.len(), 6);
}

own_client_only! {
    "of a request given to the client of an SDK nobody knows whether it was sent";

    #[tokio::test]
    async fn a_refused_stream_is_sent_again_even_if_it_must_not_be_repeated() {
        let peer = Peer::cleartext(Speaks::Http2).serve(|request| match request.ordinal {
            0 => Reply::Reset(Reason::REFUSED_STREAM),
            _ => Reply::ok("taken"),
        });
        let client = client();
        let executed = client.execute(client.write(&peer.url(), "/", "{}")).await;
        assert_eq!(executed.body(), "taken");
        let [first, second] = executed.diagnostics.attempts() else { panic!("two attempts") };
        assert_eq!(first.request_sent, RequestSentStatus::NotProcessed);
        assert!(matches!(first.decision, Some(Decision::RetryHere { .. })));
        assert_ne!(first.shard, second.shard);
        assert!(matches!(second.decision, Some(Decision::Finish { .. })));
    }
}

own_client_only! {
    "of a request given to the client of an SDK nobody knows whether it was sent";

    #[tokio::test]
    async fn a_peer_that_refuses_every_stream_meets_the_resend_limit() {
        let refuse = |_: &_| Reply::Reset(Reason::REFUSED_STREAM);
        let peer = Peer::cleartext(Speaks::Http2).serve(refuse);
        let client = client();
        let executed = client.execute(client.write(&peer.url(), "/", "{}")).await;
        let error = executed.error();
        assert_eq!(error.kind(), HttpErrorKind::StreamRefused);
        assert_eq!(error.request_sent(), RequestSentStatus::NotProcessed);
        assert_eq!((peer.seen().arrivals.len(), executed.diagnostics.attempts().len()), (6, 6));
    }
}

#[tokio::test]
async fn a_request_that_may_be_repeated_survives_the_loss_of_its_connection() {
    let peer = Peer::cleartext(Speaks::Http2).serve(|request| match request.connection {
        0 => Reply::Abort,
        _ => Reply::ok("found"),
    });
    let client = client();
    let executed = client.execute(client.read(&peer.url(), "/")).await;
    assert_eq!(executed.body(), "found");
    assert_eq!(executed.diagnostics.attempts()[0].request_sent, RequestSentStatus::MaybeSent);
    assert_eq!(peer.seen().arrivals.len(), 2);
}

own_client_only! {
    "a shard whose client replaces its connections by itself does not end with one";

    #[tokio::test]
    async fn a_request_that_must_not_be_repeated_is_lost_with_its_connection() {
        let peer = Peer::cleartext(Speaks::Http2).serve(|_| Reply::Abort);
        let client = client();
        let executed = client.execute(client.write(&peer.url(), "/", "{}")).await;
        let error = executed.error();
        assert_eq!(error.kind(), HttpErrorKind::ConnectionLost);
        assert_eq!(error.request_sent(), RequestSentStatus::MaybeSent);
        assert_eq!(peer.seen().arrivals.len(), 1);
        client.until(&peer.url(), |pool| pool.shards.is_empty()).await;
    }
}

#[tokio::test]
async fn a_truncated_response_is_a_lost_request() {
    let peer = Peer::cleartext(Speaks::Http2)
        .serve(|_| Reply::begin(sidereal_testing::peers::Answer::new(200, "half"), Reply::Abort));
    let client = client();
    let executed = client.execute(client.write(&peer.url(), "/", "{}")).await;
    assert_eq!(executed.error().request_sent(), RequestSentStatus::MaybeSent);
    assert_eq!(peer.seen().arrivals.len(), 1);
}

#[tokio::test]
async fn a_connection_that_is_reset_before_it_was_read_is_replaced() {
    let peer = Peer::cleartext(Speaks::Http2);
    let url = peer.url();
    let client = client();
    let reading = tokio::spawn(client.execute(client.read(&url, "/")));
    peer.accept_stream().await.unwrap().abort();
    let peer = peer.serve(|_| Reply::ok("found"));
    assert_eq!(joined(reading).await.body(), "found");
    assert_eq!(peer.seen().arrivals.len(), 1);
}

/// A server that replaces its connections all the time (rolling GOAWAY), and what it processed.
#[derive(Default)]
struct RollingGoAway {
    last_streams: HashMap<usize, u32>,
    requests: HashMap<usize, usize>,
    taken: HashMap<String, usize>,
}

impl RollingGoAway {
    /// Each connection announces its end with the request that is its 50th.
    fn reply(&mut self, connection: usize, stream: u32, path: &str) -> Reply {
        if self.last_streams.get(&connection).is_some_and(|&last| stream > last) {
            return Reply::Hang;
        }
        *self.taken.entry(path.to_owned()).or_default() += 1;
        let requests = self.requests.entry(connection).or_default();
        *requests += 1;
        if *requests != 50 {
            return Reply::ok("");
        }
        self.last_streams.insert(connection, stream);
        Reply::go_away(stream, Reason::NO_ERROR, Reply::ok(""))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolling_goaways_lose_and_duplicate_no_request() {
    let server = Arc::new(Mutex::new(RollingGoAway::default()));
    let serving = Arc::clone(&server);
    let peer = Peer::cleartext(Speaks::Http2).serve(move |request| {
        serving.lock().unwrap().reply(request.connection, request.stream, &request.path)
    });
    let quick = |setup: &mut Setup| setup.budgets.backoff.initial = Duration::from_millis(1);
    let client = Setup::over(factory()).shards(4, 5).with(quick).start();
    let tasks = begin(&client, writes(&client, &peer.url(), 500));
    for task in tasks {
        joined(task).await.body();
    }
    let server = server.lock().unwrap();
    assert_eq!(server.taken.len(), 500);
    assert!(server.taken.values().all(|&times| times == 1));
    assert!(peer.seen().accepted() >= 10);
}

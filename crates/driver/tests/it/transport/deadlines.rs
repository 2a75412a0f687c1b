//! Deadlines, timeouts and cancellation: what is said of the request, and that nothing is left behind.

use std::time::{Duration, Instant};

use sidereal_driver::diagnostics::Phase;
use sidereal_driver::transport::internals::{TransportOutcome, TransportRequest};
use sidereal_driver::transport::{HttpErrorKind, HttpVersions, RequestSentStatus};

use super::factory;
use sidereal_testing::fixture::{Client, Executed, Setup, joined, numbered};
use sidereal_testing::peers::{
    Answer, Certificates, FullListener, Peer, Reply, ServedPeer, SilentListener, Speaks,
};

/// Long enough for anything that happens on loopback, short enough to be waited for.
const SOON: Duration = Duration::from_secs(1);

/// A wait within which nothing can happen.
const AT_ONCE: Duration = Duration::from_millis(50);

fn within(time: Duration, mut request: TransportRequest) -> TransportRequest {
    request.deadline = Some(Instant::now() + time);
    request
}

/// Where the deadline found the request, and how far it had got.
fn exceeded(executed: &Executed) -> (Phase, RequestSentStatus) {
    match executed.outcome {
        TransportOutcome::DeadlineExceeded { phase, request_sent } => (phase, request_sent),
        ref other => panic!("expected the deadline to pass, got {other:?}"),
    }
}

/// A peer that answers `/ready` and does with everything else what it is given.
fn ready_and(reply: Reply) -> ServedPeer {
    Peer::cleartext(Speaks::Http2).serve(move |request| match request.path.as_str() {
        "/ready" => Reply::ok(""),
        _ => reply.clone(),
    })
}

/// A client with a connection to the peer.
async fn connected(setup: Setup, peer: &ServedPeer) -> Client {
    let client = setup.start();
    client.get_ok(&peer.url(), "/ready").await;
    client
}

#[tokio::test]
async fn a_deadline_in_the_queue_leaves_the_queue() {
    let peer = ready_and(Reply::hold());
    let client = connected(Setup::over(factory()).shards(1, 1), &peer).await;
    let held = tokio::spawn(client.send(&peer.url(), "/held"));
    peer.until(|seen| seen.held == 1).await;
    let executed = client.execute(within(AT_ONCE, client.read(&peer.url(), "/late"))).await;
    assert_eq!(exceeded(&executed), (Phase::Queueing, RequestSentStatus::NotSent));
    peer.release_all();
    joined(held).await.outcome.unwrap();
    client.get_ok(&peer.url(), "/next").await;
    client.until_idle(&peer.url()).await;
    assert_eq!(peer.seen().paths(), ["/ready", "/held", "/next"]);
}

own_client_only! {
    "the client of an SDK connects with its first request, and tells nothing of it";

    #[tokio::test]
    async fn a_deadline_while_connecting_leaves_no_connection() {
        let listener = FullListener::start().await;
        let url = format!("http://{}", listener.address());
        let setup = Setup::over(factory());
        let client = setup.with(|setup| setup.client.connect_timeout = SOON).start();
        let executed = client.execute(within(AT_ONCE, client.read(&url, "/"))).await;
        assert_eq!(exceeded(&executed), (Phase::Connecting, RequestSentStatus::NotSent));
        client.until_inflight(&url, 0).await;
        client.until(&url, |pool| pool.shards.is_empty()).await;
    }
}

own_client_only! {
    "the client of an SDK connects with its first request, and tells nothing of it";

    #[tokio::test]
    async fn a_deadline_in_tls_leaves_no_connection() {
        let listener = SilentListener::start().await;
        let url = format!("https://{}", listener.address());
        let setup = Setup::over(factory()).trusting(&Certificates::new());
        let client = setup.with(|setup| setup.client.connect_timeout = SOON).start();
        let executed = client.execute(within(AT_ONCE, client.read(&url, "/"))).await;
        assert_eq!(exceeded(&executed), (Phase::Connecting, RequestSentStatus::NotSent));
        listener.until_accepted(1).await;
        client.until(&url, |pool| pool.shards.is_empty()).await;
    }
}

#[tokio::test]
async fn a_deadline_before_the_answer_cancels_the_stream_alone() {
    let peer = ready_and(Reply::Hang);
    let client = connected(Setup::over(factory()).shards(1, 1), &peer).await;
    let executed = client.execute(within(AT_ONCE, client.write(&peer.url(), "/", "{}"))).await;
    assert_eq!(exceeded(&executed), (Phase::AwaitingAnswer, RequestSentStatus::MaybeSent));
    let seen = peer.until(|seen| seen.cancelled() == 1).await;
    assert_eq!(seen.open_streams(), 0);
    client.until_idle(&peer.url()).await;
    client.get_ok(&peer.url(), "/ready").await;
    assert_eq!((peer.seen().accepted(), peer.seen().open_connections()), (1, 1));
}

#[tokio::test]
async fn a_deadline_in_the_middle_of_the_answer_cancels_the_stream_alone() {
    let peer = ready_and(Reply::begin(Answer::new(200, "half"), Reply::Hang));
    let client = connected(Setup::over(factory()).shards(1, 1), &peer).await;
    let executed = client.execute(within(SOON, client.read(&peer.url(), "/"))).await;
    assert_eq!(exceeded(&executed), (Phase::ReadingBody, RequestSentStatus::MaybeSent));
    peer.until(|seen| seen.cancelled() == 1 && seen.open_streams() == 0).await;
    client.until_idle(&peer.url()).await;
    client.get_ok(&peer.url(), "/ready").await;
    assert_eq!(peer.seen().accepted(), 1);
}

#[tokio::test]
async fn a_request_that_takes_too_long_is_repeated_once_over_another_connection() {
    let peer = Peer::cleartext(Speaks::Http2).serve(|request| match request.connection {
        0 if request.path != "/ready" => Reply::Hang,
        _ => Reply::ok("elsewhere"),
    });
    let setup = Setup::over(factory()).shards(4, 20);
    let client = connected(setup.with(|setup| setup.client.request_timeout = SOON), &peer).await;
    let executed = client.execute(client.read(&peer.url(), "/slow")).await;
    assert_eq!(executed.body(), "elsewhere");
    let [first, second] = executed.diagnostics.attempts() else { panic!("two attempts") };
    assert_ne!(first.shard, second.shard);
    assert_eq!(first.request_sent, RequestSentStatus::MaybeSent);
    peer.until(|seen| seen.cancelled() == 1).await;
}

#[tokio::test]
async fn a_request_that_takes_too_long_and_must_not_be_repeated_is_not() {
    let peer = ready_and(Reply::Hang);
    let setup = Setup::over(factory()).with(|setup| setup.client.request_timeout = SOON);
    let client = connected(setup, &peer).await;
    let executed = client.execute(client.write(&peer.url(), "/slow", "{}")).await;
    let error = executed.error();
    assert_eq!(error.kind(), HttpErrorKind::Timeout);
    assert_eq!(error.request_sent(), RequestSentStatus::MaybeSent);
    assert_eq!(peer.seen().paths(), ["/ready", "/slow"]);
}

#[tokio::test]
async fn a_cancelled_request_frees_its_stream_for_the_next() {
    let peer = ready_and(Reply::hold());
    let client = connected(Setup::over(factory()).shards(1, 1), &peer).await;
    let cancelled = tokio::spawn(client.execute(client.read(&peer.url(), "/")));
    peer.until(|seen| seen.held == 1).await;
    cancelled.abort();
    let seen = peer.until(|seen| seen.cancelled() == 1).await;
    assert_eq!((seen.held, seen.open_streams()), (0, 0));
    client.get_ok(&peer.url(), "/ready").await;
    assert_eq!(peer.seen().accepted(), 1);
}

#[tokio::test]
async fn a_cancelled_request_of_http_1_closes_its_connection() {
    let peer = Peer::cleartext(Speaks::Http1).serve(|_| Reply::hold());
    let client = Setup::over(factory()).versions(HttpVersions::Http1Only).start();
    let cancelled = tokio::spawn(client.execute(client.read(&peer.url(), "/")));
    peer.until(|seen| seen.held == 1).await;
    cancelled.abort();
    peer.until(|seen| seen.open_connections() == 0).await;
    client.until_idle(&peer.url()).await;
}

#[tokio::test]
async fn nothing_outlives_the_pipeline_and_its_tasks() {
    let http2 = ready_and(Reply::hold());
    let http1 = Peer::cleartext(Speaks::Http1).serve(|_| Reply::ok(""));
    let client = connected(Setup::over(factory()).shards(4, 2), &http2).await;
    let old = Setup::over(factory()).versions(HttpVersions::Http1Only).start();
    let requests = client.begin(&http2.url(), numbered(12));
    old.get_ok(&http1.url(), "/").await;
    http2.until(|seen| seen.held == 8).await;
    requests.iter().for_each(tokio::task::JoinHandle::abort);
    drop((client, old));
    http2.until(|seen| seen.accepted() == 4 && seen.open_connections() == 0).await;
    http1.until(|seen| seen.accepted() == 1 && seen.open_connections() == 0).await;
}

#[tokio::test]
async fn without_its_tasks_a_transport_reports_that_it_is_closed() {
    let peer = ready_and(Reply::Hang);
    let client = Setup::over(factory()).start();
    let request = client.read(&peer.url(), "/ready");
    let executing = client.execute(request);
    drop(client.tasks);
    let executed = executing.await;
    assert_eq!(executed.error().kind(), HttpErrorKind::Closed);
    assert_eq!(executed.error().request_sent(), RequestSentStatus::NotSent);
    assert_eq!(peer.seen().accepted(), 0);
}

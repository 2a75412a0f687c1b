//! Requests over several connections: how many at once, in which order, and how the pool breathes.

use std::time::{Duration, Instant};

use bytes::Bytes;
use sidereal_driver::diagnostics::RequestEventKind;
use sidereal_driver::transport::internals::PoolSnapshot;
use sidereal_driver::transport::{HttpErrorKind, RequestSentStatus};

use super::factory;
use sidereal_testing::fixture::{Client, Sent, Setup, inflight, joined, numbered};
use sidereal_testing::peers::{Peer, PeerSettings, Reply, Seen, ServedPeer, Speaks};

/// A peer that holds every request until it is told to answer.
fn holding_peer() -> ServedPeer {
    Peer::cleartext(Speaks::Http2).serve(|_| Reply::hold())
}

fn sharded(most: u32, streams: u32) -> Setup {
    Setup::over(factory()).shards(most, streams)
}

async fn all_succeed(tasks: Vec<tokio::task::JoinHandle<Sent>>) {
    for task in tasks {
        assert_eq!(joined(task).await.outcome.unwrap().status(), 200);
    }
}

/// Opens as many connections as it takes for so many requests at once, and lets them end.
async fn spike(client: &Client, peer: &ServedPeer, requests: usize) -> PoolSnapshot {
    let before = peer.seen().arrivals.len();
    let tasks = client.begin(&peer.url(), numbered(requests));
    peer.until(|seen| seen.arrivals.len() == before + requests && seen.held == requests).await;
    peer.release_next(requests);
    all_succeed(tasks).await;
    client.until_idle(&peer.url()).await
}

#[tokio::test]
async fn a_thousand_requests_fill_eight_shards_and_the_rest_follow_in_order() {
    let peer = holding_peer();
    let client = sharded(8, 20).start();
    let tasks = client.begin(&peer.url(), numbered(1000));
    let seen = peer.until(|seen| seen.held == 160).await;
    assert_eq!((seen.accepted(), seen.most_streams_on_a_connection()), (8, 20));

    for next in 160..260 {
        peer.release_next(1);
        let seen = peer.until(|seen| seen.arrivals.len() == next + 1).await;
        assert_eq!(seen.arrivals[next].path, format!("/{next}"));
        peer.until(|seen| seen.held == 160).await;
    }
    peer.release_all();
    all_succeed(tasks).await;
    let seen = peer.until(|seen| seen.open_streams() == 0).await;
    assert_eq!((seen.arrivals.len(), seen.most_streams), (1000, 160));
    assert_eq!((seen.accepted(), seen.most_streams_on_a_connection()), (8, 20));
}

own_client_only! {
    "what the client of an SDK sends beside the request is its own matter";

    #[tokio::test]
    async fn a_body_over_http2_says_its_length() {
        let peer = Peer::cleartext(Speaks::Http2).serve(|request| {
            let length = request.header("content-length").unwrap_or("none").to_owned();
            Reply::ok(length)
        });
        let client = sharded(1, 1).start();
        for (body, length) in [("{\"id\":\"1\"}", "10"), ("", "0")] {
            let write = client.write(&peer.url(), "/", body);
            assert_eq!(client.execute(write).await.body(), length);
        }
        assert_eq!(client.get_ok(&peer.url(), "/").await.body(), "none");
    }
}

/// The loser of a hedge was left because it was slow, and its connection kept its good name.
#[tokio::test]
async fn a_request_that_is_left_because_it_is_slow_counts_against_its_shard() {
    let peer = holding_peer();
    let client = sharded(1, 4).start();
    let (slow, hurried) = (Duration::from_millis(5), Duration::from_secs(60));
    for (slow_after, failures) in [(hurried, 0), (slow, 1)] {
        let held = peer.seen().arrivals.len();
        let mut request = client.read(&peer.url(), "/");
        request.slow_after = Some(Instant::now() + slow_after);
        let losing = tokio::spawn(client.execute(request));
        peer.until(|seen| seen.arrivals.len() > held).await;
        tokio::time::sleep(slow).await;
        losing.abort();
        let pool = client.until(&peer.url(), |pool| inflight(pool) == 0).await;
        assert_eq!(pool.shards[0].stats.total_failures, failures);
    }
}

/// With one request waiting and many cancelled behind it, a newcomer was refused.
#[tokio::test]
async fn cancelled_requests_do_not_keep_a_newcomer_out_of_the_queue() {
    let peer = holding_peer();
    let client = sharded(1, 1).with(|setup| setup.sharding.max_queued_requests = Some(10)).start();
    let url = peer.url();
    let served = tokio::spawn(client.send(&url, "/served"));
    peer.until(|seen| seen.held == 1).await;
    let waiting = tokio::spawn(client.send(&url, "/waiting"));
    client.until(&url, |pool| pool.queued == 1).await;
    let cancelled = client.begin(&url, numbered(9));
    client.until(&url, |pool| pool.queued == 10).await;
    for task in cancelled {
        task.abort();
        let _ = task.await; // It was cancelled.
    }
    let newcomer = tokio::spawn(client.send(&url, "/newcomer"));
    client.until(&url, |pool| pool.queued == 2).await;
    peer.release_all();
    all_succeed(vec![served, waiting, newcomer]).await;
    let seen = peer.seen();
    assert_eq!(seen.paths(), ["/served", "/waiting", "/newcomer"]);
}

#[tokio::test]
async fn fifty_shards_carry_a_thousand_requests_at_once() {
    let peer = holding_peer();
    let client = sharded(50, 20).start();
    let tasks = client.begin(&peer.url(), numbered(1000));
    let seen = peer.until(|seen| seen.held == 1000).await;
    assert_eq!((seen.accepted(), seen.most_streams_on_a_connection()), (50, 20));
    peer.release_all();
    all_succeed(tasks).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_threads_keep_to_the_limits_and_lose_no_wakeup() {
    let peer = Peer::cleartext(Speaks::Http2).serve(|request| Reply::ok(request.path.clone()));
    let client =
        sharded(4, 8).with(|setup| setup.sharding.max_queued_requests = Some(5000)).start();
    let tasks = client.begin(&peer.url(), numbered(3000));
    for (number, task) in tasks.into_iter().enumerate() {
        let response = joined(task).await.outcome.unwrap();
        assert_eq!(response.body(), format!("/{number}").as_bytes());
    }
    let pool = client.until_idle(&peer.url()).await;
    assert_eq!((inflight(&pool), pool.shards.len()), (0, 4));
    let served: u64 = pool.shards.iter().map(|shard| shard.stats.total_requests).sum();
    assert_eq!(served, 3000);
    assert!(peer.seen().most_streams_on_a_connection() <= 8);
}

#[tokio::test]
async fn requests_beyond_the_queue_capacity_are_rejected() {
    let peer = holding_peer();
    let client = sharded(1, 2).with(|setup| setup.sharding.max_queued_requests = Some(3)).start();
    let mut tasks = client.begin(&peer.url(), numbered(7));
    for refused in tasks.split_off(5) {
        let error = joined(refused).await.outcome.unwrap_err();
        assert_eq!(error.kind(), HttpErrorKind::QueueFull);
        assert_eq!(error.request_sent(), RequestSentStatus::NotSent);
        let sentence = error.to_string();
        assert!(sentence.contains(&peer.url()) && sentence.contains("3 requests"), "{sentence}");
        assert!(sentence.contains("sharding.max_queued_requests"), "{sentence}");
    }
    peer.until(|seen| seen.held == 2).await;
    peer.release_all();
    all_succeed(tasks).await;
    let seen = peer.seen();
    assert_eq!((seen.arrivals.len(), seen.most_streams), (5, 2));
}

#[tokio::test]
async fn requests_wait_up_to_a_limit_on_their_memory() {
    let peer = holding_peer();
    let limited = |setup: &mut Setup| setup.sharding.max_queued_bytes = 10_000;
    let client = sharded(1, 1).with(limited).start();
    let body = Bytes::from(vec![b'x'; 4_000]);
    let writes = numbered(3).map(|path| client.write(&peer.url(), &path, body.clone()));
    let mut tasks: Vec<_> = writes.map(|write| tokio::spawn(client.execute(write))).collect();
    let refused = joined(tasks.remove(2)).await;
    assert_eq!(refused.error().kind(), HttpErrorKind::QueueFull);
    let sentence = refused.error().to_string();
    assert!(sentence.contains("10000 bytes"), "{sentence}");
    assert!(sentence.contains("sharding.max_queued_bytes"), "{sentence}");
    peer.release_all();
    for task in tasks {
        joined(task).await.body();
    }
}

#[tokio::test]
async fn the_wait_in_the_queue_is_in_the_diagnostics() {
    let peer = holding_peer();
    let client = sharded(1, 1).start();
    let mut tasks = client.begin(&peer.url(), numbered(2));
    peer.until(|seen| seen.held == 1).await;
    client.until(&peer.url(), |pool| pool.queued == 1).await;
    peer.release_all();
    let (second, first) = (joined(tasks.remove(1)).await, joined(tasks.remove(0)).await);
    let waited = |sent: &Sent| sent.diagnostics.time_of(RequestEventKind::Queued).is_some();
    assert_eq!((waited(&first), waited(&second)), (false, true));
    assert!(second.diagnostics.queued() > Duration::ZERO);
    assert_eq!(second.diagnostics.shard, first.diagnostics.shard);
}

#[tokio::test]
async fn a_cancelled_waiter_s_stream_goes_to_the_next() {
    let peer = holding_peer();
    let client = sharded(1, 1).with(|setup| setup.sharding.max_queued_requests = Some(2)).start();
    let tasks = client.begin(&peer.url(), numbered(3));
    peer.until(|seen| seen.held == 1).await;
    client.until(&peer.url(), |pool| pool.queued == 2).await;
    tasks[1].abort();
    while !tasks[1].is_finished() {
        tokio::task::yield_now().await;
    }
    // The line was full, and is not any more.
    let late = client.begin(&peer.url(), ["/late".to_owned()]);
    peer.release_all();
    all_succeed(late).await;
    assert_eq!(peer.seen().paths(), ["/0", "/2", "/late"]);
    client.until_idle(&peer.url()).await;
}

own_client_only! {
    "the client of an SDK tells no stream limit";

    #[tokio::test]
    async fn a_lowered_stream_limit_is_respected_from_then_on() {
        let peer = holding_peer();
        let client = sharded(1, 20).start();
        let tasks = client.begin(&peer.url(), numbered(40));
        peer.until(|seen| seen.held == 20).await;
        peer.send_settings(0, PeerSettings::new().max_concurrent_streams(5));
        // An answer that follows the settings shows that they were read: streams up to 15 end, and
        // nobody replaces them.
        peer.release_next(15);
        let ended = |pool: &PoolSnapshot| inflight(pool) == 5 && pool.queued == 20;
        client.until(&peer.url(), ended).await;
        for released in 1..=10 {
            peer.release_next(1);
            let next = |seen: &Seen| seen.arrivals.len() == 20 + released && seen.held == 5;
            let seen = peer.until(next).await;
            assert_eq!(seen.open_streams(), 5);
        }
        peer.release_all();
        all_succeed(tasks).await;
    }
}

own_client_only! {
    "the client of an SDK tells no stream limit";

    /// Requests that waited went on waiting until another request ended, however much room there was.
    #[tokio::test]
    async fn a_raised_stream_limit_serves_waiters() {
        let settings = PeerSettings::new().max_concurrent_streams(2);
        let peer = Peer::cleartext(Speaks::Http2).with_settings(settings).serve(|_| Reply::hold());
        let client = sharded(1, 20).start();
        let first = client.begin(&peer.url(), numbered(2));
        peer.until(|seen| seen.held == 2).await;
        let others = client.begin(&peer.url(), numbered(10));
        client.until(&peer.url(), |pool| pool.queued == 10).await;
        peer.send_settings(0, PeerSettings::new().max_concurrent_streams(20));
        client.until_inflight(&peer.url(), 12).await;
        peer.until(|seen| seen.accepted() == 1 && seen.held == 12).await;
        peer.release_all();
        all_succeed(first).await;
        all_succeed(others).await;
    }
}

#[tokio::test]
async fn every_endpoint_has_a_pool_of_its_own() {
    let (full, free) = (holding_peer(), Peer::cleartext(Speaks::Http2).serve(|_| Reply::ok("")));
    let client = sharded(1, 2).start();
    let tasks = client.begin(&full.url(), numbered(4));
    full.until(|seen| seen.held == 2).await;
    client.get_ok(&free.url(), "/").await;
    assert_eq!(client.transport.snapshots().len(), 2);
    assert_eq!((client.snapshot(&full.url()).queued, client.snapshot(&free.url()).queued), (2, 0));
    full.release_all();
    all_succeed(tasks).await;
}

#[tokio::test]
async fn a_sweep_adds_a_shard_before_the_last_stream_is_taken() {
    let peer = holding_peer();
    let client = sharded(4, 8).start();
    let tasks = client.begin(&peer.url(), numbered(7));
    peer.until(|seen| seen.held == 7).await;
    assert_eq!(client.snapshot(&peer.url()).shards.len(), 1);
    client.transport.sweep(Instant::now(), None);
    let ready = |pool: &PoolSnapshot| pool.shards.iter().filter(|it| it.is_ready).count();
    client.until(&peer.url(), |pool| ready(pool) == 2).await;
    // Seven of sixteen are no reason for a third.
    client.transport.sweep(Instant::now(), None);
    assert_eq!(client.snapshot(&peer.url()).shards.len(), 2);
    peer.release_all();
    all_succeed(tasks).await;
}

own_client_only! {
    "the client of an SDK connects with its first request, and tells nothing of it";

    #[tokio::test]
    async fn a_sweep_keeps_the_minimum_of_shards() {
        let peer = Peer::cleartext(Speaks::Http2).serve(|_| Reply::ok(""));
        let least = |setup: &mut Setup| setup.sharding.min_clients_per_endpoint = 3;
        let client = sharded(8, 20).with(least).start();
        client.get_ok(&peer.url(), "/").await;
        client.transport.sweep(Instant::now(), None);
        peer.until(|seen| seen.open_connections() == 3).await;
        // One that the peer closes is made again.
        peer.close(1);
        client
            .until(&peer.url(), |_| {
                client.transport.sweep(Instant::now(), None);
                peer.seen().accepted() == 4
            })
            .await;
        peer.until(|seen| seen.open_connections() == 3).await;
        client.until(&peer.url(), |pool| pool.shards.len() == 3).await;
    }
}

#[tokio::test]
async fn after_a_spike_the_pool_shrinks_to_its_minimum_while_a_trickle_goes_on() {
    let peer = Peer::cleartext(Speaks::Http2).serve(|request| match request.path.as_str() {
        "/trickle" => Reply::ok(""),
        _ => Reply::hold(),
    });
    let client = sharded(8, 10).with(|setup| setup.sharding.min_clients_per_endpoint = 2).start();
    assert_eq!(spike(&client, &peer, 80).await.shards.len(), 8);
    let idle = Duration::from_secs(61);
    for _ in 0..20 {
        client.get_ok(&peer.url(), "/trickle").await;
    }
    client.transport.sweep(Instant::now(), None);
    assert_eq!(client.snapshot(&peer.url()).shards.len(), 8, "nothing is idle yet");
    client.transport.sweep(Instant::now() + idle, None);
    let oldest: Vec<u64> = client.snapshot(&peer.url()).shards.iter().map(|it| it.id).collect();
    assert_eq!(oldest, [0, 1]);
    peer.until(|seen| seen.open_connections() == 2).await;
    client.get_ok(&peer.url(), "/trickle").await;
}

#[tokio::test]
async fn a_trickle_goes_to_the_oldest_shard_alone() {
    let peer = Peer::cleartext(Speaks::Http2).serve(|request| match request.path.as_str() {
        "/trickle" => Reply::ok(""),
        _ => Reply::hold(),
    });
    let client = sharded(4, 2).start();
    let before = spike(&client, &peer, 8).await;
    for _ in 0..10 {
        client.get_ok(&peer.url(), "/trickle").await;
    }
    let after = client.snapshot(&peer.url());
    let more = before.shards.iter().zip(&after.shards);
    let more: Vec<u64> = more
        .map(|(before, after)| after.stats.total_requests - before.stats.total_requests)
        .collect();
    assert_eq!(more, [10, 0, 0, 0]);
}

#[tokio::test]
async fn bursts_spread_the_load_over_more_shards() {
    let peer = holding_peer();
    let client = sharded(4, 4).start();
    spike(&client, &peer, 16).await;
    assert_eq!(client.snapshot(&peer.url()).load_spread_ratio, 0.5);
    for burst in [16, 0, 16, 0] {
        spike(&client, &peer, burst).await;
        client.transport.sweep(Instant::now(), None);
    }
    assert!(client.snapshot(&peer.url()).load_spread_ratio > 0.9);
}

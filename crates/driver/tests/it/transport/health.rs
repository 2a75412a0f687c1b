//! Unhealthy connections: found by sweeps and pings, evicted, and replaced.

use std::sync::Arc;
use std::time::{Duration, Instant};

use h2::Reason;
use sidereal_driver::system::CpuLoad;
use sidereal_driver::transport::internals::{PoolSnapshot, TransportOutcome};
use sidereal_driver::transport::{HttpErrorKind, RequestSentStatus};

use super::factory;
use sidereal_testing::fixture::{Client, Setup, joined};
use sidereal_testing::peers::{Peer, Reply, ServedPeer, Speaks};
use sidereal_testing::within_timeout;

/// Beyond the threshold of a hang, far below that of idleness.
const A_HANG: Duration = Duration::from_secs(16);

/// Holds `/held`, and answers everything else.
fn answering_peer() -> ServedPeer {
    Peer::cleartext(Speaks::Http2).serve(|request| match request.path.as_str() {
        "/held" => Reply::hold(),
        _ => Reply::ok(""),
    })
}

fn setup(drain: Duration) -> Setup {
    let shards = Setup::over(factory()).shards(4, 1);
    shards.with(|setup| setup.sharding.eviction_drain_timeout = drain)
}

/// Puts one request on the first connection and leaves a second one free.
async fn one_hangs_and_one_is_free(
    client: &Client,
    peer: &ServedPeer,
) -> tokio::task::JoinHandle<sidereal_testing::fixture::Executed> {
    let hanging = client.write(&peer.url(), "/held", "{}");
    let hanging = tokio::spawn(client.execute(hanging));
    peer.until(|seen| seen.held == 1).await;
    client.get_ok(&peer.url(), "/").await;
    assert_eq!(shard_ids(&client.snapshot(&peer.url())), [0, 1]);
    hanging
}

fn shard_ids(pool: &PoolSnapshot) -> Vec<u64> {
    pool.shards.iter().map(|shard| shard.id).collect()
}

#[tokio::test]
async fn a_hanging_connection_is_evicted_and_its_request_fails_after_drain() {
    let peer = answering_peer();
    let client = setup(Duration::from_millis(20)).start();
    let hanging = one_hangs_and_one_is_free(&client, &peer).await;
    client.transport.sweep(Instant::now() + A_HANG, None);
    assert_eq!(shard_ids(&client.snapshot(&peer.url())), [1]);
    let executed = joined(hanging).await;
    assert_eq!(executed.error().kind(), HttpErrorKind::Evicted);
    assert_eq!(executed.error().request_sent(), RequestSentStatus::MaybeSent);
    let seen = peer.until(|seen| seen.open_connections() == 1).await;
    assert!(!seen.connections[0].open);
    client.get_ok(&peer.url(), "/").await;
    assert_eq!(peer.seen().accepted(), 2);
}

/// The last connection to an endpoint lived for ever, whatever DNS said by then.
#[tokio::test]
async fn a_connection_past_its_age_is_replaced_and_its_requests_finish() {
    let peer = answering_peer();
    let setup = Setup::over(factory()).shards(1, 20);
    // Aged at once: the next one is as well, and replaced at each sweep.
    let young = setup.with(|setup| {
        setup.sharding.max_clients_per_endpoint = 2;
        setup.client.max_connection_age = Duration::from_millis(1);
    });
    let client = young.start();
    let slow = tokio::spawn(client.execute(client.read(&peer.url(), "/held")));
    peer.until(|seen| seen.held == 1).await;
    let replaced = |pool: &PoolSnapshot| shard_ids(pool).first().is_some_and(|id| *id > 0);
    client
        .until(&peer.url(), |pool| {
            client.transport.sweep(Instant::now(), None);
            replaced(pool)
        })
        .await;
    client.get_ok(&peer.url(), "/").await;
    let seen = peer.seen();
    assert!(seen.connections[0].open && seen.connections[0].requests == 1);
    peer.release_all();
    joined(slow).await.body();
    peer.until(|seen| !seen.connections[0].open).await;
}

#[tokio::test]
async fn a_request_that_ends_within_the_drain_is_answered() {
    let peer = answering_peer();
    let client = setup(Duration::from_secs(60)).start();
    let slow = one_hangs_and_one_is_free(&client, &peer).await;
    client.transport.sweep(Instant::now() + A_HANG, None);
    assert_eq!(shard_ids(&client.snapshot(&peer.url())), [1]);
    peer.release_all();
    joined(slow).await.body();
    peer.until(|seen| !seen.connections[0].open).await;
}

#[tokio::test]
async fn nothing_is_evicted_while_the_processors_are_busy() {
    let peer = answering_peer();
    let client = setup(Duration::from_secs(60)).start();
    let slow = one_hangs_and_one_is_free(&client, &peer).await;
    client.transport.sweep(Instant::now() + A_HANG, Some(0.95));
    assert_eq!(shard_ids(&client.snapshot(&peer.url())), [0, 1]);
    client.transport.sweep(Instant::now() + A_HANG, Some(0.5));
    assert_eq!(shard_ids(&client.snapshot(&peer.url())), [1]);
    peer.release_all();
    joined(slow).await.body();
}

#[tokio::test]
async fn one_bad_connection_among_good_ones_is_replaced_and_fails_no_request() {
    let peer = Peer::cleartext(Speaks::Http2).serve(|request| match request.connection {
        0 => Reply::Reset(Reason::INTERNAL_ERROR),
        _ => Reply::ok(""),
    });
    let client = Setup::over(factory()).shards(4, 20).start();
    for _ in 0..20 {
        client.execute(client.read(&peer.url(), "/")).await.body();
    }
    let tried = peer.seen().connections[0].requests;
    assert_eq!(tried, 5, "after five failures it is not tried any more");
    client.transport.sweep(Instant::now() + Duration::from_secs(3), None);
    assert!(!shard_ids(&client.snapshot(&peer.url())).contains(&0));
    peer.until(|seen| !seen.connections[0].open).await;
    client.execute(client.read(&peer.url(), "/")).await.body();
}

#[tokio::test]
async fn deadlines_that_pass_on_a_connection_count_against_it() {
    let peer = Peer::cleartext(Speaks::Http2).serve(|request| match request.connection {
        0 if request.path == "/slow" => Reply::Hang,
        _ => Reply::ok(""),
    });
    let client = Setup::over(factory()).shards(4, 20).start();
    client.get_ok(&peer.url(), "/").await;
    for _ in 0..5 {
        let mut slow = client.write(&peer.url(), "/slow", "{}");
        slow.deadline = Some(Instant::now() + Duration::from_millis(20));
        let executed = client.execute(slow).await;
        assert!(matches!(executed.outcome, TransportOutcome::DeadlineExceeded { .. }));
    }
    client.execute(client.write(&peer.url(), "/slow", "{}")).await.body();
    assert_eq!(peer.seen().accepted(), 2);
}

own_client_only! {
    "the errors of an SDK do not tell streams and protocols from connections";

    #[tokio::test]
    async fn connections_that_all_fail_are_not_evicted() {
        let refuse = |_: &_| Reply::Reset(Reason::INTERNAL_ERROR);
        let peer = Peer::cleartext(Speaks::Http2).serve(refuse);
        let client = Setup::over(factory()).shards(2, 20).start();
        for _ in 0..20 {
            let executed = client.execute(client.read(&peer.url(), "/")).await;
            assert_eq!(executed.error().kind(), HttpErrorKind::StreamReset);
        }
        client.transport.sweep(Instant::now() + Duration::from_secs(3), None);
        assert_eq!(shard_ids(&client.snapshot(&peer.url())), [0, 1]);
        assert_eq!(peer.seen().accepted(), 2);
    }
}

own_client_only! {
    "how the client of an SDK connects is settled where it is made";

    #[tokio::test]
    async fn a_connection_that_answers_no_pings_is_lost_and_replaced() {
        let peer = answering_peer();
        let client = Setup::over(factory()).with(|setup| {
            setup.client.http2_keep_alive_interval = Duration::from_millis(10);
            setup.client.http2_keep_alive_timeout = Duration::from_secs(1);
        });
        let client = client.start();
        let silenced = tokio::spawn(client.execute(client.write(&peer.url(), "/held", "{}")));
        peer.until(|seen| seen.held == 1 && seen.connections[0].pings > 0).await;
        peer.answer_pings(0, false);
        let executed = joined(silenced).await;
        assert_eq!(executed.error().kind(), HttpErrorKind::ConnectionLost);
        assert_eq!(executed.error().request_sent(), RequestSentStatus::MaybeSent);
        client.get_ok(&peer.url(), "/").await;
        let seen = peer.until(|seen| seen.open_connections() == 1).await;
        assert_eq!((seen.accepted(), seen.connections[0].open), (2, false));
    }
}

own_client_only! {
    "the client of an SDK has keep-alive of its own";

    /// After a pause of the process the timer was due before the socket was looked at, and a connection
    /// that had answered every ping was evicted with the requests on it.
    #[test]
    fn a_pong_that_arrived_during_a_pause_counts() {
        let keep_alive = Duration::from_millis(50);
        let server = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let peer = server.block_on(async { answering_peer() });
        let client = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        client.block_on(async {
            let client = Setup::over(factory()).with(|setup| {
                setup.client.http2_keep_alive_interval = Duration::from_millis(1);
                setup.client.http2_keep_alive_timeout = keep_alive;
            });
            let client = client.start();
            let held = tokio::spawn(client.execute(client.write(&peer.url(), "/held", "{}")));
            peer.until(|seen| seen.held == 1 && seen.connections[0].pings > 0).await;
            for _ in 0..10 {
                let pings = peer.seen().connections[0].pings;
                peer.until(|seen| seen.connections[0].pings > pings).await;
                // The process stands still; the peer, in another thread, does not.
                std::thread::sleep(2 * keep_alive);
            }
            peer.release_all();
            joined(held).await.body();
            assert_eq!(peer.seen().accepted(), 1);
        });
    }
}

own_client_only! {
    "the client of an SDK connects with its first request, and tells nothing of it";

    #[tokio::test]
    async fn the_background_sweep_works_by_itself_and_ends_with_its_owner() {
        let peer = answering_peer();
        let client = Setup::over(factory()).with(|setup| {
            setup.sharding.health_check_interval = Duration::from_millis(5);
            setup.sharding.min_clients_per_endpoint = 3;
            setup.sharding.max_clients_per_endpoint = 3;
        });
        let client = client.start();
        client.get_ok(&peer.url(), "/").await;
        let read = Arc::new(());
        let reading = Arc::clone(&read);
        assert!(client.transport.start_sweeping(CpuLoad::from_fn(move || {
            let _ = &reading; // Kept for as long as the sweep goes on.
            None
        })));
        peer.until(|seen| seen.open_connections() == 3).await;
        peer.close(2);
        peer.until(|seen| seen.accepted() == 4 && seen.open_connections() == 3).await;
        drop(client.tasks);
        let ended = async {
            while Arc::strong_count(&read) > 1 {
                tokio::task::yield_now().await;
            }
        };
        within_timeout("the sweep to end", ended).await;
    }
}

//! Everything at once: requests that are cancelled, peers that misbehave, sweeps in between.
//!
//! The assertions hold for every order of events: each request ends, limits are kept, and afterwards
//! nothing is left on a connection or in the queue. The seed of a failing run is printed with it.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use fastrand::Rng;
use h2::Reason;
use sidereal_driver::transport::internals::TransportOutcome;
use sidereal_driver::transport::{HttpErrorKind, HttpVersions, RequestSentStatus};
use tokio::task::JoinHandle;

use super::factory;
use sidereal_testing::fixture::{Client, Executed, Setup, joined, numbered};
use sidereal_testing::peers::{
    Answer, ArrivedRequest, Certificates, Peer, PeerSettings, Protocol, Reply, ServedPeer, Speaks,
};

/// A random generator that prints its seed.
fn seeded() -> Rng {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    Rng::with_seed(seed)
}

fn begin_reads(client: &Client, peer: &ServedPeer, count: usize) -> Vec<JoinHandle<Executed>> {
    let reads = numbered(count).map(|path| client.read(&peer.url(), &path));
    reads.map(|read| tokio::spawn(client.execute(read))).collect()
}

/// Nothing is on a connection or in the queue, on either side.
async fn assert_calm(client: &Client, peer: &ServedPeer) {
    client.until_idle(&peer.url()).await;
    peer.until(|seen| seen.open_streams() == 0).await;
}

own_client_only! {
    "how many connections the client of an SDK makes is its own affair";

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn cancelling_at_random_leaks_no_stream_and_breaks_no_limit() {
        let mut random = seeded();
        let settings = PeerSettings::new().max_concurrent_streams(8);
        let peer = Peer::cleartext(Speaks::Http2).with_settings(settings);
        let peer = peer.serve(|request| match request.ordinal % 3 {
            0 => Reply::Hang,
            _ => Reply::ok(""),
        });
        let client = Setup::over(factory()).shards(3, 8).start();
        for _ in 0..30 {
            let mut tasks = begin_reads(&client, &peer, 60);
            random.shuffle(&mut tasks);
            for (position, task) in tasks.iter().enumerate() {
                if position % 10 == 0 {
                    tokio::time::sleep(Duration::from_micros(random.u64(..500))).await;
                }
                task.abort();
            }
        }
        assert_calm(&client, &peer).await;
        let seen = peer.seen();
        let most = seen.most_streams_on_a_connection();
        assert!(most <= 8, "{most}");
        assert!(seen.cancelled() > 0 && seen.accepted() <= 3);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sweeps_that_evict_every_shard_fail_no_request() {
    let peer = Peer::cleartext(Speaks::Http2).serve(|_| Reply::ok(""));
    let client = Setup::over(factory()).shards(4, 4).start();
    let tasks = begin_reads(&client, &peer, 900);
    while !tasks.iter().all(JoinHandle::is_finished) {
        client.transport.sweep(Instant::now() + Duration::from_secs(120), None);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for task in tasks {
        joined(task).await.body();
    }
    assert_calm(&client, &peer).await;
}

/// A peer of which each connection does something else wrong now and then.
fn flaky_peer(random: Rng) -> ServedPeer {
    let random = Mutex::new(random);
    Peer::cleartext(Speaks::Http2).serve(move |request| {
        let mut random = random.lock().unwrap();
        match random.u16(..400) {
            0 => Reply::Abort,
            1 => Reply::Close,
            2 => Reply::go_away(request.stream, Reason::NO_ERROR, Reply::ok("")),
            3 => Reply::go_away(0, Reason::ENHANCE_YOUR_CALM, Reply::Close),
            4..8 => Reply::Reset(Reason::REFUSED_STREAM),
            8..12 => Reply::Reset(Reason::INTERNAL_ERROR),
            _ => Reply::ok(""),
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_flaky_peer_leaves_every_request_with_an_outcome() {
    let mut random = seeded();
    let peer = Arc::new(flaky_peer(random.fork()));
    let setup = Setup::over(factory()).shards(4, 8);
    let client = setup.with(|it| it.budgets.backoff.initial = Duration::from_millis(1)).start();
    let tasks = begin_reads(&client, &peer, 1000);
    while !tasks.iter().all(JoinHandle::is_finished) {
        client.transport.sweep(Instant::now(), None);
        let connection = random.usize(..peer.seen().accepted().max(1));
        if peer.seen().accepted() > connection {
            let streams = random.u32(1..=20);
            peer.send_settings(connection, PeerSettings::new().max_concurrent_streams(streams));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for task in tasks {
        let outcome = joined(task).await.outcome;
        let is_an_end = match &outcome {
            TransportOutcome::Success(_) => true,
            TransportOutcome::TransportError { error, .. } => matches!(
                error.kind(),
                HttpErrorKind::ConnectionLost
                    | HttpErrorKind::GoneAway
                    | HttpErrorKind::StreamRefused
                    | HttpErrorKind::StreamReset
            ),
            _ => false,
        };
        assert!(is_an_end, "{outcome:?}");
    }
    assert_calm(&client, &peer).await;
}

own_client_only! {
    "of a request given to the client of an SDK nobody knows whether it was sent";

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn requests_to_a_closed_port_all_fail_with_a_reason() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let client = Setup::over(factory()).shards(4, 8).start();
        let writes = numbered(500).map(|path| client.write(&url, &path, "{}"));
        let tasks: Vec<_> = writes.map(|write| tokio::spawn(client.execute(write))).collect();
        for task in tasks {
            let executed = joined(task).await;
            assert_eq!(executed.error().kind(), HttpErrorKind::Connect);
            assert_eq!(executed.error().request_sent(), RequestSentStatus::NotSent);
            assert!(executed.error().to_string().contains(&url), "{}", executed.error());
            assert_eq!(executed.diagnostics.attempts().len(), 2);
        }
        client.until(&url, |pool| pool.shards.is_empty() && pool.queued == 0).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_bodies_pass_in_both_directions_at_once() {
    let large = Bytes::from(vec![b'x'; 3 << 20]);
    for (speaks, versions) in [
        (Speaks::Http2, HttpVersions::Http2PriorKnowledge),
        (Speaks::Http1, HttpVersions::Negotiate),
    ] {
        let peer = Peer::cleartext(speaks).serve(|request| Reply::ok(request.body.clone()));
        let client = Setup::over(factory()).versions(versions).shards(1, 20).start();
        let writes = numbered(20).map(|path| client.write(&peer.url(), &path, large.clone()));
        let tasks: Vec<_> = writes.map(|write| tokio::spawn(client.execute(write))).collect();
        for task in tasks {
            assert!(*joined(task).await.body() == large, "the body came back changed");
        }
        assert_calm(&client, &peer).await;
    }
}

own_client_only! {
    "how many connections the client of an SDK makes is its own affair";

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn a_flaky_http_1_peer_leaves_every_request_with_an_outcome() {
        let random = Mutex::new(seeded());
        let peer =
            Peer::cleartext(Speaks::Http1).serve(move |_| match random.lock().unwrap().u16(..100) {
                0 => Reply::Abort,
                1 => Reply::Close,
                2 => Answer::new(200, "").header("connection", "close").into(),
                _ => Reply::ok(""),
            });
        let setup = Setup::over(factory()).versions(HttpVersions::Negotiate);
        let client = setup.with(|setup| setup.client.pool_max_idle_per_host = 8).start();
        let tasks = begin_reads(&client, &peer, 1000);
        while !tasks.iter().all(JoinHandle::is_finished) {
            client.transport.sweep(Instant::now(), None);
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        for task in tasks {
            match joined(task).await.outcome {
                TransportOutcome::Success(_) => {}
                TransportOutcome::TransportError { error, .. } => {
                    assert_eq!(error.kind(), HttpErrorKind::ConnectionLost, "{error:?}");
                }
                other => panic!("neither answered nor lost: {other:?}"),
            }
        }
        assert_calm(&client, &peer).await;
        peer.until(|seen| seen.open_connections() <= 8).await;
    }
}

/// Answers, and lets every 25th request be the last of its connection.
fn last_of_its_connection_now_and_then(request: &ArrivedRequest) -> Reply {
    let is_http1 = request.header("host").is_some();
    match request.ordinal % 25 {
        24 if is_http1 => Answer::new(200, "").header("connection", "close").into(),
        24 => Reply::go_away(request.stream, Reason::NO_ERROR, Reply::ok("")),
        _ => Reply::ok(""),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn switching_the_version_under_load_fails_no_read() {
    let certificates = Certificates::new();
    let peer = Peer::tls(Speaks::Http1, &certificates.loopback());
    let peer = peer.serve(last_of_its_connection_now_and_then);
    let setup = Setup::over(factory()).trusting(&certificates).shards(4, 2);
    let client = setup.with(|setup| setup.client.pool_max_idle_per_host = 8).start();
    for round in 0..6 {
        peer.speak(if round % 2 == 0 { Speaks::Http2 } else { Speaks::Http1 });
        for task in begin_reads(&client, &peer, 200) {
            let executed = joined(task).await;
            assert_eq!(executed.outcome.status().code(), 200, "{}", executed.diagnostics);
        }
    }
    assert_calm(&client, &peer).await;
    let seen = peer.seen();
    let spoken = |protocol| seen.connections.iter().any(|it| it.protocol == Some(protocol));
    assert!(spoken(Protocol::Http1) && spoken(Protocol::Http2));
}

//! The cost of the transport on top of HTTP/2: CPU per request and throughput, beside bare hyper.
//!
//!     cargo bench -p sidereal-driver --bench transport
//!
//! The server is this program again, as a process of its own: a minimal HTTP/2 server over TLS that
//! answers with 1 KB. The two clients take turns within one run, round by round, so that what the machine
//! does meanwhile meets both:
//!
//! - *bare*: hyper, one connection per 20 requests at once, shared by hand; the same headers, not signed.
//! - *ours*: `TransportPipeline` with as many shards of 20 streams; every request is signed, has its
//!   deadline, and leaves its diagnostics.
//!
//! `-- --profile` sends reads over the transport alone, for a profiler to look at.
//!
//! Figures come from `/proc`, so they need Linux.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a benchmark reads the time that it measures")]

mod bare;
mod cpu;
mod ours;
mod request;
mod server;

use std::sync::Arc;
use std::time::Instant;

use bare::Bare;
use ours::Ours;
use request::Shape;
use server::ServerProcess;

/// Requests at once.
const CONCURRENCY: [usize; 4] = [1, 16, 64, 256];

/// Streams per connection, as the service has it.
const STREAMS: usize = 20;

/// Requests of one round.
const REQUESTS: usize = 20_000;

/// Rounds of each client; the median counts.
const ROUNDS: usize = 9;

fn main() {
    if std::env::args().any(|argument| argument == server::ARGUMENT) {
        return server::run();
    }
    let server = ServerProcess::start();
    if std::env::args().any(|argument| argument == "--profile") {
        return profile(&server);
    }
    println!(
        "CPU of this process per request, and throughput; medians of {ROUNDS} rounds of {REQUESTS}"
    );
    for shape in [Shape::Read, Shape::Write] {
        println!("\n{shape}");
        println!("  at once   bare µs   ours µs   ratio   (least–most)     bare /s    ours /s");
        for concurrency in CONCURRENCY {
            compare(&server, shape, concurrency);
        }
    }
}

/// Sends reads over the transport alone, 64 at once.
fn profile(server: &ServerProcess) {
    let concurrency: usize = 64;
    let runtime = runtime();
    let ours = runtime.block_on(async {
        Arc::new(Ours::new(server, concurrency.div_ceil(STREAMS), Shape::Read))
    });
    for _ in 0..ROUNDS {
        let cost = runtime.block_on(measure(concurrency, |_| {
            let ours = Arc::clone(&ours);
            move || {
                let ours = Arc::clone(&ours);
                async move { ours.request().await }
            }
        }));
        println!("{:.2} µs", cost.cpu_micros);
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

fn compare(server: &ServerProcess, shape: Shape, concurrency: usize) {
    let connections = concurrency.div_ceil(STREAMS);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let (bare, ours) = runtime.block_on(async {
        let bare = Arc::new(Bare::connect(server, connections, shape).await);
        (bare, Arc::new(Ours::new(server, connections, shape)))
    });
    let mut rounds = Vec::new();
    // The first round warms up and is not counted.
    for round in 0..=ROUNDS {
        let first = runtime.block_on(measure(concurrency, |index| {
            let bare = Arc::clone(&bare);
            move || {
                let bare = Arc::clone(&bare);
                async move { bare.request(index).await }
            }
        }));
        let second = runtime.block_on(measure(concurrency, |_| {
            let ours = Arc::clone(&ours);
            move || {
                let ours = Arc::clone(&ours);
                async move { ours.request().await }
            }
        }));
        if round > 0 {
            rounds.push((first, second));
        }
    }
    report(concurrency, &rounds);
}

/// The cost of one round.
#[derive(Clone, Copy)]
struct Cost {
    cpu_micros: f64,
    per_second: f64,
}

/// Runs a round: as many tasks as requests at once, each sending one after another.
async fn measure<Make, Send, Sent>(concurrency: usize, make: Make) -> Cost
where
    Make: Fn(usize) -> Send,
    Send: Fn() -> Sent + std::marker::Send + 'static,
    Sent: Future<Output = ()> + std::marker::Send,
{
    let each = REQUESTS / concurrency;
    let (cpu, started) = (cpu::own(), Instant::now());
    let tasks: Vec<_> = (0..concurrency)
        .map(|index| {
            let send = make(index);
            tokio::spawn(async move {
                for _ in 0..each {
                    send().await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    let requests = (each * concurrency) as f64;
    Cost {
        cpu_micros: (cpu::own() - cpu).as_secs_f64() * 1e6 / requests,
        per_second: requests / started.elapsed().as_secs_f64(),
    }
}

fn report(concurrency: usize, rounds: &[(Cost, Cost)]) {
    let median = |pick: &dyn Fn(&(Cost, Cost)) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(pick).collect();
        values.sort_by(f64::total_cmp);
        (values[values.len() / 2], values[0], values[values.len() - 1])
    };
    let (bare, ..) = median(&|(bare, _)| bare.cpu_micros);
    let (ours, ..) = median(&|(_, ours)| ours.cpu_micros);
    let (ratio, least, most) = median(&|(bare, ours)| ours.cpu_micros / bare.cpu_micros);
    let (bare_rate, ..) = median(&|(bare, _)| bare.per_second);
    let (ours_rate, ..) = median(&|(_, ours)| ours.per_second);
    println!(
        "  {concurrency:>7}   {bare:>7.2}   {ours:>7.2}   {ratio:>5.2}   ({least:.2}–{most:.2})   \
         {bare_rate:>9.0}  {ours_rate:>9.0}"
    );
}

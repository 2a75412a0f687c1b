//! Mixed load on an account of three regions, for as long as it is told: does its memory stay flat?
//!
//!     SOAK_SECONDS=600 cargo bench -p sidereal-cli --bench soak
//!
//! Writers go over a fixed set of items, so the data does not grow: what grows is a leak. Printed is the
//! resident memory at every twentieth of the time, and how far it moved over the second half.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

#[path = "../tests/it/process.rs"]
#[expect(dead_code, reason = "the tests do more with a process")]
mod process;
#[path = "../tests/it/wire.rs"]
#[expect(dead_code, reason = "the tests look at more of an answer")]
mod wire;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::Method;
use serde_json::json;

use process::Running;
use wire::Connection;

const REGIONS: &str = "West US,East US,North Europe";
const DOCS: &str = "/dbs/db/colls/c/docs";
const ITEMS: u64 = 20_000;
const KEYS: u64 = 50;
const SAMPLES: u32 = 20;
/// Seconds where nothing is said: enough to see that the command works.
const DEFAULT_SECONDS: u64 = 20;

fn main() {
    let seconds = std::env::var("SOAK_SECONDS").ok();
    let seconds = seconds.map_or(DEFAULT_SECONDS, |text| text.parse().unwrap());
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("soak-{}", std::process::id()));
    fs::create_dir_all(&root).unwrap();
    for arguments in
        [vec![], vec!["--data-dir".to_owned(), root.join("data").display().to_string()]]
    {
        println!(
            "\n{} {}",
            if arguments.is_empty() { "in memory" } else { "kept:" },
            arguments.join(" ")
        );
        soak(&root, &arguments, Duration::from_secs(seconds));
    }
    let _ = fs::remove_dir_all(root); // Best effort: `cargo clean` removes it too.
}

fn soak(root: &Path, arguments: &[String], time: Duration) {
    let region_arguments = ["--regions", REGIONS, "--replication-delay", "20ms"];
    let arguments: Vec<&str> =
        region_arguments.into_iter().chain(arguments.iter().map(String::as_str)).collect();
    let emulator = Running::start(root, &arguments);
    create_container(&mut emulator.connect_to(0));
    let (end, requests) = (Instant::now() + time, AtomicU64::new(0));
    let mut resident = Vec::new();
    std::thread::scope(|scope| {
        for worker in 0..3 {
            let (emulator, requests) = (&emulator, &requests);
            scope.spawn(move || work(emulator, worker, end, requests));
        }
        for sample in 1..=SAMPLES {
            std::thread::sleep(time / SAMPLES);
            resident.push(emulator.resident_megabytes());
            let requests = requests.load(Ordering::Relaxed);
            println!(
                "{:4} % of the time  {requests:9} requests  {:7.1} MB",
                sample * 5,
                resident.last().unwrap()
            );
        }
    });
    let half = &resident[resident.len() / 2..];
    let lowest = half.iter().copied().fold(f64::INFINITY, f64::min);
    let highest = half.iter().copied().fold(0.0, f64::max);
    println!(
        "second half: {lowest:.1} to {highest:.1} MB, {:.1} % apart",
        (highest / lowest - 1.0) * 100.0
    );
}

fn create_container(connection: &mut Connection) {
    connection.send(Method::POST, "/dbs", &[], r#"{"id":"db"}"#).unwrap();
    let container = json!({
        "id": "c", "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 }, "defaultTtl": -1,
    });
    let headers = [("x-ms-offer-throughput", "20000")];
    let created = connection.send(Method::POST, "/dbs/db/colls", &headers, &container.to_string());
    assert_eq!(created.unwrap().status, 201);
}

/// One worker: writes at the write region, reads at a region of its own.
fn work(emulator: &Running, worker: usize, end: Instant, requests: &AtomicU64) {
    let (mut writes, mut reads) = (emulator.connect_to(0), emulator.connect_to(worker));
    let mut statuses: BTreeMap<u16, u64> = BTreeMap::new();
    // Splitmix: the same load in every run.
    let mut state = worker as u64;
    let mut draw = move || {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed ^ (mixed >> 27)) >> 8
    };
    while Instant::now() < end {
        let (n, item) = (draw(), draw() % ITEMS);
        let status = step(&mut writes, &mut reads, n, item);
        *statuses.entry(status).or_default() += 1;
        requests.fetch_add(1, Ordering::Relaxed);
    }
    assert!(
        statuses.keys().all(|status| [200, 201, 204, 304, 404].contains(status)),
        "{statuses:?}"
    );
}

fn step(writes: &mut Connection, reads: &mut Connection, n: u64, item: u64) -> u16 {
    let (key, id) = (format!("[\"k{}\"]", item % KEYS), format!("i{item}"));
    let key = ("x-ms-documentdb-partitionkey", key.as_str());
    let path = format!("{DOCS}/{id}");
    let body = |ttl: Option<u64>| {
        let filler = "x".repeat((n % 1500) as usize);
        let mut body =
            json!({ "id": id, "pk": format!("k{}", item % KEYS), "n": n % 1000, "filler": filler });
        if let Some(ttl) = ttl {
            body["ttl"] = json!(ttl);
        }
        body.to_string()
    };
    let upsert = ("x-ms-documentdb-is-upsert", "true");
    let query = |reads: &mut Connection, text: &str| {
        let headers =
            [key, ("x-ms-documentdb-isquery", "true"), ("content-type", "application/query+json")];
        reads.send(Method::POST, DOCS, &headers, &json!({ "query": text }).to_string())
    };
    let answer = match n % 20 {
        0..=7 => writes.send(Method::POST, DOCS, &[key, upsert], &body(None)),
        8 => writes.send(Method::POST, DOCS, &[key, upsert], &body(Some(1 + n % 5))),
        9 => writes.send(Method::DELETE, &path, &[key], ""),
        10..=15 => reads.send(Method::GET, &path, &[key], ""),
        16 => query(reads, &format!("SELECT * FROM c WHERE c.n = {}", n % 1000)),
        17 => query(reads, "SELECT TOP 20 c.id, c.n FROM c ORDER BY c.n DESC"),
        18 => query(reads, "SELECT COUNT(1) AS count, c.n % 10 AS ten FROM c GROUP BY c.n % 10"),
        _ => {
            let cursor = format!("\"{}\"", n % 100_000);
            let headers = [key, ("a-im", "Incremental Feed"), ("if-none-match", cursor.as_str())];
            reads.send(Method::GET, DOCS, &headers, "")
        }
    };
    answer.unwrap().status
}

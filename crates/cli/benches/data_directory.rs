//! What `sidereal emulator --data-dir` costs: writes one at a time and many at once, and starting again.
//!
//!     cargo bench -p sidereal-cli --bench data_directory
//!
//! The emulator is the command itself, with its directory on the file system of the target directory. The
//! measure of a single write is an `fdatasync` of one page on the same file system, in the same run.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

#[path = "../tests/it/wire.rs"]
#[expect(dead_code, reason = "the tests look at more of an answer")]
mod wire;

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};

use wire::Connection;

const SINGLE_WRITES: usize = 1_000;
const WRITERS: usize = 64;
const MEASURED: Duration = Duration::from_secs(5);
const ITEMS: u64 = 100_000;
const DOCS: &str = "/dbs/db/colls/c/docs";

fn main() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("data-{}", std::process::id()));
    fs::create_dir_all(&root).unwrap();
    let sync = median(&fdatasyncs(&root.join("page")));
    println!("fdatasync of one page          {sync:.1?} (median of {SINGLE_WRITES})");

    let emulator = Emulator::start(&root);
    let mut connection = emulator.connect();
    create_container(&mut connection);
    let each = median(&single_writes(&mut connection));
    let ratio = each.as_secs_f64() / sync.as_secs_f64();
    println!("one write at a time            {each:.1?} (median), {ratio:.2} × an fdatasync");

    let (writes, elapsed) = concurrent_writes(&emulator);
    let rate = writes as f64 / elapsed.as_secs_f64();
    println!("{WRITERS} writes in flight           {rate:.0} /s");

    fill(&mut connection);
    println!("memory with {ITEMS} items more  {:.1} MB resident", emulator.resident_megabytes());
    drop(emulator);
    let size = fs::metadata(root.join("data/account.redb")).unwrap().len();
    println!("size of the file               {:.1} MB", size as f64 / 1e6);
    let killed = Emulator::start(&root);
    println!("start after kill -9            {:.0?}", killed.started);
    killed.stop();
    println!("start after a shutdown         {:.0?}", Emulator::start(&root).started);
    let _ = fs::remove_dir_all(root); // Best effort: `cargo clean` removes it too.
}

fn fdatasyncs(path: &Path) -> Vec<Duration> {
    let mut file = File::create(path).unwrap();
    // Written once before: what is measured is not the allocation of blocks.
    file.write_all(&[0; 1 << 20]).unwrap();
    file.sync_all().unwrap();
    let sync = |n: usize| {
        let began = Instant::now();
        file.seek(SeekFrom::Start((n % 256) as u64 * 4096)).unwrap();
        file.write_all(&[n as u8; 4096]).unwrap();
        file.sync_data().unwrap();
        began.elapsed()
    };
    (0..SINGLE_WRITES).map(sync).collect()
}

fn create_container(connection: &mut Connection) {
    connection.send(Method::POST, "/dbs", &[], r#"{"id":"db"}"#).unwrap();
    let container =
        json!({ "id": "c", "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 } });
    connection.send(Method::POST, "/dbs/db/colls", &[], &container.to_string()).unwrap();
}

/// Creates an item of about 330 bytes.
fn create(connection: &mut Connection, id: &str) {
    let item = json!({
        "id": id, "pk": id, "n": id.len(), "name": format!("item {id}"), "tags": ["a", "b", "c"],
        "filler": "x".repeat(200),
    });
    let key = format!("[\"{id}\"]");
    let headers = [("x-ms-documentdb-partitionkey", key.as_str())];
    let answer = connection.send(Method::POST, DOCS, &headers, &item.to_string()).unwrap();
    assert_eq!(answer.status, 201);
}

fn single_writes(connection: &mut Connection) -> Vec<Duration> {
    let write = |n| {
        let began = Instant::now();
        create(connection, &format!("single-{n}"));
        began.elapsed()
    };
    (0..SINGLE_WRITES).map(write).collect()
}

fn concurrent_writes(emulator: &Emulator) -> (u64, Duration) {
    let writes = AtomicU64::new(0);
    let began = Instant::now();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (mut connection, writes) = (emulator.connect(), &writes);
            scope.spawn(move || {
                for n in 0.. {
                    if began.elapsed() > MEASURED {
                        break;
                    }
                    create(&mut connection, &format!("many-{writer}-{n}"));
                    writes.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    (writes.into_inner(), began.elapsed())
}

/// Creates many items, a hundred in each batch.
fn fill(connection: &mut Connection) {
    for batch in 0..ITEMS / 100 {
        let create = |n: u64| {
            let id = format!("fill-{batch}-{n}");
            let body = json!({
                "id": id, "pk": "fill", "n": n, "name": format!("item {id}"), "tags": ["a", "b", "c"],
                "filler": "x".repeat(200),
            });
            json!({ "operationType": "Create", "resourceBody": body })
        };
        let operations: Vec<Value> = (0..100).map(create).collect();
        let headers = [
            ("x-ms-documentdb-partitionkey", "[\"fill\"]"),
            ("x-ms-cosmos-is-batch-request", "true"),
            ("x-ms-cosmos-batch-atomic", "true"),
        ];
        let body = Value::from(operations).to_string();
        assert_eq!(connection.send(Method::POST, DOCS, &headers, &body).unwrap().status, 200);
    }
}

fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort();
    times[times.len() / 2]
}

/// The command at work; killed when dropped.
struct Emulator {
    process: Child,
    facts: Value,
    started: Duration,
}

impl Emulator {
    fn start(root: &Path) -> Self {
        let began = Instant::now();
        let mut process = Command::new(env!("CARGO_BIN_EXE_sidereal"))
            .args(["emulator", "--port", "0", "--json", "--data-dir"])
            .arg(root.join("data"))
            .env("XDG_STATE_HOME", root)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let facts = serde_json::from_str(&line).unwrap();
        let mut emulator = Self { process, facts, started: Duration::ZERO };
        emulator.connect().send(Method::GET, "/dbs", &[], "").unwrap();
        emulator.started = began.elapsed();
        emulator
    }

    fn connect(&self) -> Connection {
        let fact = |name: &str| self.facts[name].as_str().unwrap();
        Connection::open(fact("http_endpoint"), fact("key"))
    }

    /// Asks it to end, and waits.
    fn stop(mut self) {
        let process = self.process.id().to_string();
        Command::new("kill").args(["-TERM", &process]).status().unwrap();
        self.process.wait().unwrap();
    }

    fn resident_megabytes(&self) -> f64 {
        let path = PathBuf::from(format!("/proc/{}/statm", self.process.id()));
        let text = fs::read_to_string(path).unwrap();
        let pages: f64 = text.split(' ').nth(1).unwrap().parse().unwrap();
        pages * 4096.0 / 1e6
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.process.kill(); // It has ended already where it was stopped.
        let _ = self.process.wait();
    }
}

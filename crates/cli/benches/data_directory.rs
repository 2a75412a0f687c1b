//! What `sidereal emulator --data-dir` costs: writes one at a time and many at once, and starting again.
//!
//!     cargo bench -p sidereal-cli --bench data_directory
//!
//! The emulator is the command itself, with its directory on the file system of the target directory. The
//! measure of a single write is an `fdatasync` of one page on the same file system, in the same run.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

#[path = "../tests/it/process.rs"]
#[expect(dead_code, reason = "the tests do more with a process")]
mod process;
#[path = "../tests/it/wire.rs"]
#[expect(dead_code, reason = "the tests look at more of an answer")]
mod wire;

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};
use sidereal_emulator::{Account, AccountOptions};

use process::Running;
use wire::Connection;

const SINGLE_WRITES: usize = 1_000;
const WRITERS: usize = 64;
const MEASURED: Duration = Duration::from_secs(5);
const ITEMS: u64 = 100_000;
const DOCS: &str = "/dbs/db/colls/c/docs";

fn main() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("data-{}", std::process::id()));
    fs::create_dir_all(&root).unwrap();
    let sync = median(&fdatasyncs(&root.join("page"), 1));
    println!("fdatasync of one page          {sync:.1?} (median of {SINGLE_WRITES})");
    let eight = median(&fdatasyncs(&root.join("pages"), 8));
    println!("fdatasync of eight pages       {eight:.1?}, about what a commit writes");
    let each = median(&writes_in_process(&root));
    let ratio = each.as_secs_f64() / sync.as_secs_f64();
    println!(
        "one write at a time in process {each:.1?} (median), {ratio:.2} × an fdatasync of one page"
    );

    let (emulator, _) = start(&root);
    let mut connection = emulator.connect();
    create_container(&mut connection);
    let each = median(&single_writes(&mut connection));
    let ratio = each.as_secs_f64() / sync.as_secs_f64();
    println!(
        "one write at a time            {each:.1?} (median), {ratio:.2} × an fdatasync of one page"
    );

    let (writes, elapsed) = concurrent_writes(&emulator);
    let rate = writes as f64 / elapsed.as_secs_f64();
    println!("{WRITERS} writes in flight           {rate:.0} /s");

    fill(&mut connection);
    println!("memory with {ITEMS} items more  {:.1} MB resident", emulator.resident_megabytes());
    drop(emulator);
    let size = fs::metadata(root.join("data/account.redb")).unwrap().len();
    println!("size of the file               {:.1} MB", size as f64 / 1e6);
    let (emulator, started) = start(&root);
    println!("start after kill -9            {started:.0?}");
    emulator.end_with("-TERM");
    println!("start after a shutdown         {:.0?}", start(&root).1);
    let _ = fs::remove_dir_all(root); // Best effort: `cargo clean` removes it too.
}

fn fdatasyncs(path: &Path, pages: usize) -> Vec<Duration> {
    let mut file = File::create(path).unwrap();
    // Written once before: what is measured is not the allocation of blocks.
    file.write_all(&[0; 1 << 20]).unwrap();
    file.sync_all().unwrap();
    let sync = |n: usize| {
        let began = Instant::now();
        for page in 0..pages {
            // Apart from each other, as the pages of a tree are.
            let page = (n * pages + page) * 37 % 256;
            file.seek(SeekFrom::Start(page as u64 * 4096)).unwrap();
            file.write_all(&[n as u8; 4096]).unwrap();
        }
        file.sync_data().unwrap();
        began.elapsed()
    };
    (0..SINGLE_WRITES).map(sync).collect()
}

/// Writes to an account of this process, without a socket.
fn writes_in_process(root: &Path) -> Vec<Duration> {
    let account = Account::open(AccountOptions::default(), &root.join("in-process")).unwrap();
    let key = account.options().key.clone();
    let send = |path: &str, headers: &[(&str, &str)], body: Value| {
        let request =
            wire::signed(&key, &Method::POST, path, headers).body(body.to_string().into());
        let began = Instant::now();
        let answer = account.handle(request.unwrap());
        assert_eq!(answer.status(), 201);
        began.elapsed()
    };
    send("/dbs", &[], json!({ "id": "db" }));
    let container =
        json!({ "id": "c", "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 } });
    send("/dbs/db/colls", &[], container);
    let write = |n: usize| {
        let (id, key) = (format!("single-{n}"), format!("[\"single-{n}\"]"));
        send(DOCS, &[("x-ms-documentdb-partitionkey", &key)], item(&id, &id))
    };
    (0..SINGLE_WRITES).map(write).collect()
}

/// An item of about 330 bytes.
fn item(id: &str, key: &str) -> Value {
    json!({
        "id": id, "pk": key, "n": id.len(), "name": format!("item {id}"), "tags": ["a", "b", "c"],
        "filler": "x".repeat(200),
    })
}

fn create_container(connection: &mut Connection) {
    connection.send(Method::POST, "/dbs", &[], r#"{"id":"db"}"#).unwrap();
    let container =
        json!({ "id": "c", "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 } });
    connection.send(Method::POST, "/dbs/db/colls", &[], &container.to_string()).unwrap();
}

fn create(connection: &mut Connection, id: &str) {
    let item = item(id, id);
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

fn concurrent_writes(emulator: &Running) -> (u64, Duration) {
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
            let body = item(&format!("fill-{batch}-{n}"), "fill");
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

/// Starts the emulator on its directory; how long its first answer took.
fn start(root: &Path) -> (Running, Duration) {
    let began = Instant::now();
    let data = root.join("data");
    let emulator = Running::start(root, &["--data-dir", data.to_str().unwrap()]);
    emulator.connect().send(Method::GET, "/dbs", &[], "").unwrap();
    (emulator, began.elapsed())
}

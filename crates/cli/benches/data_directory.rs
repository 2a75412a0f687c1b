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

const SINGLE_WRITES: usize = 2_000;
const WRITERS: usize = 64;
const MEASURED: Duration = Duration::from_secs(5);
const ITEMS: u64 = 100_000;
const DOCS: &str = "/dbs/db/colls/c/docs";

fn main() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("data-{}", std::process::id()));
    fs::create_dir_all(&root).unwrap();
    let (emulator, _) = start(&root);
    let mut connection = emulator.connect();
    create_container(&mut connection);
    single_writes(&root, &mut connection);

    let (writes, longest, elapsed) = concurrent_writes(&emulator);
    let rate = writes as f64 / elapsed.as_secs_f64();
    println!("{WRITERS} writes in flight           {rate:.0} /s, the longest {longest:.1?}");

    fill(&mut connection);
    println!("memory with {ITEMS} items more  {:.1} MB resident", emulator.resident_megabytes());
    drop(emulator);
    for file in ["account.redb", "account.log"] {
        let size = fs::metadata(root.join("data").join(file)).unwrap().len() as f64 / 1e6;
        println!("size of {file}           {size:.1} MB");
    }
    let (emulator, started) = start(&root);
    println!("start after kill -9            {started:.0?}");
    emulator.end_with("-TERM");
    println!("start after a shutdown         {:.0?}", start(&root).1);
    let _ = fs::remove_dir_all(root); // Best effort: `cargo clean` removes it too.
}

/// One write at a time, in process and over a socket, with and without a data directory. They take turns with
/// an `fdatasync`: the disk of a machine that does other things, too, is as fast or as slow for all of them.
fn single_writes(root: &Path, kept: &mut Connection) {
    let memory = Running::start(root, &[]);
    let mut in_memory = memory.connect();
    create_container(&mut in_memory);
    let mut sync = synced_page(&root.join("page"));
    let options = AccountOptions::default();
    let own = Account::open(options.clone(), &root.join("in-process")).unwrap();
    let own_in_memory = Account::new(options);
    let mut in_process = write_to(&own);
    let mut in_process_in_memory = write_to(&own_in_memory);
    let mut kept = |n: usize| timed(|| create(kept, &format!("single-{n}")));
    let mut in_memory = |n: usize| timed(|| create(&mut in_memory, &format!("single-{n}")));
    let work: [&mut dyn FnMut(usize) -> Duration; 5] =
        [&mut sync, &mut in_process, &mut in_process_in_memory, &mut kept, &mut in_memory];
    let [sync, in_process, in_process_in_memory, kept, in_memory] = in_turns(work);

    let sync_time = median(&sync);
    let times = |time: Duration| {
        let times = time.as_secs_f64() / sync_time.as_secs_f64();
        format!("{time:.1?}, {times:.2} × an fdatasync")
    };
    let print = |what: &str, each: &[Duration]| {
        println!(
            "{what:<30} {}; the longest {:.1?}",
            times(median(each)),
            each.iter().max().unwrap()
        );
    };
    println!("one at a time, medians of {SINGLE_WRITES}");
    print("fdatasync of one page", &sync);
    print("write in process", &in_process);
    print("  the same in memory", &in_process_in_memory);
    print("write over a socket", &kept);
    print("  the same in memory", &in_memory);
    let added = median(&kept).saturating_sub(median(&in_memory));
    println!("{:<30} {}", "  what the directory adds", times(added));
}

/// Does several things in turns, and says how long each of them took each time.
fn in_turns<const N: usize>(work: [&mut dyn FnMut(usize) -> Duration; N]) -> [Vec<Duration>; N] {
    let mut taken = [const { Vec::new() }; N];
    for n in 0..SINGLE_WRITES {
        for index in shuffled::<N>(n) {
            taken[index].push(work[index](n));
        }
    }
    taken
}

/// Another order each time: where every third sync is slow, it is not the same one's.
fn shuffled<const N: usize>(n: usize) -> [usize; N] {
    let mut order = std::array::from_fn(|index| index);
    // Fisher–Yates, with a multiplicative hash for random numbers.
    for last in (1..N).rev() {
        let random = (n * N + last).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 33;
        order.swap(last, random % (last + 1));
    }
    order
}

fn timed(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

/// Writes a page of a file and syncs it.
fn synced_page(path: &Path) -> impl FnMut(usize) -> Duration + use<> {
    let mut file = File::create(path).unwrap();
    // Written once before: what is measured is not the allocation of blocks.
    file.write_all(&[0; 1 << 20]).unwrap();
    file.sync_all().unwrap();
    move |n| {
        timed(|| {
            file.seek(SeekFrom::Start((n % 256) as u64 * 4096)).unwrap();
            file.write_all(&[n as u8; 4096]).unwrap();
            file.sync_data().unwrap();
        })
    }
}

/// Writes to an account of this process, without a socket.
fn write_to(account: &Account) -> impl FnMut(usize) -> Duration {
    let key = account.options().key.clone();
    let send = move |path: &str, headers: &[(&str, &str)], body: Value| {
        let request =
            wire::signed(&key, &Method::POST, path, headers).body(body.to_string().into());
        let request = request.unwrap();
        timed(|| assert_eq!(account.handle(request).status(), 201))
    };
    send("/dbs", &[], json!({ "id": "db" }));
    let container =
        json!({ "id": "c", "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 } });
    send("/dbs/db/colls", &[], container);
    move |n| {
        let (id, key) = (format!("single-{n}"), format!("[\"single-{n}\"]"));
        send(DOCS, &[("x-ms-documentdb-partitionkey", &key)], item(&id, &id))
    }
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

/// How many writes there were, the longest of them, and how long they took together.
fn concurrent_writes(emulator: &Running) -> (u64, Duration, Duration) {
    let (writes, longest) = (AtomicU64::new(0), AtomicU64::new(0));
    let began = Instant::now();
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (mut connection, writes, longest) = (emulator.connect(), &writes, &longest);
            scope.spawn(move || {
                for n in 0.. {
                    if began.elapsed() > MEASURED {
                        break;
                    }
                    let sent = Instant::now();
                    create(&mut connection, &format!("many-{writer}-{n}"));
                    writes.fetch_add(1, Ordering::Relaxed);
                    longest.fetch_max(sent.elapsed().as_micros() as u64, Ordering::Relaxed);
                }
            });
        }
    });
    (writes.into_inner(), Duration::from_micros(longest.into_inner()), began.elapsed())
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

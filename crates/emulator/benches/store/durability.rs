//! What a data directory adds to a write, beside an `fdatasync` of the same moment.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use serde_json::{Value, json};
use sidereal_emulator::{Account, AccountOptions};

use super::{DOCS, KEY, Store};

const WRITES: usize = 2_000;
const BATCHES: usize = 200;

/// Measures on the file system of the target directory, in turns: a disk that is slow for a while is slow for all.
pub(super) fn measure() {
    let root =
        PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("store-{}", std::process::id()));
    let kept = Account::open(AccountOptions::default(), &root).expect("a new directory");
    let [kept, in_memory] = [kept, Account::new(AccountOptions::default())].map(|account| {
        let store = Store { account: Arc::new(account) };
        store.create_container();
        store
    });
    let mut page = SyncedPage::new(&root.join("page"));
    let mut times = [const { Vec::new() }; 3];
    for n in 0..WRITES {
        for index in shuffled::<3>(n) {
            times[index].push(timed(|| match index {
                0 => page.sync(n),
                1 => write(&kept, n),
                _ => write(&in_memory, n),
            }));
        }
    }
    let [syncs, durable, volatile] = times;
    let sync = median(&syncs);
    println!("\none write at a time, medians of {WRITES}");
    print("fdatasync of one page", &syncs, sync);
    print("write with a data directory", &durable, sync);
    print("write in memory", &volatile, sync);
    // The longest of them are those with a checkpoint.
    let batches: Vec<Duration> = (0..BATCHES).map(|n| timed(|| batch(&kept, n))).collect();
    print("batch of 100 with a data directory", &batches, sync);
    drop(kept);
    let _ = fs::remove_dir_all(root); // Best effort: `cargo clean` removes it too.
}

/// A file of which one page after the other is written and synced.
struct SyncedPage(File);

impl SyncedPage {
    fn new(path: &Path) -> Self {
        let mut file = File::create(path).expect("a new file");
        // Written once before: what is measured is not the allocation of blocks.
        file.write_all(&[0; 1 << 20]).and_then(|()| file.sync_all()).expect("room for a file");
        Self(file)
    }

    fn sync(&mut self, n: usize) {
        let start = SeekFrom::Start((n % 256) as u64 * 4096);
        self.0.seek(start).and_then(|_| self.0.write_all(&[n as u8; 4096])).expect("a page");
        self.0.sync_data().expect("a disk");
    }
}

fn item(id: &str, key: &str) -> Value {
    json!({ "id": id, "pk": key, "n": id.len(), "name": format!("item {id}"), "text": "x".repeat(200) })
}

fn write(store: &Store, n: usize) {
    let id = format!("single-{n}");
    let key = json!([id]).to_string();
    let created = store.send(Method::POST, DOCS, &[(KEY, &key)], item(&id, &id).to_string());
    assert_eq!(created.status(), 201);
}

fn batch(store: &Store, n: usize) {
    let create = |i: usize| json!({ "operationType": "Create", "resourceBody": item(&format!("{n}-{i}"), "batch") });
    let headers = [
        (KEY, "[\"batch\"]"),
        ("x-ms-cosmos-is-batch-request", "true"),
        ("x-ms-cosmos-batch-atomic", "true"),
    ];
    let body = Value::from_iter((0..100).map(create)).to_string();
    assert_eq!(store.send(Method::POST, DOCS, &headers, body).status(), 200);
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

fn median(times: &[Duration]) -> Duration {
    let mut times = times.to_vec();
    times.sort();
    times[times.len() / 2]
}

fn print(what: &str, times: &[Duration], sync: Duration) {
    let middle = median(times);
    let ratio = middle.as_secs_f64() / sync.as_secs_f64();
    let longest = times.iter().max().copied().unwrap_or_default();
    println!(
        "{what:<38} {:>12}, {ratio:.2} × an fdatasync; the longest {longest:.1?}",
        format!("{middle:.1?}")
    );
}

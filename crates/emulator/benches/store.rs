//! How queries scale with the number of items, and what an item takes in memory.
//!
//! `cargo bench -p sidereal-emulator --bench store [-- SIZES]`, such as `-- 1000,10000`.
//!
//! One account in this process, one partition, items of about 330 bytes with their system properties. A time is
//! the best of several runs after the first one, which builds the indexes that it needs; the first is printed
//! for the query that builds one alone. Last, what a data directory adds to a write; `-- none` prints that alone.

#![allow(clippy::print_stdout, reason = "printing is what it does")]

#[path = "store/durability.rs"]
mod durability;

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use bytes::Bytes;
use http::{Method, Request, Response};
use serde_json::{Value, json};
use sidereal_emulator::{Account, AccountOptions};
use sidereal_protocol::{HttpDate, RequestPath};

const DOCS: &str = "/dbs/db/colls/c/docs";
const KEY: &str = "x-ms-documentdb-partitionkey";
const RANGE: (&str, &str) = ("x-ms-documentdb-partitionkeyrangeid", "0");
const CROSS: (&str, &str) = ("x-ms-documentdb-query-enablecrosspartition", "True");
const CONTINUATION: &str = "x-ms-continuation";

fn main() {
    let named = std::env::args().skip(1).find(|argument| !argument.starts_with('-'));
    let sizes: Vec<usize> = named
        .as_deref()
        .unwrap_or("100000,10000,1000")
        .split(',')
        .filter(|size| *size != "none")
        .map(|size| size.parse().expect("a number of items"))
        .collect();
    // The largest first: what it takes of the process's memory is not what an earlier one left.
    for size in sizes {
        println!("\n{size} items");
        measure(size);
    }
    durability::measure();
}

fn measure(items: usize) {
    let before = resident_bytes();
    let store = Store::with_items(items);
    let loaded = resident_bytes();
    let json = store.read(7).body().len();
    println!("{:<52} {:>12}", "JSON of an item", format!("{json} B"));
    print_memory("resident memory of an item", before, loaded, items);

    print_time("point read", best(1000, || drop(store.read(items / 2))));
    let scan = "SELECT * FROM c WHERE c.n + 0 = 500";
    print_time("full scan, one hit", best(3, || assert_eq!(store.rows(scan, &[], RANGE), 1)));

    let hit = "SELECT * FROM c WHERE c.n = 500";
    let started = Instant::now();
    store.rows(hit, &[], RANGE);
    print_time("WHERE c.n = 500, the first time", started.elapsed());
    print_time("WHERE c.n = 500", best(20, || assert_eq!(store.rows(hit, &[], RANGE), 1)));
    print_memory("resident memory of an index entry", loaded, resident_bytes(), items);
    println!("{:<52} {:>12}", "  charge", format!("{} RU", store.charge(hit)));
    let by_id = "SELECT * FROM c WHERE c.id = '500'";
    println!(
        "{:<52} {:>12}",
        "charge of WHERE c.id = '500'",
        format!("{} RU", store.charge(by_id))
    );
    let by_key = "SELECT * FROM c WHERE c.pk = 'p7' AND c.n = 7";
    print_time(
        "WHERE c.pk = 'p7' AND c.n = 7, no key header",
        best(20, || assert_eq!(store.rows(by_key, &[], CROSS), 1)),
    );
    let sorted = "SELECT * FROM c ORDER BY c.n";
    print_time(
        "one page of ORDER BY c.n",
        best(20, || assert_eq!(store.rows(sorted, &[], RANGE), 100)),
    );
    let top = "SELECT TOP 10 * FROM c ORDER BY c.name";
    print_time(
        "TOP 10 ... ORDER BY c.name",
        best(20, || assert_eq!(store.rows(top, &[], RANGE), 10)),
    );
    let started = Instant::now();
    assert_eq!(store.all_rows(sorted), items);
    print_time("all pages of ORDER BY c.n, 100 a page", started.elapsed());

    let some = |count: usize| (0..count.min(items)).map(move |at| at * items / count.min(items));
    let ids: Vec<String> = some(2000).map(|n| format!("'{n}'")).collect();
    let among = format!("SELECT VALUE c.id FROM c WHERE c.id IN ({})", ids.join(","));
    let found = ids.len().min(100);
    print_time(
        "IN with 2,000 ids, one page",
        best(5, || assert_eq!(store.rows(&among, &[], RANGE), found)),
    );
    let (text, parameters) = read_many(some(1000));
    print_time(
        "read-many of 1,000 ids, one page of all",
        best(5, || {
            let headers = [CROSS, ("x-ms-max-item-count", "1000")];
            assert_eq!(store.page(&text, &parameters, &headers).0, some(1000).count());
        }),
    );
}

/// The query that the Python SDK sends for items of several keys.
fn read_many(numbers: impl Iterator<Item = usize>) -> (String, Vec<Value>) {
    let (mut terms, mut parameters) = (String::new(), Vec::new());
    for (index, n) in numbers.enumerate() {
        let or = if index == 0 { "" } else { " OR " };
        let _ = write!(terms, "{or}( c.id = @param_id{index} AND c.pk = @param_pk{index}0 )");
        parameters.push(json!({ "name": format!("@param_id{index}"), "value": n.to_string() }));
        parameters.push(json!({ "name": format!("@param_pk{index}0"), "value": key_of(n) }));
    }
    (format!("SELECT * FROM c WHERE ( {terms} )"), parameters)
}

/// A hundred items to a key.
fn key_of(n: usize) -> String {
    format!("p{}", n % 1000)
}

struct Store {
    account: Arc<Account>,
}

impl Store {
    fn with_items(items: usize) -> Self {
        let options = AccountOptions { partitions: Some(1), ..AccountOptions::default() };
        let store = Self { account: Arc::new(Account::new(options)) };
        store.create_container();
        for n in 0..items {
            let pk = key_of(n);
            let name = format!("name-{:06}", n * 7919 % 1_000_003);
            let item = json!({
                "id": n.to_string(), "pk": pk, "n": n, "name": name, "text": "x".repeat(80),
            });
            let key = json!([pk]).to_string();
            let created = store.send(Method::POST, DOCS, &[(KEY, &key)], item.to_string());
            assert_eq!(created.status(), 201);
        }
        store
    }

    fn create_container(&self) {
        self.send(Method::POST, "/dbs", &[], json!({ "id": "db" }).to_string());
        let container = json!({
            "id": "c", "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 },
        });
        self.send(Method::POST, "/dbs/db/colls", &[], container.to_string());
    }

    fn read(&self, n: usize) -> Response<Bytes> {
        let key = json!([key_of(n)]).to_string();
        self.send(Method::GET, &format!("{DOCS}/{n}"), &[(KEY, &key)], String::new())
    }

    /// The number of rows of a query's first page.
    fn rows(&self, text: &str, parameters: &[Value], header: (&str, &str)) -> usize {
        self.page(text, parameters, &[header]).0
    }

    fn charge(&self, text: &str) -> String {
        let response = self.query(text, &[], &[RANGE]);
        let charge = response.headers().get("x-ms-request-charge").expect("a charge");
        charge.to_str().expect("text").to_owned()
    }

    /// The number of rows of all pages.
    fn all_rows(&self, text: &str) -> usize {
        let (mut rows, mut next) = self.page(text, &[], &[RANGE]);
        while let Some(token) = next {
            let (more, after) = self.page(text, &[], &[RANGE, (CONTINUATION, &token)]);
            (rows, next) = (rows + more, after);
        }
        rows
    }

    fn page(
        &self,
        text: &str,
        parameters: &[Value],
        headers: &[(&str, &str)],
    ) -> (usize, Option<String>) {
        let response = self.query(text, parameters, headers);
        let header = |name| response.headers().get(name).map(|value| value.to_str().expect("text"));
        let rows = header("x-ms-item-count").expect("a feed").parse().expect("a number");
        (rows, header(CONTINUATION).map(str::to_owned))
    }

    fn query(&self, text: &str, parameters: &[Value], headers: &[(&str, &str)]) -> Response<Bytes> {
        let body = json!({ "query": text, "parameters": parameters }).to_string();
        let mut all = vec![("x-ms-documentdb-isquery", "True")];
        all.extend_from_slice(headers);
        let response = self.send(Method::POST, DOCS, &all, body);
        assert_eq!(response.status(), 200, "{text}: {:?}", response.body());
        response
    }

    fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Response<Bytes> {
        let date = HttpDate::new(SystemTime::now()).expect("a date of this age");
        let target: RequestPath = path.parse().expect("the path of a resource");
        let link = target.signed_link().into_owned();
        let key = &self.account.options().key;
        let authorization = key.authorize(&target.signed(&method, &link, date.as_str()));
        let mut request = Request::builder().method(method).uri(path);
        request = request.header("x-ms-date", date.as_str()).header("authorization", authorization);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.account.handle(request.body(Bytes::from(body)).expect("a well-formed request"))
    }
}

fn best(runs: usize, mut work: impl FnMut()) -> Duration {
    let timed = (0..runs).map(|_| {
        let started = Instant::now();
        work();
        started.elapsed()
    });
    timed.min().unwrap_or_default()
}

fn print_time(what: &str, time: Duration) {
    println!("{what:<52} {:>12}", format!("{:.3} ms", time.as_secs_f64() * 1000.0));
}

fn print_memory(what: &str, before: Option<u64>, after: Option<u64>, items: usize) {
    let text = match before.zip(after) {
        Some((before, after)) => format!("{} B", after.saturating_sub(before) / items as u64),
        None => "not known here".to_owned(),
    };
    println!("{what:<52} {text:>12}");
}

/// The memory that the process has in use, where Linux tells.
fn resident_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    let kibibytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes * 1024)
}

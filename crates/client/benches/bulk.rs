//! Bulk and read-many beside single operations, one after the other and 64 in flight.
//!
//!     CARGO_INCREMENTAL=0 cargo bench -p sidereal --bench bulk
//!
//! The account is the emulator, over sockets and TLS, in the same process: processor time is that of client and
//! emulator together. Every way writes or reads the same items. Ways take turns, and of each the best of its rounds
//! counts.

#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::time::{Duration, Instant};

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use sidereal::prelude::*;
use sidereal_emulator::Emulator;

const PARTITIONS: u32 = 5;
const WRITES: usize = 10_000;
const READS: usize = 1_000;
const IN_FLIGHT: usize = 64;
const ROUNDS: usize = 3;

/// What one way took.
#[derive(Clone, Copy, Debug)]
struct Cost {
    operations: usize,
    requests: usize,
    charge: f64,
    wall: Duration,
    cpu: Duration,
}

impl Cost {
    fn rate(&self) -> f64 {
        self.operations as f64 / self.wall.as_secs_f64()
    }

    fn print(&self, what: &str, beside: &[(&str, Self)]) {
        let per_operation = self.cpu.as_secs_f64() * 1e6 / self.operations as f64;
        print!(
            "  {what}: {} requests, {:.0} RU, {:.0} operations a second, {per_operation:.1} µs of processor each",
            self.requests,
            self.charge,
            self.rate(),
        );
        for (name, other) in beside {
            let (rate, requests) = (self.rate() / other.rate(), other.requests / self.requests);
            print!("; {rate:.1} × {name}, 1/{requests} of its requests");
        }
        println!();
    }
}

/// Measures something that says how many requests it made and what they cost.
async fn measured(operations: usize, work: impl Future<Output = (usize, f64)>) -> Cost {
    let (started, before) = (Instant::now(), processor_time());
    let (requests, charge) = work.await;
    let (wall, cpu) = (started.elapsed(), processor_time() - before);
    Cost { operations, requests, charge, wall, cpu }
}

/// The processor time of this process, all threads together.
fn processor_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // After the name, which may have spaces: user and system time are the 12th and 13th of the rest (proc(5)).
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let ticks = |at: usize| rest.split_whitespace().nth(at).and_then(|it| it.parse::<u64>().ok());
    // A tick is a hundredth of a second on every Linux that is.
    Duration::from_millis(10 * (ticks(11).unwrap_or(0) + ticks(12).unwrap_or(0)))
}

fn main() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(compare());
}

async fn compare() {
    let emulator = Emulator::builder().partitions(PARTITIONS).start().await.unwrap();
    let client = CosmosClient::builder(emulator.endpoint(), emulator.key().clone())
        .trust_pem_on_loopback(emulator.certificate_pem().as_bytes())
        .unwrap()
        .build()
        .unwrap();
    client.create_database("db", None).await.unwrap();
    let properties = ContainerProperties::new("items", "/pk".parse().unwrap());
    client.database("db").create_container(properties, None).await.unwrap();
    let items = client.database("db").container("items");
    items.read_feed_ranges().await.unwrap();

    println!("{WRITES} upserts of 1 KB over {PARTITIONS} partitions");
    let [mut single, mut flight, mut bulk]: [Vec<Cost>; 3] = Default::default();
    for _ in 0..ROUNDS {
        single.push(measured(WRITES, upserts(&items, 1)).await);
        flight.push(measured(WRITES, upserts(&items, IN_FLIGHT)).await);
        bulk.push(measured(WRITES, in_bulk(&items)).await);
    }
    report(best(single), best(flight), ("bulk", best(bulk)));

    println!("{READS} items by id over {PARTITIONS} partitions");
    let [mut single, mut flight, mut many]: [Vec<Cost>; 3] = Default::default();
    for _ in 0..ROUNDS {
        single.push(measured(READS, reads(&items, 1)).await);
        flight.push(measured(READS, reads(&items, IN_FLIGHT)).await);
        many.push(measured(READS, read_many(&items)).await);
    }
    report(best(single), best(flight), ("read-many", best(many)));
    emulator.shutdown().await;
}

fn report(single: Cost, flight: Cost, (name, grouped): (&str, Cost)) {
    single.print("one after the other", &[]);
    flight.print("64 in flight", &[]);
    grouped.print(name, &[("one after the other", single), ("64 in flight", flight)]);
}

fn best(costs: Vec<Cost>) -> Cost {
    costs.into_iter().min_by_key(|it| it.wall).unwrap()
}

fn item(n: usize) -> (String, Value) {
    let key = format!("p{n}");
    let item = json!({"id": n.to_string(), "pk": key, "n": n, "text": "x".repeat(950)});
    (key, item)
}

async fn upserts(items: &ContainerClient, in_flight: usize) -> (usize, f64) {
    let each = stream::iter(0..WRITES).map(|n| async move {
        let (key, item) = item(n);
        items.upsert_item(key, &item, None).await.unwrap().request_charge()
    });
    let charges: Vec<f64> = each.buffer_unordered(in_flight).collect().await;
    (WRITES, charges.iter().sum())
}

async fn in_bulk(items: &ContainerClient) -> (usize, f64) {
    let operations = (0..WRITES).map(|n| {
        let (key, item) = item(n);
        BulkOperation::upsert_item(key, &item)
    });
    let report = items.bulk().execute(operations).await.unwrap();
    assert!(report.is_success());
    (report.requests(), report.request_charge())
}

async fn reads(items: &ContainerClient, in_flight: usize) -> (usize, f64) {
    let each = stream::iter(0..READS).map(|n| async move {
        let response = items.read_item(format!("p{n}"), &n.to_string(), None).await.unwrap();
        let charge = response.request_charge();
        let item: Value = response.into_model().unwrap();
        assert_eq!(item["n"], n);
        charge
    });
    let charges: Vec<f64> = each.buffer_unordered(in_flight).collect().await;
    (READS, charges.iter().sum())
}

async fn read_many(items: &ContainerClient) -> (usize, f64) {
    let wanted = (0..READS).map(|n| (format!("p{n}"), n.to_string()));
    let response = items.read_many(wanted).execute::<Value>().await.unwrap();
    for (n, item) in response.items().iter().enumerate() {
        assert_eq!(item.as_ref().unwrap()["n"], n);
    }
    (response.requests(), response.request_charge())
}

//! Everything that clients can see of an account, to compare one that was kept on disk with one that was not.

use http::Method;
use serde_json::{Value, json};

use crate::common::{DOCS, Fixture, KEY};

/// The contents of a container `db/c` in each region, and the account's description of itself.
pub(super) fn everything(fixture: &Fixture, regions: &[&str]) -> Value {
    let metadata = ["/dbs", "/dbs/db/colls", "/offers"]
        .map(|path| fixture.send(Method::GET, path, &[], Value::Null).json());
    let regions: Vec<Value> = regions.iter().map(|region| in_region(fixture, region)).collect();
    json!({ "metadata": metadata, "regions": regions })
}

fn in_region(fixture: &Fixture, region: &str) -> Value {
    let get = |path: &str, headers: &[(&str, &str)]| {
        fixture.send_in(region, Method::GET, path, headers, Value::Null).expect("an online region")
    };
    let ranges = get("/dbs/db/colls/c/pkranges", &[]).json();
    let of_range = |range: &Value| {
        let id = range["id"].as_str().unwrap();
        let range_header = ("x-ms-documentdb-partitionkeyrangeid", id);
        let items = get(DOCS, &[range_header, ("x-ms-max-item-count", "1000")]);
        let changes = get(
            DOCS,
            &[range_header, ("a-im", "Incremental Feed"), ("x-ms-max-item-count", "1000")],
        );
        json!({
            "items": items.json()["Documents"],
            "session": items.header("x-ms-session-token"),
            "changes": if changes.status == 304 { Value::Null } else { changes.json()["Documents"].clone() },
            "cursor": changes.header("etag"),
        })
    };
    let contents: Vec<Value> =
        ranges["PartitionKeyRanges"].as_array().unwrap().iter().map(of_range).collect();
    json!({ "ranges": ranges["PartitionKeyRanges"], "contents": contents })
}

/// Where two values differ first, and how.
pub(super) fn difference(one: &Value, other: &Value) -> Option<String> {
    let inside = |name: String, one: &Value, other: &Value| {
        difference(one, other).map(|deeper| format!("{name}/{deeper}"))
    };
    match (one, other) {
        (Value::Object(left), Value::Object(right)) if left.len() == right.len() => {
            left.iter().find_map(|(name, value)| {
                inside(name.clone(), value, right.get(name).unwrap_or(&Value::Null))
            })
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            let mut pairs = left.iter().zip(right).enumerate();
            pairs.find_map(|(index, (one, other))| inside(index.to_string(), one, other))
        }
        _ => (one != other).then(|| format!(": {one} is not {other}")),
    }
}

/// Writes, reads and deletes of `db/c` that a test chooses from.
pub(super) fn write(fixture: &Fixture, region: &str, id: &str, n: u64) -> u16 {
    let headers = [(KEY, r#"["a"]"#), ("x-ms-documentdb-is-upsert", "true"), TENTATIVE];
    let item = json!({ "id": id, "pk": "a", "n": n, "filler": "x".repeat((n % 7) as usize * 100) });
    fixture.send_in(region, Method::POST, DOCS, &headers, item).expect("an online region").status
}

pub(super) fn delete(fixture: &Fixture, region: &str, id: &str) -> u16 {
    let path = format!("{DOCS}/{id}");
    let headers = [(KEY, r#"["a"]"#), TENTATIVE];
    let deleted = fixture.send_in(region, Method::DELETE, &path, &headers, Value::Null);
    deleted.expect("an online region").status
}

/// A batch of two upserts: both or none.
pub(super) fn batch(fixture: &Fixture, region: &str, ids: [&str; 2], n: u64) -> u16 {
    let upsert = |id: &str| json!({ "operationType": "Upsert", "resourceBody": { "id": id, "pk": "a", "n": n, "batch": true } });
    let headers = [
        (KEY, r#"["a"]"#),
        ("x-ms-cosmos-is-batch-request", "true"),
        ("x-ms-cosmos-batch-atomic", "true"),
        TENTATIVE,
    ];
    let sent = fixture.send_in(region, Method::POST, DOCS, &headers, json!(ids.map(upsert)));
    sent.expect("an online region").status
}

/// Lets any region of a multi-write account take a write.
const TENTATIVE: (&str, &str) = ("x-ms-cosmos-allow-tentative-writes", "true");

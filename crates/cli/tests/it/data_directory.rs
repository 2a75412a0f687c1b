//! `sidereal emulator --data-dir`: what was answered is there after `kill -9`.

use std::path::Path;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};

use crate::emulator::{Directory, fails};
use crate::process::Running;
use crate::wire::{Answer, Connection};

const DOCS: &str = "/dbs/db/colls/c/docs";
const WRITERS: usize = 4;
/// Each round writes until the process is killed, at another moment.
const ROUNDS: [Duration; 3] =
    [Duration::from_millis(40), Duration::from_millis(115), Duration::from_millis(230)];

/// Writes a number to an item, and to two others in one batch; both or neither was answered with success.
fn write(connection: &mut Connection, writer: usize, n: u64) -> Option<Answer> {
    let key = format!("[\"w{writer}\"]");
    let key = ("x-ms-documentdb-partitionkey", key.as_str());
    // Large enough that the write-ahead log fills, and a checkpoint is under way at some of the moments.
    let filler = "x".repeat(20_000);
    let item = |id: &str| json!({ "id": id, "pk": format!("w{writer}"), "n": n, "filler": filler });
    let upsert = |id| json!({ "operationType": "Upsert", "resourceBody": item(id) });
    let batch = json!([upsert("left"), upsert("right")]).to_string();
    let headers =
        [key, ("x-ms-cosmos-is-batch-request", "true"), ("x-ms-cosmos-batch-atomic", "true")];
    let answer = connection.send(Method::POST, DOCS, &headers, &batch)?;
    assert_eq!(answer.status, 200);
    let headers = [key, ("x-ms-documentdb-is-upsert", "true")];
    let answer = connection.send(Method::POST, DOCS, &headers, &item("single").to_string())?;
    assert!([200, 201].contains(&answer.status), "{}", answer.status);
    Some(answer)
}

fn read(connection: &mut Connection, writer: usize, id: &str, session: Option<&str>) -> u64 {
    let key = format!("[\"w{writer}\"]");
    let mut headers = vec![("x-ms-documentdb-partitionkey", key.as_str())];
    headers.extend(session.map(|token| ("x-ms-session-token", token)));
    let answer = connection.send(Method::GET, &format!("{DOCS}/{id}"), &headers, "").unwrap();
    match answer.status {
        200 => serde_json::from_slice::<Value>(&answer.body).unwrap()["n"].as_u64().unwrap(),
        status => {
            assert_eq!((status, session), (404, None), "an item that was answered is missing");
            0
        }
    }
}

fn start(directory: &Path, data: &Path) -> Running {
    Running::start(directory, &["--data-dir", data.to_str().unwrap(), "--partitions", "3"])
}

/// Writes until the process is gone; the last number that was answered, with its session token.
fn write_until_killed(
    mut connection: Connection,
    writer: usize,
    from: u64,
) -> (u64, Option<String>) {
    let mut last = (from, None);
    for n in from + 1.. {
        match write(&mut connection, writer, n) {
            Some(answer) => last = (n, answer.session),
            None => break,
        }
    }
    last
}

#[cfg(unix)]
#[test]
fn every_acknowledged_write_survives_kill_9() {
    let directory = Directory::new();
    let data = directory.path().join("data");
    let mut written = [0; WRITERS];
    let emulator = start(directory.path(), &data);
    let mut connection = emulator.connect();
    let created = connection.send(Method::POST, "/dbs", &[], r#"{"id":"db"}"#).unwrap();
    assert_eq!(created.status, 201);
    let container =
        json!({ "id": "c", "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 } });
    let created =
        connection.send(Method::POST, "/dbs/db/colls", &[], &container.to_string()).unwrap();
    assert_eq!(created.status, 201);
    drop(emulator); // Killed: what was created is there in the first round.
    for round in ROUNDS {
        let emulator = start(directory.path(), &data);
        let threads: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (connection, from) = (emulator.connect(), written[writer]);
                std::thread::spawn(move || write_until_killed(connection, writer, from))
            })
            .collect();
        std::thread::sleep(round);
        drop(emulator);
        let acknowledged: Vec<(u64, Option<String>)> =
            threads.into_iter().map(|thread| thread.join().unwrap()).collect();

        let emulator = start(directory.path(), &data);
        let mut connection = emulator.connect();
        for (writer, (n, session)) in acknowledged.iter().enumerate() {
            let single = read(&mut connection, writer, "single", session.as_deref());
            let [left, right] = ["left", "right"].map(|id| read(&mut connection, writer, id, None));
            assert_eq!(left, right, "half of a batch");
            for found in [single, left] {
                assert!(found == *n || found == n + 1, "{n} was answered and {found} is there");
            }
            written[writer] = single.max(left);
        }
    }
}

#[test]
fn a_directory_in_use_is_refused_with_a_sentence() {
    let directory = Directory::new();
    let data = directory.path().join("data");
    let _first = start(directory.path(), &data);
    let said = fails(directory.path(), &["--port", "0", "--data-dir", data.to_str().unwrap()]);
    assert!(said.contains("is in use by another process"), "{said}");
}

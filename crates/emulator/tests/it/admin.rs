//! The admin API over a socket: every route, who may use it, and what a wrong request is told.

use crate::common::{Answer, Client, DOCS, KEY};
use bytes::Bytes;
use http::{Method, Request};
use serde_json::{Value, json};
use sidereal_emulator::Emulator;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const EAST: &str = "/_sidereal/regions/East%20US";

async fn west_and_east() -> Client {
    let client =
        Client::with(Emulator::builder().regions(["West US", "East US"]).partitions(2)).await;
    client
        .create_container(json!({ "id": "c", "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 } }))
        .await;
    client
}

async fn ask(client: &Client, method: Method, path: &str, body: Value) -> Answer {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let key = client.emulator.key().expose_secret().to_owned();
    let request = Request::builder().method(method).uri(path).header("x-sidereal-key", key);
    client.exchange(request.body(Bytes::from(text)).unwrap()).await
}

async fn done(client: &Client, method: Method, path: &str, body: Value) -> Value {
    let answer = ask(client, method, path, body).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text);
    answer.json()
}

async fn state_of(client: &Client, region: &str) -> Value {
    let regions = done(client, Method::GET, "/_sidereal/regions", Value::Null).await;
    let regions = regions["regions"].as_array().unwrap().clone();
    regions.into_iter().find(|state| state["name"] == region).unwrap()
}

async fn connects(client: &Client, region: &str) -> bool {
    let port = state_of(client, region).await["port"].as_u64().unwrap();
    TcpStream::connect(format!("127.0.0.1:{port}")).await.is_ok()
}

#[tokio::test]
async fn without_the_account_key_nothing_is_told_or_done() {
    let client = west_and_east().await;
    for key in [None, Some("c2VjcmV0"), Some("?")] {
        let mut request = Request::builder().method(Method::POST).uri(format!("{EAST}/offline"));
        if let Some(key) = key {
            request = request.header("x-sidereal-key", key);
        }
        let answer = client.exchange(request.body(Bytes::new()).unwrap()).await;
        assert_eq!(answer.status, 401, "{key:?}");
        assert_eq!(answer.json()["code"], "Unauthorized");
        assert!(answer.json()["message"].as_str().unwrap().contains("x-sidereal-key"));
    }
    assert!(connects(&client, "East US").await);
}

#[tokio::test]
async fn the_api_is_on_the_global_endpoint_only() {
    let client = west_and_east().await;
    let (_, endpoint) = client.emulator.regions().remove(1);
    let address = endpoint.trim_start_matches("https://").trim_end_matches('/');
    let mut stream = TcpStream::connect(address).await.unwrap();
    let key = client.emulator.key().expose_secret();
    let request = format!(
        "GET /_sidereal/regions HTTP/1.1\r\nhost: {address}\r\nx-sidereal-key: {key}\r\n\
         connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
}

#[tokio::test]
async fn a_wrong_request_is_told_what_to_change() {
    let client = west_and_east().await;
    let cases = [
        (Method::POST, "/_sidereal/faults", json!({ "effect": { "kind": "burn" } }), 400, "burn"),
        (Method::POST, "/_sidereal/faults", json!("hang"), 400, "body"),
        (
            Method::POST,
            "/_sidereal/faults",
            json!({ "effect": { "kind": "hang" }, "probability": 2 }),
            400,
            "between 0 and 1",
        ),
        (Method::POST, "/_sidereal/regions/Mars/remove", Value::Null, 400, "West US"),
        (Method::POST, "/_sidereal/regions/Mars/offline", Value::Null, 400, "Mars"),
        (Method::POST, "/_sidereal/regions/West%20US/remove", Value::Null, 400, "accepts writes"),
        (
            Method::POST,
            "/_sidereal/regions/East%20US/replication",
            json!({ "delay": 1 }),
            400,
            "delay",
        ),
        (Method::POST, "/_sidereal/write-region", Value::Null, 400, "body"),
        (
            Method::POST,
            "/_sidereal/partitions/move",
            json!({ "container": "c", "range": "0" }),
            400,
            "database/container",
        ),
        (
            Method::POST,
            "/_sidereal/partitions/split",
            json!({ "container": "db/c", "range": "9" }),
            400,
            "9",
        ),
        (Method::DELETE, "/_sidereal/faults/none", Value::Null, 404, "none"),
        (Method::GET, "/_sidereal/weather", Value::Null, 404, "GET regions"),
        (Method::PUT, "/_sidereal/faults", Value::Null, 404, "POST faults"),
    ];
    for (method, path, body, status, said) in cases {
        let answer = ask(&client, method, path, body).await;
        assert_eq!(answer.status, status, "{path}: {}", answer.text);
        let message = answer.json()["message"].as_str().unwrap().to_owned();
        assert!(message.contains(said), "{path}: {message}");
    }
}

#[tokio::test]
async fn a_region_goes_offline_and_comes_back_on_its_port() {
    let client = west_and_east().await;
    let port = state_of(&client, "East US").await["port"].clone();
    done(&client, Method::POST, &format!("{EAST}/offline"), Value::Null).await;
    assert_eq!(state_of(&client, "East US").await["online"], false);
    // The port closes when the task that listened has ended.
    while connects(&client, "East US").await {
        tokio::task::yield_now().await;
    }
    done(&client, Method::POST, "/_sidereal/regions/eastus/online", Value::Null).await;
    let state = state_of(&client, "East US").await;
    assert_eq!((&state["online"], &state["port"]), (&json!(true), &port));
    assert!(connects(&client, "East US").await);
}

#[tokio::test]
async fn replication_is_paused_and_delayed() {
    let client = west_and_east().await;
    let path = format!("{EAST}/replication");
    done(&client, Method::POST, &path, json!({ "paused": true })).await;
    done(&client, Method::POST, &path, json!({ "delay_ms": 250 })).await;
    let state = state_of(&client, "East US").await;
    assert_eq!(state["replication_paused"], true);
    assert_eq!(state["replication_delay_ms"], 250);
    done(&client, Method::POST, &path, json!({ "paused": false, "delay_ms": 0 })).await;
    assert_eq!(state_of(&client, "East US").await["replication_paused"], false);
}

#[tokio::test]
async fn a_forced_change_of_the_write_region_lists_what_it_lost() {
    let client = west_and_east().await;
    done(&client, Method::POST, &format!("{EAST}/replication"), json!({ "paused": true })).await;
    assert_eq!(client.create(json!({ "id": "1", "pk": "a" })).await.status, 201);
    let forced = json!({ "region": "East US", "forced": true });
    let changed = done(&client, Method::POST, "/_sidereal/write-region", forced).await;
    let lost = changed["lost_writes"].as_array().unwrap();
    assert_eq!(lost.len(), 1);
    assert_eq!((&lost[0]["database"], &lost[0]["items"]), (&json!("db"), &json!(["1"])));
    assert_eq!(state_of(&client, "East US").await["accepts_writes"], true);
    assert_eq!(client.read("1", "a").await.status, 404);
}

#[tokio::test]
async fn a_graceful_change_takes_the_time_it_is_given_and_the_old_region_can_go() {
    let client = west_and_east().await;
    let graceful = json!({ "region": "East US", "announcement_ms": 0, "overlap_ms": 0 });
    let changed = done(&client, Method::POST, "/_sidereal/write-region", graceful).await;
    assert_eq!(changed["lost_writes"], json!([]));
    assert_eq!(client.create(json!({ "id": "1", "pk": "a" })).await.status, 201);
    done(&client, Method::POST, "/_sidereal/regions/West%20US/remove", Value::Null).await;
    assert_eq!(state_of(&client, "West US").await["removed"], true);
}

#[tokio::test]
async fn the_writes_of_one_partition_move_away_and_back() {
    let client = west_and_east().await;
    let created = client.create(json!({ "id": "1", "pk": "a" })).await;
    let range = created.header("x-ms-documentdb-partitionkeyrangeid").unwrap();
    let there = json!({ "container": "db/c", "range": range, "region": "East US" });
    done(&client, Method::POST, "/_sidereal/partitions/move", there).await;
    let refused = client.create(json!({ "id": "2", "pk": "a" })).await;
    assert_eq!((refused.status, refused.sub_status()), (403, 3));
    let back = json!({ "container": "db/c", "range": range });
    done(&client, Method::POST, "/_sidereal/partitions/move", back).await;
    assert_eq!(client.create(json!({ "id": "2", "pk": "a" })).await.status, 201);
}

#[tokio::test]
async fn a_range_is_split_and_its_halves_are_merged() {
    let client = west_and_east().await;
    let split = json!({ "container": "db/c", "range": "0" });
    let split = done(&client, Method::POST, "/_sidereal/partitions/split", split).await;
    let halves = split["ranges"].as_array().unwrap().clone();
    assert_eq!(halves.len(), 2);
    let by_id = [("x-ms-documentdb-partitionkeyrangeid", "0")];
    let gone = client.get(DOCS, &by_id).await;
    assert_eq!(gone.status, 410, "{gone:?}");
    let merge = json!({ "container": "db/c", "left": halves[0], "right": halves[1] });
    let merged = done(&client, Method::POST, "/_sidereal/partitions/merge", merge).await;
    assert_eq!(merged["ranges"].as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn fault_rules_are_added_listed_and_removed_and_never_hit_the_api_itself() {
    let client = west_and_east().await;
    let rule = json!({
        "effect": { "kind": "answer", "status": 503 }, "hit_limit": 1, "name": "mine", "for_ms": 3_600_000,
    });
    let added = done(&client, Method::POST, "/_sidereal/faults", rule.clone()).await;
    assert_eq!(added["name"], "mine");
    assert_eq!(ask(&client, Method::POST, "/_sidereal/faults", rule).await.status, 400);
    assert_eq!(client.get("/", &[]).await.status, 503);
    assert_eq!(client.get("/", &[]).await.status, 200);
    let listed = done(&client, Method::GET, "/_sidereal/faults", Value::Null).await;
    let report = &listed["faults"][0];
    assert_eq!((&report["matches"], &report["hits"]), (&json!(2), &json!(1)));
    assert_eq!(report["rule"]["effect"]["status"], 503);
    assert!(report["rule"]["end"].is_u64());
    done(&client, Method::DELETE, "/_sidereal/faults/mine", Value::Null).await;
    let hang = json!({ "effect": { "kind": "hang" } });
    done(&client, Method::POST, "/_sidereal/faults", hang).await;
    let cleared = done(&client, Method::DELETE, "/_sidereal/faults", Value::Null).await;
    assert_eq!(cleared["removed"], 1);
    assert_eq!(client.get("/", &[]).await.status, 200);
}

#[tokio::test]
async fn counters_are_read_and_reset_and_leave_the_api_out() {
    let client = west_and_east().await;
    done(&client, Method::DELETE, "/_sidereal/counters", Value::Null).await;
    client.get(&format!("{DOCS}/1"), &[(KEY, "[\"a\"]")]).await;
    let counted = done(&client, Method::GET, "/_sidereal/counters", Value::Null).await;
    let rows = counted["counters"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{rows:?}");
    assert_eq!((&rows[0]["operation"], &rows[0]["status"]), (&json!("Read"), &json!(404)));
    done(&client, Method::DELETE, "/_sidereal/counters", Value::Null).await;
    let counted = done(&client, Method::GET, "/_sidereal/counters", Value::Null).await;
    assert_eq!(counted["counters"], json!([]));
}

//! A replace whose body has another id renames the item.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{Answer, Client, DOCS, Fixture, KEY};
use http::Method;
use serde_json::{Value, json};
use sidereal_emulator::Account;

const A: (&str, &str) = (KEY, "[\"a\"]");
const ATOMIC: [(&str, &str); 3] =
    [A, ("x-ms-cosmos-is-batch-request", "True"), ("x-ms-cosmos-batch-atomic", "True")];

fn item(id: &str, v: u64) -> Value {
    json!({ "id": id, "pk": "a", "v": v })
}

async fn rename(client: &Client, id: &str, to: &str, v: u64) -> Answer {
    client.send(Method::PUT, &format!("{DOCS}/{id}"), &[A], item(to, v)).await
}

#[tokio::test]
async fn a_renamed_item_is_found_under_its_new_id_alone() {
    let client = Client::with_container(1).await;
    let created = client.create(item("1", 1)).await.json();
    client.create(item("taken", 7)).await;
    let feed = [A, ("a-im", "Incremental Feed")];
    let cursor = client.get(DOCS, &feed).await.header("etag").unwrap().to_owned();

    let conflict = rename(&client, "1", "taken", 2).await;
    assert_eq!((conflict.status, conflict.json()["code"].as_str()), (409, Some("Conflict")));
    assert_eq!(client.read("1", "a").await.json(), created);

    let renamed = rename(&client, "1", "2", 3).await;
    assert_eq!(renamed.status, 200, "{}", renamed.text);
    let document = renamed.json();
    assert_eq!((&document["id"], &document["_rid"]), (&json!("2"), &created["_rid"]));
    assert_eq!(client.read("1", "a").await.status, 404);
    assert_eq!(client.read("2", "a").await.json(), document);
    assert_eq!(rename(&client, "1", "3", 3).await.status, 404);

    let news = client.get(DOCS, &[feed[0], feed[1], ("if-none-match", &cursor)]).await;
    assert_eq!(news.ids(), ["2"]);
    assert_eq!(client.create(item("1", 4)).await.status, 201);
}

#[tokio::test]
async fn a_rename_keeps_to_conditions_and_unique_keys() {
    let client = Client::start().await;
    let policy = json!({ "uniqueKeys": [{ "paths": ["/v"] }] });
    let key = json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 });
    client
        .create_container(json!({ "id": "c", "partitionKey": key, "uniqueKeyPolicy": policy }))
        .await;
    client.create(item("1", 1)).await;
    client.create(item("other", 9)).await;
    let stale = [A, ("if-match", "\"stale\"")];
    let path = format!("{DOCS}/1");
    assert_eq!(client.send(Method::PUT, &path, &stale, item("2", 1)).await.status, 412);
    let taken = rename(&client, "1", "2", 9).await;
    assert_eq!((taken.status, taken.sub_status()), (409, 3301));
    assert_eq!(client.read("1", "a").await.status, 200);
    // Its own values are no conflict, and stay taken.
    assert_eq!(rename(&client, "1", "2", 1).await.status, 200);
    assert_eq!(client.create(item("1", 1)).await.sub_status(), 3301);
}

#[tokio::test]
async fn a_batch_renames_and_gives_the_name_to_another_item() {
    let client = Client::with_container(1).await;
    client.create(item("1", 1)).await;
    let replace = |id: &str, to: &str, v| json!({ "operationType": "Replace", "id": id, "resourceBody": item(to, v) });
    let operations = json!([
        replace("1", "2", 2),
        { "operationType": "Create", "resourceBody": item("1", 3) },
        replace("2", "3", 4),
        { "operationType": "Read", "id": "3" },
    ]);
    let answer = client.send(Method::POST, DOCS, &ATOMIC, operations).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.json()[3]["resourceBody"]["v"], 4);
    let by_value = client.query("SELECT VALUE [c.id, c.v] FROM c ORDER BY c.v", &[A]).await.rows();
    assert_eq!(by_value, [json!(["1", 3]), json!(["3", 4])]);

    let operations = json!([replace("1", "5", 5), replace("5", "3", 6)]);
    let refused = client.send(Method::POST, DOCS, &ATOMIC, operations).await;
    assert_eq!(refused.status, 207);
    assert_eq!(
        (&refused.json()[0]["statusCode"], &refused.json()[1]["statusCode"]),
        (&json!(424), &json!(409))
    );
    assert_eq!(client.read("1", "a").await.json()["v"], 3);
}

#[tokio::test]
async fn indexes_that_exist_already_know_a_renamed_item() {
    let client = Client::with_container(1).await;
    for n in 0..20 {
        client.create(item(&n.to_string(), n)).await;
    }
    let ids = async |filter: &str| {
        let text = format!("SELECT VALUE c.id FROM c WHERE {filter} ORDER BY c.v");
        client.query(&text, &[A]).await.rows()
    };
    assert_eq!(ids("c.id = '7'").await, [json!("7")]);
    assert_eq!(rename(&client, "7", "seven", 7).await.status, 200);
    assert_eq!(ids("c.id = '7'").await, Vec::<Value>::new());
    assert_eq!(ids("c.id = 'seven'").await, [json!("seven")]);
    assert_eq!(ids("c.v >= 6 AND c.v <= 8").await, [json!("6"), json!("seven"), json!("8")]);
}

/// The view of a region: the statuses of both names, and the ids of a feed.
fn seen(fixture: &Fixture, region: &str) -> ([u16; 2], Vec<String>) {
    let get = |path: &str| fixture.send_in(region, Method::GET, path, &[A], Value::Null).unwrap();
    (["1", "2"].map(|id| get(&format!("{DOCS}/{id}")).status), get(DOCS).ids())
}

#[test]
fn a_rename_is_replicated_and_kept() {
    let directory = std::env::temp_dir().join(format!("sidereal-rename-{}", uuid::Uuid::new_v4()));
    for multi_write in [false, true] {
        let path = directory.join(multi_write.to_string());
        let mut fixture = Fixture::new(|options| {
            options.regions = ["West US", "East US"].map(Into::into).to_vec();
            options.multi_write = multi_write;
            options.replication_delay = Duration::from_millis(100);
        });
        let options = fixture.account.options().clone();
        let open = || Arc::new(Account::open(options.clone(), &path).unwrap());
        fixture.account = open();
        fixture.create_container(json!({}));
        assert_eq!(fixture.send(Method::POST, DOCS, &[A], item("1", 1)).status, 201);
        fixture.clock.advance(Duration::from_millis(200));
        let renamed = fixture.send(Method::PUT, &format!("{DOCS}/1"), &[A], item("2", 2));
        assert_eq!(renamed.status, 200);
        let old = ([200, 404], vec!["1".to_owned()]);
        let new = ([404, 200], vec!["2".to_owned()]);
        assert_eq!(
            (seen(&fixture, "West US"), seen(&fixture, "East US")),
            (new.clone(), old.clone())
        );
        // Kept while it is on its way, and again when it has arrived.
        for in_east in [old, new.clone()] {
            let clock = Arc::clone(&fixture.clock);
            drop(fixture);
            fixture = Fixture { account: open(), clock };
            assert_eq!(
                (seen(&fixture, "West US"), seen(&fixture, "East US")),
                (new.clone(), in_east)
            );
            fixture.clock.advance(Duration::from_millis(200));
            assert_eq!(seen(&fixture, "East US"), new);
        }
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

//! Databases, containers, partition ranges and throughput over a socket.

use crate::common::{Answer, Client, Fixture, KEY};
use http::Method;
use serde_json::{Value, json};
use sidereal_emulator::Emulator;

fn definition(id: &str) -> Value {
    json!({ "id": id, "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 } })
}

#[tokio::test]
async fn databases_are_created_listed_queried_and_deleted() {
    let client = Client::start().await;
    for id in ["one", "two", "three"] {
        let created = client.send(Method::POST, "/dbs", &[], json!({ "id": id })).await;
        assert_eq!((created.status, created.json()["id"].as_str()), (201, Some(id)));
    }
    assert_eq!(client.send(Method::POST, "/dbs", &[], json!({ "id": "one" })).await.status, 409);
    assert_eq!(client.get("/dbs", &[]).await.json()["_count"], 3);
    let query = json!({ "query": "SELECT * FROM root r WHERE r.id = @id", "parameters": [{ "name": "@id", "value": "two" }] });
    let found = client
        .send(Method::POST, "/dbs", &[("x-ms-documentdb-isquery", "true")], query)
        .await
        .json();
    assert_eq!(found["Databases"][0]["id"], "two");
    let first = client.get("/dbs", &[("x-ms-max-item-count", "2")]).await;
    let token = first.header("x-ms-continuation").unwrap().to_owned();
    let second = client
        .get("/dbs/", &[("x-ms-max-item-count", "2"), ("x-ms-continuation", &token)])
        .await
        .json();
    assert_eq!(second["_count"], 1);
    assert_eq!(client.send(Method::DELETE, "/dbs/one", &[], Value::Null).await.status, 204);
    assert_eq!(client.get("/dbs/one", &[]).await.status, 404);
    for malformed in [json!({}), json!({ "id": "a/b" }), json!({ "id": 7 })] {
        assert_eq!(client.send(Method::POST, "/dbs", &[], malformed).await.status, 400);
    }
}

#[tokio::test]
async fn a_container_keeps_what_it_was_created_with_and_gets_the_rest() {
    let client = Client::start().await;
    let mut wanted = definition("c");
    wanted["defaultTtl"] = json!(60);
    wanted["somethingNew"] = json!({ "kept": true });
    client.create_container(wanted).await;
    let container = client.get("/dbs/db/colls/c", &[]).await.json();
    assert_eq!(container["defaultTtl"], 60);
    assert_eq!(container["somethingNew"], json!({ "kept": true }));
    assert_eq!(container["indexingPolicy"]["includedPaths"], json!([{ "path": "/*" }]));
    assert_eq!(
        container["partitionKey"],
        json!({ "paths": ["/pk"], "kind": "Hash", "version": 2 })
    );
    let (database, rid) =
        (client.get("/dbs/db", &[]).await.json(), container["_rid"].as_str().unwrap());
    assert_eq!(
        container["_self"],
        format!("dbs/{}/colls/{rid}/", database["_rid"].as_str().unwrap())
    );
    assert_eq!(client.send(Method::POST, "/dbs/db/colls", &[], definition("c")).await.status, 409);
    let missing = client.get("/dbs/none/colls", &[]).await;
    assert_eq!((missing.status, missing.sub_status()), (404, 1003));
}

#[tokio::test]
async fn a_container_can_be_replaced_except_for_its_keys() {
    let client = Client::start().await;
    client.create_container(definition("c")).await;
    let mut changed = client.get("/dbs/db/colls/c", &[]).await.json();
    changed["defaultTtl"] = json!(-1);
    let replaced = client.send(Method::PUT, "/dbs/db/colls/c", &[], changed.clone()).await;
    assert_eq!(
        (replaced.status, &replaced.json()["defaultTtl"]),
        (200, &json!(-1)),
        "{}",
        replaced.text
    );
    changed["partitionKey"]["paths"] = json!(["/other"]);
    assert_eq!(client.send(Method::PUT, "/dbs/db/colls/c", &[], changed).await.status, 400);
}

#[tokio::test]
async fn malformed_containers_are_refused() {
    let client = Client::start().await;
    client.send(Method::POST, "/dbs", &[], json!({ "id": "db" })).await;
    let with = |name: &str, value: Value| {
        let mut wanted = definition("c");
        wanted[name] = value;
        wanted
    };
    for malformed in [
        json!({ "id": "c" }),
        json!({ "id": "c", "partitionKey": { "paths": [] } }),
        json!({ "id": "c", "partitionKey": { "paths": ["/a", "/b", "/c", "/d"], "kind": "MultiHash", "version": 2 } }),
        with("defaultTtl", json!(0)),
        with("defaultTtl", json!("soon")),
        with("indexingPolicy", json!({ "includedPaths": [{ "path": "nope" }] })),
        with("uniqueKeyPolicy", json!({ "uniqueKeys": [{ "paths": [] }] })),
        with("id", json!("what?")),
    ] {
        let refused = client.send(Method::POST, "/dbs/db/colls", &[], malformed.clone()).await;
        assert_eq!(refused.status, 400, "{malformed}: {}", refused.text);
    }
}

#[tokio::test]
async fn a_container_begins_with_a_partition_per_six_thousand_units() {
    let client = Client::start().await;
    client.send(Method::POST, "/dbs", &[], json!({ "id": "db" })).await;
    for (units, partitions) in [("400", 1), ("6000", 1), ("12000", 2), ("30000", 5)] {
        let created = client
            .send(
                Method::POST,
                "/dbs/db/colls",
                &[("x-ms-offer-throughput", units)],
                definition(units),
            )
            .await;
        assert_eq!(created.status, 201);
        let ranges = client.get(&format!("/dbs/db/colls/{units}/pkranges"), &[]).await.json();
        assert_eq!(ranges["_count"], partitions, "{units}");
    }
}

#[tokio::test]
async fn partition_ranges_tile_the_key_space_and_are_read_once() {
    let client = Client::with(Emulator::builder().partitions(5)).await;
    client.create_container(definition("c")).await;
    let headers = [("a-im", "Incremental Feed"), ("x-ms-max-item-count", "-1")];
    let first = client.get("/dbs/db/colls/c/pkranges/", &headers).await;
    let body = first.json();
    let ranges = body["PartitionKeyRanges"].as_array().unwrap();
    assert_eq!(ranges.len(), 5);
    assert_eq!(
        (ranges[0]["minInclusive"].as_str(), ranges[4]["maxExclusive"].as_str()),
        (Some(""), Some("FF"))
    );
    for pair in ranges.windows(2) {
        assert_eq!(pair[0]["maxExclusive"], pair[1]["minInclusive"]);
    }
    let etag = first.header("etag").unwrap();
    let again = client
        .get("/dbs/db/colls/c/pkranges/", &[headers[0], headers[1], ("if-none-match", etag)])
        .await;
    assert_eq!(again.status, 304);
}

#[tokio::test]
async fn throughput_is_found_by_the_resources_link_and_replaced() {
    let client = Client::start().await;
    client.create_container(definition("c")).await;
    let link = client.get("/dbs/db/colls/c", &[]).await.json()["_self"].clone();
    let query = json!({ "query": "SELECT * FROM root r WHERE r.resource = @link", "parameters": [{ "name": "@link", "value": link }] });
    let found = client
        .send(Method::POST, "/offers", &[("x-ms-documentdb-isquery", "true")], query)
        .await
        .json();
    let mut offer = found["Offers"][0].clone();
    assert_eq!(offer["content"]["offerThroughput"], 400);
    let path = format!("/offers/{}", offer["id"].as_str().unwrap());
    offer["content"]["offerThroughput"] = json!(1_000);
    let replaced = client.send(Method::PUT, &path, &[], offer.clone()).await;
    assert_eq!(replaced.json()["content"]["offerThroughput"], 1_000, "{}", replaced.text);
    assert_eq!(client.get(&path, &[]).await.json()["content"]["offerThroughput"], 1_000);
    offer["content"]["offerThroughput"] = json!(123);
    assert_eq!(client.send(Method::PUT, &path, &[], offer.clone()).await.status, 400);
}

#[tokio::test]
async fn throughput_migrates_between_fixed_and_autoscale_by_a_header_alone() {
    let client = Client::start().await;
    client.create_container(definition("c")).await;
    let mut offer = client.get("/offers", &[]).await.json()["Offers"][0].clone();
    let path = format!("/offers/{}", offer["id"].as_str().unwrap());
    let mut put = async |header: Option<&str>, content: Value| {
        offer["content"] = content;
        let headers: Vec<_> = header.map(|name| (name, "true")).into_iter().collect();
        let answer = client.send(Method::PUT, &path, &headers, offer.clone()).await;
        match answer.status {
            200 => Ok(answer.json()["content"].clone()),
            _ => Err((answer.status, answer.text)),
        }
    };
    let to_autoscale = Some("x-ms-cosmos-migrate-offer-to-autopilot");
    let to_manual = Some("x-ms-cosmos-migrate-offer-to-manual-throughput");
    let manual = |units: i64| json!({ "offerThroughput": units });
    let autoscale = |most: i64| json!({ "offerAutopilotSettings": { "maxThroughput": most } });

    for (header, content) in [
        (None, autoscale(4_000)),
        (to_autoscale, autoscale(4_000)),
        (to_autoscale, json!({})),
        (to_manual, manual(1_000)),
    ] {
        let (status, text) = put(header, content).await.unwrap_err();
        assert!(status == 400 && text.contains("migrate-offer-to-autopilot must be"), "{text}");
    }
    put(None, manual(1_200)).await.unwrap();
    // The service chooses the maximum: the next one above what the offer had.
    let migrated = put(to_autoscale, manual(-1)).await.unwrap();
    assert_eq!(migrated["offerAutopilotSettings"]["maxThroughput"], 2_000);
    let scaled = put(None, autoscale(4_000)).await.unwrap();
    assert_eq!(scaled["offerAutopilotSettings"]["maxThroughput"], 4_000);

    for (header, content) in
        [(None, manual(400)), (to_manual, manual(400)), (to_autoscale, autoscale(5_000))]
    {
        let (status, text) = put(header, content).await.unwrap_err();
        assert!(status == 400 && text.contains("migrate-offer-to-manual"), "{text}");
    }
    let migrated = put(to_manual, autoscale(-1)).await.unwrap();
    assert_eq!(
        (&migrated["offerThroughput"], migrated.get("offerAutopilotSettings")),
        (&json!(4_000), None)
    );
}

#[tokio::test]
async fn a_container_tells_its_quota_and_its_size_where_they_are_asked_for() {
    let client = Client::with_container(2).await;
    let quota = ("x-ms-documentdb-populatequotainfo", "True");
    let of = |answer: &Answer, name: &str, member: &str| -> Option<i64> {
        let prefix = format!("{member}=");
        let members = answer.header(name)?.split(';');
        let value = members.filter_map(|it| it.strip_prefix(prefix.as_str())).next()?;
        Some(value.parse().unwrap())
    };
    let (usage, limit) = ("x-ms-resource-usage", "x-ms-resource-quota");
    let plain = client.get("/dbs/db/colls/c", &[]).await;
    assert_eq!((plain.header(usage), plain.header(limit)), (None, None));
    let empty = client.get("/dbs/db/colls/c", &[quota]).await;
    assert_eq!(of(&empty, usage, "collectionSize"), Some(0));
    // Of each physical partition 20 GiB, counted in KiB.
    assert_eq!(of(&empty, limit, "collectionSize"), Some(2 * 20 * 1024 * 1024));
    for key in ["a", "b", "c"] {
        client.create(json!({ "id": "1", "pk": key, "text": "x".repeat(10 * 1024) })).await;
    }
    let full = client.get("/dbs/db/colls/c", &[quota]).await;
    let size = of(&full, usage, "collectionSize").unwrap();
    assert!((30..=32).contains(&size), "{size}");
    assert_eq!(of(&full, usage, "documentsSize"), Some(size));
    assert_eq!(of(&full, usage, "documentsCount"), Some(3));
    client.send(Method::DELETE, "/dbs/db/colls/c/docs/1", &[(KEY, "[\"a\"]")], Value::Null).await;
    let less = client.get("/dbs/db/colls/c", &[quota]).await;
    assert!(of(&less, usage, "collectionSize").unwrap() < size);
}

#[tokio::test]
async fn a_container_of_a_database_with_throughput_has_none_of_its_own() {
    let client = Client::start().await;
    client
        .send(Method::POST, "/dbs", &[("x-ms-offer-throughput", "1000")], json!({ "id": "db" }))
        .await;
    client.send(Method::POST, "/dbs/db/colls", &[], definition("shared")).await;
    assert_eq!(client.get("/offers", &[]).await.json()["_count"], 1);
    let scaled = [("x-ms-cosmos-offer-autopilot-settings", "{\"maxThroughput\":4000}")];
    client.send(Method::POST, "/dbs/db/colls", &scaled, definition("own")).await;
    assert_eq!(client.get("/offers", &[]).await.json()["_count"], 2);
    client.send(Method::DELETE, "/dbs/db", &[], Value::Null).await;
    assert_eq!(client.get("/offers", &[]).await.json()["_count"], 0);
    for bad in ["100000000", "1000100", "399", "450", "lots"] {
        let refused = client
            .send(Method::POST, "/dbs", &[("x-ms-offer-throughput", bad)], json!({ "id": "x" }))
            .await;
        assert_eq!(refused.status, 400, "{bad}");
    }
}

#[tokio::test]
async fn the_account_advertises_the_address_that_the_client_used() {
    let client = Client::start().await;
    let account = client.get("/", &[]).await.json();
    let endpoint = account["writableLocations"][0]["databaseAccountEndpoint"].as_str().unwrap();
    assert_eq!(
        endpoint.trim_end_matches('/'),
        client.emulator.http_endpoint().trim_end_matches('/')
    );
    assert_eq!(account["userConsistencyPolicy"]["defaultConsistencyLevel"], "Session");
}

#[tokio::test]
async fn what_the_emulator_does_not_have_is_refused_by_name() {
    let client = Client::start().await;
    client.create_container(definition("c")).await;
    let refused = client.get("/dbs/db/colls/c/sprocs", &[]).await;
    assert_eq!(refused.status, 400);
    assert!(refused.text.contains("sprocs"), "{}", refused.text);
    assert_eq!(client.send(Method::PUT, "/dbs/db", &[], json!({})).await.status, 405);
}

#[test]
fn an_account_has_so_many_partitions_and_no_more() {
    let fixture = Fixture::new(|options| options.partitions = Some(1_000));
    fixture.send(Method::POST, "/dbs", &[], json!({ "id": "db" }));
    let create =
        |n: usize| fixture.send(Method::POST, "/dbs/db/colls", &[], definition(&format!("c{n}")));
    assert!((0..25).all(|n| create(n).status == 201));
    let refused = create(25);
    assert_eq!(refused.status, 403);
    assert!(refused.text.contains("delete containers"), "{}", refused.text);
    fixture.send(Method::DELETE, "/dbs/db/colls/c7", &[], Value::Null);
    assert_eq!(create(25).status, 201);
}

#[test]
fn throughput_that_a_partition_cannot_carry_splits_its_range() {
    let fixture = Fixture::new(|_| {});
    fixture.create_container(json!({}));
    let item = json!({ "id": "1", "pk": "a" });
    let headers = [("x-ms-documentdb-partitionkey", "[\"a\"]")];
    assert_eq!(fixture.send(Method::POST, "/dbs/db/colls/c/docs", &headers, item).status, 201);
    let offer = fixture.send(Method::GET, "/offers", &[], Value::Null).json()["Offers"][0].clone();
    let path = format!("/offers/{}", offer["_rid"].as_str().unwrap());
    let ranges = |units: u32| {
        let mut offer = offer.clone();
        offer["content"]["offerThroughput"] = json!(units);
        assert_eq!(fixture.send(Method::PUT, &path, &[], offer).status, 200);
        let ranges = fixture.send(Method::GET, "/dbs/db/colls/c/pkranges", &[], Value::Null).json();
        ranges["_count"].as_u64().unwrap()
    };
    // Lowered again, the partitions stay.
    assert_eq!([10_000, 13_000, 50_000, 400].map(ranges), [1, 2, 5, 5]);
    let read = fixture.send(Method::GET, "/dbs/db/colls/c/docs/1", &headers, Value::Null);
    assert_eq!(read.status, 200);
}

#[test]
fn throughput_is_not_raised_beyond_the_partitions_of_an_account() {
    let fixture = Fixture::new(|_| {});
    fixture.send(Method::POST, "/dbs", &[], json!({ "id": "db" }));
    let most = [("x-ms-offer-throughput", "1000000")];
    // 167 partitions each: 149 of them leave room for 117 more.
    for n in 0..149 {
        let id = format!("c{n}");
        assert_eq!(fixture.send(Method::POST, "/dbs/db/colls", &most, definition(&id)).status, 201);
    }
    let raised = |id: &str| {
        let rid =
            fixture.send(Method::POST, "/dbs/db/colls", &[], definition(id)).json()["_rid"].clone();
        let query = json!({ "query": "SELECT * FROM o WHERE o.offerResourceId = @rid",
            "parameters": [{ "name": "@rid", "value": rid }] });
        let headers = [("x-ms-documentdb-isquery", "true")];
        let found = fixture.send(Method::POST, "/offers", &headers, query).json();
        let mut offer = found["Offers"][0].clone();
        offer["content"]["offerThroughput"] = json!(1_000_000);
        let path = format!("/offers/{}", offer["_rid"].as_str().unwrap());
        fixture.send(Method::PUT, &path, &[], offer).status
    };
    assert_eq!(["first", "second"].map(raised), [200, 403]);
}

//! Items over a socket: point operations, conditions, keys, limits.

use std::time::SystemTime;

use crate::common::{Client, DOCS, KEY, key_of, signed};
use bytes::Bytes;
use http::{Method, Request};
use serde_json::{Value, json};

const A: (&str, &str) = (KEY, "[\"a\"]");

fn item(id: &str) -> Value {
    json!({ "id": id, "pk": "a", "v": 1 })
}

#[tokio::test]
async fn an_item_is_created_read_replaced_and_deleted() {
    let client = Client::with_container(1).await;
    let created = client.create(item("1")).await;
    assert_eq!(created.status, 201, "{created:?}");
    let document = created.json();
    assert_eq!(document["v"], 1);
    for name in ["_rid", "_self", "_etag", "_attachments", "_ts"] {
        assert!(document.get(name).is_some(), "{name}");
    }
    assert_eq!(created.header("etag"), document["_etag"].as_str());

    assert_eq!(client.read("1", "a").await.json(), document);

    let replaced = client
        .send(Method::PUT, &format!("{DOCS}/1"), &[A], json!({ "id": "1", "pk": "a", "v": 2 }))
        .await;
    assert_eq!(replaced.status, 200);
    assert_eq!(replaced.json()["v"], 2);
    assert_eq!(replaced.json()["_rid"], document["_rid"]);
    assert_ne!(replaced.json()["_etag"], document["_etag"]);

    let deleted = client.send(Method::DELETE, &format!("{DOCS}/1"), &[A], Value::Null).await;
    assert_eq!((deleted.status, deleted.text.as_str()), (204, ""));
    let gone = client.read("1", "a").await;
    assert_eq!((gone.status, gone.sub_status()), (404, 0));
    assert_eq!(gone.json()["code"], "NotFound");
}

#[tokio::test]
async fn a_second_item_of_an_id_conflicts_only_within_its_partition_key() {
    let client = Client::with_container(5).await;
    assert_eq!(client.create(item("1")).await.status, 201);
    let conflict = client.create(item("1")).await;
    assert_eq!((conflict.status, conflict.json()["code"].as_str()), (409, Some("Conflict")));
    assert_eq!(client.create(json!({ "id": "1", "pk": "b" })).await.status, 201);
}

#[tokio::test]
async fn an_upsert_creates_and_then_replaces() {
    let client = Client::with_container(1).await;
    let upsert = [A, ("x-ms-documentdb-is-upsert", "True")];
    assert_eq!(client.send(Method::POST, DOCS, &upsert, item("1")).await.status, 201);
    let replaced =
        client.send(Method::POST, DOCS, &upsert, json!({ "id": "1", "pk": "a", "v": 9 })).await;
    assert_eq!((replaced.status, replaced.json()["v"].as_i64()), (200, Some(9)));
}

#[tokio::test]
async fn a_stale_etag_is_rejected() {
    let client = Client::with_container(1).await;
    let etag = client.create(item("1")).await.header("etag").unwrap().to_owned();
    let path = format!("{DOCS}/1");
    let fresh = [A, ("if-match", etag.as_str())];
    assert_eq!(client.send(Method::PUT, &path, &fresh, item("1")).await.status, 200);
    let stale = client.send(Method::PUT, &path, &fresh, item("1")).await;
    assert_eq!((stale.status, stale.json()["code"].as_str()), (412, Some("PreconditionFailed")));
    assert_eq!(client.send(Method::DELETE, &path, &fresh, Value::Null).await.status, 412);
    assert_eq!(
        client.send(Method::DELETE, &path, &[A, ("if-match", "*")], Value::Null).await.status,
        204
    );
}

#[tokio::test]
async fn a_read_of_a_known_version_is_not_modified() {
    let client = Client::with_container(1).await;
    let etag = client.create(item("1")).await.header("etag").unwrap().to_owned();
    let known = client.get(&format!("{DOCS}/1"), &[A, ("if-none-match", &etag)]).await;
    assert_eq!((known.status, known.text.as_str()), (304, ""));
    let other = client.get(&format!("{DOCS}/1"), &[A, ("if-none-match", "\"other\"")]).await;
    assert_eq!(other.status, 200);
}

#[tokio::test]
async fn a_minimal_answer_has_no_body() {
    let client = Client::with_container(1).await;
    let created =
        client.send(Method::POST, DOCS, &[A, ("prefer", "return=minimal")], item("1")).await;
    assert_eq!((created.status, created.text.as_str()), (201, ""));
    assert!(created.header("etag").is_some());
}

#[tokio::test]
async fn a_key_that_is_not_the_documents_is_refused() {
    let client = Client::with_container(1).await;
    let refused = client.send(Method::POST, DOCS, &[(KEY, "[\"b\"]")], item("1")).await;
    assert_eq!((refused.status, refused.sub_status()), (400, 1001));
    let missing = client.get(&format!("{DOCS}/1"), &[]).await;
    assert_eq!(missing.status, 400);
    for malformed in ["a", "[\"a\"", "{}", "[[1]]", "[\"a\",\"b\"]"] {
        let refused = client.get(&format!("{DOCS}/1"), &[(KEY, malformed)]).await;
        assert_eq!(refused.status, 400, "{malformed}: {refused:?}");
    }
}

#[tokio::test]
async fn keys_of_every_kind_find_their_items() {
    let client = Client::with_container(5).await;
    let keys =
        [json!("text"), json!(7), json!(7.5), json!(true), json!(null), json!("\u{1F680} déjà")];
    for key in &keys {
        assert_eq!(client.create(json!({ "id": "1", "pk": key })).await.status, 201, "{key}");
    }
    assert_eq!(client.create(json!({ "id": "1" })).await.status, 201);
    for key in &keys {
        let header = key_of(&json!({ "pk": key }));
        let read = client.get(&format!("{DOCS}/1"), &[(KEY, &header)]).await;
        assert_eq!(read.status, 200, "{header}: {read:?}");
        assert_eq!(read.json()["pk"], *key);
    }
    let undefined = client.get(&format!("{DOCS}/1"), &[(KEY, "[{}]")]).await;
    assert_eq!(undefined.status, 200);
}

/// A container whose definition names no version hashes by version 1, which reads only the first hundred
/// characters of a string: long keys with a common prefix share an effective partition
/// key, and are still different keys.
#[tokio::test]
async fn keys_of_version_1_that_begin_alike_stay_apart() {
    let client = Client::with(sidereal_emulator::Emulator::builder().partitions(5)).await;
    client
        .create_container(
            json!({ "id": "c", "partitionKey": { "paths": ["/pk"], "kind": "Hash" } }),
        )
        .await;
    let long = |end: &str| format!("{}{end}", "x".repeat(120));
    for end in ["one", "two"] {
        assert_eq!(
            client.create(json!({ "id": "1", "pk": long(end), "end": end })).await.status,
            201
        );
    }
    for end in ["one", "two"] {
        assert_eq!(client.read("1", &long(end)).await.json()["end"], end);
        let key = json!([long(end)]).to_string();
        let rows = client.query("SELECT VALUE c[\"end\"] FROM c", &[(KEY, &key)]).await.rows();
        assert_eq!(rows, [json!(end)]);
    }
    assert_eq!(client.create(json!({ "id": "n", "pk": 7 })).await.status, 201);
    assert_eq!(client.get(&format!("{DOCS}/n"), &[(KEY, "[7]")]).await.status, 200);
}

#[tokio::test]
async fn a_header_value_that_the_service_does_not_know_is_refused() {
    let client = Client::with_container(1).await;
    client.create(item("1")).await;
    for header in [
        ("x-ms-cosmos-read-consistency-strategy", "Sometimes"),
        ("x-ms-cosmos-priority-level", "Urgent"),
        ("x-ms-indexing-directive", "Maybe"),
        ("if-match", ""),
        ("x-ms-documentdb-is-upsert", "perhaps"),
    ] {
        let refused = client.send(Method::POST, DOCS, &[A, header], item("2")).await;
        assert_eq!(refused.status, 400, "{header:?}: {}", refused.text);
        assert!(refused.text.contains(header.0), "{}", refused.text);
    }
}

#[tokio::test]
async fn malformed_items_are_refused() {
    let client = Client::with_container(1).await;
    for body in [
        "",
        "{",
        "[]",
        "7",
        "{\"pk\":\"a\"}",
        "{\"id\":7,\"pk\":\"a\"}",
        "{\"id\":\"a\\\\b\",\"pk\":\"a\"}",
        "{\"id\":\"\",\"pk\":\"a\"}",
    ] {
        let refused = client.send_text(Method::POST, DOCS, &[A], body.to_owned()).await;
        assert_eq!(refused.status, 400, "{body}: {refused:?}");
        assert_eq!(refused.json()["code"], "BadRequest", "{body}");
    }
    let nested =
        format!("{{\"id\":\"1\",\"pk\":\"a\",\"n\":{}1{}}}", "[".repeat(300), "]".repeat(300));
    assert_eq!(client.send_text(Method::POST, DOCS, &[A], nested).await.status, 400);
}

#[tokio::test]
async fn an_id_takes_a_question_mark_a_hash_and_a_slash_which_only_queries_find() {
    let client = Client::with_container(1).await;
    for (id, encoded) in [("a?b", "a%3Fb"), ("a#b", "a%23b")] {
        assert_eq!(client.create(item(id)).await.status, 201, "{id}");
        assert_eq!(client.read(encoded, "a").await.json()["id"], id);
    }
    assert_eq!(client.create(item("a/b")).await.status, 201);
    let found = client.query("SELECT * FROM c WHERE c.id = 'a/b'", &[A]).await;
    assert_eq!(found.ids(), ["a/b"]);
    // What reads as the path of something else is no item's.
    let request = Request::builder().uri(format!("{DOCS}/a%2Fb")).body(Bytes::new()).unwrap();
    assert!([400, 401].contains(&client.exchange(request).await.status));
}

#[tokio::test]
async fn a_write_names_its_partition_key_which_has_at_most_two_kibibytes() {
    let client = Client::with_container(1).await;
    for more in [None, Some(("x-ms-documentdb-is-upsert", "true"))] {
        let headers: Vec<_> = more.into_iter().collect();
        let missing = client.send(Method::POST, DOCS, &headers, item("1")).await;
        assert_eq!(missing.status, 400, "{}", missing.text);
    }
    for (length, status) in [(2048, 201), (2049, 400)] {
        let key = "k".repeat(length);
        let created = client.create(json!({ "id": "1", "pk": key })).await;
        assert_eq!(created.status, status, "{}", created.text);
        let read = client.read("1", &key).await.status;
        let expected = if status == 201 { 200 } else { 400 };
        let header = json!([key]).to_string();
        let query = client.query("SELECT * FROM c", &[(KEY, &header)]).await.status;
        assert_eq!((read, query), (expected, expected));
    }
}

#[tokio::test]
async fn an_item_over_two_mebibytes_is_too_large() {
    let client = Client::with_container(1).await;
    let large =
        client.create(json!({ "id": "1", "pk": "a", "text": "x".repeat(2 * 1024 * 1024) })).await;
    assert_eq!(large.status, 413, "{}", large.text);
    let fits = client
        .create(json!({ "id": "1", "pk": "a", "text": "x".repeat(2 * 1024 * 1024 - 1024) }))
        .await;
    assert_eq!(fits.status, 201);
}

#[tokio::test]
async fn unknown_owners_are_named_as_such() {
    let client = Client::with_container(1).await;
    for path in ["/dbs/db/colls/none/docs/1", "/dbs/none/colls/c/docs/1"] {
        let missing = client.get(path, &[A]).await;
        assert_eq!((missing.status, missing.sub_status()), (404, 1003), "{path}");
    }
}

#[tokio::test]
async fn a_container_created_again_is_not_the_one_meant() {
    let client = Client::with_container(1).await;
    let rid = client.get("/dbs/db/colls/c", &[]).await.json()["_rid"].as_str().unwrap().to_owned();
    let intended = [A, ("x-ms-cosmos-intended-collection-rid", rid.as_str())];
    assert_eq!(client.send(Method::POST, DOCS, &intended, item("1")).await.status, 201);
    assert_eq!(client.send(Method::DELETE, "/dbs/db/colls/c", &[], Value::Null).await.status, 204);
    client.create_container(json!({ "id": "c", "partitionKey": { "paths": ["/pk"] } })).await;
    let refused = client.send(Method::POST, DOCS, &intended, item("1")).await;
    assert_eq!((refused.status, refused.sub_status()), (400, 1024));
}

#[tokio::test]
async fn items_can_be_addressed_by_rid_and_with_a_trailing_slash() {
    let client = Client::with_container(5).await;
    let link = client.create(item("1")).await.json()["_self"].as_str().unwrap().to_owned();
    let by_rid = client.get(&format!("/{link}"), &[A]).await;
    assert_eq!((by_rid.status, by_rid.json()["id"].as_str()), (200, Some("1")), "{by_rid:?}");
    let by_name = client.get(&format!("{DOCS}/1/"), &[A]).await;
    assert_eq!(by_name.status, 200);
}

#[tokio::test]
async fn a_patch_changes_what_it_names() {
    let client = Client::with_container(1).await;
    client.create(json!({ "id": "1", "pk": "a", "n": 1, "list": [1, 2] })).await;
    let patch = json!({ "operations": [
        { "op": "incr", "path": "/n", "value": 2 },
        { "op": "add", "path": "/list/-", "value": 3 },
        { "op": "set", "path": "/new", "value": { "x": 1 } },
        { "op": "move", "from": "/new/x", "path": "/moved" },
        { "op": "remove", "path": "/list/0" },
        { "op": "replace", "path": "/list/0", "value": "two" },
    ] });
    let patched = client.send(Method::PATCH, &format!("{DOCS}/1"), &[A], patch).await;
    assert_eq!(patched.status, 200, "{}", patched.text);
    let document = patched.json();
    assert_eq!((&document["n"], &document["list"]), (&json!(3), &json!(["two", 3])));
    assert_eq!((&document["new"], &document["moved"]), (&json!({}), &json!(1)));
}

#[tokio::test]
async fn a_patch_happens_whole_or_not_at_all() {
    let client = Client::with_container(1).await;
    client.create(json!({ "id": "1", "pk": "a", "n": 1 })).await;
    let path = format!("{DOCS}/1");
    let half = json!({ "operations": [
        { "op": "incr", "path": "/n", "value": 1 },
        { "op": "remove", "path": "/missing" },
    ] });
    assert_eq!(client.send(Method::PATCH, &path, &[A], half).await.status, 400);
    assert_eq!(client.read("1", "a").await.json()["n"], 1);

    let eleven =
        json!({ "operations": vec![json!({ "op": "incr", "path": "/n", "value": 1 }); 11] });
    assert_eq!(client.send(Method::PATCH, &path, &[A], eleven).await.status, 400);
}

#[tokio::test]
async fn a_patch_whose_condition_does_not_hold_is_refused() {
    let client = Client::with_container(1).await;
    client.create(json!({ "id": "1", "pk": "a", "n": 1 })).await;
    let patch = |condition: &str| json!({ "condition": condition, "operations": [{ "op": "incr", "path": "/n", "value": 1 }] });
    let path = format!("{DOCS}/1");
    assert_eq!(
        client.send(Method::PATCH, &path, &[A], patch("from c where c.n = 1")).await.status,
        200
    );
    let refused = client.send(Method::PATCH, &path, &[A], patch("from c where c.n = 1")).await;
    assert_eq!((refused.status, refused.sub_status()), (412, 1110));
    assert_eq!(client.send(Method::PATCH, &path, &[A], patch("from c where")).await.status, 400);
}

#[tokio::test]
async fn unique_keys_are_unique_within_a_partition_key() {
    let client = Client::start().await;
    client
        .create_container(json!({
            "id": "c",
            "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 },
            "uniqueKeyPolicy": { "uniqueKeys": [{ "paths": ["/email"] }] },
        }))
        .await;
    let person = |id: &str, key: &str, email: &str| json!({ "id": id, "pk": key, "email": email });
    assert_eq!(client.create(person("1", "a", "x@y")).await.status, 201);
    let conflict = client.create(person("2", "a", "x@y")).await;
    assert_eq!((conflict.status, conflict.sub_status()), (409, 3301));
    assert_eq!(client.create(person("2", "b", "x@y")).await.status, 201);
    let path = format!("{DOCS}/1");
    assert_eq!(client.send(Method::PUT, &path, &[A], person("1", "a", "z@y")).await.status, 200);
    assert_eq!(client.create(person("2", "a", "x@y")).await.status, 201);
}

#[tokio::test]
async fn all_items_of_a_partition_key_are_deleted_at_once() {
    let client = Client::with_container(5).await;
    for id in ["1", "2", "3"] {
        client.create(item(id)).await;
    }
    client.create(json!({ "id": "1", "pk": "b" })).await;
    let deleted = client
        .send(Method::POST, "/dbs/db/colls/c/operations/partitionkeydelete", &[A], Value::Null)
        .await;
    assert_eq!(deleted.status, 200, "{deleted:?}");
    assert_eq!(client.read("1", "a").await.status, 404);
    assert_eq!(client.read("1", "b").await.status, 200);
}

#[tokio::test]
async fn answers_carry_charges_session_tokens_and_owners() {
    let client = Client::with_container(5).await;
    let created = client.create(item("1")).await;
    assert!(created.charge() > 5.0, "{}", created.charge());
    assert_eq!(client.read("1", "a").await.charge(), 1.0);
    let token = created.header("x-ms-session-token").unwrap();
    assert!(token.contains(':') && token.contains('#'), "{token}");
    assert_eq!(created.header("x-ms-alt-content-path"), Some("dbs/db/colls/c"));
    assert!(created.header("x-ms-content-path").is_some());
    assert!(created.header("lsn").is_some());
}

#[tokio::test]
async fn a_session_that_has_seen_more_than_the_account_is_not_available() {
    let client = Client::with_container(1).await;
    let token = client.create(item("1")).await.header("x-ms-session-token").unwrap().to_owned();
    let path = format!("{DOCS}/1");
    assert_eq!(client.get(&path, &[A, ("x-ms-session-token", &token)]).await.status, 200);
    let ahead = client.get(&path, &[A, ("x-ms-session-token", "0:1#999")]).await;
    assert_eq!((ahead.status, ahead.sub_status()), (404, 1002));
    let eventual = [A, ("x-ms-session-token", "0:1#999"), ("x-ms-consistency-level", "Eventual")];
    assert_eq!(client.get(&path, &eventual).await.status, 200);
    assert_eq!(client.get(&path, &[A, ("x-ms-session-token", "garbage")]).await.status, 400);
}

#[tokio::test]
async fn consistency_can_be_weakened_but_not_strengthened() {
    let client = Client::with_container(1).await;
    client.create(item("1")).await;
    let path = format!("{DOCS}/1");
    for (level, status) in [
        ("Eventual", 200),
        ("Session", 200),
        ("Strong", 400),
        ("BoundedStaleness", 400),
        ("Sometimes", 400),
    ] {
        let read = client.get(&path, &[A, ("x-ms-consistency-level", level)]).await;
        assert_eq!(read.status, status, "{level}");
    }
}

#[tokio::test]
async fn hierarchical_keys_address_items_and_their_prefixes_address_many() {
    let client = Client::with(sidereal_emulator::Emulator::builder().partitions(5)).await;
    client
        .create_container(json!({ "id": "c", "partitionKey": { "paths": ["/t", "/u"], "kind": "MultiHash", "version": 2 } }))
        .await;
    for (id, user) in [("1", "x"), ("2", "y"), ("3", "y")] {
        let key = json!(["tenant", user]).to_string();
        let body = json!({ "id": id, "t": "tenant", "u": user });
        assert_eq!(client.send(Method::POST, DOCS, &[(KEY, &key)], body).await.status, 201);
    }
    let other = json!({ "id": "4", "t": "other", "u": "x" });
    assert_eq!(
        client.send(Method::POST, DOCS, &[(KEY, "[\"other\",\"x\"]")], other).await.status,
        201
    );

    assert_eq!(client.get(&format!("{DOCS}/1"), &[(KEY, "[\"tenant\",\"x\"]")]).await.status, 200);
    assert_eq!(client.get(&format!("{DOCS}/1"), &[(KEY, "[\"tenant\"]")]).await.status, 400);
    let by_prefix = client.query("SELECT * FROM c", &[(KEY, "[\"tenant\"]")]).await;
    let mut ids = by_prefix.ids();
    ids.sort();
    assert_eq!(ids, ["1", "2", "3"]);
}

/// The JavaScript SDK leaves a question mark in an id as it is, and signs the id with it.
#[tokio::test]
async fn an_id_with_a_question_mark_is_found_also_if_it_is_not_encoded() {
    let client = Client::with_container(2).await;
    let item = json!({ "id": "a?b=c&d", "pk": "a", "n": 1 });
    assert_eq!(client.create(item.clone()).await.status, 201);
    let key = [(KEY, "[\"a\"]")];
    let encoded = format!("{DOCS}/a%3Fb=c&d");
    let path = format!("{DOCS}/a?b=c&d");
    for (method, body, status) in [
        (Method::GET, Value::Null, 200),
        (Method::PUT, item, 200),
        (Method::DELETE, Value::Null, 204),
    ] {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let signed =
            signed(client.emulator.key(), SystemTime::now(), method.clone(), &encoded, &key, body);
        let (mut parts, body) = signed.into_parts();
        parts.uri = path.parse().unwrap();
        let answer = client.exchange(http::Request::from_parts(parts, body)).await;
        assert_eq!(answer.status, status, "{method}: {}", answer.text);
    }
    assert_eq!(client.get(&encoded, &key).await.status, 404);
}

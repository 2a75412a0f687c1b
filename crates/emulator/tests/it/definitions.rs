//! Definitions of containers: what the service completes, what it refuses, and versions of metadata.

use http::Method;
use serde_json::{Value, json};

use crate::common::{Answer, Fixture};

fn fixture() -> Fixture {
    let fixture = Fixture::new(|_| {});
    assert_eq!(fixture.send(Method::POST, "/dbs", &[], json!({ "id": "db" })).status, 201);
    fixture
}

/// Creates a container with these properties besides its id, and a key unless they have one.
fn create(fixture: &Fixture, properties: Value) -> Answer {
    let mut definition =
        json!({ "id": "c", "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 } });
    for (name, value) in properties.as_object().unwrap() {
        definition[name] = value.clone();
    }
    fixture.send(Method::POST, "/dbs/db/colls", &[], definition)
}

fn refused(properties: Value) -> String {
    let answer = create(&fixture(), properties.clone());
    assert_eq!(answer.status, 400, "{properties}");
    answer.json()["message"].as_str().unwrap().to_owned()
}

#[test]
fn the_etag_is_excluded_last_whenever_it_is_not_named() {
    let etag = json!({ "path": "/\"_etag\"/?" });
    for (given, expected) in [
        (json!({}), json!([etag])),
        (json!({ "includedPaths": [{ "path": "/*" }] }), json!([etag])),
        (
            json!({ "includedPaths": [{ "path": "/*" }], "excludedPaths": [{ "path": "/a/?" }] }),
            json!([{ "path": "/a/?" }, etag]),
        ),
        (
            json!({ "includedPaths": [{ "path": "/*" }], "excludedPaths": [etag, { "path": "/a/?" }] }),
            json!([etag, { "path": "/a/?" }]),
        ),
        (json!({ "indexingMode": "none" }), json!([])),
    ] {
        let created = create(&fixture(), json!({ "indexingPolicy": given })).json();
        assert_eq!(created["indexingPolicy"]["excludedPaths"], expected, "{given}");
    }
}

#[test]
fn a_slash_is_the_root_of_a_policy_and_consistent_is_automatic() {
    let policy =
        json!({ "automatic": false, "includedPaths": [{ "path": "/" }], "excludedPaths": [] });
    let created = create(&fixture(), json!({ "indexingPolicy": policy })).json();
    assert_eq!(created["indexingPolicy"]["automatic"], true);
    assert_eq!(created["indexingPolicy"]["includedPaths"], json!([{ "path": "/" }]));
}

#[test]
fn a_key_without_a_version_reads_back_without_one() {
    let created =
        create(&fixture(), json!({ "partitionKey": { "paths": ["/pk"], "kind": "Hash" } }));
    assert_eq!(created.json()["partitionKey"], json!({ "paths": ["/pk"], "kind": "Hash" }));
    let named = create(&fixture(), json!({})).json();
    assert_eq!(named["partitionKey"]["version"], 2);
}

#[test]
fn key_paths_with_wildcards_and_characters_that_need_quotes_are_refused() {
    for (paths, path, position) in [
        (json!(["/id ds"]), "/id ds", 3),
        (json!(["/a/*"]), "/a/*", 3),
        (json!(["/a[0]"]), "/a[0]", 2),
        (json!(["id"]), "id", 0),
        (json!(["/a/"]), "/a/", 2),
        (json!(["/a", "/a"]), "/a", 0),
    ] {
        let message = refused(
            json!({ "partitionKey": { "paths": paths, "kind": "MultiHash", "version": 2 } }),
        );
        let expected = format!(
            "The partition key component definition path '{path}' could not be accepted, failed near position \
             '{position}'. Partition key paths must contain only valid characters and not contain a trailing slash or \
             wildcard character."
        );
        assert!(message.starts_with(&expected), "{message}");
    }
    let quoted =
        json!({ "partitionKey": { "paths": ["/\"id ds\""], "kind": "Hash", "version": 2 } });
    assert_eq!(create(&fixture(), quoted).status, 201);
}

#[test]
fn a_plane_has_a_bounding_box_and_the_earth_has_none() {
    let spatial = |bounds: Option<Value>| {
        let mut index = json!({ "path": "/place/?", "types": ["Point"] });
        if let Some(bounds) = bounds {
            index["boundingBox"] = bounds;
        }
        json!({ "includedPaths": [{ "path": "/*" }], "spatialIndexes": [index] })
    };
    let bounds = || Some(json!({ "xmin": 0, "ymin": 0, "xmax": 10, "ymax": 10 }));
    let geometry = json!({ "type": "Geometry" });
    let missing = refused(json!({ "geospatialConfig": geometry, "indexingPolicy": spatial(None) }));
    assert!(missing.contains("boundingBox"), "{missing}");
    let needless = refused(json!({ "indexingPolicy": spatial(bounds()) }));
    assert!(needless.contains("boundingBox"), "{needless}");
    assert!(needless.contains("Geography"), "{needless}");
    for properties in [
        json!({ "geospatialConfig": geometry, "indexingPolicy": spatial(bounds()) }),
        json!({ "indexingPolicy": spatial(None) }),
    ] {
        assert_eq!(create(&fixture(), properties).status, 201);
    }
}

#[test]
fn unique_keys_are_bounded_and_name_properties_once() {
    let policy =
        |paths: Vec<String>| json!({ "uniqueKeyPolicy": { "uniqueKeys": [{ "paths": paths }] } });
    let many = |count: usize| (0..count).map(|n| format!("/p{n}")).collect();
    assert_eq!(create(&fixture(), policy(many(16))).status, 201);
    assert!(refused(policy(many(17))).contains("at most 16 paths"));
    assert!(refused(policy(vec!["/a/*".to_owned()])).contains("wildcard"));
    assert!(refused(policy(vec!["/a".to_owned(), "/a".to_owned()])).contains("twice"));
}

#[test]
fn metadata_is_written_at_the_version_that_is_named() {
    let fixture = fixture();
    let container = create(&fixture, json!({}));
    let offers = fixture.send(Method::GET, "/offers", &[], Value::Null).json();
    let offer = offers["Offers"][0].clone();
    let offer_path = format!("/offers/{}", offer["_rid"].as_str().unwrap());
    let stale = [("if-match", "\"stale\"")];
    let container_path = "/dbs/db/colls/c";
    for (method, path, body) in [
        (Method::PUT, offer_path.as_str(), offer.clone()),
        (Method::PUT, container_path, container.json()),
        (Method::DELETE, container_path, Value::Null),
        (Method::DELETE, "/dbs/db", Value::Null),
    ] {
        assert_eq!(fixture.send(method, path, &stale, body).status, 412, "{path}");
    }
    let current = |etag: &Value| etag.as_str().unwrap().to_owned();
    let offer_etag = current(&offer["_etag"]);
    let replaced = fixture.send(Method::PUT, &offer_path, &[("if-match", &offer_etag)], offer);
    assert_eq!(replaced.status, 200);
    let container_etag = current(&container.json()["_etag"]);
    let deleted =
        fixture.send(Method::DELETE, container_path, &[("if-match", &container_etag)], Value::Null);
    assert_eq!(deleted.status, 204);
}

#[test]
fn a_vector_index_needs_an_embedding_for_its_path() {
    let policy = json!({ "vectorIndexes": [{ "path": "/vector1", "type": "flat" }] });
    let embedding = |path| json!({ "path": path, "dataType": "float32", "dimensions": 8, "distanceFunction": "cosine" });
    let refusal = refused(json!({ "indexingPolicy": policy }));
    assert!(refusal.contains("vector1 not matching in Embedding's path"), "{refusal}");
    let other = json!({ "vectorEmbeddings": [embedding("/vector2")] });
    refused(json!({ "indexingPolicy": policy, "vectorEmbeddingPolicy": other }));
    let own = json!({ "vectorEmbeddings": [embedding("/vector1")] });
    let created =
        create(&fixture(), json!({ "indexingPolicy": policy, "vectorEmbeddingPolicy": own }));
    assert_eq!(created.status, 201, "{created:?}");
}

//! Continuation tokens on the wire: their form, their end, and malformed ones.

use crate::common::{CROSS, Client, DOCS, KEY};
use serde_json::{Value, json};

const TOKEN: &str = "x-ms-continuation";
const SIZE: &str = "x-ms-max-item-count";
const RANGE: &str = "x-ms-documentdb-partitionkeyrangeid";

/// So many items under one key, in a container of one partition.
async fn items(count: usize) -> Client {
    let client = Client::with_container(1).await;
    for n in 0..count {
        client.create(json!({ "id": n.to_string(), "pk": "a", "n": n })).await;
    }
    client
}

#[tokio::test]
async fn a_token_is_a_list_if_the_gateway_found_the_range() {
    let client = items(12).await;
    let size = (SIZE, "5");
    for headers in [[CROSS, size], [(KEY, "[\"a\"]"), size]] {
        let page = client.query("SELECT * FROM c", &headers).await;
        let list: Value = serde_json::from_str(page.header(TOKEN).unwrap()).unwrap();
        assert_eq!(list.as_array().map(Vec::len), Some(1), "{list}");
        assert_eq!(list[0]["range"], json!({ "min": "", "max": "FF" }));
        let token = list[0]["token"].as_str().unwrap();
        let rid = page.rows()[4]["_rid"].as_str().unwrap().to_owned();
        assert!(token.starts_with(&format!("-RID:~{rid}#RT:1#TRC:5#")), "{token}");

        let again = [headers[0], size, (TOKEN, page.header(TOKEN).unwrap())];
        let second = client.query("SELECT * FROM c", &again).await;
        assert!(second.header(TOKEN).unwrap().contains("#RT:2#TRC:10#"));
    }
    let bare = client.query("SELECT * FROM c", &[(RANGE, "0"), size]).await;
    assert!(bare.header(TOKEN).unwrap().starts_with("-RID:~"));
    let feed = client.get(DOCS, &[size]).await;
    assert!(feed.header(TOKEN).unwrap().starts_with("[{\"token\":\"-RID:~"));
}

#[tokio::test]
async fn a_token_of_several_partitions_names_the_range_it_goes_on_in() {
    let client = Client::with_container(2).await;
    for n in 0..20 {
        client.create(json!({ "id": n.to_string(), "pk": n.to_string() })).await;
    }
    let mut ranges = Vec::new();
    let mut token: Option<String> = None;
    for _ in 0..30 {
        let mut headers = vec![CROSS, (SIZE, "1")];
        headers.extend(token.as_deref().map(|token| (TOKEN, token)));
        let page = client.query("SELECT * FROM c", &headers).await;
        token = page.header(TOKEN).map(str::to_owned);
        let Some(token) = &token else { break };
        let list: Value = serde_json::from_str(token).unwrap();
        ranges.push(list[0]["range"].clone());
    }
    ranges.dedup();
    assert_eq!(ranges.len(), 2, "{ranges:?}");
    assert_eq!(ranges[0]["min"], "");
    assert_eq!(ranges[0]["max"], ranges[1]["min"]);
    assert_eq!(ranges[1]["max"], "FF");
}

#[tokio::test]
async fn junk_is_an_invalid_continuation_token() {
    let client = items(1).await;
    for token in [
        "nonsense",
        "-RID:~abc#RT:1#TRC:10",
        "[{\"token\":\"x\",\"range\":{\"min\":\"\",\"max\":\"FF\"}}]",
        "[]",
    ] {
        for refused in [
            client.query("SELECT * FROM c", &[CROSS, (TOKEN, token)]).await,
            client.get(DOCS, &[(TOKEN, token)]).await,
            client.get("/dbs", &[(TOKEN, token)]).await,
        ] {
            assert_eq!((refused.status, refused.sub_status()), (400, 0), "{token}");
            let message = refused.json()["message"].as_str().unwrap().to_owned();
            assert!(message.contains("Invalid Continuation Token"), "{message}");
        }
    }
}

/// A client that stops at the first page without a continuation must still see everything.
#[tokio::test]
async fn a_page_that_ends_with_the_last_item_has_no_continuation() {
    let client = items(4).await;
    let size = (SIZE, "2");
    for text in
        ["SELECT * FROM c", "SELECT * FROM c ORDER BY c.n", "SELECT * FROM c WHERE c.n != 9"]
    {
        for target in [CROSS, (KEY, "[\"a\"]"), (RANGE, "0")] {
            if target == CROSS && text.contains("ORDER BY") {
                continue; // The gateway leaves merging to the client.
            }
            let first = client.query(text, &[target, size]).await;
            let token = first.header(TOKEN).unwrap();
            let second = client.query(text, &[target, size, (TOKEN, token)]).await;
            assert_eq!((first.rows().len(), second.rows().len()), (2, 2), "{text}");
            assert_eq!(second.header(TOKEN), None, "{text}");
        }
    }
    let whole = client.get(DOCS, &[(SIZE, "4")]).await;
    assert_eq!((whole.rows().len(), whole.header(TOKEN)), (4, None));
    // What is not full is known to be the end, and so is a window that is used up.
    assert_eq!(client.get(DOCS, &[(SIZE, "5")]).await.header(TOKEN), None);
    // What is left to read need not give a row.
    let filtered = client.query("SELECT * FROM c WHERE c.n < 2", &[(KEY, "[\"a\"]"), size]).await;
    let token = filtered.header(TOKEN).expect("two items are not read yet");
    let headers = [(KEY, "[\"a\"]"), size, (TOKEN, token)];
    let rest = client.query("SELECT * FROM c WHERE c.n < 2", &headers).await;
    assert_eq!((rest.rows().len(), rest.header(TOKEN)), (0, None));
    let top = client.query("SELECT TOP 2 * FROM c", &[(KEY, "[\"a\"]"), size]).await;
    assert_eq!(top.header(TOKEN), None);
}

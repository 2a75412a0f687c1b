//! Requests that want more than there is: each ends in an error or a cut page, and nobody else waits for it.

use std::time::Duration;

use crate::common::{Answer, CROSS, Client, DOCS, KEY, signed};
use http::Method;
use http_body_util::Full;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

const TOKEN: &str = "x-ms-continuation";
const SIZE: &str = "x-ms-max-item-count";
const ONE_KEY: (&str, &str) = (KEY, "[\"a\"]");

/// One item with an array of so many numbers.
async fn one_item(elements: usize) -> Client {
    let client = Client::with_container(1).await;
    let numbers: Vec<usize> = (0..elements).collect();
    assert_eq!(client.create(json!({ "id": "1", "pk": "a", "a": numbers })).await.status, 201);
    client
}

async fn page(client: &Client, text: &str, size: &str, token: Option<&str>) -> Answer {
    let mut headers = vec![ONE_KEY, (SIZE, size)];
    headers.extend(token.map(|token| (TOKEN, token)));
    client.query(text, &headers).await
}

/// A million rows of one item used to be built, each a copy of it, before the first was returned.
#[tokio::test]
async fn a_page_ends_in_the_middle_of_one_items_rows_and_the_next_goes_on_there() {
    let client = one_item(1000).await;
    let whole = page(&client, "SELECT VALUE c FROM c JOIN a IN c.a JOIN b IN c.a", "1", None).await;
    assert_eq!((whole.rows().len(), whole.header(TOKEN).is_some()), (1, true));

    let text = "SELECT VALUE [a, b] FROM c JOIN a IN c.a JOIN b IN c.a WHERE a > 998 AND b > 997";
    let mut rows: Vec<Value> = Vec::new();
    let mut token: Option<String> = None;
    for _ in 0..3 {
        let answer = page(&client, text, "1", token.as_deref()).await;
        rows.extend(answer.rows());
        token = answer.header(TOKEN).map(str::to_owned);
    }
    assert_eq!(rows, [json!([999, 998]), json!([999, 999])]);
    assert_eq!(token, None);
}

/// Ten to the twelfth combinations and no row: the page is cut, and says where to go on.
#[tokio::test]
async fn a_join_without_rows_is_cut_with_a_continuation_that_makes_progress() {
    let client = one_item(1000).await;
    let text = "SELECT VALUE 1 FROM c JOIN a IN c.a JOIN b IN c.a JOIN d IN c.a JOIN e IN c.a \
                WHERE a + b + d + e < 0";
    let first = page(&client, text, "10", None).await;
    let token = first.header(TOKEN).expect("the page was cut").to_owned();
    let second = page(&client, text, "10", Some(&token)).await;
    assert_eq!((first.rows().len(), second.rows().len()), (0, 0));
    assert_ne!(second.header(TOKEN), Some(token.as_str()));
}

#[tokio::test]
async fn what_cannot_be_cut_is_refused_with_the_limit() {
    let client = one_item(1000).await;
    for text in [
        // One value of a million elements, and one row of a billion steps.
        "SELECT VALUE ARRAY(SELECT VALUE {x: a, y: b} FROM a IN c.a JOIN b IN c.a) FROM c",
        "SELECT VALUE EXISTS(SELECT 1 FROM a IN c.a JOIN b IN c.a JOIN d IN c.a WHERE a + b + d < 0) FROM c",
    ] {
        let refused = page(&client, text, "1", None).await;
        assert_eq!(refused.status, 400, "{text}");
        let message = refused.json()["message"].as_str().unwrap().to_owned();
        assert!(message.contains("more than") || message.contains("larger than"), "{message}");
    }
}

#[tokio::test]
async fn a_regular_expression_that_backtracks_is_refused() {
    let client = Client::with_container(1).await;
    client.create(json!({ "id": "1", "pk": "a", "text": "a".repeat(5000) })).await;
    let text = r"SELECT VALUE 1 FROM c WHERE RegexMatch(c.text, '^(?=(a+)+$)(a|a)*\\1b$')";
    assert_eq!(page(&client, text, "1", None).await.status, 400);
    // One that does not is linear in the text.
    let linear = "SELECT VALUE 1 FROM c WHERE RegexMatch(c.text, '(a+)+b')";
    assert_eq!(page(&client, linear, "1", None).await.rows().len(), 0);
}

/// A blocking query of hundreds of millions of steps: others are answered meanwhile, and it ends with its
/// client.
/// The longest `IN` that fits into a query: looking an item up in it does not cost its length.
#[tokio::test]
async fn a_huge_list_of_values_is_looked_up_and_a_longer_one_refused() {
    let client = Client::with_container(1).await;
    for n in 0..200 {
        let created = client.create(json!({ "id": n.to_string(), "pk": "a", "n": n })).await;
        assert_eq!(created.status, 201);
    }
    let list = |count: usize| (0..count).map(|n| (n * 2).to_string()).collect::<Vec<_>>().join(",");
    // `+ 0`: no index tells, so every item is looked up in the list.
    for path in ["c.n", "c.n + 0"] {
        let text = format!("SELECT VALUE c.n FROM c WHERE {path} IN ({})", list(70_000));
        let answer = page(&client, &text, "1000", None).await;
        let expected: Vec<Value> = (0..200).step_by(2).map(Value::from).collect();
        assert_eq!((answer.rows(), answer.header(TOKEN)), (expected, None), "{path}");
    }
    let longer = format!("SELECT VALUE c.n FROM c WHERE c.n IN ({})", list(200_000));
    assert_eq!(page(&client, &longer, "1000", None).await.status, 400);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_long_query_delays_no_other_request_and_ends_with_its_client() {
    let client = one_item(1000).await;
    let text = "SELECT VALUE COUNT(1) FROM c JOIN a IN c.a JOIN b IN c.a JOIN d IN c.a";
    let body = json!({ "query": text, "parameters": [] }).to_string();
    let headers = [ONE_KEY, ("x-ms-documentdb-isquery", "True")];
    let query = || {
        let now = std::time::SystemTime::now();
        signed(client.emulator.key(), now, Method::POST, DOCS, &headers, body.clone())
    };
    // As many as are worked on at once, and more: all of them are cancelled, or the last would never begin.
    for _ in 0..20 {
        let gone = tokio::time::timeout(Duration::from_millis(20), client.exchange(query())).await;
        assert!(gone.is_err(), "the query takes longer than its client waits");
    }
    assert_eq!(page(&client, "SELECT VALUE 1 FROM c", "1", None).await.rows(), [json!(1)]);

    let mut running = Box::pin(client.exchange(query()));
    let others = async {
        assert_eq!(client.create(json!({ "id": "2", "pk": "a" })).await.status, 201);
        let probe = http::Request::get("/probe").body(bytes::Bytes::new()).unwrap();
        assert_eq!(client.exchange(probe).await.status, 200);
    };
    tokio::select! {
        biased;
        answer = &mut running => panic!("answered before the others: {answer:?}"),
        () = others => {}
    }
    // A shutdown does not wait for it either: its limit would pass first.
    drop(running);
    client.emulator.shutdown().await;
}

/// SIGTERM used to wait for a query to end by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_shutdown_ends_a_query_that_is_running() {
    let client = one_item(1000).await;
    let text = "SELECT VALUE COUNT(1) FROM c JOIN a IN c.a JOIN b IN c.a JOIN d IN c.a";
    let body = json!({ "query": text, "parameters": [] }).to_string();
    let headers = [ONE_KEY, ("x-ms-documentdb-isquery", "True")];
    let now = std::time::SystemTime::now();
    let request = signed(client.emulator.key(), now, Method::POST, DOCS, &headers, body);
    let authority = client.emulator.http_endpoint();
    let authority = authority.trim_start_matches("http://").trim_end_matches('/').to_owned();
    let stream = TcpStream::connect(authority).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let running = tokio::spawn(async move { sender.send_request(request.map(Full::new)).await });
    // Sent before these, and answered after them if at all.
    for _ in 0..3 {
        assert_eq!(client.read("1", "a").await.status, 200);
    }
    assert!(!running.is_finished());
    client.emulator.shutdown().await;
    match running.await.unwrap() {
        Ok(response) => assert_eq!(response.status(), 503),
        Err(closed) => assert!(closed.is_incomplete_message() || closed.is_canceled(), "{closed}"),
    }
}

/// A client that asks for large pages and does not read them holds a page each, and nobody up.
#[tokio::test]
async fn clients_that_do_not_read_their_pages_hold_nobody_up() {
    let client = Client::with_container(1).await;
    for id in ["1", "2"] {
        let item = json!({ "id": id, "pk": "a", "text": "x".repeat(1_500_000) });
        assert_eq!(client.create(item).await.status, 201);
    }
    let authority = client.emulator.http_endpoint();
    let authority = authority.trim_start_matches("http://").trim_end_matches('/').to_owned();
    let mut silent = Vec::new();
    for _ in 0..20 {
        let now = std::time::SystemTime::now();
        let request =
            signed(client.emulator.key(), now, Method::GET, DOCS, &[ONE_KEY], String::new());
        let stream = TcpStream::connect(&authority).await.unwrap();
        let mut text = format!("GET {DOCS} HTTP/1.1\r\nhost: {authority}\r\n");
        for (name, value) in request.headers() {
            text.push_str(&format!("{name}: {}\r\n", value.to_str().unwrap()));
        }
        text.push_str("\r\n");
        let mut stream = stream;
        stream.write_all(text.as_bytes()).await.unwrap();
        silent.push(stream);
    }
    for _ in 0..5 {
        assert_eq!(page(&client, "SELECT VALUE c.id FROM c", "9", None).await.rows().len(), 2);
    }
}

/// 190 MB of answer for a request of 5 kB.
#[tokio::test]
async fn a_batch_of_large_reads_is_refused_and_changes_nothing() {
    let client = Client::with_container(1).await;
    let text = "x".repeat(1_900_000);
    assert_eq!(client.create(json!({ "id": "big", "pk": "a", "text": text })).await.status, 201);
    let read = json!({ "operationType": "Read", "id": "big", "partitionKey": "[\"a\"]" });
    let create = json!({ "operationType": "Create", "resourceBody": { "id": "n", "pk": "a" } });
    let mut operations = vec![create];
    operations.extend(vec![read; 99]);
    let atomic =
        [ONE_KEY, ("x-ms-cosmos-is-batch-request", "True"), ("x-ms-cosmos-batch-atomic", "True")];
    let refused = client.send(Method::POST, DOCS, &atomic, json!(operations)).await;
    assert_eq!((refused.status, refused.sub_status()), (413, 3402), "{}", refused.text);
    assert_eq!(client.read("n", "a").await.status, 404);

    let bulk = [
        ONE_KEY,
        ("x-ms-cosmos-is-batch-request", "True"),
        ("x-ms-cosmos-batch-atomic", "False"),
        ("x-ms-cosmos-batch-continue-on-error", "True"),
    ];
    let answer = client.send(Method::POST, DOCS, &bulk, json!(operations)).await;
    assert_eq!(answer.status, 207);
    let statuses: Vec<u64> = answer.json().as_array().unwrap().iter().map(status_of).collect();
    assert_eq!(statuses[..3], [201, 200, 200]);
    assert!(statuses[3..].iter().all(|status| *status == 413), "{statuses:?}");
    assert!(answer.text.len() < 5_000_000);
}

fn status_of(result: &Value) -> u64 {
    result["statusCode"].as_u64().unwrap()
}

#[tokio::test]
async fn a_page_of_large_items_stays_within_its_bytes() {
    let client = Client::with_container(1).await;
    for id in ["1", "2", "3", "4"] {
        let item = json!({ "id": id, "pk": "a", "text": "x".repeat(1_500_000) });
        assert_eq!(client.create(item).await.status, 201);
    }
    for text in
        ["SELECT * FROM c", "SELECT c.id, c.text FROM c", "SELECT DISTINCT c.text, c.id FROM c"]
    {
        let first = page(&client, text, "100", None).await;
        assert_eq!(first.rows().len(), 2, "{text}");
        let second = page(&client, text, "100", first.header(TOKEN)).await;
        assert_eq!(second.rows().len(), 2, "{text}");
    }
    let feed = client.query("SELECT * FROM c", &[CROSS]).await;
    assert!(feed.text.len() <= 4 * 1024 * 1024 + 1000);
}

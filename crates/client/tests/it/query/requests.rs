//! The requests of queries: their targets, headers and number.

use std::sync::Arc;

use serde_json::{Value, json};
use sidereal::FeedRange;
use sidereal::driver::transport::HttpClientFactory;
use sidereal::prelude::*;
use sidereal::query::PlanSource;
use sidereal_emulator::{AccountOptions, Emulator};
use sidereal_testing::in_process::scripting::{answer, header, page};
use sidereal_testing::in_process::{InProcessAccount, NetworkFaults, RecordingFactory};

use super::{Partitioned, collect, numbered};

const IS_PLAN: &str = "x-ms-cosmos-is-query-plan-request";
const RANGE: &str = "x-ms-documentdb-partitionkeyrangeid";

/// Twenty numbered items over four partitions, and what was sent since.
struct Recorded {
    store: Partitioned,
    recorder: Arc<RecordingFactory>,
    before: usize,
}

impl Recorded {
    async fn new() -> Self {
        let options = AccountOptions { partitions: Some(4), ..AccountOptions::default() };
        let account = InProcessAccount::new(options, 1, NetworkFaults::NONE);
        let recorder = RecordingFactory::before(account.factory());
        let factory = Arc::clone(&recorder) as Arc<dyn HttpClientFactory>;
        let store = Partitioned::before(account, factory).await;
        store.insert(&numbered(20)).await;
        let before = recorder.requests().len();
        Self { store, recorder, before }
    }

    /// A header of every request about items since it was asked last.
    fn sent(&mut self, name: &str) -> Vec<Option<String>> {
        let requests = self.recorder.requests().split_off(self.before);
        self.before += requests.len();
        let about_items = requests.into_iter().filter(|(path, _)| path.ends_with("/docs"));
        let text = |value: &http::HeaderValue| value.to_str().unwrap().to_owned();
        about_items.map(|(_, headers)| headers.get(name).map(text)).collect()
    }
}

fn numbers(rows: Vec<Value>) -> Vec<u64> {
    let mut numbers: Vec<u64> = rows.iter().filter_map(Value::as_u64).collect();
    numbers.sort_unstable();
    numbers
}

#[tokio::test(start_paused = true)]
async fn a_query_of_a_partition_key_is_one_request_whatever_its_shape() {
    let mut recorded = Recorded::new().await;
    for (text, source) in [
        ("SELECT VALUE c.n FROM c", PlanSource::PartitionKey),
        ("SELECT TOP 3 VALUE c.n FROM c ORDER BY c.n", PlanSource::PartitionKey),
        ("SELECT VALUE SUM(c.n) + 0 FROM c", PlanSource::Client),
        ("SELECT DISTINCT VALUE c.n FROM c ORDER BY c.n", PlanSource::Client),
    ] {
        let query = recorded.store.items.query(text).with_partition_key("p7");
        assert_eq!(collect(&query).await.unwrap(), [json!(7)], "{text}");
        let keys = recorded.sent("x-ms-documentdb-partitionkey");
        assert_eq!(keys, [Some(r#"["p7"]"#.to_owned())], "{text}");
        let plan = query.explain().await.unwrap();
        assert_eq!((plan.source(), plan.partition_ranges()), (source, 1));
    }
}

#[tokio::test(start_paused = true)]
async fn a_query_that_is_planned_locally_sends_no_plan_request() {
    let mut recorded = Recorded::new().await;
    let text = "SELECT c.n FROM c WHERE c.n >= @least ORDER BY c.n DESC";
    let query = recorded.store.items.query(text).with_parameter("least", 17);
    let rows = collect(&query).await.unwrap();
    assert_eq!(json!(rows), json!([{"n": 19}, {"n": 18}, {"n": 17}]));
    assert_eq!(recorded.sent(IS_PLAN), [None, None, None, None]);
    let plan = query.explain().await.unwrap();
    assert_eq!((plan.source(), plan.partition_ranges()), (PlanSource::Client, 4));
    assert!(plan.is_resumable() && plan.text().contains("orderByItems"), "{plan}");
}

#[tokio::test(start_paused = true)]
async fn a_filter_on_the_key_asks_the_range_that_has_it() {
    let mut recorded = Recorded::new().await;
    let text = "SELECT VALUE c.n FROM c WHERE c.pk = 'p3' ORDER BY c.n";
    assert_eq!(collect(&recorded.store.items.query(text)).await.unwrap(), [json!(3)]);
    let ranges = recorded.sent(RANGE);
    assert_eq!(ranges.len(), 1, "{ranges:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wrong_query_is_refused_before_anything_is_sent() {
    let store = Partitioned::new(1).await;
    let container = store.stranger();
    let before = store.account.network().requests();
    let failing = serde_json::Map::<String, Value>::new();
    let unwritable = std::collections::BTreeMap::from([((1, 2), failing)]);
    for (query, expected) in [
        (container.query("SELECT * FROM c WHERE c.x = @x"), ".with_parameter(\"@x\""),
        (container.query("SELECT c.a, COUNT(1) FROM c GROUP BY c.b"), "GROUP BY"),
        (container.query("SELECT @x").with_parameter("@x", unwritable), "@x cannot be written"),
    ] {
        let error = collect(&query).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        assert!(error.to_string().contains(expected), "{error}");
    }
    assert_eq!(store.account.network().requests(), before);
}

#[tokio::test(start_paused = true)]
async fn the_service_says_what_is_wrong_with_what_only_it_knows() {
    let mut recorded = Recorded::new().await;
    for (text, expected, is_planned_here) in [
        ("SELECT VALUE udf.tax(c.n) FROM c", "udf.tax", true),
        ("SELECT TOP 3 c.id FROM c ORDER BY VectorDistance(c.v, [1])", "VectorDistance", false),
    ] {
        let error = collect(&recorded.store.items.query(text)).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest);
        let message = error.service_message().unwrap();
        assert!(message.contains(expected), "{message}");
        let is_plan = Some("True".to_owned()).filter(|_| !is_planned_here);
        assert_eq!(recorded.sent(IS_PLAN)[0], is_plan, "{text}");
    }
}

#[tokio::test(start_paused = true)]
async fn feed_ranges_divide_a_result() {
    let store = Partitioned::new(3).await;
    store.insert(&numbered(30)).await;
    let mut parts = store.items.read_feed_ranges().await.unwrap();
    // Also where a range is not a partition's: halves of the whole, and what was a partition before a split.
    let halves = [r#"{"Range":{"min":"","max":"1F"}}"#, r#"{"Range":{"min":"1F","max":"FF"}}"#];
    let halves: Vec<FeedRange> = halves.map(|text| text.parse().unwrap()).into();
    for _ in 0..2 {
        for parts in [&parts, &halves] {
            for text in ["SELECT VALUE c.n FROM c", "SELECT VALUE c.n FROM c ORDER BY c.n DESC"] {
                let mut rows = Vec::new();
                for part in parts {
                    let query = store.items.query(text).with_feed_range(part.clone());
                    rows.extend(collect(&query.with_page_size(4)).await.unwrap());
                }
                assert_eq!(numbers(rows), (0..30).collect::<Vec<_>>(), "{text}");
            }
        }
        let count = store.items.query("SELECT VALUE COUNT(1) FROM c");
        let part = count.with_feed_range(parts[0].clone()).first::<u64>().await.unwrap().unwrap();
        assert!((1..30).contains(&part), "{part}");
        store.split(&store.ranges().await[0]);
    }
    parts.clear();
}

#[tokio::test(start_paused = true)]
async fn a_prefix_of_a_hierarchical_key_asks_for_all_keys_below_it() {
    let store = Partitioned::new(5).await;
    let definition = PartitionKeyDefinition::new(["/tenant", "/user"]).unwrap();
    let properties = ContainerProperties::new("users", definition);
    store.client.database("db").create_container(properties, None).await.unwrap();
    let users = store.client.database("db").container("users");
    for n in 0..30_u32 {
        let (tenant, user) = (format!("t{}", n % 3), format!("u{n}"));
        let item = json!({"id": n.to_string(), "tenant": tenant, "user": user, "n": n});
        users.create_item((tenant.as_str(), user.as_str()), item, None).await.unwrap();
    }
    let text = "SELECT VALUE c.n FROM c ORDER BY c.n";
    let rows = collect(&users.query(text).with_partition_key("t1")).await.unwrap();
    assert_eq!(json!(rows), json!([1, 4, 7, 10, 13, 16, 19, 22, 25, 28]));
    let rows = collect(&users.query(text).with_partition_key(("t1", "u4"))).await.unwrap();
    assert_eq!(rows, [json!(4)]);
    let error = collect(&users.query(text).with_partition_key(("t1", "u4", "x"))).await;
    assert_eq!(error.unwrap_err().kind(), ErrorKind::InvalidRequest);
}

#[tokio::test(start_paused = true)]
async fn a_page_says_what_it_cost_and_what_was_asked_for() {
    let store = Partitioned::new(4).await;
    store.insert(&numbered(20)).await;
    for text in ["SELECT * FROM c", "SELECT * FROM c ORDER BY c.n"] {
        let query =
            store.items.query(text).with_page_size(3).with_index_metrics().with_query_metrics();
        let mut pages = query.pages::<Value>();
        let (mut rows, mut charge) = (0, 0.0);
        while let Some(page) = pages.next().await {
            let page = page.unwrap();
            assert!(page.items().len() <= 3);
            if page.requests() > 0 {
                assert!(page.index_metrics().is_some() && page.session_token().is_some());
                assert_eq!(page.query_metrics().len(), page.requests());
                assert_eq!(page.diagnostics().len(), page.requests());
            }
            charge += page.request_charge();
            rows += page.into_items().len();
        }
        assert_eq!(rows, 20, "{text}");
        assert!(charge > 4.0, "{text}: {charge}");
    }
}

#[tokio::test(start_paused = true)]
async fn databases_and_containers_are_queried() {
    let store = Partitioned::new(1).await;
    for name in ["a", "b"] {
        store.client.create_database(name, None).await.unwrap();
        let properties = ContainerProperties::new(name, "/pk".parse().unwrap());
        store.client.database("db").create_container(properties, None).await.unwrap();
    }
    let databases = store.client.query_databases("SELECT * FROM c WHERE c.id < 'c'", None);
    let mut ids: Vec<String> =
        databases.collect().await.unwrap().into_iter().map(|it| it.id).collect();
    ids.sort();
    assert_eq!(ids, ["a", "b"]);
    let mut containers = store.client.database("db").query_containers("SELECT * FROM c", None);
    let mut ids = Vec::new();
    while let Some(container) = containers.next().await {
        ids.push(container.unwrap().id);
    }
    ids.sort();
    assert_eq!(ids, ["a", "b", "items"]);
    let mut wrong = store.client.query_databases("SELECT", None);
    assert_eq!(wrong.next().await.unwrap().unwrap_err().kind(), ErrorKind::InvalidRequest);
    assert!(wrong.next().await.is_none());
    let mut missing = store.client.database("none").query_containers("SELECT * FROM c", None);
    assert_eq!(missing.next().await.unwrap().unwrap_err().kind(), ErrorKind::NotFound);
}

/// Over sockets and TLS, as an application would.
#[tokio::test]
async fn a_query_is_answered_over_sockets() {
    let emulator = Emulator::builder().partitions(5).start().await.unwrap();
    let client = CosmosClient::builder(emulator.endpoint(), emulator.key().clone())
        .trust_pem_on_loopback(emulator.certificate_pem().as_bytes())
        .unwrap()
        .build()
        .unwrap();
    client.create_database("db", None).await.unwrap();
    let properties = ContainerProperties::new("items", "/pk".parse().unwrap());
    client.database("db").create_container(properties, None).await.unwrap();
    let items = client.database("db").container("items");
    for item in numbered(25) {
        items.create_item(item["pk"].as_str().unwrap(), &item, None).await.unwrap();
    }
    for text in [
        "SELECT VALUE c.n FROM c",
        "SELECT VALUE c.n FROM c ORDER BY c.n",
        "SELECT DISTINCT VALUE c.n FROM c",
    ] {
        let rows = collect(&items.query(text).with_page_size(4)).await.unwrap();
        assert_eq!(numbers(rows), (0..25).collect::<Vec<_>>(), "{text}");
    }
}

/// A clause of tomorrow, in a text that the account of today does not know either.
const TOMORROW: &str = "SELECT VALUE c.n FROM c QUALIFY c.n = 7";

/// An account that knows the clause: the script stands for the service's next version.
async fn account_of_tomorrow() -> Partitioned {
    let plan = r#"{"partitionedQueryExecutionInfoVersion":2,"queryInfo":{"distinctType":"None","orderBy":[],"aggregates":[],
        "rewrittenQuery":"SELECT VALUE c.n FROM c","hasSelectValue":true},
        "queryRanges":[{"min":"","max":"FF","isMinInclusive":true,"isMaxInclusive":false}]}"#;
    Partitioned::scripted(2, move |request| {
        let body = String::from_utf8_lossy(request.body()).into_owned();
        match header(request, IS_PLAN) {
            Some(_) => Some(answer(http::StatusCode::OK, plan, None)),
            None => body.contains("QUALIFY").then(|| page(&[7], None)),
        }
    })
    .await
}

/// A new clause of the service needed a new version of this client.
#[tokio::test(start_paused = true)]
async fn a_text_that_this_client_does_not_know_is_left_to_the_service() {
    let store = account_of_tomorrow().await;
    store.insert(&numbered(3)).await;
    let query = store.items.query(TOMORROW);
    assert_eq!(query.explain().await.unwrap().source(), PlanSource::Gateway);
    assert_eq!(numbers(collect(&query).await.unwrap()), [0, 1, 2], "by the gateway's plan");
    let within_key = query.with_partition_key("p1");
    assert_eq!(collect(&within_key).await.unwrap(), [json!(7)]);
    assert_eq!(within_key.explain().await.unwrap().source(), PlanSource::PartitionKey);
    // A text that this client refuses is sent all the same where the caller wants it: to both ranges.
    let refused = store.items.query("SELECT VALUE x.n FROM c QUALIFY 1").with_pass_through();
    assert_eq!(numbers(collect(&refused).await.unwrap()), [7, 7]);
    let known = store.items.query("SELECT VALUE COUNT(1) FROM c").with_pass_through();
    let counts = numbers(collect(&known).await.unwrap());
    assert_eq!((counts.len(), counts.iter().sum::<u64>()), (2, 3), "{counts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_text_that_nothing_knows_is_refused_with_the_place() {
    let store = Partitioned::new(2).await;
    let query = store.items.query("SELECT * FORM c");
    for query in [query.clone(), query.with_partition_key("p1")] {
        let error = collect(&query).await.unwrap_err();
        assert_eq!(
            (error.kind(), error.status().unwrap().code()),
            (ErrorKind::InvalidRequest, 400)
        );
        assert!(error.to_string().contains("»FORM c"), "{error}");
        assert!(error.to_string().contains("the service says"), "{error}");
    }
}

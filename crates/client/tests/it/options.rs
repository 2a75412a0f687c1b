//! The usage example of the configuration's specification, and every option of a call as the service sees it.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use serde_json::{Value, json};
use sidereal::driver::CosmosDriverRuntime;
use sidereal::driver::transport::HttpClientFactory;
use sidereal::models::{
    ConsistencyLevel, IndexingDirective, PriorityLevel, ReadConsistencyStrategy, SessionToken,
};
use sidereal::options::*;
use sidereal::prelude::*;
use sidereal_emulator::AccountOptions;
use sidereal_testing::in_process::{InProcessAccount, NetworkFaults, RecordingFactory};

const REGIONS: [&str; 2] = ["West US", "East US"];

/// A client of an account in this process, whose requests are noted.
struct Recorded {
    client: CosmosClient,
    recorder: Arc<RecordingFactory>,
    account: InProcessAccount,
}

impl Recorded {
    async fn new(runtime: CosmosRuntimeOptions, options: CosmosClientOptions) -> Self {
        let regions = REGIONS.map(RegionName::from).to_vec();
        let account = AccountOptions { regions, ..AccountOptions::default() };
        let account = InProcessAccount::new(account, 1, NetworkFaults::NONE);
        let recorder = RecordingFactory::before(account.factory());
        let runtime = CosmosDriverRuntime::builder()
            .options(runtime)
            .environment(CosmosEnvironmentOptions::default())
            .http_client_factory(Arc::clone(&recorder) as Arc<dyn HttpClientFactory>)
            .clock(account.driver_clock())
            .build()
            .unwrap();
        let client = CosmosClient::builder(account.endpoint().as_str(), account.credential())
            .runtime(runtime)
            .options(options)
            .build()
            .unwrap();
        client.create_database("db", None).await.unwrap();
        let properties = ContainerProperties::new("coll", "/pk".parse().unwrap());
        client.database("db").create_container(properties, None).await.unwrap();
        Self { client, recorder, account }
    }

    async fn plain() -> Self {
        Self::new(CosmosRuntimeOptions::default(), CosmosClientOptions::default()).await
    }

    fn items(&self) -> ContainerClient {
        self.client.database("db").container("coll")
    }

    fn sent(&self, name: &str) -> Option<String> {
        text(&self.recorder.last_about_items(), name)
    }
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).map(|value| value.to_str().unwrap().to_owned())
}

fn item() -> Value {
    json!({"id": "1", "pk": "pk"})
}

/// The example at the end of the specification of layered configuration, with `CosmosClient::new`.
#[tokio::test]
async fn the_specification_s_example_compiles() {
    async fn example(
        endpoint: &str,
        credential: CosmosCredential,
        etag: Etag,
    ) -> sidereal::Result<()> {
        // Runtime layer: defaults of the application.
        let _runtime = CosmosRuntimeOptions {
            request: RequestOptions {
                consistency_level: Some(ConsistencyLevel::Session),
                priority: Some(PriorityLevel::High),
                ..Default::default()
            },
            ..Default::default()
        };
        // Account layer: the same `RequestOptions`, another instance.
        let client_options = CosmosClientOptions {
            request: RequestOptions { throughput_bucket: Some(5), ..Default::default() },
            regions: RegionOptions {
                preferred_regions: Some(vec!["West US".into(), "East US".into()]),
                ..Default::default()
            },
            ..Default::default()
        };
        let client = CosmosClient::new(endpoint, credential, Some(client_options))?;
        // Operation layer: once more the same `RequestOptions`.
        let item_opts = ItemOptions {
            request: RequestOptions { priority: Some(PriorityLevel::Low), ..Default::default() },
            write: ItemWriteOptions {
                if_match_etag: Some(etag),
                content_response_on_write: Some(true),
                ..Default::default()
            },
            ..Default::default()
        };
        let item = item();
        client.database("db").container("coll").create_item("pk", item, Some(item_opts)).await?;
        // Calls on resources have no layers.
        let create_opts = CreateContainerOptions {
            throughput: Some(ThroughputProperties::manual(400)),
            ..Default::default()
        };
        let props = ContainerProperties::new("other", "/pk".parse()?);
        client.database("db").create_container(props, Some(create_opts)).await?;
        Ok(())
    }
    let key = CosmosCredential::key("c2VjcmV0").unwrap();
    let refused = example("no endpoint", key, Etag::new("\"1\"").unwrap()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidRequest);
}

/// With the runtime layer given to the builder: priority from the call, consistency from the runtime,
/// throughput bucket from the account.
#[tokio::test(start_paused = true)]
async fn three_layers_resolve_to_three_values_on_the_wire() {
    let runtime = CosmosRuntimeOptions {
        request: RequestOptions {
            consistency_level: Some(ConsistencyLevel::Eventual),
            priority: Some(PriorityLevel::High),
            ..Default::default()
        },
        ..Default::default()
    };
    let account = CosmosClientOptions {
        request: RequestOptions { throughput_bucket: Some(5), ..Default::default() },
        ..Default::default()
    };
    let recorded = Recorded::new(runtime, account).await;
    let call = || ItemOptions {
        request: RequestOptions { priority: Some(PriorityLevel::Low), ..Default::default() },
        ..Default::default()
    };
    recorded.items().create_item("pk", item(), Some(call())).await.unwrap();
    assert_eq!(recorded.sent("x-ms-cosmos-priority-level").as_deref(), Some("Low"));
    assert_eq!(recorded.sent("x-ms-cosmos-throughput-bucket").as_deref(), Some("5"));
    // A level is asked of reads.
    recorded.items().read_item("pk", "1", Some(call())).await.unwrap();
    assert_eq!(recorded.sent("x-ms-cosmos-priority-level").as_deref(), Some("Low"));
    assert_eq!(recorded.sent("x-ms-cosmos-throughput-bucket").as_deref(), Some("5"));
    assert_eq!(recorded.sent("x-ms-consistency-level").as_deref(), Some("Eventual"));
}

#[tokio::test(start_paused = true)]
async fn every_option_of_a_request_is_on_the_wire() {
    let recorded = Recorded::plain().await;
    recorded.items().upsert_item("pk", item(), None).await.unwrap();
    let read = |request: RequestOptions| {
        let items = recorded.items();
        async move {
            let options = ItemOptions { request, ..ItemOptions::default() };
            items.read_item("pk", "1", Some(options)).await.unwrap()
        }
    };
    let request = RequestOptions::default()
        .with_consistency_level(ConsistencyLevel::Eventual)
        .with_priority(PriorityLevel::Low)
        .with_throughput_bucket(3usize)
        .with_custom_headers([("x-contoso".parse().unwrap(), "1".parse().unwrap())]);
    read(request).await;
    assert_eq!(recorded.sent("x-ms-consistency-level").as_deref(), Some("Eventual"));
    assert_eq!(recorded.sent("x-ms-cosmos-priority-level").as_deref(), Some("Low"));
    assert_eq!(recorded.sent("x-ms-cosmos-throughput-bucket").as_deref(), Some("3"));
    assert_eq!(recorded.sent("x-contoso").as_deref(), Some("1"));
    let strategy = ReadConsistencyStrategy::LatestCommitted;
    read(RequestOptions::default().with_read_consistency_strategy(strategy)).await;
    let header = "x-ms-cosmos-read-consistency-strategy";
    assert_eq!(recorded.sent(header).as_deref(), Some("LatestCommitted"));

    let here = read(RequestOptions::default()).await;
    assert_eq!(here.region(), Some(&RegionName::from(REGIONS[0])));
    let excluded = RequestOptions::default().with_excluded_regions([RegionName::from(REGIONS[0])]);
    let elsewhere = read(excluded).await;
    assert_eq!(elsewhere.region(), Some(&RegionName::from(REGIONS[1])));
}

#[tokio::test(start_paused = true)]
async fn every_option_of_a_write_is_on_the_wire() {
    let recorded = Recorded::plain().await;
    let write = ItemWriteOptions::default()
        .with_indexing_directive(IndexingDirective::Exclude)
        .with_if_match_etag(Etag::new("\"1\"").unwrap())
        .with_session_token("0:-1#1".parse::<SessionToken>().unwrap())
        .with_pre_triggers(["before".to_owned()])
        .with_post_triggers(["after".to_owned()]);
    let options = |write| Some(ItemOptions { write, ..ItemOptions::default() });
    let error = recorded.items().replace_item("pk", "1", item(), options(write)).await;
    assert!(error.is_err(), "there is no such item");
    assert_eq!(recorded.sent("prefer").as_deref(), Some("return=minimal"));
    assert_eq!(recorded.sent("x-ms-indexing-directive").as_deref(), Some("Exclude"));
    assert_eq!(recorded.sent("if-match").as_deref(), Some("\"1\""));
    assert_eq!(recorded.sent("x-ms-session-token").as_deref(), Some("0:-1#1"));
    assert_eq!(recorded.sent("x-ms-documentdb-pre-trigger-include").as_deref(), Some("before"));
    assert_eq!(recorded.sent("x-ms-documentdb-post-trigger-include").as_deref(), Some("after"));

    let write = ItemWriteOptions::default().with_content_response_on_write(true);
    let written = recorded.items().upsert_item("pk", item(), options(write)).await.unwrap();
    assert_eq!(recorded.sent("prefer"), None);
    assert_eq!(written.into_model::<Value>().unwrap()["pk"], "pk");
}

#[tokio::test(start_paused = true)]
async fn a_call_has_a_deadline_an_activity_id_and_a_way_to_stop_it() {
    let recorded = Recorded::plain().await;
    let id = "0b2e0f4a-5b1c-4c0e-9a3e-6f1d2c3b4a59";
    let method_options =
        ClientMethodOptions { activity_id: Some(id.parse().unwrap()), ..Default::default() };
    let options = ItemOptions { method_options, ..ItemOptions::default() };
    recorded.items().upsert_item("pk", item(), Some(options)).await.unwrap();
    assert_eq!(recorded.sent("x-ms-activity-id").as_deref(), Some(id));

    let past = sidereal::driver::system::Clock::now() - Duration::from_secs(1);
    let method_options = ClientMethodOptions { deadline: Some(past), ..Default::default() };
    let options = ItemOptions { method_options, ..ItemOptions::default() };
    let error = recorded.items().read_item("pk", "1", Some(options)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::DeadlineExceeded);

    let token = sidereal::CancellationToken::new();
    token.cancel();
    let method_options = ClientMethodOptions { cancellation: Some(&token), ..Default::default() };
    let options = ItemOptions { method_options, ..ItemOptions::default() };
    let error = recorded.items().read_item("pk", "1", Some(options)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}

/// A batch and a patch take the same options.
#[tokio::test(start_paused = true)]
async fn batches_and_patches_take_the_options_of_items() {
    let recorded = Recorded::plain().await;
    recorded.items().upsert_item("pk", item(), None).await.unwrap();
    let options = || {
        let request = RequestOptions::default().with_priority(PriorityLevel::Low);
        Some(ItemOptions { request, ..ItemOptions::default() })
    };
    let patch = Patch::new().set("/n", 1);
    recorded.items().patch_item("pk", "1", patch, options()).await.unwrap();
    assert_eq!(recorded.sent("x-ms-cosmos-priority-level").as_deref(), Some("Low"));
    let batch = TransactionalBatch::new("pk").read_item("1", None);
    recorded.items().execute_batch(batch, options()).await.unwrap();
    assert_eq!(recorded.sent("x-ms-cosmos-priority-level").as_deref(), Some("Low"));
    assert_eq!(recorded.sent("x-ms-cosmos-is-batch-request").as_deref(), Some("True"));
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_answer_is_lost_says_that_it_may_have_been_applied() {
    let recorded = Recorded::plain().await;
    recorded.items().upsert_item("pk", json!({"id": "1", "pk": "pk", "n": 0}), None).await.unwrap();
    let rule = sidereal_emulator::FaultRule::new(sidereal_emulator::FaultEffect::ResetAfter);
    recorded.account.account().add_fault(rule).unwrap();
    let availability =
        AvailabilityOptions::default().with_end_to_end_timeout(Duration::from_secs(30));
    let options = ItemOptions { availability, ..ItemOptions::default() };
    let patch = Patch::new().increment("/n", 1);
    let error = recorded.items().patch_item("pk", "1", patch, Some(options)).await.unwrap_err();
    assert!(error.may_have_been_applied(), "{error:?}");
    assert!(error.to_string().contains("may have been applied"), "{error}");
}

//! Faults between the transport and an emulated account, which knows what it carried out.

use std::sync::Arc;

use http::Method;
use serde_json::Value;
use sidereal_driver::fault_injection::{
    FaultInjectingHttpClientFactory, FaultInjectionCondition, FaultInjectionResult,
    FaultInjectionRule, InjectedAnswer,
};
use sidereal_driver::transport::internals::{RequestKind, TransportRequest};
use sidereal_driver::transport::{Credential, RequestSentStatus};
use sidereal_emulator::Emulator;
use sidereal_protocol::{CosmosStatus, ResourceType};

use super::fixture::faultless;
use sidereal_testing::fixture::{Client, Executed, Setup};
use sidereal_testing::within_timeout;

const CONTAINER: &str = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash"}}"#;
const ITEM: &str = r#"{"id":"i","pk":"p","greeting":"hello"}"#;
const ITEMS: &str = "/dbs/d/colls/c/docs";

/// An account with an empty container, and faults on the way to its items.
struct AccountFixture {
    emulator: Emulator,
    client: Client,
    faults: Arc<FaultInjectingHttpClientFactory>,
}

impl AccountFixture {
    async fn new() -> Self {
        let emulator = Emulator::builder().start().await.unwrap();
        let faults = Arc::new(faultless());
        let setup = Setup::over(Arc::clone(&faults) as _);
        let key = Credential::Key(emulator.key().clone());
        let client = setup.with(|setup| setup.credential = key).start();
        let fixture = Self { emulator, client, faults };
        let database = fixture.about(ResourceType::Database, "/dbs", r#"{"id":"d"}"#);
        assert_eq!(fixture.execute(database).await.outcome.status(), CosmosStatus::CREATED);
        let container = fixture.about(ResourceType::DocumentCollection, "/dbs/d/colls", CONTAINER);
        assert_eq!(fixture.execute(container).await.outcome.status(), CosmosStatus::CREATED);
        fixture
    }

    /// Does this to the next write of an item.
    fn inject(&self, fault: FaultInjectionResult) {
        let creation = FaultInjectionCondition::any().method(Method::POST).path_prefix(ITEMS);
        self.faults.add(FaultInjectionRule::new("next", fault).when(creation).with_hit_limit(1));
    }

    fn about(&self, kind: ResourceType, path: &str, body: &'static str) -> TransportRequest {
        self.client.about(self.emulator.http_endpoint(), kind, path, body)
    }

    async fn execute(&self, request: TransportRequest) -> Executed {
        within_timeout("an answer", self.client.execute(request)).await
    }

    /// Creates the item, and says whether it may be sent twice.
    async fn create(&self, is_repeatable: bool) -> Executed {
        let mut request = self.about(ResourceType::Document, ITEMS, ITEM);
        request.kind = match is_repeatable {
            true => RequestKind::IdempotentWrite,
            false => RequestKind::Write,
        };
        self.execute(request).await
    }

    /// The ids of the items that the account has.
    async fn items(&self) -> Vec<String> {
        let mut feed = self.about(ResourceType::Document, ITEMS, "");
        feed.auth_context.signed_link = "dbs/d/colls/c".into();
        let feed: Value = serde_json::from_slice(self.execute(feed).await.body()).unwrap();
        let items = feed["Documents"].as_array().unwrap().iter();
        items.map(|item| item["id"].as_str().unwrap().to_owned()).collect()
    }
}

#[tokio::test]
async fn a_create_whose_response_is_lost_is_maybe_sent_and_made_its_item_once() {
    let fixture = AccountFixture::new().await;
    fixture.inject(FaultInjectionResult::answer_lost());
    let executed = fixture.create(false).await;
    executed.error();
    assert_eq!(executed.outcome.request_sent(), RequestSentStatus::MaybeSent);
    assert_eq!(executed.diagnostics.attempts().len(), 1);
    assert_eq!(fixture.items().await, ["i"]);
}

#[tokio::test]
async fn a_create_that_is_retried_conflicts_with_its_own_item() {
    let fixture = AccountFixture::new().await;
    fixture.inject(FaultInjectionResult::answer_lost());
    let executed = fixture.create(true).await;
    assert_eq!(executed.outcome.status(), CosmosStatus::CONFLICT);
    let [first, second] = executed.diagnostics.attempts() else { panic!("two attempts") };
    assert_eq!(first.request_sent, RequestSentStatus::MaybeSent);
    assert_ne!(first.shard, second.shard);
    assert_eq!(fixture.items().await, ["i"]);
}

#[tokio::test]
async fn a_create_that_is_lost_on_the_way_makes_nothing_and_is_maybe_sent_too() {
    let fixture = AccountFixture::new().await;
    fixture.inject(FaultInjectionResult::request_lost());
    let executed = fixture.create(false).await;
    assert_eq!(executed.outcome.request_sent(), RequestSentStatus::MaybeSent);
    assert!(fixture.items().await.is_empty());
}

#[tokio::test]
async fn a_create_that_was_not_sent_is_sent_again_and_makes_its_item_once() {
    let fixture = AccountFixture::new().await;
    fixture.inject(FaultInjectionResult::connection_error());
    let executed = fixture.create(false).await;
    assert_eq!(executed.outcome.status(), CosmosStatus::CREATED);
    assert_eq!(executed.diagnostics.attempts().len(), 2);
    assert_eq!(fixture.items().await, ["i"]);
}

#[tokio::test]
async fn a_throttled_create_backs_off_and_makes_its_item_once() {
    let fixture = AccountFixture::new().await;
    let soon = std::time::Duration::from_millis(1);
    let throttled = InjectedAnswer::new(CosmosStatus::REQUEST_UNITS_EXCEEDED).retry_after(soon);
    fixture.inject(FaultInjectionResult::Answer(throttled));
    let executed = fixture.create(false).await;
    assert_eq!(executed.outcome.status(), CosmosStatus::CREATED);
    assert!(executed.diagnostics.charge() > 0.0);
    assert_eq!(fixture.items().await, ["i"]);
}

#[tokio::test]
async fn refusals_that_are_not_settled_at_one_endpoint_make_nothing() {
    let fixture = AccountFixture::new().await;
    for status in [CosmosStatus::new(449), CosmosStatus::GONE, CosmosStatus::new(503)] {
        fixture.inject(FaultInjectionResult::status(status));
        assert_eq!(fixture.create(false).await.outcome.status(), status);
        assert!(fixture.items().await.is_empty());
    }
}

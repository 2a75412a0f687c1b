//! Queries, on accounts in this process and a paused clock; over sockets where that is what is tested.

mod equivalence;
mod failures;
mod hostile;
mod limits;
mod requests;
mod splits;
mod tokens;
mod windows;

use std::sync::Arc;

use serde_json::{Value, json};
use sidereal::driver::CosmosDriverRuntime;
use sidereal::driver::transport::{HttpClientFactory, HttpRequest, HttpResponse};
use sidereal::options::{CosmosClientOptions, CosmosEnvironmentOptions};
use sidereal::prelude::*;
use sidereal_emulator::AccountOptions;
use sidereal_testing::in_process::scripting::ScriptedFactory;
use sidereal_testing::in_process::{InProcessAccount, NetworkFaults};

/// An account in this process with a container of a number of partitions, and a client of it.
pub(crate) struct Partitioned {
    pub(crate) account: InProcessAccount,
    pub(crate) client: CosmosClient,
    pub(crate) items: ContainerClient,
}

impl Partitioned {
    pub(crate) async fn new(partitions: u32) -> Self {
        let options = AccountOptions { partitions: Some(partitions), ..AccountOptions::default() };
        Self::with(options, NetworkFaults::NONE).await
    }

    pub(crate) async fn with(options: AccountOptions, network: NetworkFaults) -> Self {
        let account = InProcessAccount::new(options, 1, network);
        let factory = account.factory();
        Self::before(account, factory).await
    }

    /// An account whose requests about items are answered by a script, where it answers.
    pub(crate) async fn scripted(
        partitions: u32,
        script: impl Fn(&HttpRequest) -> Option<HttpResponse> + Send + Sync + 'static,
    ) -> Self {
        let options = AccountOptions { partitions: Some(partitions), ..AccountOptions::default() };
        let account = InProcessAccount::new(options, 1, NetworkFaults::NONE);
        let factory = ScriptedFactory::before(account.factory(), script);
        Self::before(account, factory).await
    }

    pub(crate) async fn before(
        account: InProcessAccount,
        factory: Arc<dyn HttpClientFactory>,
    ) -> Self {
        let client = client_of(&account, factory);
        client.create_database("db", None).await.unwrap();
        let properties: ContainerProperties = serde_json::from_value(definition()).unwrap();
        client.database("db").create_container(properties, None).await.unwrap();
        let items = client.database("db").container("items");
        Self { account, client, items }
    }

    /// The container as another client sees it, which knows nothing of the account yet.
    pub(crate) fn stranger(&self) -> ContainerClient {
        let client = client_of(&self.account, self.account.factory());
        client.database("db").container("items")
    }

    pub(crate) async fn insert(&self, documents: &[Value]) {
        for document in documents {
            let key = document["pk"].as_str().unwrap();
            self.items.create_item(key, document, None).await.unwrap();
        }
    }

    /// The ids of the partition ranges, in the order of the key space.
    pub(crate) async fn ranges(&self) -> Vec<String> {
        let link = sidereal_protocol::ResourceLink::container("db", "items").unwrap();
        let container = self.client.driver().refresh_container(&link).await.unwrap();
        container.ranges().ranges().iter().map(|it| it.id().to_string()).collect()
    }

    /// The ranges as another client reads them: this store's own client does not hear of it.
    pub(crate) async fn stranger_ranges(&self) -> Vec<String> {
        let client = client_of(&self.account, self.account.factory());
        let link = sidereal_protocol::ResourceLink::container("db", "items").unwrap();
        let container = client.driver().container(&link).await.unwrap();
        container.ranges().ranges().iter().map(|it| it.id().to_string()).collect()
    }

    pub(crate) fn split(&self, range: &str) -> [String; 2] {
        let account = self.account.account();
        account.split_range("db", "items", range, std::time::Duration::ZERO).unwrap()
    }

    pub(crate) fn merge(&self, left: &str, right: &str) -> String {
        let account = self.account.account();
        account.merge_ranges("db", "items", left, right, std::time::Duration::ZERO).unwrap()
    }
}

pub(crate) fn client_of(
    account: &InProcessAccount,
    factory: Arc<dyn HttpClientFactory>,
) -> CosmosClient {
    let runtime = CosmosDriverRuntime::builder()
        .environment(CosmosEnvironmentOptions::default())
        .http_client_factory(factory)
        .clock(account.driver_clock())
        .build()
        .unwrap();
    CosmosClient::builder(account.endpoint().as_str(), account.credential())
        .runtime(runtime)
        .options(CosmosClientOptions::default())
        .build()
        .unwrap()
}

/// All rows of a query.
pub(crate) async fn collect(query: &Query) -> sidereal::Result<Vec<Value>> {
    query.items().collect().await
}

/// Items with the numbers from 0 on as `n`, each with a partition key of its own.
pub(crate) fn numbered(count: usize) -> Vec<Value> {
    let item = |n: usize| json!({"id": n.to_string(), "pk": format!("p{n}"), "n": n});
    (0..count).map(item).collect()
}

/// A container by `/pk`, with an index for each order on several paths that a test sorts by.
fn definition() -> Value {
    let pair = |(left, up): (&str, bool), (right, up_too): (&str, bool)| {
        let order = |up: bool| if up { "ascending" } else { "descending" };
        json!([{"path": left, "order": order(up)}, {"path": right, "order": order(up_too)}])
    };
    json!({
        "id": "items",
        "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2},
        "indexingPolicy": {
            "indexingMode": "consistent",
            "automatic": true,
            "includedPaths": [{"path": "/*"}],
            "excludedPaths": [],
            "compositeIndexes": [
                pair(("/k", true), ("/v", false)),
                pair(("/k", false), ("/id", true)),
                pair(("/v", false), ("/k", true)),
            ],
        },
    })
}

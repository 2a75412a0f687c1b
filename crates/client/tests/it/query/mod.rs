//! Queries, on accounts in this process and a paused clock; over sockets where that is what is tested.

mod equivalence;

use std::sync::Arc;

use serde_json::{Value, json};
use sidereal::driver::CosmosDriverRuntime;
use sidereal::options::CosmosClientOptions;
use sidereal::prelude::*;
use sidereal_emulator::AccountOptions;
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
        let client = client_of(&account, account.runtime());
        client.create_database("db", None).await.unwrap();
        let properties: ContainerProperties = serde_json::from_value(definition()).unwrap();
        client.database("db").create_container(properties, None).await.unwrap();
        let items = client.database("db").container("items");
        Self { account, client, items }
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
    runtime: Arc<CosmosDriverRuntime>,
) -> CosmosClient {
    CosmosClient::builder(account.endpoint().as_str(), account.credential())
        .runtime(runtime)
        .options(CosmosClientOptions::default())
        .build()
        .unwrap()
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

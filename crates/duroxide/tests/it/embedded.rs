//! The account within the process: it lives as long as its providers, and copies of its configuration share it.

use duroxide::providers::{Provider, ProviderAdmin};
use sidereal_duroxide::{CosmosDBProvider, CosmosDBProviderConfig};

use crate::dispatcher::start;

#[tokio::test]
async fn two_providers_of_one_configuration_share_the_account() {
    let config = CosmosDBProviderConfig::embedded();
    let one = CosmosDBProvider::new(config.clone()).await.unwrap();
    let other = CosmosDBProvider::new(config).await.unwrap();
    start(&one).await.unwrap();
    assert_eq!(other.get_queue_depths().await.unwrap().orchestrator_queue, 1);
    drop(one);
    assert_eq!(other.get_queue_depths().await.unwrap().orchestrator_queue, 1);
    assert_eq!(other.name(), "sidereal-duroxide");
}

#[tokio::test]
async fn two_configurations_have_an_account_each() {
    let one = CosmosDBProvider::new(CosmosDBProviderConfig::embedded()).await.unwrap();
    let other = CosmosDBProvider::new(CosmosDBProviderConfig::embedded()).await.unwrap();
    start(&one).await.unwrap();
    assert_eq!(other.get_queue_depths().await.unwrap().orchestrator_queue, 0);
}

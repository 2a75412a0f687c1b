//! Which of the endpoints are used that an account names for its regions.

use std::sync::Arc;

use sidereal_driver::diagnostics::RequestDiagnostics;
use sidereal_driver::options::{CosmosClientOptions, CosmosEnvironmentOptions};
use sidereal_driver::transport::{Credential, NetHttpClientFactory};
use sidereal_driver::{
    CosmosDriver, CosmosDriverRuntime, CosmosOperation, CosmosResponse, Error, ErrorKind,
};
use sidereal_protocol::{AccountKey, OperationType, PartitionKey, RequestPath, ResourceLink};
use sidereal_testing::fixture::KEY;
use sidereal_testing::peers::{Answer, Peer, Reply, ServedPeer, Speaks};

/// A peer that names one region, at an endpoint of the test's, and answers everything itself.
fn account_that_names(regional: &str) -> ServedPeer {
    let location = format!(r#"[{{"name":"West US","databaseAccountEndpoint":"{regional}"}}]"#);
    let account = format!(r#"{{"writableLocations":{location},"readableLocations":{location}}}"#);
    Peer::cleartext(Speaks::Http1).serve(move |request| match request.path.as_str() {
        "/" => Answer::new(200, account.clone()).into(),
        path if path.contains("/docs/") => Reply::ok("{}"),
        _ => Answer::new(404, "").into(),
    })
}

async fn read(url: &str, options: CosmosClientOptions) -> Result<CosmosResponse, Error> {
    let runtime = CosmosDriverRuntime::builder()
        .environment(CosmosEnvironmentOptions::default())
        .http_client_factory(Arc::new(NetHttpClientFactory::new()))
        .build()
        .unwrap();
    let credential = Credential::Key(AccountKey::from_base64(KEY).unwrap());
    let driver = CosmosDriver::new(runtime, url.parse().unwrap(), credential, options).unwrap();
    let item = ResourceLink::container("store", "orders").unwrap().item("1").unwrap();
    let read = CosmosOperation::new(OperationType::Read, RequestPath::of(item))
        .with_partition_key(PartitionKey::from("contoso"));
    driver.execute_operation(&read, &Default::default()).await
}

/// Any host that the account named got the application's requests, signatures included.
#[tokio::test]
async fn a_region_at_a_foreign_host_is_not_used() {
    let peer = account_that_names("http://evil.example/");
    let answer = read(&peer.url(), CosmosClientOptions::default()).await.unwrap();
    let attempts = answer.diagnostics().attempts();
    let is_own = |it: &RequestDiagnostics| it.endpoint.is_loopback() && it.region.is_none();
    assert!(attempts.iter().all(is_own), "{}", answer.diagnostics());
}

/// An emulator behind a forwarded port names the port that it has where it runs.
#[tokio::test]
async fn without_endpoint_discovery_requests_stay_at_the_endpoint_given() {
    // Nothing listens there.
    let peer = account_that_names("http://127.0.0.1:1/");
    let mut options = CosmosClientOptions::default();
    options.availability.max_failover_retry_count = Some(0);
    let error = read(&peer.url(), options.clone()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    options.account.endpoint_discovery = Some(false);
    options.regions.preferred_regions = Some(vec!["East US".into()]);
    let answer = read(&peer.url(), options).await.unwrap();
    assert!(answer.diagnostics().warnings().is_empty(), "{}", answer.diagnostics());
}

#[tokio::test]
async fn an_account_key_is_not_sent_in_cleartext_to_another_machine() {
    // Reserved (RFC 2606): nothing is there, and nothing is asked.
    let url = "http://contoso.example/";
    let error = read(url, CosmosClientOptions::default()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{error:?}");
    let told = format!("{error:?}");
    assert!(told.contains("client_options.emulator_hosts"), "{told}");
}

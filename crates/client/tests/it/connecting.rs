//! How a client finds its account, and whom it trusts.

use sidereal::options::CosmosClientOptions;
use sidereal::prelude::*;
use sidereal_emulator::Emulator;

async fn emulator() -> Emulator {
    Emulator::builder().start().await.unwrap()
}

#[tokio::test]
async fn a_connection_string_names_account_and_key() {
    let emulator = emulator().await;
    let text = format!(
        "AccountEndpoint={};AccountKey={};",
        emulator.http_endpoint(),
        emulator.key().expose_secret()
    );
    let client = CosmosClient::from_connection_string(&text, None).unwrap();
    client.read_account().await.unwrap();
    let error = CosmosClient::from_connection_string("AccountEndpoint=x", None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidRequest);
}

/// A root of the platform signed none of the emulator's certificates.
#[tokio::test]
async fn an_emulator_s_certificate_is_refused_until_its_root_is_given() {
    let emulator = emulator().await;
    let key = || emulator.key().clone();
    let mut options = CosmosClientOptions::default();
    options.availability.end_to_end_timeout = Some(std::time::Duration::from_secs(20));
    let untrusting = CosmosClient::new(emulator.endpoint(), key(), Some(options)).unwrap();
    let error = untrusting.read_account().await.unwrap_err();
    assert!(format!("{error:?}").contains("trust its root"), "{error:?}");

    let pem = emulator.certificate_pem().as_bytes();
    let builder = || CosmosClient::builder(emulator.endpoint(), key());
    builder().trust_pem(pem).unwrap().build().unwrap().read_account().await.unwrap();
    let client = builder().trust_pem_on_loopback(pem).unwrap().build().unwrap();
    client.read_account().await.unwrap();
    let directory = std::env::temp_dir().join(format!("sidereal-root-{}.pem", std::process::id()));
    std::fs::write(&directory, pem).unwrap();
    let client = builder().trust_pem_file(&directory).unwrap().build().unwrap();
    std::fs::remove_file(&directory).unwrap();
    client.read_account().await.unwrap();
}

#[tokio::test]
async fn what_is_no_root_is_refused_with_a_sentence() {
    let builder = || CosmosClient::builder("https://localhost:1/", emulator_key());
    for pem in [&b""[..], b"no certificate", b"-----BEGIN CERTIFICATE-----\nnothing"] {
        let error = builder().trust_pem(pem).unwrap_err();
        assert!(error.to_string().contains("PEM"), "{error}");
    }
    let error = builder().trust_pem_file("/nowhere/at/all.pem").unwrap_err();
    assert!(error.to_string().contains("/nowhere/at/all.pem"), "{error}");
}

fn emulator_key() -> CosmosCredential {
    CosmosCredential::key("c2VjcmV0").unwrap()
}

#[tokio::test]
async fn roots_beside_a_runtime_are_refused() {
    let emulator = emulator().await;
    let runtime = sidereal::driver::CosmosDriverRuntime::builder().build().unwrap();
    let builder = CosmosClient::builder(emulator.endpoint(), emulator.key().clone());
    let builder = builder.trust_pem(emulator.certificate_pem().as_bytes()).unwrap();
    let error = builder.runtime(runtime).build().unwrap_err();
    assert!(error.to_string().contains("trust_root"), "{error}");
}

#[tokio::test]
async fn an_endpoint_or_a_key_that_is_none_is_refused_at_once() {
    for endpoint in ["", "contoso.documents.azure.com", "ftp://contoso"] {
        let error = CosmosClient::new(endpoint, emulator_key(), None).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidRequest, "{endpoint}");
    }
    assert!(CosmosCredential::key("not base64!").is_err());
    let mut options = CosmosClientOptions::default();
    options.regions.preferred_regions = Some(vec![RegionName::from("")]);
    let error = CosmosClient::new("https://localhost/", emulator_key(), Some(options)).unwrap_err();
    assert!(error.to_string().contains("preferred_regions"), "{error}");
}

#[test]
fn without_a_tokio_runtime_the_error_says_so() {
    let error = CosmosClient::new("https://localhost/", emulator_key(), None).unwrap_err();
    assert!(error.to_string().contains("tokio runtime"), "{error}");
}

#[tokio::test]
async fn a_resource_token_is_sent_as_it_was_given() {
    let emulator = emulator().await;
    let token = CosmosCredential::resource_token("type=resource&ver=1&sig=c2lnbmF0dXJl").unwrap();
    assert_eq!(format!("{token:?}"), "CosmosCredential(resource token)");
    let client = CosmosClient::new(emulator.http_endpoint(), token, None).unwrap();
    // No such token was handed out, which is the service's to say.
    let error = client.read_account().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unauthorized, "{error:?}");
}

#[tokio::test]
async fn a_secret_is_in_no_output() {
    let client = CosmosClient::new("https://localhost:1/", emulator_key(), None).unwrap();
    assert!(!format!("{client:?}").contains("c2VjcmV0"));
    assert_eq!(format!("{:?}", emulator_key()), "CosmosCredential(key)");
}

/// Tokens of Entra ID, also for what else needs a key: databases and containers are managed by the account's own
/// plane there, and read by this one.
#[cfg(feature = "entra")]
#[tokio::test]
async fn a_credential_of_entra_id_reads_and_writes() {
    use azure_core::credentials::{AccessToken, TokenCredential, TokenRequestOptions};
    use azure_core::time::{Duration, OffsetDateTime};

    #[derive(Debug)]
    struct Directory;

    #[async_trait::async_trait]
    impl TokenCredential for Directory {
        async fn get_token(
            &self,
            _: &[&str],
            _: Option<TokenRequestOptions<'_>>,
        ) -> azure_core::Result<AccessToken> {
            // A token that the emulator takes: three parts, of which it reads none.
            Ok(AccessToken::new("a.b.c", OffsetDateTime::now_utc() + Duration::hours(1)))
        }
    }

    let emulator = Emulator::builder().entra_any(true).start().await.unwrap();
    let by_key = CosmosClient::new(emulator.http_endpoint(), emulator.key().clone(), None).unwrap();
    by_key.create_database("store", None).await.unwrap();
    let properties = ContainerProperties::new("orders", "/customer".parse().unwrap());
    by_key.database("store").create_container(properties, None).await.unwrap();

    let credential: std::sync::Arc<dyn TokenCredential> = std::sync::Arc::new(Directory);
    let client = CosmosClient::builder(emulator.endpoint(), credential)
        .trust_pem_on_loopback(emulator.certificate_pem().as_bytes())
        .unwrap()
        .build()
        .unwrap();
    let orders = client.database("store").container("orders");
    let order = serde_json::json!({"id": "1", "customer": "contoso"});
    orders.upsert_item("contoso", &order, None).await.unwrap();
    orders.read_item("contoso", "1", None).await.unwrap();
    client.database("store").container("orders").read(None).await.unwrap();
}

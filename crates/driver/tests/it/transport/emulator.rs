//! The transport against an emulated account: signatures and answers as the service has them.

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use sidereal_driver::transport::{Credential, HttpProtocol, HttpVersions};
use sidereal_emulator::Emulator;
use sidereal_protocol::ResourceType;

use super::{factory, told};
use sidereal_testing::fixture::{Client, Executed, Setup};

const CONTAINER: &str = r#"{"id":"c","partitionKey":{"paths":["/pk"],"kind":"Hash"}}"#;
const ITEM: &str = r#"{"id":"i","pk":"p","greeting":"hello"}"#;

/// Creates a database, a container and an item, and reads the item.
async fn write_and_read(client: &Client, url: &str) -> Executed {
    for (kind, path, body) in [
        (ResourceType::Database, "/dbs", r#"{"id":"d"}"#),
        (ResourceType::DocumentCollection, "/dbs/d/colls", CONTAINER),
        (ResourceType::Document, "/dbs/d/colls/c/docs", ITEM),
    ] {
        let created = client.execute(client.about(url, kind, path, body)).await;
        assert_eq!(created.outcome.status().code(), 201, "{path}: {:?}", created.outcome);
    }
    let read = client.about(url, ResourceType::Document, "/dbs/d/colls/c/docs/i", "");
    client.execute(read).await
}

async fn round_trip(
    emulator: &Emulator,
    url: &str,
    versions: HttpVersions,
) -> Option<HttpProtocol> {
    let root = CertificateDer::from_pem_slice(emulator.certificate_pem().as_bytes()).unwrap();
    let setup = Setup::over(factory()).versions(versions).with(|setup| {
        setup.credential = Credential::Key(emulator.key().clone());
        setup.client.extra_roots.push(root);
    });
    let client = setup.start();
    let read = write_and_read(&client, url).await;
    let item: serde_json::Value = serde_json::from_slice(read.body()).unwrap();
    assert_eq!(item["greeting"], "hello");
    assert!(read.diagnostics.charge() > 0.0);
    read.diagnostics.attempts().last().unwrap().protocol
}

#[tokio::test]
async fn an_item_is_written_and_read_over_tls() {
    let emulator = Emulator::builder().start().await.unwrap();
    let protocol = round_trip(&emulator, emulator.endpoint(), HttpVersions::Negotiate).await;
    assert_eq!(protocol, told(HttpProtocol::Http2));
}

#[tokio::test]
async fn an_item_is_written_and_read_in_cleartext_over_http_1() {
    let emulator = Emulator::builder().start().await.unwrap();
    let protocol = round_trip(&emulator, emulator.http_endpoint(), HttpVersions::Negotiate).await;
    assert_eq!(protocol, told(HttpProtocol::Http1));
}

#[tokio::test]
async fn an_item_is_written_and_read_in_cleartext_over_http_2() {
    let emulator = Emulator::builder().start().await.unwrap();
    let versions = HttpVersions::Http2PriorKnowledge;
    let protocol = round_trip(&emulator, emulator.http_endpoint(), versions).await;
    assert_eq!(protocol, told(HttpProtocol::Http2));
}

#[tokio::test]
async fn another_key_is_refused() {
    let emulator = Emulator::builder().start().await.unwrap();
    let client = Setup::over(factory()).versions(HttpVersions::Negotiate).start();
    let database = r#"{"id":"d"}"#;
    let create = client.about(emulator.http_endpoint(), ResourceType::Database, "/dbs", database);
    assert_eq!(client.execute(create).await.outcome.status().code(), 401);
}

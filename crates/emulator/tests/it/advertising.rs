//! Where an account says it is: the host, the ports and the certificate's names.

use crate::common::Client;
use serde_json::Value;
use sidereal_emulator::{Emulator, StartError};

/// The endpoints of the account's readable locations.
async fn locations(client: &Client) -> Vec<String> {
    let account: Value = client.get("/", &[]).await.json();
    let locations = account["readableLocations"].as_array().unwrap().iter();
    let endpoint = |it: &Value| it["databaseAccountEndpoint"].as_str().unwrap().to_owned();
    locations.map(endpoint).collect()
}

fn port(endpoint: &str) -> u16 {
    endpoint.trim_end_matches('/').rsplit(':').next().unwrap().parse().unwrap()
}

/// Ports that were free a moment ago.
fn free_ports<const N: usize>() -> [u16; N] {
    let listeners = [(); N].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap().port())
}

#[tokio::test]
async fn an_account_is_where_its_client_called_it_unless_told_otherwise() {
    let client = Client::start().await;
    assert_eq!(locations(&client).await, [client.emulator.http_endpoint()]);
    let advertised =
        Client::with(Emulator::builder().advertise("localhost".parse().unwrap())).await;
    let port = port(advertised.emulator.http_endpoint());
    assert_eq!(locations(&advertised).await, [format!("http://localhost:{port}/")]);
    assert_eq!(advertised.emulator.endpoint(), format!("https://localhost:{port}/"));
}

#[tokio::test]
async fn regions_are_advertised_on_the_ports_they_were_given() {
    let [west, east] = free_ports();
    let builder = Emulator::builder()
        .regions(["West US", "East US"])
        .region_ports([west, east])
        .advertise("localhost".parse().unwrap());
    let client = Client::with(builder).await;
    let expected = [west, east].map(|port| format!("http://localhost:{port}/"));
    assert_eq!(locations(&client).await, expected);
    let told: Vec<u16> = client.emulator.regions().iter().map(|(_, it)| port(it)).collect();
    assert_eq!(told, [west, east]);
}

/// Clients that tell regions by their hosts need a host for each.
#[tokio::test]
async fn regions_are_advertised_under_hosts_of_their_own() {
    let builder = Emulator::builder()
        .regions(["West US", "East US"])
        .advertise("{region}.localhost".parse().unwrap());
    let client = Client::with(builder).await;
    let hosts: Vec<String> = locations(&client)
        .await
        .iter()
        .map(|endpoint| endpoint.rsplit_once(':').unwrap().0.to_owned())
        .collect();
    let wanted = ["westus.localhost", "eastus.localhost"];
    assert_eq!(hosts, wanted.map(|host| format!("http://{host}")));
    assert!(client.emulator.endpoint().starts_with("https://localhost:"));
    let regions = client.emulator.regions();
    assert!(regions[1].1.starts_with("https://eastus.localhost:"), "{regions:?}");
}

#[tokio::test]
async fn ports_that_do_not_fit_the_regions_are_refused_with_what_to_change() {
    let two = || Emulator::builder().regions(["West US", "East US"]);
    for (builder, said) in [
        (Emulator::builder().region_ports([8082]), "single region"),
        (two().region_ports([8082]), "2 regions and 1 ports"),
        (two().region_ports([8082, 8082]), "8082 is given twice"),
        (two().port(8081).region_ports([8082, 8081]), "8081 is given twice"),
    ] {
        let error = builder.start().await.unwrap_err();
        assert!(matches!(error, StartError::RegionPorts { .. }));
        assert!(error.to_string().contains(said), "{error}");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().map(|address| (taken, address.port())).unwrap();
    let error = two().region_ports([taken.1, 0]).start().await.unwrap_err();
    assert!(matches!(error, StartError::PortInUse { port, .. } if port == taken.1), "{error}");
}

#[tokio::test]
async fn a_client_that_trusts_the_certificate_accepts_the_advertised_names() {
    use std::sync::Arc;

    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, ServerName};

    let advertised = Emulator::builder()
        .regions(["West US", "East US"])
        .advertise("cosmos-{region}.example".parse().unwrap());
    let emulator = advertised.start().await.unwrap();
    let port = port(emulator.endpoint());
    let mut roots = rustls::RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(emulator.certificate_pem().as_bytes()).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    for (name, accepted) in [
        ("cosmos.example", true),
        ("cosmos-eastus.example", true),
        ("localhost", true),
        ("cosmos-northeurope.example", false),
    ] {
        let stream = tokio::net::TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        let name = ServerName::try_from(name).unwrap();
        assert_eq!(connector.connect(name.clone(), stream).await.is_ok(), accepted, "{name:?}");
    }
}

//! TLS: who is trusted, and which protocol is agreed on.

use std::io;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, Error};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{exchange, get, http2_over, whole};
use sidereal_testing::peers::{
    Certificates, ConnectionSeen, Identity, Peer, Protocol, Reply, ServedPeer, Speaks,
};

fn served(speaks: Speaks, identity: &Identity) -> ServedPeer {
    Peer::tls(speaks, identity).serve(|_| Reply::ok("secret"))
}

async fn connect(
    peer: &ServedPeer,
    trusted: &Certificates,
    alpn: &[&str],
) -> io::Result<TlsStream<TcpStream>> {
    let tcp = TcpStream::connect(peer.address()).await?;
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(trusted.client_config(alpn)).connect(name, tcp).await
}

/// Why a client that trusts `trusted` turns the peer down.
async fn refusal(peer: &ServedPeer, trusted: &Certificates) -> CertificateError {
    let error = connect(peer, trusted, &["h2"]).await.unwrap_err().into_inner().unwrap();
    peer.until(|seen| seen.failed_handshakes == 1 && seen.open_connections() == 0).await;
    match error.downcast_ref() {
        Some(Error::InvalidCertificate(reason)) => reason.clone(),
        _ => panic!("{error} is not about the certificate"),
    }
}

#[tokio::test]
async fn a_client_that_trusts_the_root_negotiates_http2() {
    let certificates = Certificates::new();
    let peer = served(Speaks::Http2, &certificates.loopback());
    let tls = connect(&peer, &certificates, &["h2", "http/1.1"]).await.unwrap();
    assert_eq!(tls.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let mut client = http2_over(tls).await;
    assert_eq!(whole(get(&mut client, "/")).await.unwrap().body(), "secret");
    assert_eq!(peer.url(), format!("https://localhost:{}", peer.address().port()));
}

#[tokio::test]
async fn a_peer_without_http2_agrees_on_http1_or_says_nothing() {
    let certificates = Certificates::new();
    let announced = [(Speaks::Http1, Some(&b"http/1.1"[..])), (Speaks::Http1Unannounced, None)];
    for (speaks, agreed) in announced {
        let peer = served(speaks, &certificates.loopback());
        let mut tls = connect(&peer, &certificates, &["h2", "http/1.1"]).await.unwrap();
        assert_eq!(tls.get_ref().1.alpn_protocol(), agreed);
        exchange(&mut tls, "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n", "secret").await;
        assert_eq!(peer.seen().connections[0].protocol, Some(Protocol::Http1));
    }
}

#[tokio::test]
async fn a_peer_that_speaks_both_lets_tls_decide() {
    let certificates = Certificates::new();
    let peer = served(Speaks::Both, &certificates.loopback());
    for (alpn, protocol) in [("http/1.1", Protocol::Http1), ("h2", Protocol::Http2)] {
        let _tls = connect(&peer, &certificates, &[alpn]).await.unwrap();
        let agreed = |seen: &ConnectionSeen| seen.protocol == Some(protocol);
        peer.until(|seen| seen.connections.last().is_some_and(agreed)).await;
    }
}

#[tokio::test]
async fn a_name_that_is_not_in_the_certificate_is_refused() {
    let certificates = Certificates::new();
    let peer = served(Speaks::Http2, &certificates.identity_for(&["elsewhere.example"]));
    let refusal = refusal(&peer, &certificates).await;
    assert!(matches!(refusal, CertificateError::NotValidForNameContext { .. }), "{refusal:?}");
}

#[tokio::test]
async fn an_identity_of_another_root_is_refused() {
    let certificates = Certificates::new();
    let peer = served(Speaks::Http2, &certificates.loopback_of_another_root());
    assert_eq!(refusal(&peer, &certificates).await, CertificateError::UnknownIssuer);
}

#[test]
fn the_root_is_the_same_in_either_form() {
    let certificates = Certificates::new();
    let pem = CertificateDer::from_pem_slice(certificates.root_pem().as_bytes()).unwrap();
    assert_eq!(pem, certificates.root_der());
}

//! Certificates of a root that exists for one test only.
//!
//! The cryptography is passed explicitly and never installed for the process: the transport under
//! test must not come to depend on what its tests happened to install.

use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use uuid::Uuid;

/// The names under which a peer on loopback is reached.
const LOOPBACK_NAMES: [&str; 2] = ["localhost", "127.0.0.1"];

/// A root, and whatever it signs.
pub struct Certificates {
    issuer: Issuer<'static, KeyPair>,
    root: rcgen::Certificate,
}

/// The identity of a peer: a certificate, and the key that proves it.
pub struct Identity {
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

impl Default for Certificates {
    fn default() -> Self {
        Self::new()
    }
}

impl Certificates {
    /// Makes a root that nobody trusts yet.
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        // Two roots of the same name would be told apart by their signatures only, and a verifier
        // would report a bad signature where the tests mean an unknown root.
        let name = format!("Sidereal test root {}", Uuid::new_v4());
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().unwrap();
        let root = params.self_signed(&key).unwrap();
        Self { issuer: Issuer::new(params, key), root }
    }

    /// An identity for the names of loopback: `localhost` and `127.0.0.1`.
    pub fn loopback(&self) -> Identity {
        self.identity_for(&LOOPBACK_NAMES)
    }

    /// An identity for the given host names and addresses.
    pub fn identity_for(&self, names: &[&str]) -> Identity {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, "Sidereal test peer");
        params.insert_extended_key_usage(ExtendedKeyUsagePurpose::ServerAuth);
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        Identity {
            certificate: certificate.der().clone(),
            key: PrivatePkcs8KeyDer::from(key.serialize_der()).into(),
        }
    }

    /// An identity for the names of loopback that a client trusting this root has no reason to trust.
    pub fn loopback_of_another_root(&self) -> Identity {
        Self::new().loopback()
    }

    /// The root as a client's trust store takes it.
    pub fn root_der(&self) -> CertificateDer<'static> {
        self.root.der().clone()
    }

    /// The root as a file of trusted certificates holds it.
    pub fn root_pem(&self) -> String {
        self.root.pem()
    }

    /// A client that trusts this root only and offers the given protocols.
    pub fn client_config(&self, alpn: &[&str]) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(self.root_der()).unwrap();
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = alpn_protocols(alpn);
        Arc::new(config)
    }
}

impl Identity {
    /// A server that shows this identity and accepts the given protocols, most preferred first.
    pub fn server_config(&self, alpn: &[&str]) -> Arc<ServerConfig> {
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], self.key.clone_key())
            .unwrap();
        config.alpn_protocols = alpn_protocols(alpn);
        Arc::new(config)
    }
}

fn alpn_protocols(names: &[&str]) -> Vec<Vec<u8>> {
    names.iter().map(|name| name.as_bytes().to_vec()).collect()
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

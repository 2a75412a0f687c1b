//! The certificate that the server shows: self-signed, for the names of this machine's loopback.
//!
//! A value and what can be done with it; where it is kept between runs is `files`' matter.
//! The cryptography is passed explicitly and never installed for the process: another crate in it may
//! have brought its own.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, KeyPair, SanType};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::ServerCertVerifier;
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{RootCertStore, ServerConfig};
use sidereal_protocol::Secret;
use thiserror::Error;

/// How long a certificate is valid: the longest that Apple's platforms accept, the strictest of the common
/// clients for certificates that a user trusts by hand.
const LIFETIME: Duration = Duration::from_secs(825 * DAY);

/// A certificate with less than this left is replaced, so that it does not expire under a running
/// emulator.
const RENEWAL_MARGIN: Duration = Duration::from_secs(30 * DAY);

/// How far the certificate's validity reaches back, for clocks that are behind (clock skew between a
/// container and its host).
const BACKDATED: Duration = Duration::from_secs(DAY);

const DAY: u64 = 24 * 60 * 60;

const LOCALHOST: &str = "localhost";

/// A certificate and its private key.
#[derive(Debug)]
pub(crate) struct Certificate {
    pem: String,
    key_pem: Secret,
}

/// Why a certificate cannot be made or used.
#[derive(Debug, Error)]
pub(crate) enum CertificateError {
    #[error("the certificate cannot be made")]
    Generate(#[from] rcgen::Error),
    #[error("the certificate is not valid PEM")]
    Pem(#[from] rustls::pki_types::pem::Error),
    #[error("the certificate cannot be used")]
    Tls(#[from] rustls::Error),
    #[error("the certificate cannot be checked")]
    Verifier(#[from] rustls::client::VerifierBuilderError),
}

impl Certificate {
    /// Makes a certificate that is valid from `now` on.
    pub(crate) fn generate(now: SystemTime) -> Result<Self, CertificateError> {
        let mut params = CertificateParams::new([LOCALHOST.to_owned()])?;
        // A host given as an address needs an entry of its own kind (RFC 9110, section 4.3.5).
        for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
            params.subject_alt_names.push(SanType::IpAddress(address));
        }
        params.distinguished_name.push(DnType::CommonName, "Sidereal emulator");
        // Apple's platforms refuse server certificates without it.
        params.insert_extended_key_usage(ExtendedKeyUsagePurpose::ServerAuth);
        params.not_before = (now - BACKDATED).into();
        params.not_after = (now + LIFETIME).into();
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?;
        Ok(Self { pem: certificate.pem(), key_pem: key.serialize_pem().into() })
    }

    /// Takes a certificate and key that were kept.
    pub(crate) fn from_pem(pem: String, key_pem: Secret) -> Self {
        Self { pem, key_pem }
    }

    /// The certificate, for clients that want to trust it.
    pub(crate) fn pem(&self) -> &str {
        &self.pem
    }

    /// The private key; it never leaves the machine.
    pub(crate) fn key_pem(&self) -> &Secret {
        &self.key_pem
    }

    /// What a server that shows this certificate is configured with: HTTP/2 preferred, then HTTP/1.1.
    pub(crate) fn server_config(&self) -> Result<Arc<ServerConfig>, CertificateError> {
        let key = PrivateKeyDer::from_pem_slice(self.key_pem.expose_secret().as_bytes())?;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![self.der()?], key)?;
        // In the order of preference (RFC 7301).
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// Whether a client that trusts this certificate will go on accepting it for a while.
    ///
    /// Asked of a client's own verifier, so that names, validity and key are judged as they will be.
    pub(crate) fn is_good(&self, now: SystemTime) -> bool {
        self.server_config().is_ok() && self.verify(now + RENEWAL_MARGIN).is_ok()
    }

    fn verify(&self, at: SystemTime) -> Result<(), CertificateError> {
        let certificate = self.der()?;
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone())?;
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build()?;
        let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let at = UnixTime::since_unix_epoch(since);
        let names = [
            ServerName::IpAddress(IpAddr::V4(Ipv4Addr::LOCALHOST).into()),
            ServerName::IpAddress(IpAddr::V6(Ipv6Addr::LOCALHOST).into()),
            ServerName::try_from(LOCALHOST).expect("localhost is a name"),
        ];
        for name in &names {
            verifier.verify_server_cert(&certificate, &[], name, &[], at)?;
        }
        Ok(())
    }

    fn der(&self) -> Result<CertificateDer<'static>, CertificateError> {
        Ok(CertificateDer::from_pem_slice(self.pem.as_bytes())?)
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(ring::default_provider())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_certificate_is_good_until_a_month_before_its_end() {
        let now = SystemTime::now();
        let certificate = Certificate::generate(now).unwrap();
        let end = now + LIFETIME;
        assert!(certificate.is_good(now));
        assert!(certificate.is_good(end - RENEWAL_MARGIN - Duration::from_secs(60)));
        assert!(!certificate.is_good(end - RENEWAL_MARGIN + Duration::from_secs(60)));
    }

    #[test]
    fn a_certificate_with_the_key_of_another_is_not_good() {
        let now = SystemTime::now();
        let one = Certificate::generate(now).unwrap();
        let other = Certificate::generate(now).unwrap();
        let mixed = Certificate::from_pem(one.pem, other.key_pem);
        assert!(!mixed.is_good(now));
    }

    #[test]
    fn a_certificate_for_another_host_is_not_good() {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["example.com".to_owned()]).unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        assert!(!Certificate::from_pem(pem, key.serialize_pem().into()).is_good(SystemTime::now()));
    }
}

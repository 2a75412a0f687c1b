//! The certificate that the server shows: self-signed, for the names under which clients reach it.
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

/// The names that a certificate is made out to: those of the loopback, and more.
#[derive(Clone, Debug)]
pub(crate) struct CertificateNames(Vec<ServerName<'static>>);

impl CertificateNames {
    /// The names of an emulator that listens on an address and advertises hosts.
    pub(crate) fn new(
        address: IpAddr,
        advertised: impl IntoIterator<Item = ServerName<'static>>,
    ) -> Self {
        let loopback = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
        let mut names = vec![ServerName::try_from(LOCALHOST).expect("localhost is a name")];
        names.extend(loopback.map(|address| ServerName::IpAddress(address.into())));
        // Every interface is no address that a client could ask for.
        let address = (!address.is_unspecified()).then(|| ServerName::IpAddress(address.into()));
        for name in address.into_iter().chain(advertised) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        Self(names)
    }
}

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
    pub(crate) fn generate(
        now: SystemTime,
        names: &CertificateNames,
    ) -> Result<Self, CertificateError> {
        let mut params = CertificateParams::default();
        for name in &names.0 {
            params.subject_alt_names.push(match name {
                // A host given as an address needs an entry of its own kind (RFC 9110, section 4.3.5).
                ServerName::IpAddress(address) => SanType::IpAddress((*address).into()),
                name => SanType::DnsName(name.to_str().as_ref().try_into()?),
            });
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

    /// The TLS configuration of a server that shows this certificate: HTTP/2 preferred, then HTTP/1.1.
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
    pub(crate) fn is_good(&self, now: SystemTime, names: &CertificateNames) -> bool {
        self.server_config().is_ok() && self.verify(now + RENEWAL_MARGIN, names).is_ok()
    }

    fn verify(&self, at: SystemTime, names: &CertificateNames) -> Result<(), CertificateError> {
        let certificate = self.der()?;
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone())?;
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider()).build()?;
        let since = at.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let at = UnixTime::since_unix_epoch(since);
        for name in &names.0 {
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

    fn loopback() -> CertificateNames {
        CertificateNames::new(Ipv4Addr::UNSPECIFIED.into(), None)
    }

    #[test]
    fn a_new_certificate_is_good_until_a_month_before_its_end() {
        let now = SystemTime::now();
        let names = loopback();
        let certificate = Certificate::generate(now, &names).unwrap();
        let end = now + LIFETIME;
        assert!(certificate.is_good(now, &names));
        assert!(certificate.is_good(end - RENEWAL_MARGIN - Duration::from_secs(60), &names));
        assert!(!certificate.is_good(end - RENEWAL_MARGIN + Duration::from_secs(60), &names));
    }

    #[test]
    fn a_certificate_with_the_key_of_another_is_not_good() {
        let now = SystemTime::now();
        let one = Certificate::generate(now, &loopback()).unwrap();
        let other = Certificate::generate(now, &loopback()).unwrap();
        let mixed = Certificate::from_pem(one.pem, other.key_pem);
        assert!(!mixed.is_good(now, &loopback()));
    }

    #[test]
    fn a_certificate_for_another_host_is_not_good() {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(["example.com".to_owned()]).unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let certificate = Certificate::from_pem(pem, key.serialize_pem().into());
        assert!(!certificate.is_good(SystemTime::now(), &loopback()));
    }

    #[test]
    fn a_certificate_is_made_out_to_the_address_and_the_advertised_host() {
        let now = SystemTime::now();
        let host = ServerName::try_from("cosmos.example").unwrap();
        let names = CertificateNames::new([192, 0, 2, 1].into(), [host]);
        let certificate = Certificate::generate(now, &names).unwrap();
        assert!(certificate.is_good(now, &names));
        assert!(certificate.is_good(now, &loopback()));
        let elsewhere = CertificateNames::new([192, 0, 2, 2].into(), None);
        assert!(!certificate.is_good(now, &elsewhere));
        assert!(!Certificate::generate(now, &loopback()).unwrap().is_good(now, &names));
    }
}

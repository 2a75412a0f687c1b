//! TLS configuration: trusted roots, and the versions of HTTP that ALPN offers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

use crate::exchange::{Endpoint, HttpError, HttpErrorKind, RequestSentStatus};
use crate::system::Clock;
use crate::transport::HttpVersions;

// ALPN protocol ids (RFC 7301; RFC 9113, section 3.1).
const HTTP2: &[u8] = b"h2";
const HTTP1: &[u8] = b"http/1.1";

/// How long roots that were read are used before they are read again. Long beside reading them, which opens files;
/// short beside the life of a process whose platform replaces them.
pub(super) const ROOTS_LIFETIME: Duration = Duration::from_secs(6 * 60 * 60);

/// The platform's roots, shared by all factories of the process.
static PLATFORM_ROOTS: KeptRoots = KeptRoots(ArcSwapOption::const_empty());

/// Roots that were read, until they are old. An empty store is not kept: it may be mounted in a moment.
#[derive(Debug)]
struct KeptRoots(ArcSwapOption<(Instant, Vec<CertificateDer<'static>>)>);

impl KeptRoots {
    fn now(
        &self,
        now: Instant,
        read: impl FnOnce() -> Vec<CertificateDer<'static>>,
    ) -> Vec<CertificateDer<'static>> {
        if let Some(kept) = &*self.0.load()
            && now.saturating_duration_since(kept.0) < ROOTS_LIFETIME
        {
            return kept.1.clone();
        }
        let roots = read();
        match (roots.is_empty(), &*self.0.load()) {
            // Old ones are better than none.
            (true, Some(old)) => old.1.clone(),
            (true, None) => roots,
            (false, _) => {
                self.0.store(Some(Arc::new((now, roots.clone()))));
                roots
            }
        }
    }
}

fn read_platform_roots() -> Vec<CertificateDer<'static>> {
    let found = rustls_native_certs::load_native_certs();
    for error in &found.errors {
        tracing::warn!(%error, "a root certificate of the platform cannot be read");
    }
    found.certs
}

/// The settings of TLS for some versions of HTTP, with roots that are trusted beside the platform's.
///
/// The provider of cryptography is passed, never taken from the process: another crate may have
/// installed one of its own.
pub(super) fn client_config(
    versions: HttpVersions,
    roots: &[CertificateDer<'static>],
    accepts_any: bool,
) -> Result<Arc<ClientConfig>, HttpError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| tls_error("TLS cannot be set up".to_owned()).caused_by(error))?;
    let mut tls = match accepts_any {
        true => builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(AcceptAny(provider)))
            .with_no_client_auth(),
        false => builder.with_root_certificates(root_store(roots)?).with_no_client_auth(),
    };
    tls.alpn_protocols = match versions {
        HttpVersions::Negotiate => vec![HTTP2.to_vec(), HTTP1.to_vec()],
        HttpVersions::Http1Only => vec![HTTP1.to_vec()],
        // Prior knowledge does not exempt TLS from ALPN (RFC 9113, section 3.2).
        HttpVersions::Http2PriorKnowledge => vec![HTTP2.to_vec()],
    };
    Ok(Arc::new(tls))
}

fn root_store(extra: &[CertificateDer<'static>]) -> Result<RootCertStore, HttpError> {
    let mut roots = RootCertStore::empty();
    // The platform's store may hold roots that rustls cannot parse; one of them must not disable the rest.
    roots.add_parsable_certificates(PLATFORM_ROOTS.now(Clock::now(), read_platform_roots));
    for root in extra {
        let refused =
            |error| tls_error("a root that was given cannot be read".to_owned()).caused_by(error);
        roots.add(root.clone()).map_err::<HttpError, _>(refused)?;
    }
    if roots.is_empty() {
        return Err(tls_error(
            "no root certificate is known, so no peer can be trusted: install the platform's \
             certificates (often a package named ca-certificates) or give roots of your own"
                .to_owned(),
        ));
    }
    Ok(roots)
}

/// The name that the peer's certificate must be for.
pub(super) fn server_name(endpoint: &Endpoint) -> Result<ServerName<'static>, HttpError> {
    ServerName::try_from(endpoint.host().to_owned()).map_err(|error| {
        tls_error(format!("\"{}\" is no name a certificate can have", endpoint.host()))
            .caused_by(error)
    })
}

/// Whether the peer chose HTTP/2.
pub(super) fn chose_http2(alpn: Option<&[u8]>) -> bool {
    alpn == Some(HTTP2)
}

/// A handshake that failed, with what to do about it where that is known.
pub(super) fn refused(endpoint: &Endpoint, error: std::io::Error) -> HttpError {
    use rustls::CertificateError::{NotValidForName, NotValidForNameContext};
    // tokio-rustls wraps the TLS error in an I/O error.
    let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let sentence = match cause {
        Some(rustls::Error::InvalidCertificate(
            NotValidForName | NotValidForNameContext { .. },
        )) => format!(
            "the certificate of {endpoint} is for another name: reach it by a name in the certificate"
        ),
        Some(rustls::Error::InvalidCertificate(_)) => format!(
            "the certificate of {endpoint} was refused: if it is an emulator's own, trust its root"
        ),
        // A connection that ends in the handshake, or a peer that is starting: the next may do better.
        _ => {
            let sentence = format!("no TLS connection to {endpoint} could be made");
            return HttpError::new(HttpErrorKind::Connect, RequestSentStatus::NotSent, sentence)
                .caused_by(error);
        }
    };
    tls_error(sentence).caused_by(error)
}

fn tls_error(sentence: String) -> HttpError {
    HttpError::new(HttpErrorKind::Tls, RequestSentStatus::NotSent, sentence)
}

/// Accepts any certificate, as `accept_invalid_certs` asks for. Signatures are still checked: the peer must
/// hold the key of the certificate that it shows.
#[derive(Debug)]
struct AcceptAny(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAny {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(byte: u8) -> Vec<CertificateDer<'static>> {
        vec![CertificateDer::from(vec![byte])]
    }

    /// A store that was mounted a moment too late was missing for the life of the process.
    #[test]
    fn roots_that_cannot_be_read_are_read_again() {
        let kept = KeptRoots(ArcSwapOption::const_empty());
        let start = Clock::now();
        assert!(kept.now(start, Vec::new).is_empty());
        assert_eq!(kept.now(start, || root(1)), root(1));
        assert_eq!(kept.now(start, || panic!("they are there")), root(1));
    }

    #[test]
    fn roots_are_read_again_after_hours_and_old_ones_are_better_than_none() {
        let kept = KeptRoots(ArcSwapOption::const_empty());
        let start = Clock::now();
        kept.now(start, || root(1));
        let (soon, later) = (start + ROOTS_LIFETIME / 2, start + ROOTS_LIFETIME);
        assert_eq!(kept.now(soon, || root(2)), root(1));
        assert_eq!(kept.now(later, Vec::new), root(1));
        assert_eq!(kept.now(later, || root(2)), root(2));
    }
}

//! The text of an error in diagnostics: enough to understand it, nothing secret that it may quote.

use std::borrow::Cow;
use std::error::Error;
use std::io;

use crate::exchange::HttpError;

/// The error's own sentence and its innermost cause of a known kind, such as "connection refused".
///
/// Text of any other cause is left to the error itself: a library may quote a header,
/// an address with a password or a piece of a body.
pub(super) fn failure_text(error: &HttpError) -> Cow<'static, str> {
    let mut known = None;
    let mut cause = error.source();
    while let Some(inner) = cause {
        known = harmless_text(inner).or(known);
        cause = inner.source();
    }
    match known {
        Some(known) => Cow::Owned(format!("{error}: {known}")),
        None => Cow::Owned(error.to_string()),
    }
}

fn harmless_text(cause: &(dyn Error + 'static)) -> Option<String> {
    if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
        return Some(tls.to_string());
    }
    if let Some(http2) = cause.downcast_ref::<h2::Error>() {
        return http2.reason().map(|reason| reason.description().to_owned());
    }
    let io = cause.downcast_ref::<io::Error>()?;
    // An I/O error hides the TLS error that it carries: its source is that error's source.
    let carried = io.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    Some(carried.map_or_else(|| io.kind().to_string(), ToString::to_string))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exchange::{HttpErrorKind, RequestSentStatus};

    fn unreachable_because(cause: impl Error + Send + Sync + 'static) -> Cow<'static, str> {
        let kind = HttpErrorKind::Connect;
        let error = HttpError::new(kind, RequestSentStatus::NotSent, "no connection could be made");
        failure_text(&error.caused_by(cause))
    }

    #[test]
    fn the_system_s_reason_is_told() {
        assert_eq!(
            unreachable_because(io::Error::from(io::ErrorKind::ConnectionRefused)),
            "no connection could be made: connection refused"
        );
    }

    #[test]
    fn the_text_of_an_unknown_cause_is_not() {
        assert_eq!(
            unreachable_because(io::Error::other("authorization: hunter2")),
            "no connection could be made: other error"
        );
        let text = unreachable_because("hunter2".parse::<u8>().unwrap_err());
        assert_eq!(text, "no connection could be made");
    }

    #[test]
    fn a_refused_certificate_is_told_also_from_within_an_io_error() {
        let refused = rustls::Error::InvalidCertificate(rustls::CertificateError::Expired);
        let text = unreachable_because(io::Error::new(io::ErrorKind::InvalidData, refused));
        assert!(text.contains("certificate"), "{text}");
    }

    #[test]
    fn the_peer_s_reason_for_a_reset_is_told() {
        let text = unreachable_because(h2::Error::from(h2::Reason::ENHANCE_YOUR_CALM));
        assert_eq!(
            text,
            format!("no connection could be made: {}", h2::Reason::ENHANCE_YOUR_CALM.description())
        );
    }
}

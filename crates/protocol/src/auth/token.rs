//! Authorization tokens: the three kinds, their header form, and when their date is acceptable.

use std::borrow::Cow;
use std::fmt;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use http::HeaderValue;
use percent_encoding::percent_decode_str;

use crate::date::HttpDate;
use crate::error::{Error, ErrorKind, Result};
use crate::secret::Secret;
use crate::status::CosmosStatus;

/// How far the date of a request may be from the server's clock, either way.
// The service's rule: long enough for clocks that drift, short enough against replays.
pub const DATE_WINDOW: Duration = Duration::from_secs(15 * 60);

/// The content of a request's authorization header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthorizationToken {
    /// `type=master`: the request signed with an account key.
    Key {
        /// The signature, in base64.
        signature: Secret,
    },
    /// `type=aad`: an access token of Entra ID.
    Entra {
        /// The access token.
        access_token: Secret,
    },
    /// `type=resource`: a token the service made for one user and resource.
    Resource {
        /// The signature, as the service made it.
        signature: Secret,
    },
}

impl AuthorizationToken {
    /// The value of the authorization header, marked as sensitive.
    pub fn header_value(&self) -> Result<HeaderValue> {
        let (kind, version, signature) = match self {
            Self::Key { signature } => ("master", "1.0", signature),
            Self::Entra { access_token } => ("aad", "1.0", access_token),
            Self::Resource { signature } => ("resource", "1", signature),
        };
        let mut header = format!("type%3D{kind}%26ver%3D{version}%26sig%3D");
        for byte in signature.expose_secret().bytes() {
            match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                    header.push(char::from(byte));
                }
                other => write!(header, "%{other:02X}").unwrap_or_default(), // A string takes all.
            }
        }
        let refuse =
            |_| Error::new(ErrorKind::Authorization, "the token cannot be sent as a header");
        let mut value = HeaderValue::try_from(header).map_err(refuse)?;
        value.set_sensitive(true);
        Ok(value)
    }

    /// Reads an authorization header, encoded or not: SDKs differ in that.
    ///
    /// A `+` stands for itself. No SDK encodes spaces into it, and base64 needs it.
    pub fn from_header(header: &str) -> Result<Self, AuthorizationError> {
        let decoded: Cow<'_, str> =
            percent_decode_str(header).decode_utf8().map_err(|_| AuthorizationError::Malformed)?;
        if decoded.trim().is_empty() {
            return Err(AuthorizationError::Missing);
        }
        // Three parts at most: the signature is the rest, whatever it holds.
        let mut fields = decoded.trim().splitn(3, '&');
        let mut field = |name: &str| -> Result<&str, AuthorizationError> {
            let (key, value) = fields
                .next()
                .and_then(|field| field.split_once('='))
                .ok_or(AuthorizationError::Malformed)?;
            if key.eq_ignore_ascii_case(name) {
                Ok(value)
            } else {
                Err(AuthorizationError::Malformed)
            }
        };
        let (kind, _version, signature) = (field("type")?, field("ver")?, field("sig")?);
        if signature.is_empty() {
            return Err(AuthorizationError::Malformed);
        }
        let signature = Secret::from(signature);
        match kind.to_ascii_lowercase().as_str() {
            "master" => Ok(Self::Key { signature }),
            "aad" => Ok(Self::Entra { access_token: signature }),
            "resource" => Ok(Self::Resource { signature }),
            _ => Err(AuthorizationError::Malformed),
        }
    }
}

/// Whether the date of a request is near enough to the server's `now`.
pub fn check_date(date: &str, now: SystemTime, window: Duration) -> Result<(), AuthorizationError> {
    let date: HttpDate = date.parse().map_err(|_| AuthorizationError::MalformedDate)?;
    let apart = now.duration_since(date.time()).unwrap_or_else(|ahead| ahead.duration());
    if apart > window { Err(AuthorizationError::DateOutsideWindow) } else { Ok(()) }
}

/// Why a request is not authorized.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AuthorizationError {
    /// There is no authorization header.
    Missing,
    /// The header is not `type=…&ver=…&sig=…`.
    Malformed,
    /// The signature belongs to another request, or another key.
    WrongSignature,
    /// There is no readable date.
    MalformedDate,
    /// The date is too far from now: a replay, or a clock that is wrong.
    DateOutsideWindow,
}

impl AuthorizationError {
    /// The status the service answers with.
    pub const fn status(self) -> CosmosStatus {
        match self {
            Self::Missing => CosmosStatus::with_sub_status(401, 5000),
            Self::Malformed | Self::MalformedDate => CosmosStatus::with_sub_status(401, 5001),
            Self::WrongSignature => CosmosStatus::UNAUTHORIZED,
            Self::DateOutsideWindow => CosmosStatus::FORBIDDEN,
        }
    }
}

impl fmt::Display for AuthorizationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Missing => "the request has no authorization header",
            Self::Malformed => {
                "the authorization header is not of the form type=master&ver=1.0&sig=…"
            }
            Self::WrongSignature => {
                "the signature does not belong to this request and key: check the key, the verb, \
                 the resource link and the date that were signed"
            }
            Self::MalformedDate => {
                "the request has no x-ms-date header in the form Tue, 01 Nov 1994 08:12:31 GMT"
            }
            Self::DateOutsideWindow => {
                "the date of the request is more than 15 minutes from now: check the clock"
            }
        })
    }
}

impl std::error::Error for AuthorizationError {}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn all() -> [AuthorizationToken; 3] {
        [
            AuthorizationToken::Key { signature: "c09P+/==".into() },
            AuthorizationToken::Entra { access_token: "eyJ0.eyJh.x-_".into() },
            AuthorizationToken::Resource { signature: "abc=;def=;".into() },
        ]
    }

    #[test]
    fn every_kind_of_token_reads_back() {
        for token in all() {
            let header = token.header_value().unwrap();
            assert_eq!(AuthorizationToken::from_header(header.to_str().unwrap()), Ok(token));
        }
    }

    #[test]
    fn a_token_is_read_encoded_or_not() {
        let key = AuthorizationToken::Key { signature: "c09P+/==".into() };
        for header in [
            "type=master&ver=1.0&sig=c09P+/==",
            "type%3dmaster%26ver%3d1.0%26sig%3dc09P%2b%2f%3d%3d",
            "Type%3DMaster%26Ver%3D1.0%26Sig%3Dc09P%2B/%3D=",
        ] {
            assert_eq!(AuthorizationToken::from_header(header), Ok(key.clone()), "{header}");
        }
    }

    #[test]
    fn what_is_not_a_token_is_refused() {
        use AuthorizationError::{Malformed, Missing};
        for (header, expected) in [
            ("", Missing),
            ("Bearer abc", Malformed),
            ("type=master&ver=1.0", Malformed),
            ("type=master&ver=1.0&sig=", Malformed),
            ("type=other&ver=1.0&sig=a", Malformed),
            ("%FF", Malformed),
        ] {
            assert_eq!(AuthorizationToken::from_header(header), Err(expected), "{header}");
        }
    }

    #[test]
    fn a_date_is_accepted_a_quarter_of_an_hour_either_way() {
        let date = "Tue, 15 Nov 1994 08:12:31 GMT";
        let signed = UNIX_EPOCH + Duration::from_secs(784_887_151);
        for (now, expected) in [
            (signed + DATE_WINDOW, Ok(())),
            (signed - DATE_WINDOW, Ok(())),
            (
                signed + DATE_WINDOW + Duration::from_secs(1),
                Err(AuthorizationError::DateOutsideWindow),
            ),
            (
                signed - DATE_WINDOW - Duration::from_secs(1),
                Err(AuthorizationError::DateOutsideWindow),
            ),
        ] {
            assert_eq!(check_date(date, now, DATE_WINDOW), expected);
        }
        assert_eq!(check_date("now", signed, DATE_WINDOW), Err(AuthorizationError::MalformedDate));
    }

    #[test]
    fn no_token_is_ever_shown() {
        for token in all() {
            let shown = format!("{token:?}");
            assert!(shown.contains(Secret::REDACTED), "{shown}");
            assert!(!["c09P", "eyJ0", "abc"].iter().any(|text| shown.contains(text)), "{shown}");
        }
    }
}

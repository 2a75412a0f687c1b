//! Account keys, and the signature of a request.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hmac::{Hmac, Mac};
use http::{HeaderValue, Method};
use sha2::Sha256;
use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

use super::token::{AuthorizationError, AuthorizationToken};
use crate::error::{Error, ErrorKind, Result};
use crate::resource::{RequestPath, ResourceType};
use crate::secret::Secret;

/// The token up to its signature, in the encoding it travels in.
// Percent-encoded as a whole, separators included, as every SDK sends it.
const ENCODED_PREFIX: &str = "type%3Dmaster%26ver%3D1.0%26sig%3D";

/// The base64 text of a 32-byte signature.
const SIGNATURE_LENGTH: usize = 44;

/// The key of an account.
///
/// The key schedule of the HMAC is prepared once; signing clones it.
#[derive(Clone, Debug)]
pub struct AccountKey {
    schedule: Hmac<Sha256>,
    text: Secret,
}

/// The parts of a request that its signature covers.
#[derive(Clone, Copy, Debug)]
pub struct SignedRequest<'a> {
    /// The HTTP method.
    pub method: &'a Method,
    /// The kind of resource, as [`ResourceType::signed_name`] gives it.
    pub resource_type: &'a str,
    /// The link, as [`RequestPath::signed_link`] gives it.
    pub link: &'a str,
    /// The value of the date header; case does not matter.
    pub date: &'a str,
}

impl<'a> SignedRequest<'a> {
    /// The text to sign for a kind of resource under a link that was taken from a path before.
    pub fn new(method: &'a Method, kind: ResourceType, link: &'a str, date: &'a str) -> Self {
        Self { method, resource_type: kind.signed_name(), link, date }
    }

    /// The text that is signed.
    pub fn string_to_sign(&self) -> String {
        let mut text = Vec::with_capacity(self.link.len() + self.date.len() + 32);
        self.each_piece(|piece| text.extend_from_slice(piece));
        String::from_utf8_lossy(&text).into_owned()
    }

    fn each_piece(&self, mut take: impl FnMut(&[u8])) {
        // Method, type and date are signed in lower case, the link in the case of its names. The empty line at
        // the end stands for the Date header of HTTP, which x-ms-date replaces.
        lower(self.method.as_str(), &mut take);
        take(b"\n");
        take(self.resource_type.as_bytes());
        take(b"\n");
        take(self.link.as_bytes());
        take(b"\n");
        lower(self.date, &mut take);
        take(b"\n\n");
    }
}

/// Hands over the text in lower case, a stretch at a time and without allocating.
fn lower(text: &str, take: &mut impl FnMut(&[u8])) {
    for piece in text.as_bytes().chunks(32) {
        let mut buffer = [0; 32];
        let buffer = &mut buffer[..piece.len()];
        buffer.copy_from_slice(piece);
        buffer.make_ascii_lowercase();
        take(buffer);
    }
}

impl AccountKey {
    /// Takes the key as the portal shows it: base64 text.
    pub fn from_base64(text: &str) -> Result<Self> {
        let refuse = || {
            Error::new(
                ErrorKind::Authorization,
                "the account key is not valid base64: copy it whole, with its trailing =",
            )
        };
        let bytes = STANDARD.decode(text.trim()).map(Zeroizing::new).map_err(|_| refuse())?;
        if bytes.is_empty() {
            return Err(Error::new(ErrorKind::Authorization, "the account key is empty"));
        }
        let schedule = Hmac::new_from_slice(&bytes).map_err(|_| refuse())?;
        Ok(Self { schedule, text: Secret::new(text.trim()) })
    }

    /// The key's text, for handing it on. Never log it.
    pub fn expose_secret(&self) -> &str {
        self.text.expose_secret()
    }

    /// The value of the authorization header for a request, marked as sensitive.
    pub fn authorize(&self, request: &SignedRequest<'_>) -> HeaderValue {
        let mut header = HeaderText::new();
        for group in self.hash(request).chunks(3) {
            header.push_base64(group);
        }
        let mut value = HeaderValue::from_bytes(header.as_bytes())
            .unwrap_or_else(|_| unreachable!("base64 and its encoding are visible ASCII"));
        value.set_sensitive(true);
        value
    }

    /// The token for a request, before it is encoded.
    pub fn token(&self, request: &SignedRequest<'_>) -> AuthorizationToken {
        let mut signature = [0; SIGNATURE_LENGTH];
        let signature = self.signature(request, &mut signature);
        AuthorizationToken::Key {
            signature: String::from_utf8_lossy(signature).into_owned().into(),
        }
    }

    /// Whether a signature was made for this request with this key, in constant time.
    pub fn verify(
        &self,
        request: &SignedRequest<'_>,
        signature: &Secret,
    ) -> Result<(), AuthorizationError> {
        let mut expected = [0; SIGNATURE_LENGTH];
        let expected = self.signature(request, &mut expected);
        // Constant time: how many characters of a forged signature are right must not show in the latency.
        match bool::from(expected.ct_eq(signature.expose_secret().as_bytes())) {
            true => Ok(()),
            false => Err(AuthorizationError::WrongSignature),
        }
    }

    /// Whether an access token has this key in the place of its signature, in constant time.
    ///
    /// Emulators have no Entra ID to ask: a client that can write the account's key, as base64url, into the third
    /// segment of a JSON Web Token (RFC 7519) is let in. SDKs encode the key's text, as the portal shows it;
    /// its bytes are accepted as well. Nothing of the token is decoded: what a client sends costs a comparison.
    pub fn is_in_entra_token(&self, access_token: &Secret) -> bool {
        let mut segments = access_token.expose_secret().splitn(4, '.');
        let (Some(_header), Some(_claims), Some(found), None) =
            (segments.next(), segments.next(), segments.next(), segments.next())
        else {
            return false;
        };
        // RFC 7515 leaves the padding out; not every client does.
        let found = found.trim_end_matches('=').as_bytes();
        let text = self.text.expose_secret();
        let of_text = Zeroizing::new(URL_SAFE_NO_PAD.encode(text));
        // The two alphabets of base64 differ in two characters (RFC 4648, section 5).
        let of_bytes = text.trim_end_matches('=').replace('+', "-").replace('/', "_");
        let of_bytes = Zeroizing::new(of_bytes);
        bool::from(of_text.as_bytes().ct_eq(found) | of_bytes.as_bytes().ct_eq(found))
    }

    fn signature<'b>(
        &self,
        request: &SignedRequest<'_>,
        buffer: &'b mut [u8; SIGNATURE_LENGTH],
    ) -> &'b [u8] {
        let written = STANDARD
            .encode_slice(self.hash(request), buffer)
            .unwrap_or_else(|_| unreachable!("32 bytes are 44 characters of base64"));
        &buffer[..written]
    }

    fn hash(&self, request: &SignedRequest<'_>) -> [u8; 32] {
        // The key is hashed into the schedule once; a clone of 200 bytes replaces two SHA-256 blocks.
        let mut mac = self.schedule.clone();
        request.each_piece(|piece| mac.update(piece));
        mac.finalize().into_bytes().into()
    }
}

/// The text of an authorization header while it is written: base64, percent-encoded in the same pass. On the stack, so
/// that the header is allocated once and to its length.
struct HeaderText {
    bytes: [u8; LONGEST_HEADER],
    length: usize,
}

/// Every character of the signature percent-encoded, which never happens.
const LONGEST_HEADER: usize = ENCODED_PREFIX.len() + 3 * SIGNATURE_LENGTH;

/// RFC 4648, section 4.
const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

impl HeaderText {
    fn new() -> Self {
        let mut text = Self { bytes: [0; LONGEST_HEADER], length: 0 };
        text.push(ENCODED_PREFIX.as_bytes());
        text
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn push(&mut self, text: &[u8]) {
        self.bytes[self.length..self.length + text.len()].copy_from_slice(text);
        self.length += text.len();
    }

    /// Adds one to three bytes as four characters.
    fn push_base64(&mut self, group: &[u8]) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or_default());
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        let sextets = [bits >> 18, bits >> 12 & 0x3f, bits >> 6 & 0x3f, bits & 0x3f];
        // The usual case, in one piece: a whole group without the two characters that are not letters or digits.
        if group.len() == 3 && sextets.iter().all(|it| *it < 62) {
            return self.push(&sextets.map(|it| BASE64[it as usize & 0x3f]));
        }
        for (at, sextet) in sextets.into_iter().enumerate() {
            match BASE64[sextet as usize & 0x3f] {
                _ if at > group.len() => self.push(b"%3D"),
                b'+' => self.push(b"%2B"),
                b'/' => self.push(b"%2F"),
                plain => self.push(&[plain]),
            }
        }
    }
}

/// Two keys are equal if their texts are, compared in constant time.
impl PartialEq for AccountKey {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for AccountKey {}

impl RequestPath {
    /// The text to sign for a request of this path; `link` is its [`signed_link`](Self::signed_link).
    pub fn signed<'a>(
        &self,
        method: &'a Method,
        link: &'a str,
        date: &'a str,
    ) -> SignedRequest<'a> {
        SignedRequest::new(method, self.kind(), link, date)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the service's documentation of access control.
    fn documented() -> (AccountKey, SignedRequest<'static>) {
        let key = AccountKey::from_base64(
            "dsZQi3KtZmCv1ljt3VNWNm7sQUF1y5rJfC6kv5JiwvW0EndXdDku/dkKBp8/ufDToSxLzR4y+O/0H/t4bQtVNw==",
        );
        let request = SignedRequest::new(
            &Method::GET,
            ResourceType::Database,
            "dbs/ToDoList",
            "Thu, 27 Apr 2017 00:51:12 GMT",
        );
        (key.unwrap(), request)
    }

    #[test]
    fn the_documented_request_has_the_documented_signature() {
        let (key, request) = documented();
        assert_eq!(
            request.string_to_sign(),
            "get\ndbs\ndbs/ToDoList\nthu, 27 apr 2017 00:51:12 gmt\n\n"
        );
        assert_eq!(
            key.authorize(&request),
            "type%3Dmaster%26ver%3D1.0%26sig%3Dc09PEVJrgp2uQRkr934kFbTqhByc7TVr3OHyqlu%2Bc%2Bc%3D"
        );
        assert!(key.authorize(&request).is_sensitive());
    }

    /// Signatures with every character of base64 among them.
    #[test]
    fn a_header_is_the_token_percent_encoded() {
        let (key, request) = documented();
        for number in 0..200 {
            let link = format!("dbs/{number}");
            let request = SignedRequest { link: &link, ..request };
            let token = key.token(&request).header_value().unwrap();
            assert_eq!(key.authorize(&request), token);
        }
    }

    #[test]
    fn a_signature_holds_for_its_request_alone() {
        let (key, request) = documented();
        let AuthorizationToken::Key { signature } = key.token(&request) else {
            panic!("a key makes key tokens")
        };
        assert_eq!(key.verify(&request, &signature), Ok(()));
        let other = SignedRequest { link: "dbs/todolist", ..request };
        assert_eq!(key.verify(&other, &signature), Err(AuthorizationError::WrongSignature));
        assert!(key.verify(&request, &Secret::default()).is_err());
        assert!(key.verify(&request, &Secret::new(&signature.expose_secret()[1..])).is_err());
    }

    #[test]
    fn an_entra_token_is_known_by_the_key_in_its_third_segment() {
        let (key, _) = documented();
        let text = URL_SAFE_NO_PAD.encode(key.expose_secret());
        let bytes = URL_SAFE_NO_PAD.encode(STANDARD.decode(key.expose_secret()).unwrap());
        for signature in [text.clone(), bytes, format!("{text}==")] {
            let token = Secret::new(format!("e30.e30.{signature}"));
            assert!(key.is_in_entra_token(&token), "{signature}");
        }
        let huge = "A".repeat(1 << 20);
        let wrong = [
            String::new(),
            text.clone(),
            format!("e30.{text}"),
            format!("e30.e30.{text}.e30"),
            format!("e30.e30.{}", &text[1..]),
            format!("e30.e30.{text}A"),
            "e30.e30.".to_owned(),
            format!("e30.e30.{huge}"),
        ];
        for token in wrong {
            assert!(!key.is_in_entra_token(&Secret::new(token)));
        }
    }

    #[test]
    fn a_key_is_never_shown() {
        let (key, request) = documented();
        let shown = format!("{key:?} {:?} {:?}", key.authorize(&request), key.token(&request));
        assert!(!shown.contains("dsZQ") && !shown.contains("c09PEV"), "{shown}");
    }

    #[test]
    fn what_is_not_a_key_is_refused_without_repeating_it() {
        for bad in ["", "secret!", "c2VjcmV0c2VjcmV0="] {
            let error = AccountKey::from_base64(bad).unwrap_err();
            assert!(bad.is_empty() || !error.to_string().contains(bad), "{error}");
        }
    }
}

//! The service's binary form of JSON: a first byte that no text has, then one value.
//!
//! Every value begins with a marker that says what it is and how long ([`markers`]). Integers are little-endian.
//! Strings come in many forms: as UTF-8, as an index into a fixed dictionary, as a reference to an earlier string,
//! and packed, where their characters are few (hexadecimal digits, dates, base64).
//!
//! [`decode`](decode_binary_json) reads every form that a peer may send; what has no JSON value is refused, and what
//! would grow out of proportion too. [`encode`](encode_binary_json) writes the plain forms alone, which every reader
//! has to know.

mod decode;
mod encode;
mod markers;
mod strings;

pub use decode::decode_binary_json;
pub use encode::encode_binary_json;

/// Whether a body is in the binary form: no JSON text begins with its first byte.
pub fn is_binary_json(body: &[u8]) -> bool {
    body.first() == Some(&markers::PREAMBLE)
}

//! Authorization: what is signed, by which key, and how the token travels.
//!
//! Both sides are here, because both must agree to the byte: a client signs with an
//! [`AccountKey`], a server checks with the same. No secret appears in `Debug` or `Display`.

mod key;
mod token;

pub use key::{AccountKey, SignedRequest};
pub use token::{AuthorizationError, AuthorizationToken, DATE_WINDOW, check_date};

/// The scope to ask Entra ID for.
pub const ENTRA_SCOPE: &str = "https://cosmos.azure.com/.default";

//! Text that must not leak: account keys, tokens, passwords.
//!
//! `Debug` and `Display` print [`REDACTED`](Secret::REDACTED), so a struct that holds secrets derives
//! `Debug` like any other. The memory is zeroed on drop (`zeroize`), which covers the stored text;
//! a header built from it is only marked sensitive, because `http` owns that memory.

use std::fmt;

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Secret text: redacted in output, zeroed on drop, compared in constant time.
#[derive(Clone, Default)]
pub struct Secret(Zeroizing<String>);

impl Secret {
    /// The text that replaces a secret in output.
    pub const REDACTED: &'static str = "[REDACTED]";

    /// Takes ownership of the text. What the caller copied before stays the caller's to erase.
    pub fn new(text: impl Into<String>) -> Self {
        Self(Zeroizing::new(text.into()))
    }

    /// The text itself. Never log it.
    pub fn expose_secret(&self) -> &str {
        &self.0
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text)
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

/// Takes constant time for texts of one length; the length itself is no secret.
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_bytes().ct_eq(other.0.as_bytes()).into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::REDACTED)
    }
}

impl fmt::Display for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::REDACTED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_redacted_in_debug_and_display() {
        let secret = Secret::new("hunter2");
        assert_eq!(format!("{secret} {secret:?}"), "[REDACTED] [REDACTED]");
        assert_eq!(secret.expose_secret(), "hunter2");
    }

    #[test]
    fn a_struct_that_holds_a_secret_can_derive_debug() {
        #[derive(Debug)]
        #[expect(dead_code, reason = "only Debug reads the fields")]
        struct Login {
            user: &'static str,
            password: Secret,
        }
        let login = Login { user: "me", password: "hunter2".into() };
        assert_eq!(format!("{login:?}"), r#"Login { user: "me", password: [REDACTED] }"#);
    }

    #[test]
    fn secrets_are_equal_if_their_texts_are() {
        assert_eq!(Secret::new("a"), Secret::new("a"));
        assert_ne!(Secret::new("a"), Secret::new("b"));
        assert_ne!(Secret::new("a"), Secret::new("ab"));
    }
}

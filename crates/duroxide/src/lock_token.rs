//! Lock tokens: they say where the lock is, so that nothing has to be looked up by them. Whether a token still
//! holds its lock is for the document to say.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// The lock of an instance, or of an activity that waits for a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LockToken {
    pub(crate) instance: String,
    /// The document of the activity; none for the instance's own lock.
    pub(crate) worker_item: Option<String>,
    /// A unique text.
    pub(crate) nonce: String,
}

/// A text that is no token of this provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InvalidToken;

const INSTANCE: &str = "o1";
const WORKER_ITEM: &str = "w1";

impl fmt::Display for LockToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let instance = URL_SAFE_NO_PAD.encode(&self.instance);
        match &self.worker_item {
            None => write!(formatter, "{INSTANCE}.{instance}.{}", self.nonce),
            Some(id) => {
                let id = URL_SAFE_NO_PAD.encode(id);
                write!(formatter, "{WORKER_ITEM}.{instance}.{id}.{}", self.nonce)
            }
        }
    }
}

impl FromStr for LockToken {
    type Err = InvalidToken;

    fn from_str(text: &str) -> Result<Self, InvalidToken> {
        let decode = |part: &str| {
            let bytes = URL_SAFE_NO_PAD.decode(part).map_err(|_| InvalidToken)?;
            String::from_utf8(bytes).map_err(|_| InvalidToken)
        };
        let parts: Vec<&str> = text.split('.').collect();
        let (instance, worker_item, nonce) = match parts.as_slice() {
            [INSTANCE, instance, nonce] => (decode(instance)?, None, nonce),
            [WORKER_ITEM, instance, id, nonce] => (decode(instance)?, Some(decode(id)?), nonce),
            _ => return Err(InvalidToken),
        };
        Ok(Self { instance, worker_item, nonce: (*nonce).to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_token_says_where_its_lock_is(instance: String, worker_item: Option<String>) {
            let token = LockToken { instance, worker_item, nonce: "1f".to_owned() };
            prop_assert_eq!(token.to_string().parse(), Ok(token));
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = text.parse::<LockToken>();
        }
    }

    #[test]
    fn what_is_no_token_is_refused() {
        for text in ["", "invalid-token", "o1", "o1.?.x", "w1.aa.bb", "o1.YQ.n.more"] {
            assert_eq!(text.parse::<LockToken>(), Err(InvalidToken), "{text}");
        }
    }
}

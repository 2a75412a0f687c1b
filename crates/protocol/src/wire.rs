//! Helpers for values on the wire: closed lists of words, serde through text, nulls.

/// Declares an enum whose variants travel as fixed words, read in any case.
///
/// The words are listed in the order an error message should offer them.
macro_rules! wire_enum {
    (
        $(#[$meta:meta])*
        pub enum $name:ident: $what:literal {
            $( $(#[$variant_meta:meta])* $variant:ident = $word:literal, )+
        }
    ) => {
        $(#[$meta])*
        pub enum $name {
            $( $(#[$variant_meta])* $variant, )+
        }

        impl $name {
            /// Every variant, in the order the documentation lists them.
            pub const ALL: &'static [Self] = &[$( Self::$variant, )+];

            /// The word that goes on the wire.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $( Self::$variant => $word, )+
                }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::error::Error;

            fn from_str(text: &str) -> $crate::error::Result<Self> {
                let found = Self::ALL.iter().find(|v| v.as_str().eq_ignore_ascii_case(text.trim()));
                found.copied().ok_or_else(|| {
                    $crate::wire::unknown_word($what, text, &[$( $word ),+])
                })
            }
        }

        $crate::wire::serde_as_text!($name);
    };
}

/// Reads a value with `FromStr` and writes it with `Display`.
macro_rules! serde_as_text {
    ($name:ty) => {
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

pub(crate) use {serde_as_text, wire_enum};

use serde::Deserialize as _;

use crate::error::{Error, ErrorKind, excerpt};

/// The refusal of a word that is not in the list.
pub(crate) fn unknown_word(what: &str, found: &str, expected: &[&str]) -> Error {
    let expected = expected.join(", ");
    let found = excerpt(found);
    Error::new(
        ErrorKind::UnknownName,
        format!("\"{found}\" is not a {what}: expected one of {expected}"),
    )
}

/// Reads a value of another type than is known here as the default, and `null` too: one odd field must not cost the
/// rest of a resource.
pub(crate) fn readable_or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::de::DeserializeOwned + Default,
{
    let value = serde_json::Value::deserialize(deserializer)?;
    Ok(serde_json::from_value(value).unwrap_or_default())
}

/// Reads a list element by element, and leaves out those that cannot be read.
pub(crate) fn readable_elements<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::de::DeserializeOwned,
{
    let values: Vec<serde_json::Value> = readable_or_default(deserializer)?;
    Ok(values.into_iter().filter_map(|value| serde_json::from_value(value).ok()).collect())
}

/// Reads `null` as the default: services differ in whether they write it or leave the field out.
pub(crate) fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

//! The error of opening a provider.

use std::fmt;

/// A provider could not be opened: `Display` says what is wrong and what to do.
#[derive(Debug)]
pub struct ProviderSetupError {
    message: String,
    source: Option<sidereal::Error>,
}

impl ProviderSetupError {
    /// A setting is missing or wrong.
    pub(crate) fn configuration(message: String) -> Self {
        Self { message, source: None }
    }

    /// The credential was refused.
    pub(crate) fn refused(message: String, error: sidereal::Error) -> Self {
        Self { message, source: Some(error) }
    }

    /// The account or the container cannot be used as it is.
    pub(crate) fn mismatch(message: String) -> Self {
        Self { message, source: None }
    }
}

impl From<sidereal::Error> for ProviderSetupError {
    fn from(error: sidereal::Error) -> Self {
        Self { message: error.to_string(), source: Some(error) }
    }
}

impl fmt::Display for ProviderSetupError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.message)
    }
}

impl std::error::Error for ProviderSetupError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().and_then(std::error::Error::source)
    }
}

//! Credentials that authorize requests.

use std::fmt;

use sidereal_driver::transport::Credential;
use sidereal_protocol::AccountKey;

use crate::{Error, Result};

/// A credential that authorizes requests. It is redacted in `Debug` and in errors.
///
/// ```
/// use sidereal::CosmosCredential;
///
/// let by_key = CosmosCredential::key("c2VjcmV0")?;
/// let by_resource_token = CosmosCredential::resource_token("type=resource&ver=1&sig=c2lnbmF0dXJl")?;
/// # Ok::<(), sidereal::Error>(())
/// ```
#[derive(Clone)]
pub struct CosmosCredential(pub(crate) Credential);

impl CosmosCredential {
    /// The account's key, as the portal shows it: every request is signed with it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest) if the key is not base64.
    pub fn key(key: &str) -> Result<Self> {
        Ok(AccountKey::from_base64(key)?.into())
    }

    /// A resource token, as the service gave it: access to what one user may use.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest) if the token has characters that a header cannot have.
    pub fn resource_token(token: &str) -> Result<Self> {
        Credential::resource_token(token).map(Self).map_err(Error::from)
    }

    /// A credential of Entra ID from the Azure SDK, such as `DefaultAzureCredential`.
    #[cfg(feature = "entra")]
    #[must_use]
    pub fn entra(credential: std::sync::Arc<dyn azure_core::credentials::TokenCredential>) -> Self {
        Self(Credential::entra(credential))
    }
}

impl From<AccountKey> for CosmosCredential {
    fn from(key: AccountKey) -> Self {
        Self(Credential::Key(key))
    }
}

impl From<Credential> for CosmosCredential {
    fn from(credential: Credential) -> Self {
        Self(credential)
    }
}

#[cfg(feature = "entra")]
impl From<std::sync::Arc<dyn azure_core::credentials::TokenCredential>> for CosmosCredential {
    fn from(credential: std::sync::Arc<dyn azure_core::credentials::TokenCredential>) -> Self {
        Self::entra(credential)
    }
}

impl fmt::Debug for CosmosCredential {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.0 {
            Credential::Key(_) => "key",
            Credential::Entra(_) => "Entra ID",
            Credential::Resource(_) => "resource token",
        };
        write!(formatter, "CosmosCredential({kind})")
    }
}

//! Accounts that are found without being named in the program: the local emulator, and the environment's.

use std::ffi::OsString;
use std::path::PathBuf;

use sidereal_driver::options::CosmosClientOptions;

use super::client_builder::read;
use super::{CosmosClient, CosmosClientBuilder};
use crate::{CosmosCredential, Error, Result};

/// Where the command's emulator, like every other, listens.
const ENDPOINT: &str = "https://localhost:8081/";

/// The key of every Cosmos DB emulator; published, so no secret.
const KEY: &str =
    "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==";

const CERTIFICATE: &str = "SIDEREAL_EMULATOR_CERTIFICATE";

impl CosmosClient {
    /// The client of the account that the environment names: `AZURE_COSMOS_CONNECTION_STRING`, or
    /// `AZURE_COSMOS_ENDPOINT` with `AZURE_COSMOS_KEY`.
    ///
    /// ```no_run
    /// # async fn example() -> sidereal::Result<()> {
    /// let client = sidereal::CosmosClient::from_env(None)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest) if a variable is missing or invalid, and the errors of
    /// [`new`](Self::new).
    pub fn from_env(options: Option<CosmosClientOptions>) -> Result<Self> {
        from_variables(|name| std::env::var(name).ok(), options)
    }

    /// The client of the local account, as `sidereal emulator` starts it: `https://localhost:8081/`, with the
    /// key that every Cosmos DB emulator has.
    ///
    /// The emulator's certificate is trusted for addresses of this machine, by this client alone. It is read
    /// from the file that `SIDEREAL_EMULATOR_CERTIFICATE` names, else from where the command keeps it.
    ///
    /// ```no_run
    /// # async fn example() -> sidereal::Result<()> {
    /// let client = sidereal::CosmosClient::emulator()?;
    /// client.create_database_if_not_exists("store", None).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest) if the certificate cannot be read, and the errors of
    /// [`new`](Self::new).
    pub fn emulator() -> Result<Self> {
        builder(|name| std::env::var_os(name))?.build()
    }
}

/// A client of the local account, with the emulator's certificate.
fn builder(variable: impl Fn(&str) -> Option<OsString>) -> Result<CosmosClientBuilder> {
    let path = certificate_path(variable).ok_or_else(|| {
        Error::invalid(format!(
            "the emulator's certificate cannot be located, since HOME is not set: name its file in {CERTIFICATE}"
        ))
    })?;
    let pem = read(&path).map_err(|error| {
        Error::invalid(format!(
            "{error}; start the emulator with `sidereal emulator`, or name its certificate in {CERTIFICATE}"
        ))
    })?;
    let builder = CosmosClient::builder(ENDPOINT, CosmosCredential::key(KEY)?);
    builder.trust_pem_on_loopback(&pem)
}

/// The file that the environment names, else the one that the command writes.
fn certificate_path(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // An empty variable counts as unset (XDG Base Directory Specification).
    let path = |name| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let state = path("XDG_STATE_HOME")
        .or_else(|| path("HOME").map(|home| home.join(".local").join("state")))
        // Windows sets neither of the two.
        .or_else(|| path("LOCALAPPDATA"));
    path(CERTIFICATE).or_else(|| Some(state?.join("sidereal").join("certificate.pem")))
}

/// The account that variables name.
fn from_variables(
    variable: impl Fn(&str) -> Option<String>,
    options: Option<CosmosClientOptions>,
) -> Result<CosmosClient> {
    let set = |name| variable(name).filter(|value| !value.is_empty());
    if let Some(text) = set("AZURE_COSMOS_CONNECTION_STRING") {
        return CosmosClient::from_connection_string(&text, options);
    }
    match (set("AZURE_COSMOS_ENDPOINT"), set("AZURE_COSMOS_KEY")) {
        (Some(endpoint), Some(key)) => {
            CosmosClient::new(endpoint, CosmosCredential::key(&key)?, options)
        }
        (endpoint, _) => {
            let missing =
                if endpoint.is_some() { "AZURE_COSMOS_KEY" } else { "AZURE_COSMOS_ENDPOINT" };
            Err(Error::invalid(format!(
                "{missing} is not set: set AZURE_COSMOS_ENDPOINT and AZURE_COSMOS_KEY, \
                 or AZURE_COSMOS_CONNECTION_STRING"
            )))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(set: &[(&str, &str)]) -> impl Fn(&str) -> Option<String> {
        let set: Vec<_> =
            set.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        move |name| set.iter().find(|(it, _)| it == name).map(|(_, value)| value.clone())
    }

    fn path(set: &[(&str, &str)]) -> Option<String> {
        let variable = variables(set);
        certificate_path(|name| variable(name).map(OsString::from))
            .map(|path| path.to_string_lossy().into_owned())
    }

    #[test]
    fn the_certificate_path_is_the_environment_s_or_the_command_s_default() {
        let state = ("XDG_STATE_HOME", "/state");
        assert_eq!(path(&[(CERTIFICATE, "/c.pem"), state]).as_deref(), Some("/c.pem"));
        assert_eq!(path(&[state]).as_deref(), Some("/state/sidereal/certificate.pem"));
        assert_eq!(
            path(&[(CERTIFICATE, ""), state]).as_deref(),
            Some("/state/sidereal/certificate.pem")
        );
        let home = path(&[("HOME", "/home/me")]);
        assert_eq!(home.as_deref(), Some("/home/me/.local/state/sidereal/certificate.pem"));
        assert_eq!(path(&[]), None);
    }

    #[test]
    fn a_certificate_that_is_not_there_is_an_error_that_says_what_to_do() {
        let nowhere = variables(&[(CERTIFICATE, "/nowhere.pem")]);
        let error = builder(|name| nowhere(name).map(OsString::from)).unwrap_err();
        for word in ["/nowhere.pem", "sidereal emulator", CERTIFICATE] {
            assert!(error.to_string().contains(word), "{error}");
        }
        let error = builder(|_| None).unwrap_err();
        assert!(error.to_string().contains(CERTIFICATE), "{error}");
    }

    #[tokio::test]
    async fn an_account_is_found_by_its_connection_string_or_by_endpoint_and_key() {
        let endpoint = ("AZURE_COSMOS_ENDPOINT", "https://localhost:1/");
        let key = ("AZURE_COSMOS_KEY", "c2VjcmV0");
        let both = "AccountEndpoint=https://localhost:1/;AccountKey=c2VjcmV0;";
        assert!(from_variables(variables(&[endpoint, key]), None).is_ok());
        let text = ("AZURE_COSMOS_CONNECTION_STRING", both);
        assert!(from_variables(variables(&[text]), None).is_ok());
        for (set, missing) in [
            (vec![], "AZURE_COSMOS_ENDPOINT is not set"),
            (vec![endpoint], "AZURE_COSMOS_KEY is not set"),
            (vec![("AZURE_COSMOS_ENDPOINT", ""), key], "AZURE_COSMOS_ENDPOINT is not set"),
        ] {
            let error = from_variables(variables(&set), None).unwrap_err();
            assert!(error.to_string().starts_with(missing), "{error}");
        }
    }
}

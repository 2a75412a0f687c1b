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

/// A client of the local account, with the emulator's certificate.
pub(super) fn builder(variable: impl Fn(&str) -> Option<OsString>) -> Result<CosmosClientBuilder> {
    let path = certificate_path(variable).ok_or_else(|| {
        Error::invalid(format!(
            "the emulator's certificate is nowhere to be looked for: name its file in {CERTIFICATE}"
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
pub(super) fn from_variables(
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

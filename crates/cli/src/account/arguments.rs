//! The flags that name an account, and the client that comes of them.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use sidereal::options::CosmosClientOptions;
use sidereal::{CosmosClient, CosmosCredential};
use sidereal_emulator::AccountOptions;
use sidereal_protocol::Secret;

use super::selection::{self, KeySource, Selection, Wanted};
use crate::failure::{ExitStatus, Failure};
use crate::state;
use crate::values::duration;

/// No key file is longer; a larger one is something else.
const MAX_KEY_FILE_BYTES: u64 = 4096;

#[derive(Args, Debug)]
#[command(next_help_heading = "Account")]
pub(crate) struct AccountArguments {
    /// Endpoint of the account [env: COSMOSDB_ENDPOINT] [default: the emulator on this machine].
    #[arg(long, global = true, value_name = "URL")]
    endpoint: Option<String>,

    /// File that holds the account's key [env: COSMOSDB_KEY, or COSMOSDB_CONNECTION_STRING for both].
    ///
    /// Without a key an emulator on this machine gets the published one; for other accounts it is asked for at
    /// the terminal.
    #[arg(long, global = true, value_name = "FILE")]
    key_file: Option<PathBuf>,

    /// Use the emulator on this machine, whatever the environment says.
    #[arg(long, global = true, conflicts_with = "endpoint")]
    emulator: bool,

    /// File with certificates to trust beside the system's, as PEM.
    #[arg(long, global = true, value_name = "FILE")]
    trust: Option<PathBuf>,

    /// Accept any TLS certificate of an emulator; those of the service are always verified.
    #[arg(long, global = true)]
    accept_invalid_certs: bool,

    /// Longest that one operation may take, with all its retries.
    #[arg(long, global = true, value_name = "TIME", default_value = "1m", value_parser = duration)]
    timeout: Duration,
}

impl AccountArguments {
    /// Whether a flag names the account.
    pub(crate) fn is_named(&self) -> bool {
        self.endpoint.is_some() || self.emulator
    }

    /// The client of the account. Nothing is sent yet. To be called within a tokio runtime.
    pub(crate) fn connect(&self) -> Result<CosmosClient, Failure> {
        let wanted = Wanted {
            emulator: self.emulator,
            endpoint: self.endpoint.clone(),
            key_file: self.key_file.clone(),
        };
        let Selection { endpoint, key } = selection::select(&wanted, |name| env::var(name).ok())?;
        let credential = credential(&key, &endpoint)?;
        let mut builder =
            CosmosClient::builder(&endpoint, credential).options(self.options(&endpoint)?);
        if let Some(path) = &self.trust {
            builder = builder.trust_pem_file(path)?;
        }
        if endpoint.starts_with("https:") && selection::is_local(&endpoint) {
            // Without the file the emulator has a certificate that the system trusts, or none of ours.
            if let Some(pem) = state::certificate_path().and_then(|path| fs::read(path).ok()) {
                builder = builder.trust_pem_on_loopback(&pem)?;
            }
        }
        let client = builder.build().map_err(Failure::from);
        client.map_err(|failure| failure.with_hint(selection::ENDPOINT_HINT))
    }

    fn options(&self, endpoint: &str) -> Result<CosmosClientOptions, Failure> {
        let mut options = CosmosClientOptions::default();
        options.availability.end_to_end_timeout = Some(self.timeout);
        if self.accept_invalid_certs {
            if selection::is_service(endpoint) {
                let sentence = format!(
                    "--accept-invalid-certs is for emulators, and {endpoint} is not an emulator"
                );
                return Err(Failure::new(ExitStatus::Usage, sentence)
                    .with_hint("trust a proxy's root with --trust FILE"));
            }
            options.client_options.accept_invalid_certs = Some(true);
            options.client_options.emulator_hosts =
                selection::host(endpoint).map(|host| BTreeSet::from([host]));
        }
        Ok(options)
    }
}

fn credential(source: &KeySource, endpoint: &str) -> Result<CosmosCredential, Failure> {
    let (key, from) = match source {
        KeySource::Published => return Ok(AccountOptions::default().key.into()),
        KeySource::Given(key) => (key.clone(), "COSMOSDB_KEY".to_owned()),
        KeySource::File(path) => (read_key(path)?, path.display().to_string()),
        KeySource::Prompt => (prompt(endpoint)?, "the key".to_owned()),
    };
    CosmosCredential::key(key.expose_secret()).map_err(|error| {
        Failure::new(ExitStatus::InvalidInput, format!("{from}: {error}"))
            .with_hint("the key is the base64 text that the portal shows as the primary key")
    })
}

/// Reads a key from a file, without the line feed that editors end it with.
pub(crate) fn read_key(path: &Path) -> Result<Secret, Failure> {
    let unreadable = |error| Failure::file(path, "read", error);
    let length = fs::metadata(path).map_err(unreadable)?.len();
    if length > MAX_KEY_FILE_BYTES {
        let sentence = format!("{} is {length} bytes long, which no key is", path.display());
        return Err(Failure::new(ExitStatus::InvalidInput, sentence)
            .with_hint("--key-file names a file with the key and nothing else"));
    }
    let text = fs::read_to_string(path).map_err(unreadable)?;
    Ok(Secret::from(text.trim()))
}

/// Asks for the key where somebody is there to give it. What is typed is not shown.
fn prompt(endpoint: &str) -> Result<Secret, Failure> {
    if !io::stdin().is_terminal() {
        return Err(Failure::new(
            ExitStatus::Unauthorized,
            format!("there is no key for {endpoint}"),
        )
        .with_hint("set COSMOSDB_KEY, or name a file that holds it with --key-file"));
    }
    let typed = rpassword::prompt_password(format!("Key of {endpoint}: "));
    typed.map(|key| Secret::from(key.trim())).map_err(Failure::system)
}

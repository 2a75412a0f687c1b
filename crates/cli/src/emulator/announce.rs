//! The ready message of `sidereal emulator`: a line of JSON for programs, a short page for people.

use std::path::Path;

use serde_json::{Value, json};
use sidereal_emulator::Emulator;
use sidereal_protocol::RegionName;

use super::EmulatorArguments;
use crate::output::{self, OutputError};

/// Prints where the emulator is and how to connect to it.
pub(crate) fn print(emulator: &Emulator, arguments: &EmulatorArguments) -> Result<(), OutputError> {
    let text = match arguments.json {
        true => format!("{}\n", facts(emulator)),
        false => page(emulator, arguments.data_dir.as_deref()),
    };
    output::print(&text)
}

fn facts(emulator: &Emulator) -> Value {
    let region = |(name, endpoint): (RegionName, String)| json!({ "name": name.as_str(), "endpoint": endpoint });
    let regions: Vec<Value> = emulator.regions().into_iter().map(region).collect();
    json!({
        "endpoint": emulator.endpoint(),
        "http_endpoint": emulator.http_endpoint(),
        "key": emulator.key().expose_secret(),
        "connection_string": emulator.connection_string(),
        "certificate": certificate(emulator),
        "regions": regions,
    })
}

fn certificate(emulator: &Emulator) -> Option<String> {
    emulator.certificate_path().map(|path| path.display().to_string())
}

fn page(emulator: &Emulator, data_directory: Option<&Path>) -> String {
    let place = match data_directory {
        None => "it lives in memory and ends with this command (Ctrl-C).".to_owned(),
        Some(path) => {
            format!(
                "it is kept in {} and is there again next time (Ctrl-C stops it).",
                path.display()
            )
        }
    };
    format!(
        "\
The account is ready; {place}

  Endpoint           {endpoint}
  Without TLS        {http_endpoint}
  Key                {key}
  Connection string  {connection_string}
  Certificate        {certificate}
{regions}
Connect with any Cosmos DB SDK, for example in Python:

  from azure.cosmos import CosmosClient
  client = CosmosClient(\"{http_endpoint}\", \"{key}\")

A client that talks TLS has to trust the certificate above (Node: NODE_EXTRA_CA_CERTS={certificate}).
",
        endpoint = emulator.endpoint(),
        http_endpoint = emulator.http_endpoint(),
        key = emulator.key().expose_secret(),
        connection_string = emulator.connection_string(),
        certificate = certificate(emulator).unwrap_or_default(),
        regions = regions(emulator),
    )
}

/// A line per region; the first accepts writes.
fn regions(emulator: &Emulator) -> String {
    let line = |(index, (name, endpoint)): (usize, (RegionName, String))| {
        let label = if index == 0 { "Regions" } else { "" };
        format!("  {label:<17}  {name}  {endpoint}\n")
    };
    emulator.regions().into_iter().enumerate().map(line).collect()
}

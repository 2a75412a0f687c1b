//! The command line: clap makes its help from the doc comments here.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use sidereal_emulator::AdvertisedHost;
use sidereal_protocol::{ConsistencyLevel, RegionName, Secret};

use crate::chaos::ChaosArguments;

/// The port that SDKs expect an emulator on.
const DEFAULT_PORT: u16 = 8081;

/// Azure Cosmos DB on this machine.
#[derive(Debug, Parser)]
#[command(name = "sidereal", version, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run a Cosmos DB account that any SDK can talk to.
    ///
    /// The account lives in memory, or in a directory (--data-dir), and answers on one port, with TLS (https) and
    /// without (http). Point your application at the endpoint that is printed; Ctrl-C stops it.
    Emulator(EmulatorArguments),
    /// Inject faults into a running emulator: regions, replication, partitions, requests; read its counters.
    Chaos(ChaosArguments),
}

#[derive(Args, Debug)]
pub(crate) struct EmulatorArguments {
    /// Port to listen on; 0 takes any that is free.
    #[arg(long, default_value_t = DEFAULT_PORT)]
    pub(crate) port: u16,

    /// Address to listen on; 0.0.0.0 lets other machines in.
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub(crate) address: IpAddr,

    /// Physical partitions of every new container [default: one for each 6,000 RU/s begun].
    #[arg(long, value_name = "N")]
    pub(crate) partitions: Option<u32>,

    /// Regions of the account, each on a port of its own; the first accepts writes.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "South Central US")]
    pub(crate) regions: Vec<RegionName>,

    /// Ports of the regions, in their order, where there are several [default: any that are free].
    #[arg(long, value_name = "PORTS", value_delimiter = ',')]
    pub(crate) region_ports: Vec<u16>,

    /// Host under which clients are told to reach the account [default: the one that a client used].
    ///
    /// For an emulator in a container or on another machine. The TLS certificate is made out to it too.
    #[arg(long, value_name = "HOST")]
    pub(crate) advertise: Option<AdvertisedHost>,

    /// Let every region accept writes.
    #[arg(long)]
    pub(crate) multi_write: bool,

    /// How far the other regions are behind the one that writes, such as 20ms or 2s.
    #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = duration)]
    pub(crate) replication_delay: Duration,

    /// Tell clients to move the writes of a failing partition by themselves.
    #[arg(long)]
    pub(crate) partition_failover: bool,

    /// Tell clients not to hedge across regions.
    #[arg(long)]
    pub(crate) suppress_hedging: bool,

    /// List thin-client locations to clients that ask for them; nothing speaks there yet.
    #[arg(long)]
    pub(crate) thin_client: bool,

    /// Consistency of the account: Strong, BoundedStaleness, Session, ConsistentPrefix or Eventual.
    #[arg(long, value_name = "LEVEL", default_value_t = ConsistencyLevel::Session)]
    pub(crate) consistency: ConsistencyLevel,

    /// Key of the account, base64 [default: the key that the published emulator has].
    // Decoded later: clap's message about a malformed value would repeat it.
    #[arg(long, value_parser = secret)]
    pub(crate) key: Option<Secret>,

    /// Accept any Entra token, from anywhere.
    ///
    /// Otherwise a token has to come from this machine, with the base64url of the account key as its third
    /// segment.
    #[arg(long)]
    pub(crate) entra_any: bool,

    /// Answer 429 to requests beyond a container's provisioned throughput.
    #[arg(long)]
    pub(crate) enforce_throughput: bool,

    /// Directory that keeps the account from one run to the next [default: it lives in memory].
    ///
    /// A write is answered once it is on disk. Regions are those that the account began with.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) data_dir: Option<PathBuf>,

    /// Directory that keeps the TLS certificate [default: sidereal in the user's state directory].
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) certificate_dir: Option<PathBuf>,

    /// Print one line of JSON instead: endpoint, key, connection_string, certificate, regions.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Takes any text: nothing about a secret may end up in a message.
pub(crate) fn secret(text: &str) -> Result<Secret, Infallible> {
    Ok(Secret::from(text))
}

pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| "expected a time such as 20ms or 2s".to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_declaration_of_the_arguments_holds_together() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_key_is_not_printed_with_the_arguments() {
        for command in [&["emulator"][..], &["chaos", "regions"]] {
            let line = [&["sidereal"], command, &["--key", "c2VjcmV0"]].concat();
            let printed = format!("{:?}", Arguments::try_parse_from(line).unwrap());
            assert!(printed.contains("[REDACTED]") && !printed.contains("c2VjcmV0"), "{printed}");
        }
    }

    /// The list behind a word, in the JSON form that Dockerfile and compose.yaml share.
    fn list(file: &str, word: &str) -> Vec<String> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file);
        let text = fs::read_to_string(path).unwrap();
        let line = text.lines().find_map(|line| line.trim().strip_prefix(word));
        serde_json::from_str(line.unwrap_or_else(|| panic!("{file} has no {word}"))).unwrap()
    }

    #[test]
    fn the_command_lines_of_the_container_are_understood() {
        let entry_point = list("Dockerfile", "ENTRYPOINT ");
        for command in [list("Dockerfile", "CMD "), list("compose.yaml", "command: ")] {
            let line = [entry_point.clone(), command].concat();
            let Arguments { command: Command::Emulator(parsed) } = Arguments::try_parse_from(&line)
                .unwrap_or_else(|error| panic!("{line:?}: {error}"))
            else {
                panic!("the container runs the emulator")
            };
            assert!(parsed.address.is_unspecified(), "a published port leads to every interface");
            // Regions and ports belong together; the emulator itself refuses them otherwise.
            assert!(
                parsed.region_ports.is_empty() || parsed.region_ports.len() == parsed.regions.len()
            );
        }
    }

    #[test]
    fn a_host_with_a_port_is_not_advertised() {
        let parse = |host| Arguments::try_parse_from(["sidereal", "emulator", "--advertise", host]);
        assert!(parse("cosmos").is_ok() && parse("::1").is_ok());
        for host in ["cosmos:8081", "https://cosmos", "0.0.0.0"] {
            let refused = parse(host).unwrap_err().to_string();
            assert!(refused.contains("without a port"), "{refused}");
        }
    }
}

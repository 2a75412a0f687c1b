//! The flags of `sidereal emulator`: clap makes their help from the doc comments.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use clap::Args;
use sidereal_emulator::{AdvertisedHost, Certainty, Grease, Latitude, UnknownLatitude};
use sidereal_protocol::{ConsistencyLevel, RegionName, Secret};

use crate::values::{duration, secret};

/// The port that SDKs expect an emulator on.
const DEFAULT_PORT: u16 = 8081;

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sidereal emulator
  sidereal emulator --regions \"West US,East US,North Europe\" --multi-write
  sidereal emulator --data-dir ~/cosmos --consistency Strong
  sidereal emulator --address 0.0.0.0 --advertise cosmos --enforce-throughput
  sidereal emulator --load shop.json
  sidereal emulator --port 0 --json

The file of --load; only ids and partition keys are required:
  {\"databases\": [{
    \"id\": \"shop\",
    \"throughput\": 1000,
    \"containers\": [{
      \"id\": \"orders\",
      \"partitionKey\": \"/customer\",
      \"throughput\": {\"autoscale\": 4000},
      \"defaultTtl\": 86400,
      \"uniqueKeys\": [[\"/number\"]],
      \"indexingPolicy\": {\"indexingMode\": \"consistent\", \"includedPaths\": [{\"path\": \"/*\"}]},
      \"items\": [{\"id\": \"1\", \"customer\": \"contoso\", \"number\": 7}]
    }]
  }]}
A partition key may be a list of paths or the service's own object, throughput a number or an autoscale
maximum. Other properties of a container are written as the service names them.")]
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
    /// For an emulator in a container or on another machine. The TLS certificate is made out to it too. "{region}" stands
    /// for the name of a region: with "cosmos-{region}.example", West US is cosmos-westus.example and the account is
    /// cosmos.example.
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

    /// File that holds the key of the account.
    #[arg(long, value_name = "FILE", conflicts_with = "key")]
    pub(crate) key_file: Option<PathBuf>,

    /// Accept any Entra token, from anywhere.
    ///
    /// Otherwise a token has to come from this machine, with the base64url of the account key as its third
    /// segment.
    #[arg(long)]
    pub(crate) entra_any: bool,

    /// Answer 429 to requests beyond a container's provisioned throughput.
    #[arg(long)]
    pub(crate) enforce_throughput: bool,

    /// Answer as inconveniently as the service's contract allows, drawn from this seed.
    ///
    /// Pages end anywhere, headers are missing, fields are new: to find out whether a client is right. The same seed
    /// and the same requests give the same answers.
    #[arg(long, value_name = "SEED")]
    pub(crate) grease: Option<u64>,

    /// Only these latitudes of the contract, by name; "certain" stands for those that the service is known to use.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "grease")]
    pub(crate) grease_only: Vec<LatitudeChoice>,

    /// None of these latitudes: those that a client is known not to survive.
    #[arg(long, value_name = "NAMES", value_delimiter = ',', requires = "grease")]
    pub(crate) grease_without: Vec<LatitudeChoice>,

    /// Directory that keeps the account from one run to the next [default: it lives in memory].
    ///
    /// A write is answered once it is on disk. Regions are those that the account began with.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) data_dir: Option<PathBuf>,

    /// File with databases, containers and items to begin with, as JSON.
    ///
    /// Databases and containers that are there already stay as they are; items are upserted.
    #[arg(long, value_name = "FILE")]
    pub(crate) load: Option<PathBuf>,

    /// Directory that keeps the TLS certificate [default: sidereal in the user's state directory].
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) certificate_dir: Option<PathBuf>,

    /// End when standard input is closed, as it is when the program that has started the emulator is gone.
    #[arg(long)]
    pub(crate) end_with_stdin: bool,

    /// Print one line of JSON instead: endpoint, key, connection_string, certificate, regions.
    #[arg(long)]
    pub(crate) json: bool,
}

impl EmulatorArguments {
    /// The latitudes that answers use, if any.
    pub(super) fn grease(&self) -> Option<Grease> {
        let is_named = |choices: &[LatitudeChoice], latitude| {
            choices.iter().any(|choice| choice.names(latitude))
        };
        let chosen = Latitude::ALL.iter().copied().filter(|latitude| {
            (self.grease_only.is_empty() || is_named(&self.grease_only, *latitude))
                && !is_named(&self.grease_without, *latitude)
        });
        Some(Grease::new(self.grease?).only(chosen))
    }
}

/// One of the names of `--grease-only` and `--grease-without`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LatitudeChoice {
    Certain,
    One(Latitude),
}

impl LatitudeChoice {
    fn names(self, latitude: Latitude) -> bool {
        match self {
            Self::Certain => latitude.certainty() == Certainty::Certain,
            Self::One(one) => one == latitude,
        }
    }
}

impl FromStr for LatitudeChoice {
    type Err = UnknownLatitude;

    fn from_str(text: &str) -> Result<Self, UnknownLatitude> {
        match text {
            "certain" => Ok(Self::Certain),
            name => name.parse().map(Self::One),
        }
    }
}

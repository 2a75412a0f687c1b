//! The actions of `sidereal chaos`: the requests that each sends, and how its result is described.

use std::time::Duration;

use clap::Subcommand;
use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use sidereal_protocol::RegionName;

use super::client::Call;
use super::fault::{FaultArguments, millis};
use super::tables;
use crate::values::duration;

#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    /// List the regions and their state.
    Regions,
    /// Close a region's port: its connections end and new ones are refused.
    Offline {
        /// The region's name.
        region: RegionName,
    },
    /// Open a region's port again.
    Online {
        /// The region's name.
        region: RegionName,
    },
    /// Remove a region from the account: it answers 403/1008 from then on.
    Remove {
        /// The region's name.
        region: RegionName,
    },
    /// Pause, resume or delay replication to a region.
    #[command(subcommand)]
    Replication(Replication),
    /// Move the account's writes to a region.
    WriteRegion {
        /// The region's name.
        region: RegionName,
        /// Fail over at once and lose what has not arrived there; the lost writes are listed.
        #[arg(long)]
        forced: bool,
        /// How long the old region still accepts writes.
        #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "forced")]
        announcement: Option<Duration>,
        /// How long the old region is still listed after that.
        #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "forced")]
        overlap: Option<Duration>,
    },
    /// Move the writes of one partition range to a region, or back.
    MovePartition {
        /// The container, as database/container.
        container: String,
        /// The id of the partition range.
        range: String,
        /// The region; without one, back to where the account writes.
        region: Option<RegionName>,
    },
    /// Split a partition range in two.
    Split {
        /// The container, as database/container.
        container: String,
        /// The id of the partition range.
        range: String,
        /// How long it takes; requests by range id are refused with 410/1007 meanwhile.
        #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = duration)]
        takes: Duration,
    },
    /// Merge two neighbouring partition ranges.
    Merge {
        /// The container, as database/container.
        container: String,
        /// The id of the lower partition range.
        left: String,
        /// The id of the higher partition range.
        right: String,
        /// How long it takes; requests by range id are refused with 410/1007 meanwhile.
        #[arg(long, value_name = "TIME", default_value = "0ms", value_parser = duration)]
        takes: Duration,
    },
    /// Add, list or remove rules that make requests go wrong.
    #[command(subcommand)]
    Fault(Fault),
    /// Show what was asked of the account: requests, charge and bytes.
    Counters {
        /// Start again from nothing afterwards.
        #[arg(long)]
        reset: bool,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Replication {
    /// Pause replication to a region.
    ///
    /// What is written meanwhile is kept for it, in memory, until it is resumed.
    Pause {
        /// The region's name.
        region: RegionName,
    },
    /// Resume replication to a region.
    Resume {
        /// The region's name.
        region: RegionName,
    },
    /// Set how far a region's replicas are behind.
    Delay {
        /// The region's name.
        region: RegionName,
        /// How much later, such as 20ms or 2s.
        #[arg(value_parser = duration)]
        delay: Duration,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Fault {
    /// Add a rule: the requests it applies to, and what happens to them.
    Add(Box<FaultArguments>),
    /// List the rules, with how often each matched and took effect.
    List,
    /// Remove a rule.
    Remove {
        /// The rule's name.
        name: String,
    },
    /// Remove all rules.
    Clear,
}

impl Action {
    /// The requests to send, one after the other; the answer to the first is what is printed.
    pub(super) fn calls(&self) -> Vec<Call> {
        match self {
            Self::Regions => vec![get("regions")],
            Self::Offline { region } => vec![post(&of_region(region, "offline"), None)],
            Self::Online { region } => vec![post(&of_region(region, "online"), None)],
            Self::Remove { region } => vec![post(&of_region(region, "remove"), None)],
            Self::Replication(replication) => vec![replication.call()],
            Self::WriteRegion { region, forced, announcement, overlap } => {
                let mut body = json!({ "region": region, "forced": forced });
                for (name, wait) in [("announcement_ms", announcement), ("overlap_ms", overlap)] {
                    if let Some(wait) = wait {
                        body[name] = millis(*wait);
                    }
                }
                vec![post("write-region", Some(body))]
            }
            Self::MovePartition { container, range, region } => {
                let body = json!({ "container": container, "range": range, "region": region });
                vec![post("partitions/move", Some(body))]
            }
            Self::Split { container, range, takes } => {
                let takes = millis(*takes);
                let body = json!({ "container": container, "range": range, "takes_ms": takes });
                vec![post("partitions/split", Some(body))]
            }
            Self::Merge { container, left, right, takes } => {
                let names = json!({ "container": container, "left": left, "right": right });
                let mut body = names;
                body["takes_ms"] = millis(*takes);
                vec![post("partitions/merge", Some(body))]
            }
            Self::Fault(fault) => vec![fault.call()],
            Self::Counters { reset: false } => vec![get("counters")],
            Self::Counters { reset: true } => vec![get("counters"), delete("counters")],
        }
    }

    /// The result, for people.
    pub(super) fn describe(&self, answer: &Value) -> String {
        match self {
            Self::Regions
            | Self::Offline { .. }
            | Self::Online { .. }
            | Self::Remove { .. }
            | Self::Replication(_) => tables::regions(answer),
            Self::WriteRegion { region, .. } => tables::lost_writes(region, answer),
            Self::MovePartition { range, region, .. } => match region {
                Some(region) => format!("The writes of partition range {range} go to {region}.\n"),
                None => {
                    format!("The writes of partition range {range} go where the account's do.\n")
                }
            },
            Self::Split { .. } | Self::Merge { .. } => tables::ranges(answer),
            Self::Fault(Fault::Add(_)) => {
                format!("The rule {} is in force.\n", answer["name"].as_str().unwrap_or_default())
            }
            Self::Fault(Fault::List) => tables::faults(answer),
            Self::Fault(Fault::Remove { .. } | Fault::Clear) => {
                format!("Rules removed: {}.\n", answer["removed"])
            }
            Self::Counters { .. } => tables::counters(answer),
        }
    }
}

impl Replication {
    fn call(&self) -> Call {
        let (region, body) = match self {
            Self::Pause { region } => (region, json!({ "paused": true })),
            Self::Resume { region } => (region, json!({ "paused": false })),
            Self::Delay { region, delay } => (region, json!({ "delay_ms": millis(*delay) })),
        };
        post(&of_region(region, "replication"), Some(body))
    }
}

impl Fault {
    fn call(&self) -> Call {
        match self {
            Self::Add(arguments) => post("faults", Some(arguments.body())),
            Self::List => get("faults"),
            Self::Remove { name } => delete(&format!("faults/{}", encoded(name))),
            Self::Clear => delete("faults"),
        }
    }
}

fn of_region(region: &RegionName, action: &str) -> String {
    format!("regions/{}/{action}", encoded(region.as_str()))
}

fn encoded(text: &str) -> String {
    // Encodes slashes too: a name is one segment of the path.
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

fn get(path: &str) -> Call {
    Call { method: Method::GET, path: path.to_owned(), body: None }
}

fn post(path: &str, body: Option<Value>) -> Call {
    Call { method: Method::POST, path: path.to_owned(), body }
}

fn delete(path: &str) -> Call {
    Call { method: Method::DELETE, path: path.to_owned(), body: None }
}

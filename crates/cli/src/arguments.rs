//! The command line: clap makes its help from the doc comments here.

use clap::{Parser, Subcommand};

use crate::chaos::ChaosArguments;
use crate::config::ConfigArguments;
use crate::container::ContainerArguments;
use crate::database::DatabaseArguments;
use crate::demo::DemoArguments;
use crate::emulator::EmulatorArguments;
use crate::item::ItemArguments;
use crate::manual::{CompletionArguments, ManualArguments};
use crate::orch::OrchArguments;
use crate::soak::{SoakArguments, SoakWorkerArguments};
use crate::sql::SqlArguments;
use crate::stress::StressArguments;

/// Azure Cosmos DB on this machine, and any account from here.
#[derive(Debug, Parser)]
#[command(name = "sidereal", version, arg_required_else_help = true, after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  sidereal emulator
  sidereal container create shop/orders --partition-key /customer
  sidereal sql shop/orders \"SELECT * FROM c\"

Exit status:
    0  success
    1  failed
    2  wrong command line
    3  no such database, container or item
    4  it is there already, or has changed since
    5  the key is missing or was refused
    6  the account does not answer, throttles, or took too long
    7  malformed input: a query, an item, a file
    8  done in part; what was not is named
   70  a defect of the command
  141  the reader of standard output closed it

Which account: --endpoint, else COSMOSDB_CONNECTION_STRING, else COSMOSDB_ENDPOINT and COSMOSDB_KEY (COSMOS_…
and AZURE_COSMOS_… are other names of the three), else the emulator on this machine.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// See it survive outages: orchestrations on an account whose partitions and regions fail on a schedule.
    ///
    /// Starts an account of three regions on this machine and an application on it. One partition becomes sick, a region
    /// slow, and the write region is lost; writes are handed over and come back. At the end, what the orchestrations left
    /// in the account is compared with what follows from the seed: the exit status is 0 only if every one completed
    /// exactly once.
    Demo(DemoArguments),
    /// Run a Cosmos DB account that any SDK can talk to.
    ///
    /// The account lives in memory, or in a directory (--data-dir), and answers on one port, with TLS (https) and
    /// without (http). Point your application at the endpoint that is printed; Ctrl-C stops it.
    Emulator(EmulatorArguments),
    /// Inject faults into a running emulator: regions, replication, partitions, requests; read its counters.
    Chaos(ChaosArguments),
    /// Query a container: one query, a script, or a prompt.
    Sql(Box<SqlArguments>),
    /// Get, write, patch and delete items; import and export JSON lines.
    Item(ItemArguments),
    /// List, create, show and delete databases.
    Db(DatabaseArguments),
    /// List, create, show and delete containers.
    Container(ContainerArguments),
    /// List, inspect, start, cancel and delete durable orchestrations.
    Orch(OrchArguments),
    /// Run duroxide's stress harness and print its comparison table.
    ///
    /// Against an account within the process, unless --endpoint or --emulator names another.
    Stress(StressArguments),
    /// Kill workers and the account at random while orchestrations run, and check that nothing is lost or doubled.
    ///
    /// Starts an emulator on a directory and several worker processes, each with the provider and duroxide's runtime. They
    /// are killed (SIGKILL) at random moments and started again. Afterwards every orchestration has to end with the output
    /// that follows from its input, each step is in its history once, and nothing is left in the queues.
    Soak(SoakArguments),
    /// A worker process of `sidereal soak`.
    #[command(hide = true)]
    SoakWorker(SoakWorkerArguments),
    /// Show every setting: its value, where that comes from, its variable and its meaning.
    Config(ConfigArguments),
    /// Print a shell's completions of commands and flags.
    Completions(CompletionArguments),
    /// Print the man page of a command, or write all of them.
    Man(ManualArguments),
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

    #[test]
    fn the_help_lists_every_exit_status() {
        use crate::failure::ExitStatus;
        for status in [
            ExitStatus::Failed,
            ExitStatus::Usage,
            ExitStatus::NotFound,
            ExitStatus::Conflict,
            ExitStatus::Unauthorized,
            ExitStatus::Unavailable,
            ExitStatus::InvalidInput,
            ExitStatus::Incomplete,
            ExitStatus::Defect,
            ExitStatus::ClosedPipe,
        ] {
            let line = format!("\n{:>5}  ", status as u8);
            assert!(AFTER_HELP.contains(&line), "{status:?}");
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

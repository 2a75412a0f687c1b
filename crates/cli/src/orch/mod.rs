//! `sidereal orch`: the orchestrations of a container, as their provider stores them.

mod change;
mod inspect;
mod open;
mod tree;
mod undeliverable;

use std::time::Duration;

use clap::{Args, Subcommand};

use crate::account::{AccountArguments, ContainerName};
use crate::command::{Confirmation, FormatArguments, block_on};
use crate::failure::Failure;
use crate::values::duration;
use open::Opened;
use undeliverable::RetryArguments;

/// The provider's default container.
const DEFAULT_CONTAINER: &str = "duroxide/duroxide";

#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  sidereal orch list --status Failed
  sidereal orch show order-17
  sidereal orch history order-17
  sidereal orch tree order-17
  sidereal orch start ProcessOrder order-18 '{\"total\":12}'
  sidereal orch raise order-18 paid '{\"amount\":12}'
  sidereal orch cancel order-18 --reason 'the customer has left'
  sidereal orch delete order-17 --yes
  sidereal orch prune order-17 --keep-last 3
  sidereal orch metrics
  sidereal orch retry-undeliverable --dry-run")]
pub(crate) struct OrchArguments {
    #[command(flatten)]
    account: AccountArguments,
    #[command(flatten)]
    format: FormatArguments,
    /// The container, as database/container.
    #[arg(long, global = true, value_name = "NAME", default_value = DEFAULT_CONTAINER)]
    container: ContainerName,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// List instances, the youngest first.
    #[command(visible_alias = "ls")]
    List(ListArguments),
    /// Show an instance: what it runs, its status, output, last executions, keys and sizes.
    Show {
        /// Id of the instance.
        instance: String,
    },
    /// Print the events of an execution.
    History {
        /// Id of the instance.
        instance: String,
        /// The execution [default: the current one].
        #[arg(long, value_name = "N")]
        execution: Option<u64>,
    },
    /// Show an instance with the sub-orchestrations below it.
    Tree {
        /// Id of the instance.
        instance: String,
    },
    /// Start an orchestration. A runtime that has it registered runs it.
    Start {
        /// Name of the orchestration.
        orchestration: String,
        /// Id of the instance.
        instance: String,
        /// Input of the orchestration.
        #[arg(default_value = "")]
        input: String,
        /// Version of the orchestration [default: the latest that the runtime has].
        #[arg(long, value_name = "VERSION")]
        orchestration_version: Option<String>,
    },
    /// Request the cancellation of an instance.
    Cancel {
        /// Id of the instance.
        instance: String,
        /// The reason, which its history records.
        #[arg(long, default_value = "cancelled from the command line")]
        reason: String,
    },
    /// Raise an event that an instance waits for.
    Raise {
        /// Id of the instance.
        instance: String,
        /// Name of the event.
        event: String,
        /// Data of the event.
        #[arg(default_value = "")]
        data: String,
    },
    /// Delete instances that have ended, with their sub-orchestrations.
    #[command(visible_alias = "rm")]
    Delete(DeleteArguments),
    /// Delete old executions of instances that continue as new.
    Prune(PruneArguments),
    /// Count instances, executions, events, queues and undelivered messages.
    Metrics,
    /// Deliver undeliverable messages between instances again.
    ///
    /// A message is undeliverable once the service has refused it as malformed or too large. Remove the cause first: a
    /// message that is refused again becomes undeliverable again. At most 10,000 messages are retried. Messages older
    /// than 7 days stay undeliverable: the tombstone of an earlier delivery may have ended, so they might arrive a second
    /// time.
    RetryUndeliverable(RetryArguments),
}

#[derive(Args, Debug)]
struct ListArguments {
    /// Only instances with this status: Running, Completed, Failed or ContinuedAsNew.
    #[arg(long, value_parser = status)]
    status: Option<String>,
    /// Only instances of this orchestration.
    #[arg(long, value_name = "NAME")]
    orchestration: Option<String>,
    /// Only instances whose id begins with this.
    #[arg(long, value_name = "PREFIX")]
    id_prefix: Option<String>,
    /// The maximum number of instances.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    limit: u32,
}

#[derive(Args, Debug)]
struct DeleteArguments {
    /// Ids of the instances.
    #[arg(required_unless_present = "completed_before")]
    instances: Vec<String>,
    /// Delete instances that ended longer ago than this, such as 30days, instead of named ones.
    #[arg(long, value_name = "TIME", value_parser = duration, conflicts_with = "instances")]
    completed_before: Option<Duration>,
    /// The maximum number of instances that --completed-before deletes.
    #[arg(long, value_name = "N", default_value_t = 1_000, requires = "completed_before")]
    limit: u32,
    /// Delete running instances too. What their activities have done is not undone.
    #[arg(long, conflicts_with = "completed_before")]
    force: bool,
    #[command(flatten)]
    confirmation: Confirmation,
}

#[derive(Args, Debug)]
struct PruneArguments {
    /// Ids of the instances.
    #[arg(required = true)]
    instances: Vec<String>,
    /// How many of the last executions are kept.
    #[arg(long, value_name = "N")]
    keep_last: Option<u32>,
    /// Only executions that ended longer ago than this, such as 30days.
    #[arg(long, value_name = "TIME", value_parser = duration)]
    completed_before: Option<Duration>,
}

/// A status in any case, as the provider writes it.
fn status(text: &str) -> Result<String, String> {
    const STATUSES: [&str; 4] = ["Running", "Completed", "Failed", "ContinuedAsNew"];
    let found = STATUSES.into_iter().find(|it| it.eq_ignore_ascii_case(text));
    found.map(str::to_owned).ok_or_else(|| format!("expected {}", STATUSES.join(", ")))
}

pub(crate) fn run(arguments: &OrchArguments) -> Result<(), Failure> {
    block_on(async {
        let client = arguments.account.connect()?;
        let opened = Opened::open(&client, &arguments.container).await?;
        let outcome = act(&opened, &arguments.action, &arguments.format).await;
        opened.close().await;
        outcome
    })
}

async fn act(opened: &Opened, action: &Action, format: &FormatArguments) -> Result<(), Failure> {
    match action {
        Action::List(wanted) => inspect::list(opened, wanted, format).await,
        Action::Show { instance } => inspect::show(opened, instance, format).await,
        Action::History { instance, execution } => {
            inspect::history(opened, instance, *execution, format).await
        }
        Action::Tree { instance } => tree::show(opened, instance, format).await,
        Action::Start { orchestration, instance, input, orchestration_version } => {
            let version = orchestration_version.as_deref();
            change::start(opened, orchestration, instance, input, version).await
        }
        Action::Cancel { instance, reason } => change::cancel(opened, instance, reason).await,
        Action::Raise { instance, event, data } => {
            change::raise(opened, instance, event, data).await
        }
        Action::Delete(wanted) => change::delete(opened, wanted).await,
        Action::Prune(wanted) => change::prune(opened, wanted).await,
        Action::Metrics => inspect::metrics(opened, format).await,
        Action::RetryUndeliverable(wanted) => undeliverable::retry(opened, wanted, format).await,
    }
}

//! Messages between instances that cannot be delivered: listed, and made pending again.

use clap::Args;
use serde_json::{Value, json};
use sidereal_duroxide::{OutboxMetrics, UndeliverableMessage};

use super::open::{Opened, time};
use crate::command::{Confirmation, FormatArguments};
use crate::failure::Failure;
use crate::output;
use crate::table;

/// The width of an error in a table.
const ERROR_WIDTH: usize = 60;

#[derive(Args, Debug)]
pub(super) struct RetryArguments {
    /// List the messages, at most a hundred, and change nothing.
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    #[command(flatten)]
    confirmation: Confirmation,
}

pub(super) async fn retry(
    opened: &Opened,
    wanted: &RetryArguments,
    format: &FormatArguments,
) -> Result<(), Failure> {
    let tell = |error| opened.explain_provider(&error);
    let outbox = opened.provider.outbox_metrics().await.map_err(tell)?;
    if wanted.dry_run {
        return list(&outbox, format);
    }
    if outbox.undeliverable == 0 {
        return Ok(output::print("No message is undeliverable.\n")?);
    }
    let question = format!("Deliver {} undeliverable messages again?", outbox.undeliverable);
    wanted.confirmation.ask(&question)?;
    let done = opened.provider.retry_undeliverable().await.map_err(tell)?;
    let mut said =
        format!("{} messages are pending again: a runtime delivers them.\n", done.retried);
    if done.too_old > 0 {
        said.push_str(&format!(
            "{} messages are older than 7 days and stay undeliverable: they might arrive a second time.\n",
            done.too_old
        ));
    }
    Ok(output::print(&said)?)
}

fn list(outbox: &OutboxMetrics, format: &FormatArguments) -> Result<(), Failure> {
    let shown = outbox.examples.len();
    if outbox.undeliverable > shown as u64 {
        output::note(&format!("{shown} of {} messages are listed", outbox.undeliverable));
    }
    let rows: Vec<_> = outbox.examples.iter().map(row).collect();
    format.print(["FROM", "TO", "SENT", "ATTEMPTS", "TOO OLD", "ERROR"], &rows)
}

fn row(message: &UndeliverableMessage) -> (Value, [String; 6]) {
    let sent = time(message.created_at.unsigned_abs());
    let error = message.last_error.as_deref().unwrap_or("-");
    let value = json!({
        "id": message.id,
        "from": message.source,
        "to": message.target,
        "sent": sent,
        "attempts": message.attempt_count,
        "lastAttempt": message.last_attempt_at.map(|at| time(at.unsigned_abs())),
        "tooOld": message.is_too_old,
        "error": message.last_error,
    });
    let cells = [
        table::printable(&message.source),
        table::printable(&message.target),
        sent,
        message.attempt_count.to_string(),
        if message.is_too_old { "yes" } else { "no" }.to_owned(),
        table::shortened(error, ERROR_WIDTH),
    ];
    (value, cells)
}

//! Changes of instances: start, cancel, raise, delete, prune.

use duroxide::providers::{DeleteInstanceResult, InstanceFilter, PruneOptions, PruneResult};

use super::open::{Opened, before};
use super::{DeleteArguments, PruneArguments};
use crate::failure::{ExitStatus, Failure};
use crate::output;

pub(super) async fn start(
    opened: &Opened,
    orchestration: &str,
    instance: &str,
    input: &str,
    version: Option<&str>,
) -> Result<(), Failure> {
    if let Ok(there) = opened.client.get_instance_info(instance).await {
        let sentence = format!("there is an instance {instance} already: {}", there.status);
        return Err(Failure::new(ExitStatus::Conflict, sentence).with_hint("choose another id"));
    }
    let started = match version {
        Some(version) => {
            let client = &opened.client;
            client.start_orchestration_versioned(instance, orchestration, version, input).await
        }
        None => opened.client.start_orchestration(instance, orchestration, input).await,
    };
    started.map_err(|error| opened.explain(error, instance))?;
    let said = format!("{instance}: {orchestration} starts as soon as a runtime takes it.\n");
    Ok(output::print(&said)?)
}

pub(super) async fn cancel(opened: &Opened, instance: &str, reason: &str) -> Result<(), Failure> {
    expect_running(opened, instance).await?;
    let asked = opened.client.cancel_instance(instance, reason).await;
    asked.map_err(|error| opened.explain(error, instance))?;
    Ok(output::print(&format!("{instance}: asked to end.\n"))?)
}

pub(super) async fn raise(
    opened: &Opened,
    instance: &str,
    event: &str,
    data: &str,
) -> Result<(), Failure> {
    expect_running(opened, instance).await?;
    let raised = opened.client.raise_event(instance, event, data).await;
    raised.map_err(|error| opened.explain(error, instance))?;
    Ok(output::print(&format!("{instance}: {event} was raised.\n"))?)
}

/// Refuses an instance that has ended: it handles no messages.
async fn expect_running(opened: &Opened, instance: &str) -> Result<(), Failure> {
    let info = opened.instance(instance).await?;
    match info.status.as_str() {
        "Completed" | "Failed" => {
            let sentence = format!("{instance} has ended: {}", info.status);
            Err(Failure::new(ExitStatus::Conflict, sentence))
        }
        _ => Ok(()),
    }
}

pub(super) async fn delete(opened: &Opened, wanted: &DeleteArguments) -> Result<(), Failure> {
    if let Some(age) = wanted.completed_before {
        let question = format!(
            "Delete up to {} instances that ended more than {} ago?",
            wanted.limit,
            humantime::format_duration(age)
        );
        wanted.confirmation.ask(&question)?;
        let filter = InstanceFilter {
            completed_before: Some(before(age)),
            limit: Some(wanted.limit),
            ..InstanceFilter::default()
        };
        let deleted = opened.client.delete_instance_bulk(filter).await;
        let deleted = deleted.map_err(|error| opened.explain(error, "the instances"))?;
        return Ok(output::print(&said_deleted("", &deleted))?);
    }
    let question = format!("Delete {} with their histories?", wanted.instances.join(", "));
    wanted.confirmation.ask(&question)?;
    each(&wanted.instances, "deleted", async |instance| {
        let deleted = opened.client.delete_instance(instance, wanted.force).await;
        let deleted = deleted.map_err(|error| opened.explain(error, instance))?;
        Ok(said_deleted(&format!("{instance}: "), &deleted))
    })
    .await
}

fn said_deleted(head: &str, deleted: &DeleteInstanceResult) -> String {
    format!(
        "{head}{} instances, {} executions, {} events and {} messages were deleted.\n",
        deleted.instances_deleted,
        deleted.executions_deleted,
        deleted.events_deleted,
        deleted.queue_messages_deleted
    )
}

pub(super) async fn prune(opened: &Opened, wanted: &PruneArguments) -> Result<(), Failure> {
    if wanted.keep_last.is_none() && wanted.completed_before.is_none() {
        let sentence = "nothing says which executions are old";
        return Err(Failure::new(ExitStatus::Usage, sentence)
            .with_hint("--keep-last N, --completed-before TIME, or both"));
    }
    each(&wanted.instances, "pruned", async |instance| {
        opened.instance(instance).await?;
        let options = PruneOptions {
            keep_last: wanted.keep_last,
            completed_before: wanted.completed_before.map(before),
        };
        let pruned = opened.client.prune_executions(instance, options).await;
        let pruned = pruned.map_err(|error| opened.explain(error, instance))?;
        let PruneResult { executions_deleted, events_deleted, .. } = pruned;
        Ok(format!(
            "{instance}: {executions_deleted} executions with {events_deleted} events were deleted.\n"
        ))
    })
    .await
}

/// Applies a change to each instance. A failure does not stop the others.
async fn each(
    instances: &[String],
    what: &str,
    act: impl AsyncFn(&str) -> Result<String, Failure>,
) -> Result<(), Failure> {
    let mut failures = Vec::new();
    for instance in instances {
        match act(instance).await {
            Ok(said) => output::print(&said)?,
            Err(failure) => failures.push(failure),
        }
    }
    let failed = failures.len();
    let Some(first) = failures.into_iter().next() else { return Ok(()) };
    if instances.len() == 1 {
        return Err(first);
    }
    let sentence = format!("{failed} of {} instances were not {what}: {first}", instances.len());
    Err(Failure::new(ExitStatus::Incomplete, sentence))
}

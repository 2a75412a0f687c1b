//! Pruning: executions that have ended, of instances that go on.

use duroxide::providers::{InstanceFilter, ProviderError, PruneOptions, PruneResult};
use serde_json::{Value, json};

use super::Admin;
use super::inspection::VISIBLE;
use crate::documents::{ExecutionDocument, Payload, kinds};
use crate::failure::{Cause, Failure};
use crate::store::Scope;
use crate::write::{self, Write};
use crate::{PATIENCE_MS, ids};

const ONE: &str = "prune_executions";
const BULK: &str = "prune_executions_bulk";

/// The events of an execution; their parts go with them.
const EVENTS: &str = "SELECT c.id, c.type, c.eventData FROM c WHERE c.type = 'history' AND c.executionId = @execution";

impl Admin {
    /// Removes executions of an instance that have ended.
    pub(crate) async fn prune(
        &self,
        instance: &str,
        options: &PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        let there = self.expect_instance(ONE, instance).await?;
        let executions = self.executions(ONE, instance).await?;
        let mut result = PruneResult { instances_processed: 1, ..PruneResult::default() };
        let prunable = prunable(&executions, there.current_execution_id, options);
        for execution in executions.iter().filter(|it| prunable.contains(&it.execution_id)) {
            let removed = self.remove_execution(instance, execution).await;
            result.events_deleted += removed.map_err(|failure| failure.tell(ONE, instance))?;
            result.executions_deleted += 1;
        }
        Ok(result)
    }

    /// Removes an execution, its document last: what was interrupted is found again. Each batch is conditional on that
    /// document's etag, so that a process that was paused removes nothing of an instance that came again under the id; the
    /// instance's own etag would take the lock from a running turn.
    async fn remove_execution(
        &self,
        instance: &str,
        execution: &ExecutionDocument,
    ) -> Result<u64, Failure> {
        let id = json!(execution.execution_id);
        let rows: Vec<Value> =
            self.store.values(Scope::Partition(instance), EVENTS, &[("@execution", id)]).await?;
        let (writes, events) = plan_removal(execution, &rows);
        let mut fence = execution.clone();
        let beside = Write::replace(&fence.id, &fence, None).bytes();
        for chunk in write::chunks(writes, beside) {
            if !self.remove_of_execution(&mut fence, chunk).await? {
                return Ok(events);
            }
        }
        let end = [Write::delete(&fence.id, fence.etag.clone())];
        let until = self.store.now().saturating_add(PATIENCE_MS);
        match self.store.write(instance, &end, until).await {
            Err(failure) if !is_gone(&failure) => Err(failure),
            _ => Ok(events),
        }
    }

    /// Removes some documents of an execution. False if the execution is another's by now, or gone.
    async fn remove_of_execution(
        &self,
        fence: &mut ExecutionDocument,
        mut chunk: Vec<Write>,
    ) -> Result<bool, Failure> {
        let (partition, id) = (fence.instance_id.clone(), fence.id.clone());
        let until = self.store.now().saturating_add(PATIENCE_MS);
        loop {
            let first = Write::replace(&id, fence, fence.etag.clone());
            let batch: Vec<Write> = std::iter::once(first).chain(chunk.iter().cloned()).collect();
            let failure = match self.store.write(&partition, &batch, until).await {
                Ok(results) => {
                    fence.etag = results.first().and_then(|it| it.etag().cloned());
                    return Ok(true);
                }
                Err(failure) => failure,
            };
            match (failure.cause, failure.position) {
                (Cause::NotFound, Some(gone @ 1..)) => drop(chunk.remove(gone - 1)),
                (Cause::Ambiguous, _) if self.store.now() < until => {
                    // Written or not: what it removed is missing the next time, if the execution is the same still.
                    let there: Option<ExecutionDocument> = self.store.read(&partition, &id).await?;
                    match there.filter(|there| there.started_at == fence.started_at) {
                        Some(there) => *fence = there,
                        None => return Ok(false),
                    }
                }
                _ if is_gone(&failure) => return Ok(false),
                _ => return Err(failure),
            }
        }
    }

    /// Prunes instances that a filter is about, those that run included.
    pub(crate) async fn prune_bulk(
        &self,
        filter: &InstanceFilter,
        options: &PruneOptions,
    ) -> Result<PruneResult, ProviderError> {
        let mut result = PruneResult::default();
        for instance in self.filtered(BULK, VISIBLE, filter).await? {
            let pruned = self.prune(&instance, options).await?;
            result.instances_processed += pruned.instances_processed;
            result.executions_deleted += pruned.executions_deleted;
            result.events_deleted += pruned.events_deleted;
        }
        Ok(result)
    }
}

/// Whether another process has removed or changed the execution.
fn is_gone(failure: &Failure) -> bool {
    matches!(failure.cause, Cause::NotFound | Cause::PreconditionFailed)
}

/// The removal of an execution's events, with the parts of their payloads and of its output; and how many events
/// there are. Its own document goes last, with what finds it again.
fn plan_removal(execution: &ExecutionDocument, rows: &[Value]) -> (Vec<Write>, u64) {
    let (mut writes, mut events) = (Vec::new(), 0);
    for row in rows {
        let Some(id) = row["id"].as_str() else { continue };
        let parts = row["eventData"]["parts"].as_u64().unwrap_or_default();
        let part = |number| Write::delete(&ids::payload_part(id, number as usize), None);
        writes.extend((0..parts).map(part));
        writes.push(Write::delete(id, None));
        events += u64::from(row["type"] == kinds::HISTORY);
    }
    let parts = execution.output.as_ref().map_or(0, Payload::parts);
    let part = |number| Write::delete(&ids::payload_part(&execution.id, number), None);
    writes.extend((0..parts).map(part));
    (writes, events)
}

/// The executions that may go: never the current one, never one that runs, and of the others those that every option
/// names.
fn prunable(executions: &[ExecutionDocument], current: u64, options: &PruneOptions) -> Vec<u64> {
    let kept = options.keep_last.map_or(0, |count| count as usize);
    let newest: Vec<u64> =
        executions.iter().rev().take(kept).map(|execution| execution.execution_id).collect();
    let may_go = |execution: &&ExecutionDocument| {
        let is_old = options.completed_before.is_none_or(|before| {
            execution.completed_at.is_some_and(|at| at.unsigned_abs() < before)
        });
        execution.execution_id != current
            && execution.status != "Running"
            && !newest.contains(&execution.execution_id)
            && is_old
    };
    executions.iter().filter(may_go).map(|execution| execution.execution_id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn executions() -> Vec<ExecutionDocument> {
        let of = |(id, status, completed_at): (u64, &str, Option<i64>)| {
            let mut execution = ExecutionDocument::started("i", id, 0);
            (execution.status, execution.completed_at) = (status.to_owned(), completed_at);
            execution
        };
        let old = "ContinuedAsNew";
        [
            (1, old, Some(10)),
            (2, old, Some(20)),
            (3, "Running", None),
            (4, old, Some(40)),
            (5, "Running", None),
        ]
        .map(of)
        .to_vec()
    }

    #[test]
    fn an_execution_goes_with_its_events_and_the_parts_of_their_payloads() {
        let mut execution = ExecutionDocument::started("i", 1, 0);
        execution.output = Some(Payload::Parts { parts: 1 });
        let rows = [
            json!({"id": "one", "type": "history", "eventData": "small"}),
            json!({"id": "two", "type": "history", "eventData": {"parts": 2}}),
        ];
        let (writes, events) = plan_removal(&execution, &rows);
        let ids: Vec<&str> = writes.iter().map(|write| write.id.as_str()).collect();
        assert_eq!(ids, ["one", "two:part:0", "two:part:1", "two", "i:execution:1:part:0"]);
        assert_eq!(events, 2);
    }

    #[test]
    fn neither_the_current_nor_a_running_execution_goes() {
        assert_eq!(prunable(&executions(), 5, &PruneOptions::default()), [1, 2, 4]);
    }

    #[test]
    fn every_option_must_let_an_execution_go() {
        let options = |keep_last, completed_before| PruneOptions { keep_last, completed_before };
        assert_eq!(prunable(&executions(), 5, &options(Some(2), None)), [1, 2]);
        assert_eq!(prunable(&executions(), 5, &options(None, Some(20))), [1]);
        assert_eq!(prunable(&executions(), 5, &options(Some(4), Some(30))), [1]);
    }
}

//! The changes of a deletion, as values. Pure: nothing here sends, waits or reads a clock.

use std::collections::HashSet;

use duroxide::providers::DeleteInstanceResult;
use serde::Deserialize;

use crate::documents::{InstanceDocument, kinds};
use crate::ids;
use crate::write::Write;

/// A document of an instance, as a deletion sees it.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Found {
    pub(crate) id: String,
    #[serde(rename = "type")]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) enqueued_at: Option<i64>,
}

/// Instances in the order in which they are marked: each after the one that has started it, if that is among them.
pub(crate) fn parents_first(mut instances: Vec<InstanceDocument>) -> Vec<InstanceDocument> {
    let mut ordered: Vec<InstanceDocument> = Vec::with_capacity(instances.len());
    while !instances.is_empty() {
        let waiting: HashSet<String> = instances.iter().map(|it| it.instance_id.clone()).collect();
        let has_parent = |it: &InstanceDocument| {
            it.parent_instance_id.as_ref().is_some_and(|parent| waiting.contains(parent))
        };
        let (below, top): (Vec<_>, Vec<_>) = instances.into_iter().partition(has_parent);
        instances = below;
        if top.is_empty() {
            // Instances that have started each other: no order is better than another.
            ordered.append(&mut instances);
        }
        ordered.extend(top);
    }
    ordered
}

/// Marks an instance for deletion: clients do not see it, and its lock is free. A sentence if it may not be deleted.
pub(crate) fn marked(
    instance: &InstanceDocument,
    force: bool,
    now: i64,
) -> Result<InstanceDocument, String> {
    if !force && instance.status == "Running" && !instance.is_deleting {
        return Err(format!(
            "Instance {} is still running. Use force=true to delete anyway, or cancel first.",
            instance.instance_id
        ));
    }
    let mut marked = instance.clone();
    marked.is_deleting = true;
    marked.unlock();
    marked.updated_at = now;
    Ok(marked)
}

/// The removal of everything that a marked instance has left; the instance itself goes last.
#[derive(Debug, Default)]
pub(crate) struct SweepPlan {
    pub(crate) writes: Vec<Write>,
    pub(crate) swept: Swept,
}

/// Plans the removal of a marked instance's documents.
pub(crate) fn sweep(instance: &InstanceDocument, found: &[Found]) -> SweepPlan {
    let mut plan = SweepPlan::default();
    for document in found {
        // A message that came after the mark is for the instance that comes next.
        let is_later = document.kind == kinds::MESSAGE
            && document.enqueued_at.is_some_and(|at| at > instance.updated_at);
        // The instance goes last, and the container's own documents are never part of it, whatever its id.
        let is_kept = [kinds::INSTANCE, kinds::SCHEMA, kinds::LEASES, kinds::SESSION];
        if is_later || is_kept.contains(&document.kind.as_str()) {
            continue;
        }
        let is_delivered = ids::is_delivered(&document.id);
        plan.swept.count(&document.kind);
        match document.kind.as_str() {
            // Its sender may deliver it once more: the tombstone says that it was, also to the instance that comes
            // next, which has nothing to do with it.
            kinds::TOMBSTONE if is_delivered => {}
            kinds::MESSAGE if is_delivered => {
                plan.writes.push(Write::bury(&instance.instance_id, &document.id));
            }
            _ => plan.writes.push(Write::delete(&document.id, None)),
        }
    }
    plan
}

/// The documents that a sweep removed, by kind.
#[derive(Debug, Default)]
pub(crate) struct Swept {
    pub(super) executions: u64,
    pub(super) events: u64,
    pub(super) messages: u64,
}

impl Swept {
    fn count(&mut self, kind: &str) {
        match kind {
            kinds::EXECUTION => self.executions += 1,
            kinds::HISTORY => self.events += 1,
            kinds::MESSAGE | kinds::WORKER_ITEM => self.messages += 1,
            _ => {}
        }
    }

    pub(crate) fn add_to(&self, result: &mut DeleteInstanceResult) {
        result.executions_deleted += self.executions;
        result.events_deleted += self.events;
        result.queue_messages_deleted += self.messages;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write::Change;

    fn instance(status: &str) -> InstanceDocument {
        let new = InstanceDocument::provisional("i", "x".to_owned(), 0);
        InstanceDocument { status: status.to_owned(), lock_token: Some("t".to_owned()), ..new }
    }

    fn found(id: &str, kind: &str, enqueued_at: i64) -> Found {
        Found { id: id.to_owned(), kind: kind.to_owned(), enqueued_at: Some(enqueued_at) }
    }

    #[test]
    fn an_instance_that_runs_is_deleted_by_force_alone() {
        assert!(marked(&instance("Running"), false, 1).is_err());
        let forced = marked(&instance("Running"), true, 7).unwrap();
        assert!(forced.is_deleting && forced.lock_token.is_none());
        assert_eq!(forced.updated_at, 7);
        assert!(marked(&instance("Completed"), false, 1).is_ok());
    }

    #[test]
    fn an_instance_is_marked_after_the_one_that_has_started_it() {
        let of = |id: &str, parent: Option<&str>| InstanceDocument {
            instance_id: id.to_owned(),
            parent_instance_id: parent.map(str::to_owned),
            ..instance("Completed")
        };
        let ordered = parents_first(vec![
            of("grandchild", Some("child")),
            of("other", Some("gone")),
            of("child", Some("root")),
            of("root", None),
        ]);
        let ids: Vec<&str> = ordered.iter().map(|it| it.instance_id.as_str()).collect();
        assert_eq!(ids, ["other", "root", "child", "grandchild"]);
        let each_other = parents_first(vec![of("a", Some("b")), of("b", Some("a"))]);
        assert_eq!(each_other.len(), 2);
    }

    #[test]
    fn everything_goes_but_the_instance_and_what_came_after_the_mark() {
        let marked = marked(&instance("Completed"), false, 10).unwrap();
        let documents = [
            found("i:instance", kinds::INSTANCE, 0),
            found("schema", kinds::SCHEMA, 0),
            found("roster", kinds::LEASES, 0),
            found("s:session", kinds::SESSION, 0),
            found("h", kinds::HISTORY, 0),
            found("e", kinds::EXECUTION, 0),
            found("w", kinds::WORKER_ITEM, 5),
            found("before", kinds::MESSAGE, 10),
            found("after", kinds::MESSAGE, 11),
        ];
        let plan = sweep(&marked, &documents);
        let ids: Vec<&str> = plan.writes.iter().map(|write| write.id.as_str()).collect();
        assert_eq!(ids, ["h", "e", "w", "before"]);
        let mut result = DeleteInstanceResult::default();
        plan.swept.add_to(&mut result);
        let counted =
            (result.executions_deleted, result.events_deleted, result.queue_messages_deleted);
        assert_eq!(counted, (1, 1, 2));
    }

    #[test]
    fn what_another_instance_sent_stays_sent() {
        let marked = marked(&instance("Completed"), false, 10).unwrap();
        let (waiting, consumed) = (ids::delivered("k:1"), ids::delivered("k:2"));
        let documents = [found(&waiting, kinds::MESSAGE, 1), found(&consumed, kinds::TOMBSTONE, 1)];
        let plan = sweep(&marked, &documents);
        assert_eq!(plan.writes.len(), 1);
        assert_eq!(plan.writes[0].id, waiting);
        assert!(matches!(plan.writes[0].change, Change::Upsert(_)), "a tombstone takes its place");
    }
}

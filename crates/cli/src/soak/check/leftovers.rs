//! Leftovers in the container: queue documents, locks, and parts without an owner.

use super::{Check, Violation};
use crate::soak::remains::{DocumentRow, InstanceRow};

/// The documents that own parts for good.
const OWNERS: [&str; 2] = [":history:", ":execution:"];

/// Checks that nothing is left but instances, their histories, and tombstones.
pub(crate) fn leftovers(documents: &[DocumentRow], instances: &[InstanceRow]) -> Vec<Violation> {
    let of_documents = documents.iter().filter_map(|document| {
        let DocumentRow { id, instance_id, kind, owner } = document;
        let sentence = match (kind.as_str(), owner) {
            ("part", Some(owner)) if OWNERS.iter().any(|it| owner.contains(it)) => return None,
            ("part", Some(owner)) => format!("the part {id} is left of {owner}"),
            _ => format!("the {kind} document {id} is left"),
        };
        Some(Violation::of(Check::Leftovers, instance_id, sentence))
    });
    let of_instances = instances.iter().flat_map(|row| {
        let is_left = [
            (row.lock_token.is_some(), "it is locked"),
            (row.staging_turn.is_some(), "a turn of it is staged"),
            (!row.cleanup.is_empty(), "documents of it are to be cleaned up"),
        ];
        let left = is_left.into_iter().filter(|(is_left, _)| *is_left);
        left.map(|(_, sentence)| Violation::of(Check::Leftovers, &row.instance_id, sentence))
    });
    of_documents.chain(of_instances).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(kind: &str, id: &str, owner: Option<&str>) -> DocumentRow {
        let (id, kind) = (id.to_owned(), kind.to_owned());
        DocumentRow { id, instance_id: "r1".to_owned(), kind, owner: owner.map(str::to_owned) }
    }

    fn sentences(documents: &[DocumentRow], instances: &[InstanceRow]) -> Vec<String> {
        leftovers(documents, instances).into_iter().map(|it| it.sentence).collect()
    }

    #[test]
    fn messages_activities_and_intents_that_are_left_are_found() {
        for kind in ["orch_queue", "worker_queue", "outbox_intent", "session"] {
            let found = sentences(&[document(kind, "d", None)], &[]);
            assert_eq!(found, [format!("the {kind} document d is left")]);
        }
    }

    #[test]
    fn parts_are_left_of_histories_and_outputs_alone() {
        let part = |owner| document("part", "p", Some(owner));
        let lasting = [part("r1:history:1:2"), part("r1:execution:1")];
        assert_eq!(sentences(&lasting, &[]), Vec::<String>::new());
        let found = sentences(&[part("r1:worker:1:2")], &[]);
        assert_eq!(found, ["the part p is left of r1:worker:1:2"]);
    }

    #[test]
    fn locks_staged_turns_and_unfinished_clean_ups_are_found() {
        let row = InstanceRow { instance_id: "r1".to_owned(), ..InstanceRow::default() };
        assert_eq!(sentences(&[], std::slice::from_ref(&row)), Vec::<String>::new());
        let locked = InstanceRow { lock_token: Some("t".to_owned()), ..row.clone() };
        let staged = InstanceRow { staging_turn: Some(3), ..row.clone() };
        let unclean = InstanceRow { cleanup: vec![json!({})], ..row };
        assert_eq!(sentences(&[], &[locked, staged, unclean]).len(), 3);
    }
}

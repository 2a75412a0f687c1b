//! The rows of a poll, and which of them are for this process. Pure.

use std::collections::HashSet;

use serde::Deserialize;
use sidereal_protocol::Etag;

use super::question::Question;
use crate::dispatch::{Demand, ItemHint};
use crate::documents::kinds;
use crate::outbox::FoundIntent;

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Row {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) id: String,
    pub(super) instance_id: String,
    #[serde(default)]
    dispatch_slot: u8,
    #[serde(default)]
    pub(super) enqueued_at: i64,
    #[serde(default)]
    seq: u64,
    #[serde(default)]
    pub(super) visible_at: i64,
    tag: Option<String>,
    session_id: Option<String>,
    staged_turn: Option<u64>,
    is_start: Option<bool>,
    #[serde(rename = "_etag")]
    etag: Option<Etag>,
}

impl Row {
    pub(super) fn hint(self) -> ItemHint {
        ItemHint {
            instance: self.instance_id,
            id: self.id,
            enqueued_at: self.enqueued_at,
            seq: self.seq,
            tag: self.tag,
            session: self.session_id,
            etag: self.etag,
            document: None,
        }
    }

    /// Whether it is a message that certainly does not begin an execution.
    pub(super) fn is_no_start(&self) -> bool {
        self.is_start == Some(false)
    }

    pub(super) fn intent(self) -> FoundIntent {
        FoundIntent { instance: self.instance_id, id: self.id, staged_turn: self.staged_turn }
    }

    /// Whether it is in a slot of another process.
    fn is_of_another(&self, question: &Question) -> bool {
        let own = match self.kind.as_str() {
            kinds::MESSAGE => question.messages,
            kinds::WORKER_ITEM if self.tag.is_none() && self.session_id.is_none() => {
                question.activities.as_ref().map(|asked| asked.slots)
            }
            _ => None,
        };
        own.is_some_and(|own| !own.contains(self.dispatch_slot))
    }
}

/// Of rows, the oldest first, those that are for this process: all of its slots, and of what waits in the slots of other
/// processes a part, if a caller here has nothing to do.
pub(super) fn taken(rows: Vec<Row>, question: &Question, demand: &Demand) -> Vec<Row> {
    let (others, mut taken): (Vec<Row>, Vec<Row>) =
        rows.into_iter().partition(|row| row.is_of_another(question));
    let (messages, activities): (Vec<Row>, Vec<Row>) =
        others.into_iter().partition(|row| row.kind == kinds::MESSAGE);
    let own_turns = instances(&taken).len();
    let own_items = taken.iter().filter(|row| row.kind == kinds::WORKER_ITEM).count();
    let idle_dispatchers = demand.dispatchers.saturating_sub(own_turns);
    let idle_workers = demand.workers.saturating_sub(own_items);

    let theirs = instances(&messages);
    let left = left_to_others(theirs.len(), idle_dispatchers);
    let left: HashSet<String> =
        theirs[..left].iter().map(|&instance| instance.to_owned()).collect();
    taken.extend(messages.into_iter().filter(|row| !left.contains(&row.instance_id)));
    let left = left_to_others(activities.len(), idle_workers);
    taken.extend(activities.into_iter().skip(left));
    taken
}

/// Work stealing: how many of those that wait for other processes, of the oldest, are left to them. Half of them, since
/// their owner goes on with the oldest; fewer, if there are not as many as are idle here.
fn left_to_others(waiting: usize, idle: usize) -> usize {
    match idle {
        0 => waiting,
        _ => (waiting / 2).min(waiting.saturating_sub(idle)),
    }
}

/// The instances of messages, in their order.
fn instances(rows: &[Row]) -> Vec<&str> {
    let mut seen = HashSet::new();
    let messages = rows.iter().filter(|row| row.kind == kinds::MESSAGE);
    messages.map(|row| row.instance_id.as_str()).filter(|id| seen.insert(*id)).collect()
}

#[cfg(test)]
mod tests {
    use duroxide::providers::TagFilter;
    use serde_json::json;

    use super::super::question::AskedActivities;
    use super::*;
    use crate::activity_filter::ActivityFilter;
    use crate::leases::Slots;

    fn row(kind: &str, id: &str, slot: u8) -> Row {
        let row = json!({ "type": kind, "id": id, "instanceId": id, "dispatchSlot": slot });
        serde_json::from_value(row).unwrap()
    }

    fn taken_of(rows: Vec<Row>, dispatchers: usize, workers: usize) -> Vec<String> {
        let own: Slots = [1].into_iter().collect();
        let filter = ActivityFilter::of(&TagFilter::Any, true);
        let activities =
            AskedActivities { slots: own, filter: filter.clone(), without_sessions: vec![] };
        let (messages, activities) = (Some(own), Some(activities));
        let question = Question { messages, activities, ..Question::first(Some(0)) };
        let demand = Demand { dispatchers, workers, activities: filter };
        taken(rows, &question, &demand).into_iter().map(|row| row.id).collect()
    }

    fn messages(own: usize, others: usize) -> Vec<Row> {
        let own = (0..own).map(|number| row(kinds::MESSAGE, &format!("own{number}"), 1));
        let others = (0..others).map(|number| row(kinds::MESSAGE, &format!("other{number}"), 2));
        own.chain(others).collect()
    }

    #[test]
    fn an_idle_process_steals_the_younger_half_of_the_work_of_others() {
        assert_eq!(taken_of(messages(0, 5), 2, 0), ["other2", "other3", "other4"]);
        assert_eq!(taken_of(messages(0, 2), 3, 0), ["other0", "other1"]);
        assert_eq!(taken_of(messages(1, 2), 2, 0), ["own0", "other1"]);
        assert_eq!(taken_of(messages(2, 5), 2, 0), ["own0", "own1"], "no caller is idle then");
        assert!(taken_of(messages(0, 5), 0, 2).is_empty(), "workers take no turns");
    }

    #[test]
    fn activities_likewise_but_those_of_tags_and_sessions_are_of_no_slot() {
        let items = |tag: Option<&str>| {
            let item = |number| Row {
                tag: tag.map(str::to_owned),
                ..row(kinds::WORKER_ITEM, &format!("item{number}"), 2)
            };
            (0..4).map(item).collect::<Vec<_>>()
        };
        assert_eq!(taken_of(items(None), 9, 1), ["item2", "item3"]);
        assert!(taken_of(items(None), 9, 0).is_empty());
        assert_eq!(taken_of(items(Some("gpu")), 0, 0).len(), 4);
    }

    #[test]
    fn all_messages_of_an_instance_are_taken_or_none() {
        let mut rows = messages(0, 2);
        rows.push(Row { id: "again".to_owned(), ..rows[1].clone() });
        assert_eq!(taken_of(rows, 1, 0), ["other1", "again"]);
    }
}

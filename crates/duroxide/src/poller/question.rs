//! The query of a poll.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};

use super::Look;
use crate::activity_filter::ActivityFilter;
use crate::dispatch::Demand;
use crate::leases::Slots;
use crate::locks::LockView;

/// Work that waits, or will within the next interval: messages, activities, and undelivered messages to other instances.
/// Activities with a tag or a session are looked for in all slots, since not every process takes them.
const WORK: &str = "SELECT c.type, c.id, c.instanceId, c.dispatchSlot, c.enqueuedAt, c.seq, c.visibleAt, c.tag, c.sessionId, \
     c.stagedTurn, c.isStart, c._etag FROM c WHERE ";

const MESSAGES: &str = "(c.type = 'orch_queue' AND c.visibleAt <= @soon \
     AND (NOT IS_DEFINED(c.retryAt) OR c.retryAt <= @now) AND ";

const ACTIVITIES: &str = "(c.type = 'worker_queue' AND c.visibleAt <= @soon AND ";

const INTENTS: &str =
    "(c.type = 'outbox_intent' AND c.status = 'pending' AND c.createdAt <= @before";

/// Instances whose deletion was interrupted. They belong to no slot, so the query for the slots of other processes includes
/// them.
const ABANDONED: &str = "(c.type = 'instance' AND c.isDeleting = true AND c.updatedAt <= @abandoned \
     AND (IS_NULL(c.lockedUntil) OR c.lockedUntil <= @now))";

/// The condition that something waits since a time, but for the time: a message that is not delayed is visible from 0 on.
const WAITS: &str = "c.visibleAt <= @since AND c.enqueuedAt";

const OLDEST_FIRST: &str = " ORDER BY c.enqueuedAt";

const NOT_IN_SESSIONS: &str =
    " AND (IS_NULL(c.sessionId) OR NOT ARRAY_CONTAINS(@sessions, c.sessionId))";

/// Messages of so many instances that a look has seen are not asked for again: a query has a most of bytes.
const MOST_INSTANCES_LEFT_OUT: usize = 200;

const NOT_OF_INSTANCES: &str = " AND NOT ARRAY_CONTAINS(@instances, c.instanceId)";

/// A question: kinds, and the slots of each.
#[derive(Clone, Debug)]
pub(super) struct Question {
    /// The slots of this process.
    pub(super) messages: Option<Slots>,
    pub(super) activities: Option<AskedActivities>,
    /// Of the slots of other processes, what has waited since this time; none, if they are not asked about.
    pub(super) others_since: Option<i64>,
    /// Instances whose messages were seen by this look.
    pub(super) without_instances: Vec<String>,
    /// The first question of a look is about undelivered messages too, and is not followed page by page.
    pub(super) is_first: bool,
}

/// Which activities the container is asked for: no others are to be read through on the way to those.
#[derive(Clone, Debug)]
pub(super) struct AskedActivities {
    /// The slots of this process.
    pub(super) slots: Slots,
    /// The activities that workers of this process take.
    pub(super) filter: ActivityFilter,
    /// Sessions whose workers do not wait.
    pub(super) without_sessions: Vec<Arc<str>>,
}

impl Question {
    /// The first of a look, about nothing yet.
    pub(super) fn first(others_since: Option<i64>) -> Self {
        let (messages, activities, without_instances) = (None, None, Vec::new());
        Self { messages, activities, others_since, without_instances, is_first: true }
    }

    /// Messages only, page by page: those of instances that were not seen yet.
    pub(super) fn turns_alone(&self, seen: &BTreeSet<String>) -> Self {
        let without_instances = seen.iter().take(MOST_INSTANCES_LEFT_OUT).cloned().collect();
        Self { activities: None, without_instances, is_first: false, ..self.clone() }
    }

    /// Activities only, page by page: those that workers wait for now.
    pub(super) fn items_alone(&self, waited_for: &ActivityFilter) -> Self {
        let activities = self.activities.clone();
        let activities = activities.map(|it| AskedActivities { filter: waited_for.clone(), ..it });
        let without_instances = Vec::new();
        Self { messages: None, activities, without_instances, is_first: false, ..*self }
    }

    /// Whether a question is better asked again, without the instances that were seen since: the backlog of one may be
    /// many pages.
    pub(super) fn is_outdated(&self, look: &Look) -> bool {
        let (left_out, seen) = (self.without_instances.len(), look.instances.len());
        self.messages.is_some() && left_out < seen.min(MOST_INSTANCES_LEFT_OUT)
    }

    /// Whether as much was found as is waited for, of the kinds that were asked for.
    pub(super) fn is_met(&self, look: &Look, demand: &Demand) -> bool {
        (self.messages.is_none() || look.turns >= demand.dispatchers)
            && (self.activities.is_none() || look.items >= demand.workers)
    }

    pub(super) fn query(&self, locks: &LockView) -> (String, Vec<(&'static str, Value)>) {
        let (is_free, is_free_parameters) = locks.is_free();
        let (mut conditions, mut parameters) = (Vec::new(), is_free_parameters.to_vec());
        parameters.extend(self.others_since.map(|since| ("@since", json!(since))));
        if let Some(slots) = self.messages {
            let of = |waits_since| self.of_slots(slots, "@messageSlots", "", waits_since);
            let left_out = if self.without_instances.is_empty() { "" } else { NOT_OF_INSTANCES };
            conditions.push(format!("{MESSAGES}{is_free}{}{left_out})", of(WAITS)));
            if self.is_first {
                conditions.push(format!("{INTENTS}{})", of("c.createdAt")));
                conditions.extend(self.others_since.map(|_| ABANDONED.to_owned()));
            }
            parameters.push(("@messageSlots", json!(slots.to_vec())));
            parameters.push(("@instances", json!(self.without_instances)));
        }
        if let Some(AskedActivities { slots, filter, without_sessions }) = &self.activities {
            let of_all_slots = "NOT IS_NULL(c.tag) OR NOT IS_NULL(c.sessionId) OR ";
            let in_slots = self.of_slots(*slots, "@activitySlots", of_all_slots, WAITS);
            let taken = filter.condition();
            let left_out = if without_sessions.is_empty() { "" } else { NOT_IN_SESSIONS };
            conditions.push(format!("{ACTIVITIES}{is_free}{in_slots}{taken}{left_out})"));
            parameters.push(("@activitySlots", json!(slots.to_vec())));
            parameters.push(("@tags", json!(filter.tags())));
            let names: Vec<&str> = without_sessions.iter().map(|name| &**name).collect();
            parameters.push(("@sessions", json!(names)));
        }
        (format!("{WORK}({}){OLDEST_FIRST}", conditions.join(" OR ")), parameters)
    }

    /// The condition that something is for this process; nothing if it has all slots.
    fn of_slots(
        &self,
        slots: Slots,
        parameter: &str,
        of_all_slots: &str,
        waits_since: &str,
    ) -> String {
        if slots.is_all() {
            return String::new();
        }
        let others = match self.others_since {
            Some(_) => format!(" OR {waits_since} <= @since"),
            None => String::new(),
        };
        format!(" AND ({of_all_slots}ARRAY_CONTAINS({parameter}, c.dispatchSlot){others})")
    }
}

#[cfg(test)]
mod tests {
    use duroxide::providers::TagFilter;

    use super::*;
    use crate::leases::ALL_SLOTS;

    fn question(slots: Slots, others_since: Option<i64>) -> Question {
        let filter = ActivityFilter::of(&TagFilter::Any, true);
        let activities = AskedActivities { slots, filter, without_sessions: vec![] };
        let (messages, activities) = (Some(slots), Some(activities));
        Question { messages, activities, is_first: false, ..Question::first(others_since) }
    }

    #[test]
    fn a_question_is_met_by_what_it_asked_for_alone() {
        let both = question(ALL_SLOTS, None);
        let filter = ActivityFilter::of(&TagFilter::Any, true);
        let (turns, items) = (both.turns_alone(&BTreeSet::new()), both.items_alone(&filter));
        let demand = Demand { dispatchers: 2, workers: 2, activities: filter };
        let look = Look { turns: 2, requests: 1, ..Look::default() };
        assert!(turns.is_met(&look, &demand), "a backlog is not read on for activities");
        assert!(!items.is_met(&look, &demand) && !both.is_met(&look, &demand));
        assert!(both.is_met(&Look { items: 2, ..look }, &demand));
    }

    #[test]
    fn a_query_names_own_slots_and_the_waiting_time_for_others() {
        let has =
            |question: Question, text: &str| question.query(&LockView::default()).0.contains(text);
        let own: Slots = [1, 2].into_iter().collect();
        assert!(!has(question(ALL_SLOTS, Some(7)), "Slots"));
        assert!(has(question(own, None), "ARRAY_CONTAINS(@messageSlots, c.dispatchSlot))"));
        let wide = "c.dispatchSlot) OR c.visibleAt <= @since AND c.enqueuedAt <= @since)";
        assert!(has(question(own, Some(7)), wide));
        assert!(!has(question(own, None), "@since"));
    }

    #[test]
    fn messages_of_seen_instances_are_left_out_while_there_is_room() {
        let first = Question { activities: None, ..question(ALL_SLOTS, None) };
        let mut look = Look::default();
        assert!(!first.turns_alone(&look.instances).is_outdated(&look), "none was seen");
        for number in 0..2 * MOST_INSTANCES_LEFT_OUT {
            let before = first.turns_alone(&look.instances);
            look.instances.insert(number.to_string());
            assert_eq!(before.is_outdated(&look), number < MOST_INSTANCES_LEFT_OUT);
            let next = first.turns_alone(&look.instances);
            assert!(
                !next.is_outdated(&look)
                    && next.query(&LockView::default()).0.contains("@instances")
            );
        }
        assert!(!first.query(&LockView::default()).0.contains("@instances"));
    }

    #[test]
    fn interrupted_deletions_are_looked_for_from_time_to_time() {
        let asks = |others_since, is_first| {
            let question = Question { is_first, ..question(ALL_SLOTS, others_since) };
            question.query(&LockView::default()).0.contains("isDeleting")
        };
        assert!(asks(Some(7), true) && !asks(None, true) && !asks(Some(7), false));
    }
}

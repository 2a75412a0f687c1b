//! One instance: whether it ended as its program says, and its history has each step once.

use std::collections::BTreeMap;

use duroxide::{Event, EventKind};

use super::{Check, Violation};
use crate::soak::expected::{Expected, Scheduled};
use crate::soak::remains::FoundInstance;
use crate::soak::state::ActivityInput;

/// How much of a text is shown.
const SHOWN: usize = 120;

/// Checks an instance. `sends` is how often an event of a name was sent to it.
pub(crate) fn instance(
    expected: &Expected,
    found: Option<&FoundInstance>,
    sends: &dyn Fn(&str) -> usize,
) -> Vec<Violation> {
    let violation = |check, sentence: String| Violation::of(check, &expected.instance, sentence);
    let Some(found) = found else {
        return vec![violation(Check::Population, "it is not there".to_owned())];
    };
    let mut violations: Vec<Violation> = Vec::new();
    for (number, events) in (1..).zip(&found.executions) {
        let of_execution =
            |(check, sentence)| violation(check, format!("execution {number}: {sentence}"));
        violations.extend(numbering(events).into_iter().map(of_execution));
        violations.extend(completions(events, sends).into_iter().map(of_execution));
    }
    if !found.row.has_ended() {
        let last = found.executions.last().and_then(|events| events.last());
        let last = last.map_or_else(|| "nothing".to_owned(), told);
        let sentence = format!("it is {}; its last event is {last}", found.row.status);
        violations.push(violation(Check::Ended, sentence));
        return violations;
    }
    violations.extend(output(expected, found).map(|it| violation(Check::Output, it)));
    violations.extend(steps(expected, found).map(|it| violation(Check::Steps, it)));
    violations
}

/// Compares the output with the expected one, in the instance and in its history.
fn output(expected: &Expected, found: &FoundInstance) -> Option<String> {
    let last = found.executions.last().and_then(|events| events.last());
    let in_history = match last.map(|event| &event.kind) {
        Some(EventKind::OrchestrationCompleted { output }) => output,
        Some(EventKind::OrchestrationFailed { details }) => {
            return Some(format!("it failed: {}", short(&details.display_message())));
        }
        _ => {
            let last = last.map_or_else(|| "nothing".to_owned(), told);
            return Some(format!("it is {}, but its last event is {last}", found.row.status));
        }
    };
    if *in_history != expected.output {
        let (there, expected) = (short(in_history), short(&expected.output));
        return Some(format!("the output in the history is {there}, and not {expected}"));
    }
    (found.output.as_ref() != Some(in_history)).then(|| {
        let there = found.output.as_deref().map_or_else(|| "missing".to_owned(), short);
        format!("the output of the instance is {there}, and not {}", short(in_history))
    })
}

/// Compares the steps that each execution has scheduled with those of its program.
fn steps(expected: &Expected, found: &FoundInstance) -> Option<String> {
    let there: Vec<Vec<Scheduled>> = found
        .executions
        .iter()
        .map(|events| events.iter().filter_map(scheduled).collect())
        .collect();
    if there.len() != expected.executions.len() {
        let (there, expected) = (there.len(), expected.executions.len());
        return Some(format!("there are {there} executions, and not {expected}"));
    }
    let differing = (1..).zip(there.iter().zip(&expected.executions)).find(|(_, (a, b))| a != b);
    differing.map(|(number, (there, expected))| {
        format!("execution {number} scheduled {there:?}, and not {expected:?}")
    })
}

/// The first numbers that are not those of their places.
fn numbering(events: &[Event]) -> Option<(Check, String)> {
    let wrong = (1..).zip(events).find(|(number, event)| event.event_id() != *number);
    let sentence = match wrong {
        Some((number, event)) if event.event_id() < number => {
            format!("the event {} is there twice", event.event_id())
        }
        Some((number, event)) => {
            format!("the event {number} is missing before {}", event.event_id())
        }
        None => return None,
    };
    Some((Check::Numbering, sentence))
}

/// Checks that each scheduled step is completed once, and that the last event alone ends the execution.
fn completions(events: &[Event], sends: &dyn Fn(&str) -> usize) -> Vec<(Check, String)> {
    let mut found = Vec::new();
    let mut completed: BTreeMap<u64, usize> = BTreeMap::new();
    let mut delivered: BTreeMap<&str, usize> = BTreeMap::new();
    for event in events {
        match &event.kind {
            EventKind::ActivityCompleted { .. }
            | EventKind::ActivityFailed { .. }
            | EventKind::TimerFired { .. }
            | EventKind::SubOrchestrationCompleted { .. }
            | EventKind::SubOrchestrationFailed { .. } => {
                *completed.entry(event.source_event_id().unwrap_or_default()).or_default() += 1;
            }
            EventKind::ExternalEvent { name, .. } | EventKind::QueueEventDelivered { name, .. } => {
                *delivered.entry(name).or_default() += 1;
            }
            _ => {}
        }
    }
    let has_ended = events.last().is_some_and(Event::is_terminal);
    for event in events {
        let times = match &event.kind {
            EventKind::ActivityScheduled { .. }
            | EventKind::TimerCreated { .. }
            | EventKind::SubOrchestrationScheduled { .. } => {
                completed.remove(&event.event_id()).unwrap_or_default()
            }
            EventKind::ExternalSubscribed { name } | EventKind::QueueSubscribed { name } => {
                delivered.get(name.as_str()).copied().unwrap_or_default().min(1)
            }
            _ => continue,
        };
        if times > 1 || (has_ended && times == 0) {
            found.push(format!("{} was completed {times} times", told(event)));
        }
    }
    found.extend(completed.keys().map(|id| format!("{id} was completed and not scheduled")));
    for (name, times) in delivered {
        if times > sends(name) {
            let sends = sends(name);
            found.push(format!(
                "the event {name} is there {times} times, and was sent {sends} times"
            ));
        }
    }
    let ends = events.iter().filter(|event| event.is_terminal()).count();
    if ends > 1 || (ends == 1 && !has_ended) {
        found.push(format!("{ends} events end it, and the last one should"));
    }
    found.into_iter().map(|sentence| (Check::Completions, sentence)).collect()
}

/// The step that an event schedules, if it is a scheduling event.
fn scheduled(event: &Event) -> Option<Scheduled> {
    Some(match &event.kind {
        EventKind::ActivityScheduled { input, .. } => Scheduled::Activity(activity_name(input)),
        EventKind::TimerCreated { .. } => Scheduled::Timer,
        EventKind::QueueSubscribed { name } => Scheduled::Queue(name.clone()),
        EventKind::ExternalSubscribed { name } => Scheduled::Signal(name.clone()),
        EventKind::SubOrchestrationScheduled { instance, .. } => Scheduled::Child(instance.clone()),
        EventKind::OrchestrationChained { instance, .. } => Scheduled::Detached(instance.clone()),
        _ => return None,
    })
}

/// The name of an activity, from its input.
fn activity_name(input: &str) -> String {
    let input: Option<ActivityInput> = serde_json::from_str(input).ok();
    input.map_or_else(|| "unreadable".to_owned(), |input| input.name)
}

/// An event in a few words.
fn told(event: &Event) -> String {
    let kind = serde_json::to_value(&event.kind).unwrap_or_default();
    format!("{} {}", kind["type"].as_str().unwrap_or("event"), event.event_id())
}

fn short(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soak::expected::expected;
    use crate::soak::program::{Program, Step};
    use crate::soak::remains::InstanceRow;

    /// An instance that has done an activity, waited for an event and a timer, and completed.
    fn whole() -> (Expected, FoundInstance) {
        let steps = vec![Step::Activity, Step::Signal, Step::Timer { millis: 1 }];
        let expected = expected("r1", &Program { bytes: 10, executions: vec![steps] }).remove(0);
        let input = ActivityInput::of("r1", "0.0", 10).to_input();
        let (name, output) = ("0.1".to_owned(), expected.output.clone());
        let kinds = [
            (None, started()),
            (
                None,
                EventKind::ActivityScheduled {
                    name: "Answer".to_owned(),
                    input,
                    session_id: None,
                    tag: None,
                },
            ),
            (Some(2), EventKind::ActivityCompleted { result: "answer".to_owned() }),
            (None, EventKind::ExternalSubscribed { name: name.clone() }),
            (None, EventKind::ExternalEvent { name, data: String::new() }),
            (None, EventKind::TimerCreated { fire_at_ms: 1 }),
            (Some(6), EventKind::TimerFired { fire_at_ms: 1 }),
            (None, EventKind::OrchestrationCompleted { output: output.clone() }),
        ];
        let events = (1..).zip(kinds).map(|(id, (source, kind))| event(id, source, kind));
        let row = InstanceRow {
            instance_id: "r1".to_owned(),
            status: "Completed".to_owned(),
            current_execution_id: 1,
            ..InstanceRow::default()
        };
        let found = FoundInstance { row, output: Some(output), executions: vec![events.collect()] };
        (expected, found)
    }

    fn started() -> EventKind {
        EventKind::OrchestrationStarted {
            name: "Program".to_owned(),
            version: "1.0.0".to_owned(),
            input: String::new(),
            parent_instance: None,
            parent_id: None,
            parent_execution_id: None,
            carry_forward_events: None,
            initial_custom_status: None,
        }
    }

    fn event(id: u64, source: Option<u64>, kind: EventKind) -> Event {
        Event::with_event_id(id, "r1", 1, source, kind)
    }

    /// The checks that find something wrong with an instance whose history is changed like this.
    fn broken(change: impl FnOnce(&mut Vec<Event>)) -> Vec<Check> {
        let (expected, mut found) = whole();
        change(&mut found.executions[0]);
        checks(&expected, Some(&found))
    }

    fn checks(expected: &Expected, found: Option<&FoundInstance>) -> Vec<Check> {
        let violations = instance(expected, found, &|_| 1);
        let mut checks: Vec<Check> = violations.into_iter().map(|it| it.check).collect();
        checks.sort_unstable();
        checks.dedup();
        checks
    }

    /// Numbers events by their places, as if nothing had been taken out or put in.
    fn renumber(events: &mut [Event]) {
        let numbers: BTreeMap<u64, u64> =
            (1..).zip(events.iter()).map(|(number, event)| (event.event_id, number)).collect();
        for event in events {
            event.source_event_id = event.source_event_id.map(|id| numbers[&id]);
            event.event_id = numbers[&event.event_id];
        }
    }

    #[test]
    fn a_whole_instance_has_no_violations() {
        assert_eq!(broken(|_| {}), []);
    }

    #[test]
    fn a_missing_instance_is_found() {
        assert_eq!(checks(&whole().0, None), [Check::Population]);
    }

    #[test]
    fn a_stuck_instance_is_found() {
        let (expected, mut found) = whole();
        found.row.status = "Running".to_owned();
        found.executions[0].truncate(6);
        assert_eq!(checks(&expected, Some(&found)), [Check::Ended]);
        let violations = instance(&expected, Some(&found), &|_| 1);
        assert_eq!(violations[0].sentence, "it is Running; its last event is TimerCreated 6");
    }

    #[test]
    fn a_gap_in_a_history_is_found() {
        assert_eq!(broken(|events| drop(events.remove(6))), [Check::Numbering, Check::Completions]);
    }

    #[test]
    fn a_doubled_event_is_found() {
        let doubled = |events: &mut Vec<Event>| events.insert(3, events[2].clone());
        assert_eq!(broken(doubled), [Check::Numbering, Check::Completions]);
        let renumbered = |events: &mut Vec<Event>| {
            let again = EventKind::ActivityCompleted { result: "answer".to_owned() };
            let last = events.pop().unwrap();
            events.push(event(8, Some(2), again));
            events.push(event(9, None, last.kind));
        };
        assert_eq!(broken(renumbered), [Check::Completions]);
    }

    #[test]
    fn a_lost_step_is_found() {
        let lost = |events: &mut Vec<Event>| {
            events.drain(5..7);
            renumber(events);
        };
        assert_eq!(broken(lost), [Check::Steps]);
    }

    #[test]
    fn reordered_and_doubled_steps_are_found() {
        let reordered = |events: &mut Vec<Event>| {
            events[1..7].rotate_left(2);
            renumber(events);
        };
        assert_eq!(broken(reordered), [Check::Steps]);
        let doubled = |events: &mut Vec<Event>| {
            let last = events.pop().unwrap();
            events.push(event(8, None, EventKind::TimerCreated { fire_at_ms: 2 }));
            events.push(event(9, Some(8), EventKind::TimerFired { fire_at_ms: 2 }));
            events.push(event(10, None, last.kind));
        };
        assert_eq!(broken(doubled), [Check::Steps]);
    }

    #[test]
    fn another_output_is_found_in_the_history_and_in_the_instance() {
        let other = |events: &mut Vec<Event>| {
            events[7].kind = EventKind::OrchestrationCompleted { output: "other".to_owned() };
        };
        assert_eq!(broken(other), [Check::Output]);
        let (expected, mut found) = whole();
        found.output = None;
        assert_eq!(checks(&expected, Some(&found)), [Check::Output]);
    }

    #[test]
    fn an_end_that_is_not_the_last_event_is_found() {
        let twice = |events: &mut Vec<Event>| {
            let again = events[7].kind.clone();
            events.push(event(9, None, again));
        };
        assert_eq!(broken(twice), [Check::Completions]);
        let early = |events: &mut Vec<Event>| {
            events.push(event(9, None, EventKind::TimerCreated { fire_at_ms: 3 }));
        };
        assert_eq!(broken(early), [Check::Output, Check::Steps, Check::Completions]);
    }

    #[test]
    fn an_event_that_was_delivered_twice_and_sent_once_is_found() {
        let (expected, mut found) = whole();
        let last = found.executions[0].pop().unwrap();
        let again = found.executions[0][4].kind.clone();
        found.executions[0].push(event(8, None, again));
        found.executions[0].push(event(9, None, last.kind));
        assert_eq!(checks(&expected, Some(&found)), [Check::Completions]);
        assert_eq!(instance(&expected, Some(&found), &|_| 2), []);
    }

    #[test]
    fn a_lost_and_an_additional_execution_are_found() {
        let (expected, mut found) = whole();
        found.executions.push(found.executions[0].clone());
        assert_eq!(checks(&expected, Some(&found)), [Check::Steps]);
    }
}

//! The runs of activities: each activity of a history was run, no other was, and again only after a kill.

use std::collections::{BTreeMap, BTreeSet};

use super::{Check, Violation};
use crate::soak::expected::{Expected, Scheduled};
use crate::soak::kills::{Kill, Victim};
use crate::soak::ledger::Entry;

/// How long after its end an activity may still be acknowledged, in milliseconds: a kill within this time makes it run
/// again.
const ACKNOWLEDGEMENT_MS: u64 = 5_000;

/// Counts of the ledger.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Runs {
    pub(crate) activities: usize,
    pub(crate) runs: usize,
    /// Activities that were run more than once.
    pub(crate) rerun: usize,
    /// The most runs of one activity.
    pub(crate) most: usize,
}

/// The activities of a program, as the ledger names them.
pub(crate) fn activities(expected: &Expected) -> impl Iterator<Item = (String, u64, String)> {
    let named = move |(execution, scheduled): (u64, &Vec<Scheduled>)| {
        let names = scheduled.iter().filter_map(|it| match it {
            Scheduled::Activity(name) => Some(name.clone()),
            _ => None,
        });
        names.map(move |name| (expected.instance.clone(), execution, name)).collect::<Vec<_>>()
    };
    (1..).zip(&expected.executions).flat_map(named)
}

/// Checks the entries of the ledger, which are sorted by activity and attempt. `required` are the activities that must
/// have been run; `allowed` those of orchestrations whose start was not acknowledged.
pub(crate) fn runs(
    required: &BTreeSet<(String, u64, String)>,
    allowed: &BTreeSet<(String, u64, String)>,
    entries: &[Entry],
    kills: &[Kill],
) -> (Runs, Vec<Violation>) {
    let mut by_activity: BTreeMap<(&str, u64, &str), Vec<&Entry>> = BTreeMap::new();
    for entry in entries {
        by_activity.entry(entry.activity()).or_default().push(entry);
    }
    let mut violations = Vec::new();
    for (instance, execution, name) in required {
        let runs = by_activity.get(&(instance.as_str(), *execution, name.as_str()));
        if !runs.is_some_and(|runs| runs.iter().any(|run| run.ended_at.is_some())) {
            let sentence = format!("the activity {name} of execution {execution} was not run");
            violations.push(Violation::of(Check::Activities, instance, sentence));
        }
    }
    for ((instance, execution, name), runs) in &by_activity {
        let activity = ((*instance).to_owned(), *execution, (*name).to_owned());
        if !required.contains(&activity) && !allowed.contains(&activity) {
            let sentence = format!(
                "the activity {name} of execution {execution} was run, and no history has it"
            );
            violations.push(Violation::of(Check::Activities, instance, sentence));
        }
        for pair in runs.windows(2) {
            if let [run, next] = pair
                && !was_met(run, next, kills)
            {
                violations.push(Violation::of(Check::Reruns, instance, unmet(run, next)));
            }
        }
    }
    let counted = Runs {
        activities: by_activity.len(),
        runs: entries.len(),
        rerun: by_activity.values().filter(|runs| runs.len() > 1).count(),
        most: by_activity.values().map(Vec::len).max().unwrap_or_default(),
    };
    (counted, violations)
}

/// Whether a kill of its worker or of the emulator met a run, before its result was acknowledged.
fn was_met(run: &Entry, next: &Entry, kills: &[Kill]) -> bool {
    // Without an end it was running until its worker was killed, or until another worker began.
    let end = run.ended_at.map_or(next.started_at, |end| end.saturating_add(ACKNOWLEDGEMENT_MS));
    kills.iter().any(|kill| {
        let is_its = match &kill.victim {
            Victim::Worker(name) => *name == run.worker,
            Victim::Emulator => true,
        };
        is_its && kill.at <= end && kill.back_at >= run.started_at
    })
}

fn unmet(run: &Entry, next: &Entry) -> String {
    let Entry { name, execution, attempt, worker, started_at, ended_at, .. } = run;
    let took = ended_at.map_or_else(
        || "did not end".to_owned(),
        |end| format!("took {} ms", end.saturating_sub(*started_at)),
    );
    let later = next.started_at.saturating_sub(*started_at);
    format!(
        "run {attempt} of the activity {name} of execution {execution} by {worker} {took} and met no kill, but {} \
         ran it again {later} ms after it began",
        next.worker
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn activity(name: &str) -> (String, u64, String) {
        ("r1".to_owned(), 1, name.to_owned())
    }

    fn entry(attempt: u32, worker: &str, started_at: u64, ended_at: Option<u64>) -> Entry {
        Entry {
            id: format!("1:0.0:{attempt}"),
            instance: "r1".to_owned(),
            execution: 1,
            name: "0.0".to_owned(),
            attempt,
            worker: worker.to_owned(),
            nonce: String::new(),
            started_at,
            ended_at,
        }
    }

    fn kill(victim: Victim, at: u64) -> Kill {
        Kill { victim, at, back_at: at + 500, restart: None }
    }

    fn worker(name: &str) -> Victim {
        Victim::Worker(name.to_owned())
    }

    fn checks(entries: &[Entry], kills: &[Kill]) -> Vec<Check> {
        let required = BTreeSet::from([activity("0.0")]);
        let (_, violations) = runs(&required, &BTreeSet::new(), entries, kills);
        violations.into_iter().map(|it| it.check).collect()
    }

    #[test]
    fn an_activity_that_was_run_once_is_as_it_must_be() {
        assert_eq!(checks(&[entry(1, "a", 100, Some(120))], &[]), []);
    }

    #[test]
    fn an_activity_that_was_not_run_to_its_end_is_found() {
        assert_eq!(checks(&[], &[]), [Check::Activities]);
        assert_eq!(checks(&[entry(1, "a", 100, None)], &[]), [Check::Activities]);
    }

    #[test]
    fn an_activity_that_no_history_has_is_found() {
        let entries = [entry(1, "a", 100, Some(120))];
        let (none, allowed) = (BTreeSet::new(), BTreeSet::from([activity("0.0")]));
        assert_eq!(runs(&none, &none, &entries, &[]).1[0].check, Check::Activities);
        let (_, found) = runs(&none, &allowed, &entries, &[]);
        assert_eq!(found, [], "its start was not acknowledged");
    }

    #[test]
    fn a_kill_of_its_worker_lets_an_activity_run_again() {
        let again = entry(2, "b", 40_000, Some(40_010));
        let running = [entry(1, "a", 10_000, None), again.clone()];
        assert_eq!(checks(&running, &[kill(worker("a"), 10_050)]), []);
        assert_eq!(checks(&running, &[kill(worker("c"), 10_050)]), [Check::Reruns]);
        assert_eq!(checks(&running, &[kill(worker("a"), 9_000)]), [Check::Reruns]);
        let ended = [entry(1, "a", 10_000, Some(10_020)), again];
        assert_eq!(checks(&ended, &[kill(worker("a"), 10_030)]), [], "not acknowledged yet");
        assert_eq!(checks(&ended, &[kill(worker("a"), 20_000)]), [Check::Reruns]);
        assert_eq!(checks(&ended, &[]), [Check::Reruns]);
    }

    #[test]
    fn a_kill_of_the_emulator_lets_an_activity_run_again() {
        let runs = [entry(1, "a", 10_000, Some(10_020)), entry(2, "a", 11_000, Some(11_020))];
        assert_eq!(checks(&runs, &[kill(Victim::Emulator, 10_010)]), []);
        assert_eq!(checks(&runs, &[kill(Victim::Emulator, 9_700)]), [], "it was down then");
        assert_eq!(checks(&runs, &[kill(Victim::Emulator, 9_000)]), [Check::Reruns]);
    }

    #[test]
    fn runs_are_counted() {
        let entries = [entry(1, "a", 1, Some(2)), entry(2, "b", 3, Some(4))];
        let (counted, _) = runs(&BTreeSet::new(), &BTreeSet::new(), &entries, &[]);
        assert_eq!(counted, Runs { activities: 1, runs: 2, rerun: 1, most: 2 });
    }
}

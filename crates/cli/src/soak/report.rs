//! The output of a run: its facts, and the violations with the histories and documents of their instances.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use serde_json::{Value, json};

use super::check::Violation;
use super::judge::Verdict;
use super::kills::{Kill, Victim};
use super::remains::Remains;
use super::site::Site;
use crate::failure::Failure;
use crate::system_properties::without_system_properties;
use crate::table;

/// Violations that are printed; the others are in the file.
const PRINTED: usize = 20;

/// Instances whose documents are printed, and those whose documents are written.
const INSTANCES_PRINTED: usize = 2;
const INSTANCES_WRITTEN: usize = 20;

/// How much of a document is printed.
const DOCUMENT_WIDTH: usize = 300;

/// How the end of a run went.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tail {
    /// From the last kill, or the last start if that was later, to the end of the last orchestration.
    pub(super) ended: Option<Duration>,
    /// From the same moment until the queues were empty.
    pub(super) drained: Option<Duration>,
}

/// The facts of a run.
pub(super) struct Summary<'a> {
    pub(super) seed: u64,
    pub(super) duration: Duration,
    pub(super) started: usize,
    pub(super) kills: &'a [Kill],
    pub(super) tail: Tail,
    pub(super) verdict: &'a Verdict,
}

impl Summary<'_> {
    /// Names and values, in the order of the table.
    pub(super) fn facts(&self) -> Vec<(&'static str, Value)> {
        let verdict = self.verdict;
        let of_workers = |kill: &&Kill| kill.victim != Victim::Emulator;
        let worker_kills = self.kills.iter().filter(of_workers).count();
        let mut restarts: Vec<u64> =
            self.kills.iter().filter_map(|kill| Some(millis(kill.restart?))).collect();
        restarts.sort_unstable();
        let latencies = &verdict.latencies;
        vec![
            ("seed", json!(self.seed)),
            ("seconds", json!(self.duration.as_secs_f64())),
            ("orchestrations", json!(self.started)),
            ("instances", json!(verdict.instances)),
            ("turns", json!(verdict.turns)),
            ("activities", json!(verdict.runs.activities)),
            ("activitiesRunAgain", json!(verdict.runs.rerun)),
            ("mostRunsOfAnActivity", json!(verdict.runs.most)),
            ("workerKills", json!(worker_kills)),
            ("emulatorKills", json!(self.kills.len() - worker_kills)),
            ("restartP50Ms", json!(percentile(&restarts, 50))),
            ("restartMaxMs", json!(restarts.last())),
            ("startToEndP50Ms", json!(percentile(latencies, 50))),
            ("startToEndP99Ms", json!(percentile(latencies, 99))),
            ("tailMs", json!(self.tail.ended.map(millis))),
            ("drainedMs", json!(self.tail.drained.map(millis))),
            ("violations", json!(verdict.violations.len())),
        ]
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A percentile of sorted values: the smallest that so many percent do not exceed.
fn percentile(sorted: &[u64], percent: usize) -> Option<u64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted.get(rank.checked_sub(1)?).copied()
}

/// Writes the violations and the documents of their instances to files of the site, and returns the first of both as text.
pub(super) async fn explain(
    site: &Site,
    remains: &Remains,
    violations: &[Violation],
) -> Result<String, Failure> {
    let lines: Vec<String> = violations.iter().map(line).collect();
    let path = site.directory().join("violations.txt");
    fs::write(&path, lines.join("")).map_err(|error| Failure::file(&path, "written", error))?;
    let mut text: String = lines.iter().take(PRINTED).map(String::as_str).collect();
    if let Some(more) = lines.len().checked_sub(PRINTED).filter(|more| *more > 0) {
        let _ = writeln!(text, "… and {more} more"); // Writing to a text cannot fail.
    }
    let instances: BTreeSet<&str> =
        violations.iter().filter_map(|it| it.instance.as_deref()).collect();
    for (number, instance) in instances.into_iter().take(INSTANCES_WRITTEN).enumerate() {
        let documents = remains.all_of(instance).await?;
        let path = site.directory().join(format!("{instance}.json"));
        let json: String = documents.iter().map(|document| format!("{document}\n")).collect();
        fs::write(&path, json).map_err(|error| Failure::file(&path, "written", error))?;
        if number < INSTANCES_PRINTED {
            text.push_str(&documents_of(instance, &documents));
        }
    }
    Ok(text)
}

fn line(violation: &Violation) -> String {
    let instance = violation.instance.as_deref().unwrap_or("-");
    let sentence = table::printable(&violation.sentence);
    format!("{}: {}: {sentence}\n", violation.check.name(), table::printable(instance))
}

/// The documents of an instance, a line for each: the instance, its executions, their histories, the others.
fn documents_of(instance: &str, documents: &[Value]) -> String {
    let mut sorted: Vec<&Value> = documents.iter().collect();
    sorted.sort_by_key(|document| place(document));
    let rows: String = sorted.into_iter().map(|it| format!("    {}\n", row(it))).collect();
    format!("  documents of {}:\n{rows}", table::printable(instance))
}

fn place(document: &Value) -> (usize, u64, u64) {
    const FIRST: [&str; 3] = ["instance", "execution", "history"];
    let kind = FIRST.iter().position(|kind| document["type"] == *kind).unwrap_or(FIRST.len());
    (kind, number(document, "executionId"), number(document, "eventId"))
}

fn number(document: &Value, name: &str) -> u64 {
    document[name].as_u64().unwrap_or_default()
}

fn row(document: &Value) -> String {
    let text = match (document["type"].as_str(), document["eventData"].as_str()) {
        (Some("history"), Some(event)) => {
            let (execution, number) =
                (number(document, "executionId"), number(document, "eventId"));
            format!("{execution}.{number} {event}")
        }
        _ => without_system_properties(document.clone()).to_string(),
    };
    table::shortened(&table::printable(&text), DOCUMENT_WIDTH)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::soak::check::Check;

    #[test]
    fn percentiles_are_of_the_values_that_there_are() {
        let values: Vec<u64> = (1..=200).collect();
        assert_eq!((percentile(&values, 50), percentile(&values, 99)), (Some(100), Some(198)));
        assert_eq!((percentile(&[7], 50), percentile(&[7], 99)), (Some(7), Some(7)));
        assert_eq!(percentile(&[], 50), None);
    }

    #[test]
    fn a_violation_names_its_check_and_its_instance() {
        let violation = Violation::of(Check::Output, "r1", "it is \u{1b}[2Jwrong");
        assert_eq!(line(&violation), "output: r1: it is \u{FFFD}[2Jwrong\n");
    }

    #[test]
    fn the_history_of_an_instance_is_shown_in_order() {
        let event = |execution: u64, event: u64| json!({"type": "history", "executionId": execution, "eventId": event, "eventData": "{…}"});
        let instance = json!({"type": "instance", "_ts": 1});
        let documents =
            [json!({"type": "tombstone"}), event(2, 1), event(1, 2), event(1, 1), instance];
        let text = documents_of("r1", &documents);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(lines[1], "{\"type\":\"instance\"}");
        assert_eq!(lines[2..5], ["1.1 {…}", "1.2 {…}", "2.1 {…}"]);
        assert_eq!(lines[5..], ["{\"type\":\"tombstone\"}"]);
    }

    #[test]
    fn kills_are_counted_by_their_victims() {
        let kill = |victim, restart| Kill { victim, at: 0, back_at: 1, restart };
        let kills = [
            kill(Victim::Worker("worker-0-0".to_owned()), None),
            kill(Victim::Emulator, Some(Duration::from_millis(40))),
            kill(Victim::Emulator, Some(Duration::from_millis(60))),
        ];
        let verdict = Verdict { latencies: vec![5, 6], ..Verdict::default() };
        let tail = Tail { ended: Some(Duration::from_secs(2)), drained: None };
        let (seed, duration, started) = (1, Duration::from_secs(60), 2);
        let summary = Summary { seed, duration, started, kills: &kills, tail, verdict: &verdict };
        let facts: serde_json::Map<String, Value> =
            summary.facts().into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        assert_eq!((&facts["workerKills"], &facts["emulatorKills"]), (&json!(1), &json!(2)));
        assert_eq!((&facts["restartP50Ms"], &facts["restartMaxMs"]), (&json!(40), &json!(60)));
        assert_eq!((&facts["tailMs"], &facts["drainedMs"]), (&json!(2_000), &Value::Null));
    }
}

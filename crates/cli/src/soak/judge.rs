//! Reads the instances of a run one by one, and checks them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::task::JoinSet;

use super::check::{self, Runs, Violation};
use super::expected::{Expected, expected};
use super::kills::Kill;
use super::ledger::Ledger;
use super::load::{Load, Sends};
use super::names;
use super::remains::{FoundInstance, InstanceRow, Remains, unreadable};
use crate::failure::Failure;

/// Orchestrations whose instances are read and compared at the same time.
const PARALLEL: usize = 4;

/// The violations and the counts of a run.
#[derive(Debug, Default)]
pub(super) struct Verdict {
    pub(super) violations: Vec<Violation>,
    pub(super) instances: usize,
    pub(super) turns: u64,
    pub(super) runs: Runs,
    /// From the call of each start to the end of its orchestration, in milliseconds, sorted.
    pub(super) latencies: Vec<u64>,
}

/// The inputs of the checks.
pub(super) struct Evidence<'a> {
    pub(super) load: &'a Load,
    pub(super) remains: &'a Arc<Remains>,
    pub(super) ledger: &'a Ledger,
    pub(super) kills: &'a [Kill],
}

type Activities = BTreeSet<(String, u64, String)>;

/// Checks everything.
pub(super) async fn judge(evidence: &Evidence<'_>) -> Result<Verdict, Failure> {
    let rows = evidence.remains.instances().await?;
    let mut verdict = Verdict {
        violations: check::leftovers(&evidence.remains.documents().await?, &rows),
        instances: rows.len(),
        turns: rows.iter().map(|row| row.turn).sum(),
        latencies: latencies(evidence.load, &rows),
        ..Verdict::default()
    };
    let mut rows: BTreeMap<String, InstanceRow> =
        rows.into_iter().map(|row| (row.instance_id.clone(), row)).collect();
    let (mut required, mut allowed) = (Activities::new(), Activities::new());
    let sends = Arc::new(evidence.load.sends());
    let mut under_way: JoinSet<Result<Vec<Violation>, Failure>> = JoinSet::new();
    for started in evidence.load.started() {
        let program = evidence.load.program(started.number);
        let all = expected(&names::instance(started.number), &program);
        let activities = all.iter().flat_map(check::activities);
        match started.is_acknowledged {
            true => required.extend(activities),
            false => allowed.extend(activities),
        }
        let pairs: Vec<(Expected, Option<InstanceRow>)> = all
            .into_iter()
            .map(|expected| {
                let row = rows.remove(&expected.instance);
                (expected, row)
            })
            // What was not acknowledged need not be there.
            .filter(|(_, row)| started.is_acknowledged || row.is_some())
            .collect();
        if under_way.len() >= PARALLEL {
            take(&mut verdict, under_way.join_next().await)?;
        }
        under_way.spawn(compare(Arc::clone(evidence.remains), Arc::clone(&sends), pairs));
    }
    while let Some(joined) = under_way.join_next().await {
        take(&mut verdict, Some(joined))?;
    }
    verdict.violations.extend(check::strangers(rows.keys()));
    verdict.violations.extend(evidence.load.refused());
    let entries = evidence.ledger.entries().await?;
    let (runs, violations) = check::runs(&required, &allowed, &entries, evidence.kills);
    verdict.runs = runs;
    verdict.violations.extend(violations);
    verdict
        .violations
        .sort_by(|one, other| (one.check, &one.instance).cmp(&(other.check, &other.instance)));
    Ok(verdict)
}

type Joined = Result<Result<Vec<Violation>, Failure>, tokio::task::JoinError>;

fn take(verdict: &mut Verdict, joined: Option<Joined>) -> Result<(), Failure> {
    if let Some(joined) = joined {
        let violations = joined.map_err(|error| Failure::system(error.into()))?;
        verdict.violations.extend(violations?);
    }
    Ok(())
}

/// Reads instances and compares each with its expectation.
async fn compare(
    remains: Arc<Remains>,
    sends: Arc<Sends>,
    pairs: Vec<(Expected, Option<InstanceRow>)>,
) -> Result<Vec<Violation>, Failure> {
    let mut violations = Vec::new();
    for (expected, row) in pairs {
        let found: Option<FoundInstance> = match row {
            Some(row) => Some(remains.instance(row).await.map_err(|error| unreadable(&error))?),
            None => None,
        };
        let times = |name: &str| {
            let event = (expected.instance.clone(), name.to_owned());
            sends.get(&event).copied().unwrap_or_default()
        };
        violations.extend(check::instance(&expected, found.as_ref(), &times));
    }
    Ok(violations)
}

/// How long the orchestrations took that were started by the client.
fn latencies(load: &Load, rows: &[InstanceRow]) -> Vec<u64> {
    let completed: BTreeMap<&str, u64> =
        rows.iter().filter_map(|row| Some((row.instance_id.as_str(), row.completed_at?))).collect();
    let latency = |number: u64, at: u64| {
        let completed = completed.get(names::instance(number).as_str())?;
        Some(completed.saturating_sub(at))
    };
    let mut latencies: Vec<u64> =
        load.started().iter().filter_map(|it| latency(it.number, it.at)).collect();
    latencies.sort_unstable();
    latencies
}

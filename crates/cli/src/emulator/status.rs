//! The line that `sidereal emulator` keeps on a terminal: what is asked of the account now.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use sidereal_emulator::{Account, RegionState};

/// How often the line is redrawn.
const INTERVAL: Duration = Duration::from_secs(1);

/// Keeps the line up to date until it is dropped; where there is no terminal it waits and prints nothing.
pub(super) async fn show(account: &Account) {
    if !io::stderr().is_terminal() {
        return std::future::pending().await;
    }
    let line = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
        line.set_style(style);
    }
    let line = Cleared(line);
    let mut before = Sample::of(account);
    let mut ticks = tokio::time::interval(INTERVAL);
    loop {
        ticks.tick().await;
        let now = Sample::of(account);
        let counts = account.container_and_partition_counts();
        line.0.set_message(described(&before, &now, counts, &account.region_states()));
        line.0.tick();
        before = now;
    }
}

/// A line that goes when the command does.
struct Cleared(ProgressBar);

impl Drop for Cleared {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// The account's counters at one moment.
#[derive(Debug)]
struct Sample {
    at: Instant,
    requests: u64,
    charge: f64,
}

impl Sample {
    fn of(account: &Account) -> Self {
        let rows = account.counters();
        let requests = rows.iter().map(|row| row.requests).sum();
        Self { at: Instant::now(), requests, charge: rows.iter().map(|row| row.charge).sum() }
    }
}

fn described(
    before: &Sample,
    now: &Sample,
    (containers, partitions): (usize, usize),
    regions: &[RegionState],
) -> String {
    let seconds = now.at.duration_since(before.at).as_secs_f64().max(0.001);
    // Counters that were reset in between begin at nothing.
    let requests = now.requests.saturating_sub(before.requests) as f64 / seconds;
    let charge = (now.charge - before.charge).max(0.0) / seconds;
    let regions: Vec<String> = regions.iter().map(region).collect();
    format!(
        "{requests:.0} requests/s | {charge:.1} RU/s | {containers} containers, {partitions} partitions | {}",
        regions.join(", ")
    )
}

/// A region with what is worth knowing of it.
fn region(state: &RegionState) -> String {
    let mark = match state {
        RegionState { removed: true, .. } => " (removed)",
        RegionState { online: false, .. } => " (offline)",
        RegionState { replication_paused: true, .. } => " (replication paused)",
        RegionState { accepts_writes: true, .. } => " (writes)",
        _ => "",
    };
    format!("{}{mark}", state.name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(name: &'static str, online: bool, accepts_writes: bool) -> RegionState {
        RegionState {
            name: name.into(),
            port: None,
            online,
            removed: false,
            accepts_writes,
            replication_delay: Duration::ZERO,
            replication_paused: false,
        }
    }

    #[test]
    fn rates_are_those_between_two_moments() {
        let start = Instant::now();
        let before = Sample { at: start, requests: 10, charge: 5.0 };
        let now = Sample { at: start + Duration::from_secs(2), requests: 30, charge: 10.0 };
        let regions = [state("West US", true, true), state("East US", false, false)];
        assert_eq!(
            described(&before, &now, (2, 4), &regions),
            "10 requests/s | 2.5 RU/s | 2 containers, 4 partitions | \
             West US (writes), East US (offline)"
        );
        let reset = Sample { at: start + Duration::from_secs(4), requests: 0, charge: 0.0 };
        assert!(described(&now, &reset, (0, 0), &[]).starts_with("0 requests/s | 0.0 RU/s"));
    }
}

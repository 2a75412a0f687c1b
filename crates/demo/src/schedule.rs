//! The schedule of the demo: which phase is when, and what happens to the account at its start.
//!
//! A pure function of seed, duration and regions, so that a run can be repeated. Everything scales with the
//! duration, the failback windows of the client included: a short run shows the same as a long one.

use std::fmt;
use std::time::Duration;

use sidereal_protocol::RegionName;

/// Physical partitions of every container. Few, so that one of them is a visible share of the traffic.
pub(crate) const PARTITIONS: u32 = 4;

/// The lengths of the phases, relative to each other.
const SHARES: [(PhaseKind, u32); 7] = [
    (PhaseKind::Baseline, 14),
    (PhaseKind::PartitionSick, 16),
    (PhaseKind::PartitionBack, 10),
    (PhaseKind::RegionSlow, 16),
    (PhaseKind::RegionFast, 10),
    (PhaseKind::WriteRegionDown, 19),
    (PhaseKind::WriteRegionBack, 15),
];

/// By how much a seed may lengthen or shorten a phase, in per cent of its length.
const VARIATION: u64 = 12;

/// How much slower a slow region is; the seed picks one.
const SLOW_BY: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_millis(120), Duration::from_millis(150)];

/// A schedule: the events of a run and their times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Schedule {
    /// One after another, without gaps.
    pub(crate) phases: Vec<Phase>,
    /// In the order of their times.
    pub(crate) steps: Vec<Step>,
    pub(crate) windows: Windows,
}

/// A part of the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Phase {
    pub(crate) kind: PhaseKind,
    pub(crate) start: Duration,
    pub(crate) end: Duration,
}

/// The subject of a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PhaseKind {
    Baseline,
    PartitionSick,
    PartitionBack,
    RegionSlow,
    RegionFast,
    WriteRegionDown,
    WriteRegionBack,
}

impl PhaseKind {
    /// Its name in tables and charts.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Baseline => "baseline",
            Self::PartitionSick => "partition sick",
            Self::PartitionBack => "partition back",
            Self::RegionSlow => "region slow",
            Self::RegionFast => "region fast again",
            Self::WriteRegionDown => "write region down",
            Self::WriteRegionBack => "write region back",
        }
    }

    /// Whether something is wrong with the account while it lasts.
    pub(crate) const fn is_disturbed(self) -> bool {
        matches!(self, Self::PartitionSick | Self::RegionSlow | Self::WriteRegionDown)
    }
}

/// Something that happens to the account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) at: Duration,
    pub(crate) action: Action,
}

/// An event of the account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// One partition answers 503 in a region, and the service moves its writes to another one.
    FailPartition { region: RegionName, range: String, writes_to: RegionName },
    /// It answers again, and its writes return.
    HealPartition { region: RegionName, range: String },
    /// Every answer of a region takes longer.
    SlowRegion { region: RegionName, by: Duration },
    /// They no longer do.
    RestoreRegion { region: RegionName },
    /// Connections to a region end, and new ones are refused.
    TakeOffline { region: RegionName },
    /// It can be connected to again.
    BringOnline { region: RegionName },
    /// A graceful change of the write region.
    HandOver { to: RegionName, announcement: Duration, overlap: Duration },
}

/// As a line of the run's log.
impl fmt::Display for Action {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FailPartition { region, range, writes_to } => write!(
                formatter,
                "partition {range} answers 503 in {region}; the service moves its writes to {writes_to}"
            ),
            Self::HealPartition { region, range } => {
                write!(formatter, "partition {range} serves in {region} again")
            }
            Self::SlowRegion { region, by } => {
                write!(formatter, "{region} answers {} ms later", by.as_millis())
            }
            Self::RestoreRegion { region } => write!(formatter, "{region} is as fast as before"),
            Self::TakeOffline { region } => {
                write!(formatter, "{region} is down: connections end, new ones are refused")
            }
            Self::BringOnline { region } => write!(formatter, "{region} is up again"),
            Self::HandOver { to, announcement, .. } => write!(
                formatter,
                "graceful change of the write region: {to} takes over in {} ms",
                announcement.as_millis()
            ),
        }
    }
}

/// Waits that are minutes in production and would not be seen to end within the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Windows {
    /// How long the client leaves a partition or an endpoint alone before it probes it.
    pub(crate) failback: Duration,
    /// How long a write region that hands over still accepts writes.
    pub(crate) announcement: Duration,
    /// How long it is still listed after that.
    pub(crate) overlap: Duration,
}

impl Windows {
    /// The windows of a run of this length.
    fn of(duration: Duration) -> Self {
        let part = |parts: u32, least: u64, most: u64| {
            (duration / parts).clamp(Duration::from_millis(least), Duration::from_millis(most))
        };
        Self {
            failback: part(40, 150, 5_000),
            announcement: part(120, 60, 6_000),
            overlap: part(40, 150, 16_000),
        }
    }
}

/// Lays a run out. The first region writes, and the application is in it; there are at least two.
pub(crate) fn schedule(seed: u64, duration: Duration, regions: &[RegionName]) -> Schedule {
    let mut random = fastrand::Rng::with_seed(seed);
    let phases = phases(&mut random, duration);
    let windows = Windows::of(duration);
    let home = &regions[0];
    let range = random.u32(..PARTITIONS).to_string();
    let mut elsewhere = || regions[random.usize(1..regions.len())].clone();
    let (writes_to, successor) = (elsewhere(), elsewhere());
    let by = SLOW_BY[random.usize(..SLOW_BY.len())];
    let hand_over = |to: &RegionName| Action::HandOver {
        to: to.clone(),
        announcement: windows.announcement,
        overlap: windows.overlap,
    };
    let region = || home.clone();
    let mut steps = Vec::new();
    for phase in &phases {
        let mut add =
            |after: Duration, action| steps.push(Step { at: phase.start + after, action });
        match phase.kind {
            PhaseKind::Baseline => {}
            PhaseKind::PartitionSick => add(
                Duration::ZERO,
                Action::FailPartition {
                    region: region(),
                    range: range.clone(),
                    writes_to: writes_to.clone(),
                },
            ),
            PhaseKind::PartitionBack => {
                add(
                    Duration::ZERO,
                    Action::HealPartition { region: region(), range: range.clone() },
                );
            }
            PhaseKind::RegionSlow => {
                add(Duration::ZERO, Action::SlowRegion { region: region(), by });
            }
            PhaseKind::RegionFast => {
                add(Duration::ZERO, Action::RestoreRegion { region: region() });
            }
            PhaseKind::WriteRegionDown => {
                add(Duration::ZERO, Action::TakeOffline { region: region() });
                // Somebody has to notice and decide before writes are handed over.
                add(windows.announcement, hand_over(&successor));
            }
            PhaseKind::WriteRegionBack => {
                add(Duration::ZERO, Action::BringOnline { region: region() });
                add(windows.failback, hand_over(home));
            }
        }
    }
    Schedule { phases, steps, windows }
}

/// The phases of a run, whose lengths vary with the seed and add up to the duration.
fn phases(random: &mut fastrand::Rng, duration: Duration) -> Vec<Phase> {
    let weights = SHARES.map(|(kind, share)| {
        let percent = 100 - VARIATION + random.u64(..=2 * VARIATION);
        (kind, u64::from(share) * percent)
    });
    let total: u64 = weights.iter().map(|(_, weight)| weight).sum();
    let mut passed = 0;
    let at = |passed: u64| duration.mul_f64(passed as f64 / total as f64);
    let phase = |(kind, weight): (PhaseKind, u64)| {
        let start = at(passed);
        passed += weight;
        Phase { kind, start, end: at(passed) }
    };
    weights.into_iter().map(phase).collect()
}

impl Schedule {
    /// The number of the phase at a moment; after the end, the last one.
    pub(crate) fn phase_at(&self, at: Duration) -> usize {
        let over = self.phases.iter().take_while(|phase| phase.end <= at).count();
        over.min(self.phases.len() - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regions() -> Vec<RegionName> {
        ["West US", "East US", "North Europe"].map(RegionName::from).into()
    }

    fn of(seed: u64, seconds: u64) -> Schedule {
        schedule(seed, Duration::from_secs(seconds), &regions())
    }

    #[test]
    fn the_same_seed_gives_the_same_schedule_and_another_one_another() {
        for seed in 0..50 {
            assert_eq!(of(seed, 20), of(seed, 20));
        }
        assert!((1..50).any(|seed| of(seed, 20) != of(0, 20)));
    }

    #[test]
    fn phases_follow_each_other_from_the_start_to_the_end() {
        for seed in 0..50 {
            for seconds in [3, 6, 20, 300] {
                let schedule = of(seed, seconds);
                let kinds = schedule.phases.iter().map(|phase| phase.kind);
                assert!(kinds.eq(SHARES.map(|(kind, _)| kind)));
                assert_eq!(schedule.phases[0].start, Duration::ZERO);
                let end = schedule.phases[6].end;
                assert!(end.abs_diff(Duration::from_secs(seconds)) < Duration::from_millis(1));
                for pair in schedule.phases.windows(2) {
                    assert_eq!(pair[0].end, pair[1].start);
                    assert!(pair[0].start < pair[0].end);
                }
            }
        }
    }

    #[test]
    fn steps_are_in_order_and_within_the_phase_that_they_belong_to() {
        for seed in 0..50 {
            for seconds in [3, 6, 20, 300] {
                let schedule = of(seed, seconds);
                assert!(schedule.steps.is_sorted_by_key(|step| step.at));
                let of_phase = |number: usize| {
                    let steps = schedule.steps.iter();
                    steps.filter(|step| schedule.phase_at(step.at) == number).count()
                };
                assert_eq!([0, 1, 2, 3, 4, 5, 6].map(of_phase), [0, 1, 1, 1, 1, 2, 2]);
            }
        }
    }

    #[test]
    fn whatever_is_broken_is_repaired_and_writes_come_home() {
        let home = RegionName::from("West US");
        for seed in 0..50 {
            let steps = of(seed, 20).steps;
            let has = |wanted: &dyn Fn(&Action) -> bool| steps.iter().any(|it| wanted(&it.action));
            assert!(has(&|it| matches!(it, Action::HealPartition { .. })));
            assert!(has(&|it| matches!(it, Action::RestoreRegion { .. })));
            assert!(has(&|it| matches!(it, Action::BringOnline { .. })));
            let last = &steps.last().unwrap().action;
            assert!(matches!(last, Action::HandOver { to, .. } if *to == home), "{last:?}");
        }
    }

    #[test]
    fn writes_move_to_another_region_whatever_the_seed() {
        let two = &regions()[..2];
        for seed in 0..50 {
            let steps = schedule(seed, Duration::from_secs(6), two).steps;
            let moved = steps.iter().find_map(|step| match &step.action {
                Action::HandOver { to, .. } => Some(to.clone()),
                _ => None,
            });
            assert_eq!(moved, Some(two[1].clone()));
        }
    }

    #[test]
    fn a_moment_after_the_end_belongs_to_the_last_phase() {
        let schedule = of(1, 20);
        assert_eq!(schedule.phase_at(Duration::ZERO), 0);
        assert_eq!(schedule.phase_at(Duration::from_secs(60)), 6);
    }
}

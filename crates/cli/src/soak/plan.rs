//! When orchestrations are started and processes are killed: a schedule that follows from the seed.

use std::time::Duration;

use fastrand::Rng;

/// The settings of the schedule.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlanSettings {
    pub(super) seed: u64,
    pub(super) duration: Duration,
    /// Orchestrations that are started in a second.
    pub(super) rate: u32,
    pub(super) workers: usize,
    /// Between two kills on average; never, if zero.
    pub(super) kill_every: Duration,
    pub(super) emulator_kill_every: Duration,
}

/// Moments since the beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) starts: Vec<Duration>,
    pub(super) worker_kills: Vec<WorkerKill>,
    pub(super) emulator_kills: Vec<EmulatorKill>,
}

/// A kill of the worker of a slot. Another is started in its place after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WorkerKill {
    pub(super) at: Duration,
    pub(super) slot: usize,
    pub(super) pause: Duration,
}

/// A kill of the emulator, which is started again after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EmulatorKill {
    pub(super) at: Duration,
    pub(super) pause: Duration,
}

/// The longest pause before a process is started again.
const LONGEST_PAUSE_MS: u64 = 500;

/// Draws the schedule.
pub(super) fn plan(settings: &PlanSettings) -> Plan {
    let PlanSettings { seed, duration, rate, workers, kill_every, emulator_kill_every } = *settings;
    // A stream for each, so that one setting does not change what the others draw.
    let stream = |number: u64| Rng::with_seed(seed.wrapping_mul(3).wrapping_add(number));
    let (mut starts, mut worker, mut emulator) = (stream(0), stream(1), stream(2));
    let pause = |rng: &mut Rng| Duration::from_millis(rng.u64(..LONGEST_PAUSE_MS));
    Plan {
        starts: moments(&mut starts, Duration::from_secs(1) / rate.max(1), duration),
        worker_kills: moments(&mut worker, kill_every, duration)
            .into_iter()
            .map(|at| WorkerKill {
                at,
                slot: worker.usize(..workers.max(1)),
                pause: pause(&mut worker),
            })
            .collect(),
        emulator_kills: moments(&mut emulator, emulator_kill_every, duration)
            .into_iter()
            .map(|at| EmulatorKill { at, pause: pause(&mut emulator) })
            .collect(),
    }
}

/// Moments so far apart on average: each gap is between half of it and one and a half.
fn moments(rng: &mut Rng, every: Duration, duration: Duration) -> Vec<Duration> {
    if every.is_zero() {
        return Vec::new();
    }
    let next = |at: &Duration| Some(*at + every.mul_f64(0.5 + rng.f64()));
    let first = every.mul_f64(0.5);
    std::iter::successors(Some(first), next).take_while(|at| *at < duration).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: PlanSettings = PlanSettings {
        seed: 1,
        duration: Duration::from_secs(60),
        rate: 5,
        workers: 3,
        kill_every: Duration::from_secs(2),
        emulator_kill_every: Duration::from_secs(10),
    };

    #[test]
    fn a_seed_gives_the_same_plan_again_and_another_seed_another() {
        assert_eq!(plan(&SETTINGS), plan(&SETTINGS));
        assert_ne!(plan(&SETTINGS), plan(&PlanSettings { seed: 2, ..SETTINGS }));
    }

    #[test]
    fn kills_come_as_often_as_they_are_asked_for_and_within_the_duration() {
        let plan = plan(&SETTINGS);
        assert!((270..330).contains(&plan.starts.len()), "{}", plan.starts.len());
        assert!((22..40).contains(&plan.worker_kills.len()), "{}", plan.worker_kills.len());
        assert!((4..9).contains(&plan.emulator_kills.len()), "{}", plan.emulator_kills.len());
        assert!(plan.worker_kills.iter().all(|it| it.at < SETTINGS.duration && it.slot < 3));
        for slot in 0..3 {
            assert!(plan.worker_kills.iter().any(|it| it.slot == slot), "{slot} is never killed");
        }
    }

    #[test]
    fn without_kills_the_starts_are_the_same() {
        let never = Duration::ZERO;
        let settings = PlanSettings { kill_every: never, emulator_kill_every: never, ..SETTINGS };
        let calm = plan(&settings);
        assert_eq!((calm.worker_kills, calm.emulator_kills), (vec![], vec![]));
        assert_eq!(calm.starts, plan(&SETTINGS).starts);
    }
}

//! Programs of orchestrations as data: drawn from a seed, carried in the input, interpreted by workers.
//!
//! Pure values. `orchestrations` runs a program on duroxide's runtime; `expected` evaluates it without one.

use std::ops::RangeInclusive;

use fastrand::Rng;
use serde::{Deserialize, Serialize};

/// An orchestration with its sub-orchestrations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Program {
    /// Bytes of each of its texts: its input and output, those of its activities, and the data of its events.
    pub(super) bytes: usize,
    /// The steps of each execution: after one, it continues as new.
    pub(super) executions: Vec<Vec<Step>>,
}

/// A step of an execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum Step {
    Activity,
    /// An activity that returns an error.
    Refusal,
    FanOut {
        activities: usize,
    },
    Timer {
        millis: u64,
    },
    /// Takes a message of a queue, to which it was sent right after the start.
    Queue,
    /// Waits for an event, which is raised when the orchestration says that it waits.
    Signal,
    /// Sub-orchestrations, all at once.
    Children(Vec<Program>),
    /// An orchestration that is started and not waited for.
    Detached(Program),
}

/// The kinds of steps.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Activity,
    Refusal,
    FanOut,
    Timer,
    Queue,
    Signal,
    Children,
    Detached,
}

/// The first step of each of eight orchestrations in a row: a short run has every kind.
const FIRST: [Kind; 8] = [
    Kind::Children,
    Kind::FanOut,
    Kind::Signal,
    Kind::Detached,
    Kind::Queue,
    Kind::Timer,
    Kind::Refusal,
    Kind::Activity,
];

const DRAWN: [Kind; 10] = [
    Kind::Activity,
    Kind::Activity,
    Kind::Activity,
    Kind::FanOut,
    Kind::FanOut,
    Kind::Timer,
    Kind::Queue,
    Kind::Signal,
    Kind::Refusal,
    Kind::Children,
];

/// One in this many orchestrations has texts of up to the largest size.
const LARGE_EVERY: u64 = 32;

/// Which of them: not the first, which has many children.
const LARGE_AT: u64 = 5;

/// The texts of the others have less than two to the power of this.
const SMALL_BITS: u32 = 12;

/// Activities of a fan-out. A wide one makes a turn that does not fit into one batch.
const NARROW: RangeInclusive<usize> = 2..=6;
const WIDE: RangeInclusive<usize> = 60..=90;

/// One in this many fan-outs of a root is wide.
const WIDE_EVERY: u8 = 8;

const LONGEST_TIMER_MS: u64 = 500;

impl Program {
    /// The program of the orchestration of a number.
    pub(super) fn nth(seed: u64, number: u64, largest: usize) -> Self {
        // An odd multiplier, so that no two numbers share a seed.
        let mut rng = Rng::with_seed(seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        match number % LARGE_EVERY == LARGE_AT {
            true => large(&mut rng, largest),
            false => {
                let first = FIRST[(number % FIRST.len() as u64) as usize];
                small(&mut rng, 0, Some(first), largest)
            }
        }
    }

    /// The names of the queues that it takes a message of.
    pub(super) fn queues(&self) -> impl Iterator<Item = String> {
        let steps = self.executions.iter().enumerate().flat_map(|(execution, steps)| {
            steps.iter().enumerate().map(move |(index, step)| (execution, index, step))
        });
        steps
            .filter(|(_, _, step)| **step == Step::Queue)
            .map(|(execution, index, _)| step_name(execution, index))
    }
}

/// The name of a step within its orchestration.
pub(super) fn step_name(execution: usize, index: usize) -> String {
    format!("{execution}.{index}")
}

/// Few steps with large texts.
fn large(rng: &mut Rng, largest: usize) -> Program {
    let bytes = rng.usize(largest / 16..=largest);
    let child = || Program { bytes, executions: vec![vec![Step::Activity]] };
    let step = match rng.u8(..4) {
        0 => Step::Children(vec![child()]),
        1 => Step::Signal,
        2 => Step::Queue,
        _ => Step::Detached(child()),
    };
    match rng.bool() {
        true => Program { bytes, executions: vec![vec![Step::Activity, step]] },
        false => {
            Program { bytes, executions: vec![vec![step, Step::Activity], vec![Step::Activity]] }
        }
    }
}

/// Several steps with small texts.
fn small(rng: &mut Rng, depth: usize, first: Option<Kind>, largest: usize) -> Program {
    let bytes = (1 << rng.u32(4..SMALL_BITS)).min(largest);
    let count = [1, 1, 1, 2, 3][rng.usize(..5)];
    let executions: Vec<Vec<Step>> = (0..count)
        .map(|execution| {
            let first = first.filter(|_| execution == 0);
            let drawn: Vec<Kind> =
                (0..rng.usize(1..=3)).map(|_| DRAWN[rng.usize(..DRAWN.len())]).collect();
            // The activity ends the turn: duroxide 0.1.32 drops the start of a detached orchestration in a turn that
            // continues as new, although the history has it. What is drawn may come to its end within the turn.
            let second = matches!(first, Some(Kind::Detached)).then_some(Kind::Activity);
            let kinds = first.into_iter().chain(second).chain(drawn);
            kinds.map(|kind| step(rng, depth, kind, largest)).collect()
        })
        .collect();
    Program { bytes, executions }
}

fn step(rng: &mut Rng, depth: usize, kind: Kind, largest: usize) -> Step {
    const DEEPEST: usize = 2;
    match kind {
        Kind::Refusal => Step::Refusal,
        Kind::FanOut => {
            let width = if depth == 0 && rng.u8(..WIDE_EVERY) == 0 { WIDE } else { NARROW };
            Step::FanOut { activities: rng.usize(width) }
        }
        Kind::Timer => Step::Timer { millis: rng.u64(10..LONGEST_TIMER_MS) },
        // A message to an instance that is not there yet is dropped: only roots are known to be there.
        Kind::Queue if depth == 0 => Step::Queue,
        Kind::Signal => Step::Signal,
        Kind::Children if depth < DEEPEST => {
            let count = rng.usize(1..=2);
            Step::Children((0..count).map(|_| small(rng, depth + 1, None, largest)).collect())
        }
        Kind::Detached => Step::Detached(small(rng, DEEPEST, None, largest)),
        Kind::Activity | Kind::Queue | Kind::Children => Step::Activity,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGEST: usize = 1 << 20;

    fn kinds(program: &Program, found: &mut Vec<&'static str>) {
        for step in program.executions.iter().flatten() {
            let kind = match step {
                Step::Activity => "activity",
                Step::Refusal => "refusal",
                Step::FanOut { .. } => "fan-out",
                Step::Timer { .. } => "timer",
                Step::Queue => "queue",
                Step::Signal => "signal",
                Step::Children(children) => {
                    children.iter().for_each(|child| kinds(child, found));
                    "children"
                }
                Step::Detached(program) => {
                    kinds(program, found);
                    "detached"
                }
            };
            found.push(kind);
        }
    }

    #[test]
    fn eight_orchestrations_in_a_row_have_steps_of_every_kind() {
        for seed in 0..20 {
            let mut found = Vec::new();
            // From the second on, so that the one with large texts is among them.
            (1..9).for_each(|number| kinds(&Program::nth(seed, number, LARGEST), &mut found));
            for kind in
                ["activity", "refusal", "fan-out", "queue", "signal", "children", "detached"]
            {
                assert!(found.contains(&kind), "seed {seed} has no {kind}: {found:?}");
            }
        }
    }

    #[test]
    fn a_seed_and_a_number_give_the_same_program_again() {
        for number in 0..100 {
            let program = Program::nth(7, number, LARGEST);
            assert_eq!(program, Program::nth(7, number, LARGEST));
            assert!(!program.executions.is_empty() && program.bytes <= LARGEST);
            assert!(program.executions.iter().all(|steps| !steps.is_empty()));
        }
        assert_ne!(Program::nth(7, 0, LARGEST), Program::nth(8, 0, LARGEST));
    }

    #[test]
    fn a_detached_start_is_not_in_the_turn_that_continues_as_new() {
        for number in 0..1_000 {
            let mut executions = Program::nth(3, number, LARGEST).executions;
            executions.pop();
            for steps in executions {
                let at = steps.iter().position(|step| matches!(step, Step::Detached(_)));
                let next = at.map(|at| steps.get(at + 1));
                assert!(next.is_none_or(|next| next == Some(&Step::Activity)), "{number}");
            }
        }
    }

    #[test]
    fn texts_are_never_larger_than_the_largest() {
        for number in 0..100 {
            assert!(Program::nth(1, number, 100).bytes <= 100);
        }
    }
}

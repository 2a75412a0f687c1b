//! Expected outputs and histories: a model of the interpreter, without a runtime.

use super::program::{Program, Step, step_name};
use super::state::{ActivityInput, State, event_data, started_id};

/// The expected output and steps of an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Expected {
    pub(super) instance: String,
    pub(super) output: String,
    /// The steps that each execution schedules, in order.
    pub(super) executions: Vec<Vec<Scheduled>>,
}

/// A scheduling event of a history, reduced to its kind and name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scheduled {
    Activity(String),
    Timer,
    Queue(String),
    Signal(String),
    Child(String),
    Detached(String),
}

/// An instance, and all that it starts, itself first.
pub(super) fn expected(instance: &str, program: &Program) -> Vec<Expected> {
    let mut found = Vec::new();
    run(instance, program, &mut found);
    // Started before what it starts.
    found.reverse();
    found
}

/// How many instances a program makes.
pub(super) fn count(program: &Program) -> usize {
    let of_step = |step: &Step| match step {
        Step::Children(children) => children.iter().map(count).sum(),
        Step::Detached(program) => count(program),
        _ => 0,
    };
    1 + program.executions.iter().flatten().map(of_step).sum::<usize>()
}

/// Evaluates a program and returns its output. Instances are added after those that they start.
fn run(instance: &str, program: &Program, found: &mut Vec<Expected>) -> String {
    let mut input = State::first(instance, program.clone()).to_input();
    let mut executions = Vec::new();
    loop {
        let mut state =
            State::from_input(&input).expect("a program is read as it was written, step by step");
        let mut scheduled = Vec::new();
        for (index, step) in state.steps().to_vec().iter().enumerate() {
            let name = step_name(state.execution(), index);
            take(instance, &mut state, &name, step, (&mut scheduled, found));
        }
        executions.push(scheduled);
        match state.next() {
            Some(next) => input = next.to_input(),
            None => {
                let output = state.output(instance);
                let instance = instance.to_owned();
                found.push(Expected { instance, output: output.clone(), executions });
                return output;
            }
        }
    }
}

fn take(
    instance: &str,
    state: &mut State,
    name: &str,
    step: &Step,
    (scheduled, found): (&mut Vec<Scheduled>, &mut Vec<Expected>),
) {
    let bytes = state.bytes();
    match step {
        Step::Activity => {
            scheduled.push(Scheduled::Activity(name.to_owned()));
            state.take(name, &ActivityInput::of(instance, name, bytes).answer(instance));
        }
        Step::Refusal => {
            scheduled.push(Scheduled::Activity(name.to_owned()));
            state.take(name, &ActivityInput::of(instance, name, bytes).refusal());
        }
        Step::FanOut { activities } => {
            for number in 0..*activities {
                let name = format!("{name}.{number}");
                state.take(&name, &ActivityInput::of(instance, &name, bytes).answer(instance));
                scheduled.push(Scheduled::Activity(name));
            }
        }
        Step::Timer { .. } => {
            scheduled.push(Scheduled::Timer);
            state.take(name, "");
        }
        Step::Queue | Step::Signal => {
            scheduled.push(match step {
                Step::Queue => Scheduled::Queue(name.to_owned()),
                _ => Scheduled::Signal(name.to_owned()),
            });
            state.take(name, &event_data(instance, name, bytes));
        }
        Step::Children(children) => {
            for (number, child) in children.iter().enumerate() {
                let name = format!("{name}.{number}");
                let id = started_id(instance, &name);
                state.take(&name, &run(&id, child, found));
                scheduled.push(Scheduled::Child(id));
            }
        }
        Step::Detached(program) => {
            let id = started_id(instance, name);
            run(&id, program, found);
            scheduled.push(Scheduled::Detached(id));
            state.take(name, "");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(steps: Vec<Step>) -> Program {
        Program { bytes: 20, executions: vec![steps] }
    }

    #[test]
    fn a_lost_a_doubled_and_a_reordered_step_change_the_output() {
        let output = |steps: Vec<Step>| expected("i", &program(steps))[0].output.clone();
        let (activity, signal) = (Step::Activity, Step::Signal);
        let whole = output(vec![activity.clone(), signal.clone()]);
        assert_ne!(whole, output(vec![activity.clone()]));
        assert_ne!(whole, output(vec![signal.clone(), activity.clone()]));
        assert_ne!(whole, output(vec![activity.clone(), signal, activity]));
    }

    #[test]
    fn all_that_is_started_is_expected_the_root_first() {
        let leaf = program(vec![Step::Activity]);
        let parent = program(vec![
            Step::Children(vec![leaf.clone(), program(vec![Step::Children(vec![leaf.clone()])])]),
            Step::Detached(leaf),
        ]);
        let all = expected("i", &parent);
        let ids: Vec<&str> = all.iter().map(|it| it.instance.as_str()).collect();
        assert_eq!(ids, ["i", "i.0.1", "i.0.0.1", "i.0.0.1.0.0.0", "i.0.0.0"]);
        assert_eq!(count(&parent), all.len());
        assert_eq!(
            all[0].executions[0],
            [
                Scheduled::Child("i.0.0.0".to_owned()),
                Scheduled::Child("i.0.0.1".to_owned()),
                Scheduled::Detached("i.0.1".to_owned())
            ]
        );
    }
}

//! The state of an orchestration between its steps, and the values that pass through them.
//!
//! Workers and the model of `expected` compute with the same functions; they differ in where results come from.

use serde::{Deserialize, Serialize};
use serde_json::json;

use super::program::{Program, Step};
use super::text::{fold, text};

/// The state of an execution: its input, and the checksum up to the current step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct State {
    program: Program,
    /// Counted from 0.
    execution: usize,
    /// Of everything up to here.
    checksum: u64,
    /// Makes the input large.
    text: String,
}

impl State {
    /// The input of an instance's first execution.
    pub(super) fn first(instance: &str, program: Program) -> Self {
        let text = text(&format!("{instance} input"), program.bytes);
        Self { program, execution: 0, checksum: 0, text }
    }

    pub(super) fn to_input(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers are JSON")
    }

    /// Reads the input of an execution, which begins the checksum of that execution.
    pub(super) fn from_input(input: &str) -> Result<Self, String> {
        let mut state: Self =
            serde_json::from_str(input).map_err(|error| format!("the input: {error}"))?;
        if state.execution >= state.program.executions.len() {
            return Err(format!("there is no execution {}", state.execution));
        }
        state.checksum = fold(state.checksum, "input", &state.text);
        Ok(state)
    }

    pub(super) fn execution(&self) -> usize {
        self.execution
    }

    /// The steps of the execution.
    pub(super) fn steps(&self) -> &[Step] {
        &self.program.executions[self.execution]
    }

    pub(super) fn bytes(&self) -> usize {
        self.program.bytes
    }

    /// Takes the value that a step came to into the checksum.
    pub(super) fn take(&mut self, name: &str, value: &str) {
        self.checksum = fold(self.checksum, name, value);
    }

    /// The input of the next execution, if this is not the last one.
    pub(super) fn next(&self) -> Option<Self> {
        let execution = self.execution + 1;
        (execution < self.program.executions.len()).then(|| Self { execution, ..self.clone() })
    }

    /// The output of the last execution.
    pub(super) fn output(&self, instance: &str) -> String {
        let text = text(&format!("{instance} output"), self.program.bytes);
        json!({ "checksum": format!("{:016x}", self.checksum), "text": text }).to_string()
    }
}

/// The input of an activity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ActivityInput {
    /// Its step, or its step and its place among several.
    pub(super) name: String,
    pub(super) text: String,
}

impl ActivityInput {
    pub(super) fn of(instance: &str, name: &str, bytes: usize) -> Self {
        let text = text(&format!("{instance} {name}"), bytes);
        Self { name: name.to_owned(), text }
    }

    pub(super) fn to_input(&self) -> String {
        serde_json::to_string(self).expect("texts are JSON")
    }

    /// The result of the activity.
    pub(super) fn answer(&self, instance: &str) -> String {
        let result = text(&format!("{instance} {} result", self.name), self.text.len());
        json!({ "name": self.name, "digest": self.digest(), "text": result }).to_string()
    }

    /// The error of the activity, where its step is a refusal.
    pub(super) fn refusal(&self) -> String {
        format!("{} refuses \"{}\"", self.name, self.digest())
    }

    /// How long the activity takes, in milliseconds: mostly little, now and then long enough to be met by a kill.
    pub(super) fn millis(&self, instance: &str) -> u64 {
        let drawn = fold(0, instance, &self.name);
        match drawn % 8 {
            0 => 50 + (drawn >> 8) % 250,
            _ => (drawn >> 8) % 20,
        }
    }

    fn digest(&self) -> String {
        format!("{:016x}", fold(0, &self.name, &self.text))
    }
}

/// The data of an event.
pub(super) fn event_data(instance: &str, name: &str, bytes: usize) -> String {
    text(&format!("{instance} event {name}"), bytes)
}

/// The id of an orchestration that another one starts.
pub(super) fn started_id(instance: &str, name: &str) -> String {
    format!("{instance}.{name}")
}

/// The custom status of an orchestration that waits for an event, and how it is read.
pub(super) fn waiting_status(name: &str, bytes: usize) -> String {
    format!("waits for {name}, {bytes} bytes")
}

/// The event that an orchestration waits for, by its custom status.
pub(super) fn awaited(status: &str) -> Option<(&str, usize)> {
    let (name, bytes) = status.strip_prefix("waits for ")?.split_once(", ")?;
    Some((name, bytes.strip_suffix(" bytes")?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn two_executions() -> State {
        let executions = vec![vec![Step::Activity], vec![Step::Refusal]];
        State::first("i", Program { bytes: 40, executions })
    }

    #[test]
    fn executions_follow_each_other_and_keep_the_checksum() {
        let first = State::from_input(&two_executions().to_input()).unwrap();
        assert_eq!((first.execution(), first.steps()), (0, &[Step::Activity][..]));
        let second = State::from_input(&first.next().unwrap().to_input()).unwrap();
        assert_eq!((second.execution(), second.steps()), (1, &[Step::Refusal][..]));
        assert_ne!(first.checksum, second.checksum);
        assert_eq!(second.next(), None);
        assert!(State::from_input("{}").is_err());
    }

    #[test]
    fn the_output_tells_what_was_taken() {
        let mut state = two_executions();
        let before = state.output("i");
        state.take("0.0", "value");
        assert_ne!(state.output("i"), before);
        assert!(before.len() > 40);
    }

    #[test]
    fn an_activity_answers_by_its_input() {
        let input = ActivityInput::of("i", "0.0", 30);
        let other = ActivityInput { text: "other".to_owned(), ..input.clone() };
        assert_ne!(input.answer("i"), other.answer("i"));
        assert_ne!(input.refusal(), other.refusal());
        assert_ne!(input.answer("i"), input.answer("j"));
        assert!(input.millis("i") < 300);
    }

    #[test]
    fn an_awaited_event_is_read_from_the_status() {
        assert_eq!(awaited(&waiting_status("0.1", 77)), Some(("0.1", 77)));
        assert_eq!(awaited("something else"), None);
    }
}

//! The orchestration that interprets programs, and its activities, as duroxide runs them.

use std::sync::Arc;
use std::time::Duration;

use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, OrchestrationContext, OrchestrationRegistry};

use super::ledger::{Beginning, Ledger};
use super::program::{Step, step_name};
use super::state::{ActivityInput, State, started_id, waiting_status};

/// The name of the orchestration.
pub(super) const PROGRAM: &str = "Program";

const ANSWER: &str = "Answer";
const REFUSE: &str = "Refuse";

pub(super) fn orchestrations() -> OrchestrationRegistry {
    OrchestrationRegistry::builder().register(PROGRAM, interpret).build()
}

/// The activities of a worker process.
pub(super) fn activities(ledger: Ledger, worker: &str) -> ActivityRegistry {
    let shared = Arc::new((ledger, worker.to_owned()));
    let other = Arc::clone(&shared);
    let answer = move |context: ActivityContext, input: String| {
        let shared = Arc::clone(&shared);
        async move {
            let input = run(&shared.0, &shared.1, &context, &input).await?;
            Ok(input.answer(context.instance_id()))
        }
    };
    let refuse = move |context: ActivityContext, input: String| {
        let shared = Arc::clone(&other);
        async move {
            let input = run(&shared.0, &shared.1, &context, &input).await?;
            Err(input.refusal())
        }
    };
    ActivityRegistry::builder().register(ANSWER, answer).register(REFUSE, refuse).build()
}

/// Takes its time, between two notes in the ledger.
async fn run(
    ledger: &Ledger,
    worker: &str,
    context: &ActivityContext,
    input: &str,
) -> Result<ActivityInput, String> {
    let input: ActivityInput =
        serde_json::from_str(input).map_err(|error| format!("the input: {error}"))?;
    let (instance, execution) = (context.instance_id(), context.execution_id());
    let beginning = Beginning { instance, execution, name: &input.name, worker };
    let entry = ledger.begin(&beginning).await;
    tokio::time::sleep(Duration::from_millis(input.millis(instance))).await;
    ledger.end(entry).await;
    Ok(input)
}

async fn interpret(context: OrchestrationContext, input: String) -> Result<String, String> {
    let mut state = State::from_input(&input)?;
    for (index, step) in state.steps().to_vec().iter().enumerate() {
        let name = step_name(state.execution(), index);
        take(&context, &mut state, &name, step).await?;
    }
    match state.next() {
        Some(next) => context.continue_as_new(next.to_input()).await,
        None => Ok(state.output(&context.instance_id())),
    }
}

async fn take(
    context: &OrchestrationContext,
    state: &mut State,
    name: &str,
    step: &Step,
) -> Result<(), String> {
    let (instance, bytes) = (context.instance_id(), state.bytes());
    let input = |name: &str| ActivityInput::of(&instance, name, bytes).to_input();
    match step {
        Step::Activity => {
            let answer = context.schedule_activity(ANSWER, input(name)).await?;
            state.take(name, &answer);
        }
        Step::Refusal => match context.schedule_activity(REFUSE, input(name)).await {
            Ok(answer) => return Err(format!("{name} was answered: {answer}")),
            Err(refusal) => state.take(name, &refusal),
        },
        Step::FanOut { activities } => {
            let names: Vec<String> = (0..*activities).map(|it| format!("{name}.{it}")).collect();
            let all = names.iter().map(|name| context.schedule_activity(ANSWER, input(name)));
            let answers = context.join(all.collect()).await;
            for (name, answer) in names.iter().zip(answers) {
                state.take(name, &answer?);
            }
        }
        Step::Timer { millis } => {
            context.schedule_timer(Duration::from_millis(*millis)).await;
            state.take(name, "");
        }
        Step::Queue => {
            let data = context.dequeue_event(name).await;
            state.take(name, &data);
        }
        Step::Signal => {
            context.set_custom_status(waiting_status(name, bytes));
            let data = context.schedule_wait(name).await;
            state.take(name, &data);
        }
        Step::Children(children) => {
            let names: Vec<String> =
                (0..children.len()).map(|number| format!("{name}.{number}")).collect();
            let all = names.iter().zip(children).map(|(name, child)| {
                let id = started_id(&instance, name);
                let input = State::first(&id, child.clone()).to_input();
                context.schedule_sub_orchestration_with_id(PROGRAM, id, input)
            });
            let outputs = context.join(all.collect()).await;
            for (name, output) in names.iter().zip(outputs) {
                state.take(name, &output?);
            }
        }
        Step::Detached(program) => {
            let id = started_id(&instance, name);
            let input = State::first(&id, program.clone()).to_input();
            context.schedule_orchestration(PROGRAM, id, input);
            state.take(name, "");
        }
    }
    Ok(())
}

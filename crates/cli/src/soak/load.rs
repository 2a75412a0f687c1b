//! The client of a run: starts orchestrations and sends the events that they wait for.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use duroxide::Client;
use duroxide::client::ClientError;
use sidereal_duroxide::{CosmosDBProvider, InstanceSearch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::check::{Check, Violation};
use super::ledger::now;
use super::names;
use super::orchestrations::PROGRAM;
use super::program::Program;
use super::state::{State, awaited, event_data};

/// Between two tries of a call that failed.
const PAUSE: Duration = Duration::from_millis(100);

/// Between two looks at which orchestrations wait.
const LOOK_EVERY: Duration = Duration::from_millis(300);

/// More than run at the same time.
const MOST_RUNNING: u32 = 100_000;

/// An orchestration that was started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Started {
    pub(super) number: u64,
    /// When the start was called for, in milliseconds since 1970.
    pub(super) at: u64,
    /// Whether the call has succeeded.
    pub(super) is_acknowledged: bool,
}

/// How often each event was sent, by instance and name: more than once where a call failed that may have succeeded.
pub(super) type Sends = HashMap<(String, String), usize>;

/// Starts orchestrations, sends events, and remembers both.
pub(super) struct Load {
    provider: Arc<CosmosDBProvider>,
    client: Client,
    seed: u64,
    largest: usize,
    started: Mutex<Vec<Started>>,
    sends: Mutex<Sends>,
    /// Calls that failed for good.
    refused: Mutex<Vec<Violation>>,
    /// Roots that have not ended, at the last look.
    running: AtomicUsize,
}

impl Load {
    pub(super) fn new(provider: Arc<CosmosDBProvider>, seed: u64, largest: usize) -> Self {
        let client = Client::new(Arc::clone(&provider) as Arc<dyn duroxide::providers::Provider>);
        let (started, sends, refused, running) = Default::default();
        Self { provider, client, seed, largest, started, sends, refused, running }
    }

    /// The program of an orchestration.
    pub(super) fn program(&self, number: u64) -> Program {
        Program::nth(self.seed, number, self.largest)
    }

    pub(super) fn started(&self) -> Vec<Started> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn sends(&self) -> Sends {
        self.sends.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn refused(&self) -> Vec<Violation> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Orchestrations that have been started and have not ended, at the last look.
    pub(super) fn running(&self) -> usize {
        // Relaxed: a number to look at.
        self.running.load(Ordering::Relaxed)
    }

    /// Starts orchestrations at their moments, as long as not too many are running, until all are acknowledged.
    pub(super) async fn start_all(
        self: &Arc<Self>,
        moments: &[Duration],
        began: Instant,
        most: usize,
    ) {
        let mut under_way = JoinSet::new();
        for (number, at) in (0..).zip(moments) {
            tokio::time::sleep_until(began + *at).await;
            while under_way.try_join_next().is_some() {}
            // A start that is not made is not made later either: the load stays what the plan says.
            if self.running() < most {
                let load = Arc::clone(self);
                under_way.spawn(async move {
                    if let Err(error) = load.start(number).await {
                        load.refuse(&names::instance(number), &error);
                    }
                });
            }
        }
        while under_way.join_next().await.is_some() {}
    }

    /// Starts an orchestration, and sends the messages of its queues.
    async fn start(&self, number: u64) -> Result<(), ClientError> {
        let (instance, program) = (names::instance(number), self.program(number));
        let position = self.note(Started { number, at: now(), is_acknowledged: false });
        let (queues, bytes): (Vec<String>, usize) = (program.queues().collect(), program.bytes);
        let input = State::first(&instance, program).to_input();
        // A start that is repeated meets its own instance, and changes nothing.
        until_done(|| self.client.start_orchestration(&instance, PROGRAM, input.clone())).await?;
        self.started.lock().unwrap_or_else(PoisonError::into_inner)[position].is_acknowledged =
            true;
        for name in queues {
            let data = event_data(&instance, &name, bytes);
            until_done(|| {
                self.count(&instance, &name);
                self.client.enqueue_event(&instance, &name, data.clone())
            })
            .await?;
        }
        Ok(())
    }

    fn refuse(&self, instance: &str, error: &ClientError) {
        let violation = Violation::of(Check::Calls, instance, format!("a call failed: {error}"));
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).push(violation);
    }

    fn note(&self, started: Started) -> usize {
        let mut all = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        all.push(started);
        all.len() - 1
    }

    fn count(&self, instance: &str, name: &str) {
        let mut sends = self.sends.lock().unwrap_or_else(PoisonError::into_inner);
        *sends.entry((instance.to_owned(), name.to_owned())).or_default() += 1;
    }

    /// Raises the events that orchestrations wait for, until it is dropped.
    pub(super) async fn serve(&self) {
        let search = InstanceSearch {
            status: Some("Running".to_owned()),
            limit: MOST_RUNNING,
            ..InstanceSearch::default()
        };
        let mut raised = HashSet::new();
        loop {
            // While the emulator is down it is looked again.
            if let Ok(found) = self.provider.find_instances(&search).await {
                let roots = found.iter().filter(|it| !it.instance_id.contains('.')).count();
                // Relaxed: a number for the progress line.
                self.running.store(roots, Ordering::Relaxed);
                for instance in found {
                    let status = instance.custom_status.unwrap_or_default();
                    let Some((name, bytes)) = awaited(&status) else { continue };
                    let event = (instance.instance_id.clone(), name.to_owned());
                    if raised.contains(&event) {
                        continue;
                    }
                    match self.raise(&event, bytes).await {
                        Err(error) if error.is_retryable() => continue,
                        Err(error) => self.refuse(&event.0, &error),
                        Ok(()) => {}
                    }
                    raised.insert(event);
                }
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    async fn raise(
        &self,
        (instance, name): &(String, String),
        bytes: usize,
    ) -> Result<(), ClientError> {
        self.count(instance, name);
        self.client.raise_event(instance, name, event_data(instance, name, bytes)).await
    }
}

/// Repeats a call until it succeeds or cannot: the emulator may be down.
async fn until_done<F>(mut call: impl FnMut() -> F) -> Result<(), ClientError>
where
    F: Future<Output = Result<(), ClientError>>,
{
    loop {
        match call().await {
            Err(error) if error.is_retryable() => tokio::time::sleep(PAUSE).await,
            outcome => return outcome,
        }
    }
}

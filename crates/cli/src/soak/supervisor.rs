//! The processes of a run: started, killed at the moments of the plan, and started again.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::kills::{Kill, Victim};
use super::ledger::now;
use super::names::{ENDPOINT, KEY, READY};
use super::plan::{EmulatorKill, WorkerKill};
use super::process::{Process, START_BOUND};
use super::site::Site;
use crate::failure::{ExitStatus, Failure};

/// Between two tries to start the emulator on a port that is taken.
const PAUSE: Duration = Duration::from_millis(100);

/// How to reach the emulator.
#[derive(Clone)]
pub(super) struct Account {
    pub(super) endpoint: String,
    pub(super) key: String,
}

/// The process of the emulator.
pub(super) struct EmulatorProcess<'a> {
    site: &'a Site,
    arguments: Vec<String>,
    process: Process,
    pub(super) account: Account,
    pub(super) kills: Vec<Kill>,
}

impl<'a> EmulatorProcess<'a> {
    /// Starts the emulator on a directory of the site.
    pub(super) async fn start(
        site: &'a Site,
        port: u16,
        partitions: Option<u32>,
    ) -> Result<Self, Failure> {
        let text = |it: &str| it.to_owned();
        let mut arguments = vec![
            text("emulator"),
            text("--json"),
            text("--end-with-stdin"),
            text("--port"),
            port.to_string(),
            text("--data-dir"),
            site.data().display().to_string(),
            text("--certificate-dir"),
            site.directory().display().to_string(),
        ];
        if let Some(partitions) = partitions {
            arguments.extend([text("--partitions"), partitions.to_string()]);
        }
        let (process, account) = launch(site, &arguments).await?;
        Ok(Self { site, arguments, process, account, kills: Vec::new() })
    }

    /// Kills the emulator at each moment, and starts it again.
    pub(super) async fn torture(
        &mut self,
        kills: &[EmulatorKill],
        began: Instant,
    ) -> Result<(), Failure> {
        for EmulatorKill { at, pause } in kills {
            tokio::time::sleep_until(began + *at).await;
            self.kill_and_restart(*pause).await?;
        }
        Ok(())
    }

    async fn kill_and_restart(&mut self, pause: Duration) -> Result<(), Failure> {
        let killed_at = now();
        if let Some(status) = self.process.ended()? {
            let sentence = format!("the emulator ended by itself: {status}");
            return Err(Failure::new(ExitStatus::Failed, sentence));
        }
        self.process.kill().await?;
        tokio::time::sleep(pause).await;
        let (began, until) = (Instant::now(), Instant::now() + START_BOUND);
        self.process = loop {
            match launch(self.site, &self.arguments).await {
                Ok((process, _)) => break process,
                Err(failure) if Instant::now() >= until => return Err(failure),
                Err(_) => tokio::time::sleep(PAUSE).await,
            }
        };
        let restart = Some(began.elapsed());
        let kill = Kill { victim: Victim::Emulator, at: killed_at, back_at: now(), restart };
        self.kills.push(kill);
        Ok(())
    }
}

/// Starts the emulator and waits until it says where it is.
async fn launch(site: &Site, arguments: &[String]) -> Result<(Process, Account), Failure> {
    let mut process = Process::spawn(arguments, &[], &site.log("emulator"))?;
    let line = process.first_line("emulator").await?;
    let facts: Value = serde_json::from_str(&line).unwrap_or_default();
    let fact = |name: &str| facts[name].as_str().unwrap_or_default().to_owned();
    Ok((process, Account { endpoint: fact("http_endpoint"), key: fact("key") }))
}

/// The worker processes, each in a slot of its own.
pub(super) struct Workers<'a> {
    site: &'a Site,
    account: Account,
    lock: Option<Duration>,
    slots: Vec<Worker>,
    pub(super) kills: Vec<Kill>,
    /// Workers that ended before they were killed, and how.
    pub(super) ended: Vec<(String, std::process::ExitStatus)>,
}

struct Worker {
    name: String,
    process: Process,
}

impl<'a> Workers<'a> {
    /// Starts the workers, and waits until all are ready.
    pub(super) async fn start(
        site: &'a Site,
        account: &Account,
        count: usize,
        lock: Option<Duration>,
    ) -> Result<Self, Failure> {
        let account = account.clone();
        let (slots, kills, ended) = (Vec::new(), Vec::new(), Vec::new());
        let mut workers = Self { site, account, lock, slots, kills, ended };
        for slot in 0..count {
            let worker = workers.spawn(slot, 0)?;
            workers.slots.push(worker);
        }
        for Worker { name, process } in &mut workers.slots {
            let line = process.first_line(name).await?;
            if line.trim() != READY {
                let sentence = format!("the worker {name} says {line:?}");
                return Err(Failure::new(ExitStatus::Defect, sentence));
            }
        }
        Ok(workers)
    }

    /// Kills workers at the moments of the plan, and starts others in their places.
    pub(super) async fn torture(
        &mut self,
        kills: &[WorkerKill],
        began: Instant,
    ) -> Result<(), Failure> {
        for (number, WorkerKill { at, slot, pause }) in kills.iter().enumerate() {
            tokio::time::sleep_until(began + *at).await;
            self.note_ended()?;
            let killed_at = now();
            self.slots[*slot].process.kill().await?;
            tokio::time::sleep(*pause).await;
            let next = self.spawn(*slot, number + 1)?;
            let killed = std::mem::replace(&mut self.slots[*slot], next);
            let victim = Victim::Worker(killed.name);
            self.kills.push(Kill { victim, at: killed_at, back_at: now(), restart: None });
        }
        Ok(())
    }

    /// Ends all workers.
    pub(super) async fn end(&mut self) -> Result<(), Failure> {
        self.note_ended()?;
        for worker in &mut self.slots {
            worker.process.kill().await?;
        }
        Ok(())
    }

    fn spawn(&self, slot: usize, number: usize) -> Result<Worker, Failure> {
        let name = format!("worker-{slot}-{number}");
        let mut arguments = vec!["soak-worker".to_owned(), name.clone()];
        if let Some(lock) = self.lock {
            arguments.extend(["--lock".to_owned(), humantime::format_duration(lock).to_string()]);
        }
        let Account { endpoint, key } = &self.account;
        let variables = [(ENDPOINT, endpoint.as_str()), (KEY, key.as_str())];
        let process = Process::spawn(&arguments, &variables, &self.site.log(&name))?;
        Ok(Worker { name, process })
    }

    /// Looks for workers that ended although they were not killed.
    fn note_ended(&mut self) -> Result<(), Failure> {
        for Worker { name, process } in &mut self.slots {
            let is_new = !self.ended.iter().any(|(noted, _)| noted == name);
            if let Some(status) = process.ended()?.filter(|_| is_new) {
                self.ended.push((name.clone(), status));
            }
        }
        Ok(())
    }
}

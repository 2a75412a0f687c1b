//! How busy the machine is: processor load and memory, read every few seconds.
//!
//! Slow responses on a busy machine say nothing about the connection they came over, so health checks ask
//! here first, and diagnostics of a slow operation show what was read. Health checks take a [`CpuLoad`],
//! not the monitor: a test gives them a constant.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use smallvec::SmallVec;
use sysinfo::{MINIMUM_CPU_UPDATE_INTERVAL, ProcessRefreshKind, ProcessesToUpdate, System};

use super::cgroup::QuotaUsage;
use super::{Clock, TaskSpawner};

/// How many readings are kept: half a minute of them at the usual interval.
const HISTORY_LIMIT: usize = 6;

/// Reads processor load and memory again and again, for as long as someone listens.
///
/// Cloning it does not read twice.
#[derive(Clone, Debug)]
pub struct CpuMemoryMonitor(Arc<ArcSwap<MachineHistory>>);

impl CpuMemoryMonitor {
    /// Begins to read, in a task of the spawner's owner.
    ///
    /// The load is a difference, so it is known from the second reading on. That one comes quickly;
    /// those after it keep the interval, or the shortest that the system can tell apart.
    ///
    /// A simulated clock brings a load of its own: then nothing of this machine is read.
    #[must_use]
    pub fn start(clock: &Clock, tasks: &TaskSpawner, interval: Duration) -> Self {
        if let Some(load) = clock.simulated_cpu_load() {
            return Self::reading_from(move || MachineReading::of_load(load), tasks, interval);
        }
        let mut machine = Machine::new();
        Self::reading_from(move || machine.read(), tasks, interval)
    }

    fn reading_from(
        read: impl FnMut() -> MachineReading + Send + 'static,
        tasks: &TaskSpawner,
        interval: Duration,
    ) -> Self {
        let monitor = Self(Arc::new(ArcSwap::from_pointee(MachineHistory::default())));
        let interval = interval.max(MINIMUM_CPU_UPDATE_INTERVAL);
        let readings = keep_reading(read, Arc::downgrade(&monitor.0), tasks.clone(), interval);
        // A driver that is shutting down needs no readings.
        let _ = tasks.spawn("cpu-memory-monitor", readings);
        monitor
    }

    /// The last reading; `None` before the first.
    #[must_use]
    pub fn latest(&self) -> Option<MachineReading> {
        self.0.load().latest().copied()
    }

    /// The share of the processors that was busy between the last two readings, from 0 to 1.
    #[must_use]
    pub fn cpu_load(&self) -> Option<f64> {
        self.0.load().latest().and_then(|reading| reading.cpu_load)
    }

    /// The last readings, as they are now.
    #[must_use]
    pub fn history(&self) -> Arc<MachineHistory> {
        self.0.load_full()
    }

    /// The load alone, for health checks.
    #[must_use]
    pub fn load(&self) -> CpuLoad {
        let monitor = self.clone();
        CpuLoad::from_fn(move || monitor.cpu_load())
    }
}

/// Reads until the last listener is gone or the owner of the task shuts down.
///
/// Reading takes a few system calls that do not wait, so it happens where the task runs.
async fn keep_reading(
    mut read: impl FnMut() -> MachineReading,
    history: Weak<ArcSwap<MachineHistory>>,
    tasks: TaskSpawner,
    interval: Duration,
) {
    let mut pause = MINIMUM_CPU_UPDATE_INTERVAL;
    while let Some(history) = history.upgrade() {
        let longer = history.load().with(read());
        history.store(Arc::new(longer));
        // Not held while it sleeps: the task must not keep the readings alive.
        drop(history);
        tokio::select! {
            // The shutdown first: a reading more would delay it for nothing.
            biased;
            () = tasks.shutdown_requested() => return,
            () = tokio::time::sleep(pause) => {}
        }
        pause = interval;
    }
}

/// The processor load, from wherever it comes.
#[derive(Clone)]
pub struct CpuLoad(Arc<dyn Fn() -> Option<f64> + Send + Sync>);

impl CpuLoad {
    /// A load that is asked for each time.
    pub fn from_fn(load: impl Fn() -> Option<f64> + Send + Sync + 'static) -> Self {
        Self(Arc::new(load))
    }

    /// A load that does not change; `None` is one that is not known.
    #[must_use]
    pub fn constant(load: Option<f64>) -> Self {
        Self::from_fn(move || load)
    }

    /// The share of the processors that is busy, from 0 to 1, where it is known.
    #[must_use]
    pub fn now(&self) -> Option<f64> {
        (self.0)()
    }
}

impl fmt::Debug for CpuLoad {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "CpuLoad({:?})", self.now())
    }
}

/// The last readings, oldest first.
#[derive(Clone, Debug, Default)]
pub struct MachineHistory(SmallVec<[MachineReading; HISTORY_LIMIT]>);

impl MachineHistory {
    /// The readings, oldest first.
    #[must_use]
    pub fn readings(&self) -> &[MachineReading] {
        &self.0
    }

    /// The newest reading.
    #[must_use]
    pub fn latest(&self) -> Option<&MachineReading> {
        self.0.last()
    }

    /// These readings and a newer one; the oldest goes when there are too many.
    fn with(&self, newest: MachineReading) -> Self {
        // The oldest readings go, so that the list stays inline and bounded.
        let surplus = (self.0.len() + 1).saturating_sub(HISTORY_LIMIT);
        let kept = self.0.iter().skip(surplus).copied();
        Self(kept.chain(std::iter::once(newest)).collect())
    }
}

impl FromIterator<MachineReading> for MachineHistory {
    fn from_iter<I: IntoIterator<Item = MachineReading>>(readings: I) -> Self {
        readings.into_iter().fold(Self::default(), |history, reading| history.with(reading))
    }
}

/// `cpu 12 %, 40 %, 97 %; memory 3.2 of 7.8 GiB, of which 0.1 GiB are ours`; the newest load comes last.
impl fmt::Display for MachineHistory {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(latest) = self.latest() else { return formatter.write_str("nothing read yet") };
        formatter.write_str("cpu ")?;
        for (position, reading) in self.0.iter().enumerate() {
            let comma = if position == 0 { "" } else { ", " };
            match reading.cpu_load {
                Some(load) => write!(formatter, "{comma}{:.0} %", load * 100.0)?,
                None => write!(formatter, "{comma}?")?,
            }
        }
        let (used, total) = (gibibytes(latest.memory_used), gibibytes(latest.memory_total));
        write!(formatter, "; memory {used:.1} of {total:.1} GiB")?;
        match latest.process_memory {
            Some(own) => write!(formatter, ", of which {:.1} GiB are ours", gibibytes(own)),
            None => Ok(()),
        }
    }
}

fn gibibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1_u32 << 30)
}

/// One reading of the machine's load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MachineReading {
    /// When.
    pub at: Instant,
    /// The share of the processors that was busy since the reading before, from 0 to 1.
    pub cpu_load: Option<f64>,
    /// The bytes of memory in use, of the container where there is one.
    pub memory_used: u64,
    /// The bytes of memory that there are, or that the container may use.
    pub memory_total: u64,
    /// The bytes of memory that this process holds.
    pub process_memory: Option<u64>,
}

impl MachineReading {
    /// A reading of a load and nothing else.
    fn of_load(cpu_load: Option<f64>) -> Self {
        let (at, memory_used, memory_total) = (Clock::now(), 0, 0);
        Self { at, cpu_load, memory_used, memory_total, process_memory: None }
    }
}

/// The machine as the system describes it.
struct Machine {
    system: System,
    read_before: bool,
    /// The container's quota as it was read last, and when.
    quota: Option<(QuotaUsage, Instant)>,
}

impl Machine {
    fn new() -> Self {
        Self { system: System::new(), read_before: false, quota: None }
    }

    fn read(&mut self) -> MachineReading {
        // sysinfo measures the load between two refreshes: the first has nothing to compare with.
        self.system.refresh_cpu_usage();
        self.system.refresh_memory();
        let load = f64::from(self.system.global_cpu_usage()) / 100.0;
        let load = self.read_before.then_some(load.clamp(0.0, 1.0));
        self.read_before = true;
        let now = Clock::now();
        // The quota is what slows the process down, whatever the machine has left.
        let load = self.quota_load(now).or(load);
        let (memory_used, memory_total) = self.memory();
        let process_memory = self.process_memory();
        MachineReading { at: now, cpu_load: load, memory_used, memory_total, process_memory }
    }

    /// The share of the container's quota that was used since the last reading, where there is one.
    fn quota_load(&mut self, now: Instant) -> Option<f64> {
        let usage = QuotaUsage::read()?;
        let (earlier, at) = self.quota.replace((usage, now))?;
        usage.load_since(&earlier, now.saturating_duration_since(at))
    }

    /// Used and total bytes. A container's limit is the one that ends the process, so it counts.
    fn memory(&self) -> (u64, u64) {
        let total = self.system.total_memory();
        match self.system.cgroup_limits() {
            Some(limits) if limits.total_memory < total => {
                let used = limits.total_memory.saturating_sub(limits.free_memory);
                (used, limits.total_memory)
            }
            _ => (self.system.used_memory(), total),
        }
    }

    fn process_memory(&mut self) -> Option<u64> {
        let own = sysinfo::get_current_pid().ok()?;
        // A refresh of everything would walk all processes and their threads.
        let only_memory = ProcessRefreshKind::nothing().with_memory().without_tasks();
        self.system.refresh_processes_specifics(ProcessesToUpdate::Some(&[own]), true, only_memory);
        Some(self.system.process(own)?.memory())
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::super::{BackgroundTaskManager, ShutdownOutcome};
    use super::*;

    const INTERVAL: Duration = Duration::from_secs(5);
    const GIB: u64 = 1 << 30;

    fn reading(cpu_load: Option<f64>) -> MachineReading {
        MachineReading {
            at: Instant::now(),
            cpu_load,
            memory_used: 3 * GIB,
            memory_total: 8 * GIB,
            process_memory: Some(GIB / 2),
        }
    }

    /// Readings of 1 %, 2 %, 3 % …, the first of them without a load.
    fn rising() -> impl FnMut() -> MachineReading + Send + 'static {
        let mut count = 0.0;
        move || {
            count += 1.0;
            reading((count > 1.0).then_some(count / 100.0))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_load_is_known_soon_and_then_read_at_the_interval() {
        let manager = BackgroundTaskManager::new();
        let monitor = CpuMemoryMonitor::reading_from(rising(), &manager.spawner(), INTERVAL);
        assert_eq!((monitor.latest(), monitor.cpu_load()), (None, None));
        tokio::task::yield_now().await;
        assert_eq!(monitor.latest().unwrap().cpu_load, None);
        tokio::time::sleep(MINIMUM_CPU_UPDATE_INTERVAL + Duration::from_millis(1)).await;
        assert_eq!(monitor.cpu_load(), Some(0.02));
        tokio::time::sleep(INTERVAL - Duration::from_millis(2)).await;
        assert_eq!(monitor.cpu_load(), Some(0.02));
        tokio::time::sleep(Duration::from_millis(2)).await;
        assert_eq!(monitor.cpu_load(), Some(0.03));
    }

    #[tokio::test(start_paused = true)]
    async fn an_interval_of_nothing_does_not_keep_the_processor_busy() {
        let manager = BackgroundTaskManager::new();
        let monitor = CpuMemoryMonitor::reading_from(rising(), &manager.spawner(), Duration::ZERO);
        tokio::time::sleep(4 * MINIMUM_CPU_UPDATE_INTERVAL + Duration::from_millis(1)).await;
        assert_eq!(monitor.cpu_load(), Some(0.05));
    }

    #[test]
    fn only_the_last_readings_are_kept() {
        let history: MachineHistory = (0..10).map(|n| reading(Some(f64::from(n)))).collect();
        let loads: Vec<_> = history.readings().iter().map(|one| one.cpu_load.unwrap()).collect();
        assert_eq!(loads, [4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        assert_eq!(history.latest().unwrap().cpu_load, Some(9.0));
    }

    #[tokio::test(start_paused = true)]
    async fn a_snapshot_does_not_change_when_the_machine_does() {
        let manager = BackgroundTaskManager::new();
        let monitor = CpuMemoryMonitor::reading_from(rising(), &manager.spawner(), INTERVAL);
        tokio::task::yield_now().await;
        let before = monitor.history();
        tokio::time::sleep(2 * INTERVAL).await;
        assert_eq!(before.readings().len(), 1);
        assert!(monitor.history().readings().len() > 1);
    }

    #[tokio::test(start_paused = true)]
    async fn reading_ends_when_nobody_listens() {
        let manager = BackgroundTaskManager::new();
        let monitor = CpuMemoryMonitor::reading_from(rising(), &manager.spawner(), INTERVAL);
        let load = monitor.load();
        drop(monitor);
        tokio::time::sleep(2 * INTERVAL).await;
        assert!(load.now().is_some() && manager.running() == 1);
        drop(load);
        tokio::time::sleep(2 * INTERVAL).await;
        assert_eq!(manager.running(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn reading_ends_at_once_when_the_driver_shuts_down() {
        let manager = BackgroundTaskManager::new();
        let monitor = CpuMemoryMonitor::reading_from(rising(), &manager.spawner(), INTERVAL);
        let outcome = manager.shutdown(Duration::from_millis(1)).await;
        assert_eq!(outcome, ShutdownOutcome::AllEnded);
        drop(monitor);
    }

    #[tokio::test]
    async fn this_machine_can_be_read() {
        let manager = BackgroundTaskManager::new();
        let monitor = CpuMemoryMonitor::start(&Clock::system(), &manager.spawner(), Duration::ZERO);
        let known = async {
            while monitor.cpu_load().is_none() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(10), known).await.expect("the second reading has a load");
        let reading = monitor.latest().unwrap();
        assert!((0.0..=1.0).contains(&reading.cpu_load.unwrap()), "{reading:?}");
        assert!(reading.memory_total >= reading.memory_used && reading.memory_used > 0);
        assert!(reading.process_memory.is_some_and(|own| own > 0));
    }

    #[test]
    fn a_load_can_be_a_constant() {
        assert_eq!(CpuLoad::constant(Some(0.95)).now(), Some(0.95));
        assert_eq!(CpuLoad::constant(None).now(), None);
    }

    #[test]
    fn people_see_loads_oldest_first_and_memory_in_gibibytes() {
        let history: MachineHistory =
            [None, Some(0.4), Some(0.971)].into_iter().map(reading).collect();
        assert_eq!(
            history.to_string(),
            "cpu ?, 40 %, 97 %; memory 3.0 of 8.0 GiB, of which 0.5 GiB are ours"
        );
        assert_eq!(MachineHistory::default().to_string(), "nothing read yet");
    }
}

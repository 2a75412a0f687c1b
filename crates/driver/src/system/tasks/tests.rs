use std::fmt::Write;
use std::future::pending;
use std::sync::Mutex;

use tokio::sync::oneshot;
use tokio_util::sync::DropGuard;
use tracing::span;

use super::*;

/// The longest that a condition is waited for; only a failing test waits so long.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A future that never ends, and a token that is cancelled when it is dropped.
fn endless() -> (impl Future<Output = ()> + Send + 'static, CancellationToken) {
    let dropped = CancellationToken::new();
    let guard: DropGuard = dropped.clone().drop_guard();
    let future = async move {
        let _guard = guard;
        pending::<()>().await;
    };
    (future, dropped)
}

async fn soon(event: impl Future) {
    tokio::time::timeout(TIMEOUT, event).await.expect("it happens in time");
}

async fn until(condition: impl Fn() -> bool) {
    let holds = async {
        while !condition() {
            tokio::task::yield_now().await;
        }
    };
    soon(holds).await;
}

#[tokio::test]
async fn a_spawned_task_runs() {
    let manager = BackgroundTaskManager::new();
    let (done, ran) = oneshot::channel();
    assert!(manager.spawn("answer", async move { done.send(42).unwrap() }));
    assert_eq!(tokio::time::timeout(TIMEOUT, ran).await.unwrap(), Ok(42));
}

#[tokio::test]
async fn dropping_the_owner_aborts_tasks_started_by_anyone() {
    let manager = BackgroundTaskManager::new();
    let spawner = manager.spawner();
    let (own, own_dropped) = endless();
    let (others, others_dropped) = endless();
    assert!(manager.spawn("own", own) && spawner.spawn("other's", others));
    drop(manager);
    soon(own_dropped.cancelled()).await;
    soon(others_dropped.cancelled()).await;
    assert!(spawner.is_shutting_down());
}

#[tokio::test]
async fn a_handle_does_not_start_tasks_for_an_owner_that_is_gone() {
    let manager = BackgroundTaskManager::new();
    let spawner = manager.spawner();
    drop(manager);
    assert!(!spawner.spawn("late", async { unreachable!("it was refused") }));
}

#[tokio::test]
async fn a_panic_is_logged_under_the_task_s_name_and_ends_nothing_else() {
    let log = Log::default();
    let _listening = tracing::subscriber::set_default(log.clone());
    let manager = BackgroundTaskManager::new();
    let (other, dropped) = endless();
    manager.spawn("other", other);
    manager.spawn("sweep", async { panic!("the broom broke") });
    until(|| manager.running() == 1).await;
    let text = log.text();
    assert!(text.contains("ERROR") && text.contains("sweep"), "{text}");
    assert!(text.contains("the broom broke"), "{text}");
    assert!(!dropped.is_cancelled());
    assert!(manager.spawn("next", async {}));
}

#[tokio::test]
async fn a_panic_of_an_aborted_task_is_logged_too() {
    struct Fragile;
    impl Drop for Fragile {
        fn drop(&mut self) {
            panic!("it slipped");
        }
    }
    let log = Log::default();
    let _listening = tracing::subscriber::set_default(log.clone());
    let manager = BackgroundTaskManager::new();
    let fragile = Fragile;
    manager.spawn("carrier", async move {
        let _held = fragile;
        pending::<()>().await;
    });
    let aborted = manager.shutdown(Duration::ZERO).await;
    assert_eq!(aborted, ShutdownOutcome::Aborted { tasks: 1 });
    assert_eq!(manager.running(), 0);
    let text = log.text();
    assert!(text.contains("carrier") && text.contains("it slipped"), "{text}");
}

#[tokio::test]
async fn a_panic_with_formatted_text_keeps_it() {
    let broken = catching_panics(async { panic!("{} brooms", 2) }).await;
    assert_eq!(panic_message(&*broken.unwrap_err()), "2 brooms");
    let broken = catching_panics(async { std::panic::panic_any(7_u8) }).await;
    assert_eq!(panic_message(&*broken.unwrap_err()), "without a message");
}

#[tokio::test]
async fn tasks_that_watch_for_the_shutdown_end_by_themselves() {
    let manager = BackgroundTaskManager::new();
    let spawner = manager.spawner();
    let (done, finished) = oneshot::channel();
    manager.spawn("watcher", async move {
        spawner.shutdown_requested().await;
        done.send("tidied up").unwrap();
    });
    assert_eq!(manager.shutdown(TIMEOUT).await, ShutdownOutcome::AllEnded);
    assert_eq!(finished.await, Ok("tidied up"));
    assert_eq!(manager.running(), 0);
}

#[tokio::test(start_paused = true)]
async fn tasks_that_do_not_end_within_the_grace_are_aborted_and_counted() {
    let manager = BackgroundTaskManager::new();
    let (stubborn, dropped) = endless();
    manager.spawn("stubborn", stubborn);
    manager.spawn("quick", async {});
    let start = tokio::time::Instant::now();
    let grace = Duration::from_secs(3);
    assert_eq!(manager.shutdown(grace).await, ShutdownOutcome::Aborted { tasks: 1 });
    assert_eq!(start.elapsed(), grace);
    assert!(dropped.is_cancelled() && manager.running() == 0);
}

#[tokio::test]
async fn nothing_is_started_after_a_shutdown() {
    let manager = BackgroundTaskManager::new();
    assert_eq!(manager.shutdown(Duration::ZERO).await, ShutdownOutcome::AllEnded);
    assert!(!manager.spawn("late", async { unreachable!("it was refused") }));
    assert!(!manager.spawner().spawn("later", async { unreachable!("it was refused") }));
    assert_eq!(manager.running(), 0);
}

#[tokio::test]
async fn finished_tasks_are_not_kept() {
    let manager = BackgroundTaskManager::new();
    for _ in 0..1_000 {
        manager.spawn("brief", async {});
    }
    until(|| manager.running() == 0).await;
}

/// Whatever the order of a shutdown and a spawn, a task that was accepted is over when it returns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_accepted_during_a_shutdown_is_waited_for() {
    for _ in 0..200 {
        let manager = BackgroundTaskManager::new();
        let spawner = manager.spawner();
        let racing = tokio::task::spawn_blocking(move || {
            let (done, ran) = oneshot::channel();
            let accepted = spawner.spawn("racer", async move { done.send(()).unwrap() });
            (accepted, ran)
        });
        assert_eq!(manager.shutdown(TIMEOUT).await, ShutdownOutcome::AllEnded);
        let (accepted, mut ran) = racing.await.unwrap();
        assert_eq!(ran.try_recv().is_ok(), accepted);
        // After the race: a task that is refused is counted for the moment in which that is found out.
        assert_eq!(manager.running(), 0);
    }
}

#[test]
fn tasks_can_be_started_from_threads_outside_the_runtime() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let manager = BackgroundTaskManager::on(runtime.handle().clone());
    let (done, ran) = std::sync::mpsc::channel();
    assert!(manager.spawn("outside", async move { done.send(()).unwrap() }));
    assert_eq!(ran.recv_timeout(TIMEOUT), Ok(()));
}

/// Keeps what is logged on the thread of a test.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<String>>);

impl Log {
    fn text(&self) -> String {
        self.0.lock().unwrap().clone()
    }
}

impl tracing::Subscriber for Log {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &tracing::Event<'_>) {
        let mut log = self.0.lock().unwrap();
        write!(log, "{}", event.metadata().level()).unwrap();
        event.record(&mut |field: &tracing::field::Field, value: &dyn fmt::Debug| {
            write!(log, " {field}={value:?}").unwrap();
        });
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

#[tokio::test(start_paused = true)]
async fn tasks_of_a_scope_end_with_it_and_leave_the_others_alone() {
    let outer = BackgroundTaskManager::new();
    let inner = outer.spawner().scope();
    assert!(outer.spawn("outer", std::future::pending()));
    assert!(inner.spawn("inner", std::future::pending()));
    assert_eq!((outer.running(), inner.running()), (2, 1));
    let spawner = inner.spawner();
    drop(inner);
    assert!(!spawner.spawn("late", async {}));
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(outer.running(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_waits_for_scoped_tasks_and_starts_no_more() {
    let outer = BackgroundTaskManager::new();
    let inner = outer.spawner().scope();
    let spawner = inner.spawner();
    let told = inner.spawner();
    assert!(inner.spawn("inner", async move { told.shutdown_requested().await }));
    assert_eq!(outer.shutdown(Duration::from_secs(1)).await, ShutdownOutcome::AllEnded);
    assert!(!spawner.spawn("late", async {}) && inner.running() == 0);
}

//! Handlers that fail, panic and hang.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use sidereal::FeedRange;
use sidereal::change_feed::processor::{Changes, HandlerError};

use super::{Followed, write};

/// A way in which a handler fails.
#[derive(Clone, Copy, Debug)]
enum Wrong {
    Fails,
    Panics,
    Hangs,
}

#[tokio::test(start_paused = true)]
async fn a_failing_handler_of_one_range_stops_no_other_and_loses_nothing() {
    for wrong in [Wrong::Fails, Wrong::Panics, Wrong::Hangs] {
        let followed = Followed::new(4).await;
        write(&followed.store.items, 0..80, 1).await;
        let poisoned = followed.store.items.read_feed_ranges().await.unwrap().remove(1);
        let (is_broken, log) = (Arc::new(AtomicBool::new(true)), followed.log.clone());
        let (broken, range) = (Arc::clone(&is_broken), poisoned.clone());
        let worker = followed.worker("a").with_handler_timeout(Duration::from_secs(5));
        let worker = worker.start(move |changes: Changes<Value>| {
            let (broken, range, log) = (Arc::clone(&broken), range.clone(), log.clone());
            async move {
                if changes.feed_range() == range && broken.load(Ordering::Relaxed) {
                    match wrong {
                        Wrong::Fails => return Err(HandlerError::from("the invoice is wrong")),
                        Wrong::Panics => panic!("the invoice is wrong"),
                        Wrong::Hangs => std::future::pending().await,
                    }
                }
                log.note("a", &changes);
                Ok(())
            }
        });
        let worker = worker.await.unwrap();
        tokio::time::sleep(Duration::from_secs(90)).await;
        let handled = followed.log.entries().len();
        assert!(handled > 40 && handled < 80, "{wrong:?}: {handled}");
        for progress in worker.progress() {
            let is_poisoned = progress.feed_range == poisoned;
            assert_eq!(progress.failures > 3, is_poisoned, "{wrong:?}: {progress:?}");
            if is_poisoned {
                let expected = match wrong {
                    Wrong::Fails | Wrong::Panics => "the invoice is wrong",
                    Wrong::Hangs => "did not end within 5s",
                };
                assert!(progress.last_error.unwrap().contains(expected));
                assert_eq!(progress.handled, 0);
            }
        }
        // It is still this worker's, and goes on when the handler does.
        is_broken.store(false, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_secs(120)).await;
        followed.log.check(80, 1);
        assert_eq!(followed.log.entries().len(), 80, "{wrong:?}: something was handled twice");
    }
}

#[tokio::test(start_paused = true)]
async fn an_item_of_another_shape_is_never_skipped() {
    let followed = Followed::new(1).await;
    write(&followed.store.items, 0..3, 1).await;
    let worker = followed.worker("a").start(|_: Changes<u32>| async { Ok::<_, HandlerError>(()) });
    let worker = worker.await.unwrap();
    tokio::time::sleep(Duration::from_secs(30)).await;
    let progress = worker.progress();
    assert!(progress[0].failures > 2 && progress[0].handled == 0);
    assert!(progress[0].last_error.as_ref().unwrap().contains("u32"), "{progress:?}");
}

/// The lease is renewed while a handler works for longer than it lasts.
#[tokio::test(start_paused = true)]
async fn a_handler_that_takes_long_keeps_its_range() {
    let followed = Followed::new(2).await;
    write(&followed.store.items, 0..10, 1).await;
    let calls: Arc<Mutex<BTreeMap<String, u32>>> = Arc::default();
    let handler = |name: &'static str| {
        let (log, calls) = (followed.log.clone(), Arc::clone(&calls));
        move |changes: Changes<Value>| {
            let (log, calls) = (log.clone(), Arc::clone(&calls));
            async move {
                let range: FeedRange = changes.feed_range();
                *calls.lock().unwrap().entry(range.to_string()).or_default() += 1;
                tokio::time::sleep(Duration::from_secs(100)).await;
                log.note(name, &changes);
                Ok::<_, HandlerError>(())
            }
        }
    };
    let worker = |name| followed.worker(name).with_page_size(100);
    let _a = worker("a").start(handler("a")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    // Alone with both ranges, so that the other takes one from it: that one begins again there.
    let _b = worker("b").start(handler("b")).await.unwrap();
    tokio::time::sleep(Duration::from_secs(250)).await;
    followed.log.check(10, 1);
    let mut counts: Vec<u32> = calls.lock().unwrap().values().copied().collect();
    counts.sort_unstable();
    assert_eq!(counts, [1, 2]);
}

#[tokio::test(start_paused = true)]
async fn stopping_waits_for_handlers_and_notes_what_they_did() {
    let followed = Followed::new(2).await;
    write(&followed.store.items, 0..10, 1).await;
    let log = followed.log.clone();
    let worker = followed.worker("a").with_page_size(100).start(move |changes: Changes<Value>| {
        let log = log.clone();
        async move {
            tokio::time::sleep(Duration::from_secs(30)).await;
            log.note("a", &changes);
            Ok::<_, HandlerError>(())
        }
    });
    let worker = worker.await.unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    worker.stop().await;
    followed.log.check(10, 1);
    let _b = followed.start("b").await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(followed.log.entries().len(), 10, "what was handled was given again");
}

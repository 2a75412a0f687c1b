//! Writes of an account with one write region while that region, or a partition of it, does not serve. On a paused
//! clock.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sidereal_driver::options::{AvailabilityOptions, CosmosClientOptions};
use sidereal_driver::{CosmosOperation, Error, ErrorKind, OperationOptions};
use sidereal_emulator::{
    AccountOptions, FaultCondition, FaultEffect, FaultRule, Operation, WriteRegionChange,
};
use sidereal_protocol::{RegionName, ResourceType};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::three_regions::{ThreeRegions, orders, read, regions, unavailable, upsert, upsert_of};

const SECOND: Duration = Duration::from_secs(1);
const WEST: &str = "West US";
const EAST: &str = "East US";

/// How a region is lost.
#[derive(Clone, Copy, Debug)]
enum Loss {
    /// Connections stay, and no request is answered.
    Silence,
    /// Connections are refused, those of the global endpoint too: its name leads to the write region.
    Refusal,
}

/// Reads prefer another region than the one that accepts writes.
async fn stack() -> Arc<ThreeRegions> {
    let stack = ThreeRegions::preferring(EAST).await;
    stack.execute(&upsert("0")).await.unwrap();
    stack.account.account().reset_counters();
    Arc::new(stack)
}

fn lose(stack: &ThreeRegions, loss: Loss) {
    match loss {
        Loss::Silence => {
            let condition =
                FaultCondition { region: Some(WEST.into()), ..FaultCondition::default() };
            let rule = FaultRule { condition, ..FaultRule::new(FaultEffect::Hang) };
            stack.account.account().add_fault(rule).unwrap();
        }
        Loss::Refusal => {
            stack.account.set_global_online(false);
            stack.set_online(WEST, false);
        }
    }
}

fn restore(stack: &ThreeRegions) {
    stack.account.account().clear_faults();
    stack.account.set_global_online(true);
    stack.set_online(WEST, true);
}

fn change_write_region(stack: &ThreeRegions) {
    let east = RegionName::from(EAST);
    stack.account.account().change_write_region(&east, WriteRegionChange::Forced).unwrap();
}

/// Writes ten times a second, whatever becomes of those before.
fn load(stack: &Arc<ThreeRegions>, lasts: Duration) -> JoinSet<(Duration, Result<(), Error>)> {
    let mut writes = JoinSet::new();
    let start = Instant::now();
    for number in 0..lasts.as_millis() / 100 {
        let stack = Arc::clone(stack);
        writes.spawn(async move {
            let at = Duration::from_millis(100) * u32::try_from(number).unwrap();
            tokio::time::sleep_until(start + at).await;
            (at, stack.execute(&upsert(&number.to_string())).await.map(drop))
        });
    }
    writes
}

fn increment() -> CosmosOperation {
    let patch = Bytes::from_static(br#"{"operations":[{"op":"incr","path":"/n","value":1}]}"#);
    CosmosOperation::patch_item(&orders(), "contoso".into(), "0", patch).unwrap()
}

/// 1,170 of 1,200 writes failed, and went on failing until the lost region came back and refused them.
#[tokio::test(start_paused = true)]
async fn no_write_fails_while_the_service_names_another_write_region() {
    for loss in [Loss::Silence, Loss::Refusal] {
        let stack = stack().await;
        lose(&stack, loss);
        let mut writes = load(&stack, 30 * SECOND);
        sleep(5 * SECOND).await;
        change_write_region(&stack);
        let changed = Instant::now();
        stack.execute(&upsert("a")).await.unwrap();
        assert!(changed.elapsed() <= 3 * SECOND, "{loss:?}: {:?}", changed.elapsed());
        while let Some(write) = writes.join_next().await {
            let (at, outcome) = write.unwrap();
            assert!(outcome.is_ok(), "{loss:?}, at {at:?}: {outcome:?}");
        }
        // Those of the first two seconds, and one probe at a time.
        assert!(stack.items_seen_in(WEST) <= 25, "{loss:?}: {}", stack.items_seen_in(WEST));
        assert!(stack.account_reads() <= 25, "{loss:?}: {} reads", stack.account_reads());
        assert_eq!(regions(&stack.execute(&upsert("b")).await), [EAST]);
    }
}

#[tokio::test(start_paused = true)]
async fn writes_go_on_in_a_region_that_comes_back_by_itself() {
    for loss in [Loss::Silence, Loss::Refusal] {
        let stack = stack().await;
        lose(&stack, loss);
        let mut writes = load(&stack, 30 * SECOND);
        sleep(20 * SECOND).await;
        restore(&stack);
        while let Some(write) = writes.join_next().await {
            let (at, outcome) = write.unwrap();
            assert!(outcome.is_ok(), "{loss:?}, at {at:?}: {outcome:?}");
        }
        assert_eq!(regions(&stack.execute(&upsert("a")).await), [WEST]);
        // A write that was served has shown that the region answers.
        let west = ThreeRegions::preferring(WEST).await;
        assert_eq!(regions(&west.execute(&read("1")).await), [WEST]);
    }
}

/// They gave up after half a second, whatever the timeout.
#[tokio::test(start_paused = true)]
async fn a_write_waits_until_its_timeout_or_for_the_time_of_the_settings() {
    let stack = stack().await;
    lose(&stack, Loss::Refusal);
    let took = |availability: AvailabilityOptions| {
        let stack = Arc::clone(&stack);
        async move {
            let options = OperationOptions::default().with_availability(availability);
            let started = Instant::now();
            let error = stack.driver.execute_operation(&upsert("1"), &options).await.unwrap_err();
            (started.elapsed(), error)
        }
    };
    let unset = AvailabilityOptions::default;
    let (elapsed, error) = took(unset().with_end_to_end_timeout(7 * SECOND)).await;
    // An attempt that could only meet the deadline is not made.
    assert!((7 * SECOND - SECOND / 5..=7 * SECOND).contains(&elapsed), "{elapsed:?}");
    assert_eq!(error.kind(), ErrorKind::Unavailable, "the real outcome: {error}");
    let options = unset().with_end_to_end_timeout(7 * SECOND);
    let options = OperationOptions::default().with_availability(options);
    let never_sent = stack.driver.execute_operation(&increment(), &options).await.unwrap_err();
    assert_eq!(never_sent.kind(), ErrorKind::DeadlineExceeded);
    assert!(never_sent.to_string().contains("it was not sent"), "{never_sent}");
    assert!(!never_sent.may_have_been_applied());
    let (elapsed, error) = took(unset()).await;
    // An attempt that begins before the end may be the last one.
    let about = |wait: Duration| wait..=wait + SECOND / 2;
    assert!(about(60 * SECOND).contains(&elapsed), "{elapsed:?}");
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let (elapsed, _) = took(unset().with_max_write_region_wait(10 * SECOND)).await;
    assert!(about(10 * SECOND).contains(&elapsed), "{elapsed:?}");
    restore(&stack);
    stack.execute(&upsert("1")).await.unwrap();
    lose(&stack, Loss::Refusal);
    let (elapsed, _) = took(unset().with_max_write_region_wait(Duration::ZERO)).await;
    assert!(elapsed < SECOND, "{elapsed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_cannot_be_repeated_waits_too_and_is_applied_once() {
    let stack = stack().await;
    lose(&stack, Loss::Silence);
    let under_way = {
        let stack = Arc::clone(&stack);
        tokio::spawn(async move { stack.execute(&increment()).await })
    };
    sleep(3 * SECOND).await;
    let waiting = {
        let stack = Arc::clone(&stack);
        tokio::spawn(async move { stack.execute(&increment()).await })
    };
    sleep(SECOND).await;
    change_write_region(&stack);
    let written = waiting.await.unwrap();
    assert_eq!(regions(&written), [EAST]);
    written.unwrap();
    let lost = under_way.await.unwrap().unwrap_err();
    assert!(lost.may_have_been_applied(), "it was sent, and not sent again");
    let found = stack.execute(&read("0")).await.unwrap();
    assert!(String::from_utf8_lossy(found.body()).contains(r#""n":1"#));
}

/// A sick partition that nothing can move: its writes wait, with one of them at a time as the probe.
#[tokio::test(start_paused = true)]
async fn writes_of_a_sick_partition_wait_and_those_of_others_do_not() {
    let stack = Arc::new(ThreeRegions::partitioned(AccountOptions::default(), EAST).await);
    let (sick, healthy) = (stack.customer_in("1").await, stack.customer_in("2").await);
    let fault = stack.inject_in_range(WEST, "1", Operation::Upsert, unavailable());
    let started = Instant::now();
    let write = |customer: &str, id: u32| {
        let (stack, write) = (Arc::clone(&stack), upsert_of(customer, &id.to_string()));
        async move { stack.execute(&write).await.map(drop) }
    };
    let mut waiting: JoinSet<_> = (0..100).map(|id| write(&sick, id)).collect();
    for id in 0..100 {
        write(&healthy, id).await.unwrap();
    }
    assert!(started.elapsed() < 2 * SECOND, "{:?}", started.elapsed());
    let seen = stack.seen_in_range(WEST, "1");
    sleep(20 * SECOND).await;
    let probes = stack.seen_in_range(WEST, "1") - seen;
    assert!((10..=40).contains(&probes), "{probes}");
    stack.account.account().remove_fault(&fault);
    while let Some(outcome) = waiting.join_next().await {
        outcome.unwrap().unwrap();
    }
    assert!(started.elapsed() < 27 * SECOND, "{:?}", started.elapsed());
}

/// One write that takes long, beside others that are answered, says nothing of its region.
#[tokio::test(start_paused = true)]
async fn a_slow_write_holds_no_other_back() {
    let stack = Arc::new(ThreeRegions::new(false, CosmosClientOptions::default()).await);
    stack.execute(&upsert("0")).await.unwrap();
    let slow = FaultEffect::DelayBefore { wait: 8 * SECOND };
    stack.inject(WEST, Operation::Upsert, slow, Some(1));
    let first = {
        let stack = Arc::clone(&stack);
        tokio::spawn(async move { stack.execute(&upsert("1")).await })
    };
    for id in 2..52 {
        sleep(SECOND / 10).await;
        let started = Instant::now();
        stack.execute(&upsert(&id.to_string())).await.unwrap();
        assert!(started.elapsed() < SECOND / 20);
    }
    assert_eq!(regions(&first.await.unwrap()), [WEST]);
}

/// By the snapshot of the account that the operation is routed by: an application that relies on one region judging its
/// conditions must not learn of a second one from its own writes.
#[tokio::test(start_paused = true)]
async fn an_operation_for_one_write_region_is_not_sent_to_several() {
    let availability = AvailabilityOptions {
        single_write_region_only: Some(true),
        ..AvailabilityOptions::default()
    };
    let options = OperationOptions { availability, ..OperationOptions::default() };
    let one = ThreeRegions::preferring(EAST).await;
    one.driver.execute_operation(&upsert("1"), &options).await.unwrap();
    one.driver.execute_operation(&read("1"), &options).await.unwrap();
    let several = ThreeRegions::new(true, CosmosClientOptions::default()).await;
    several.account.account().reset_counters();
    for operation in [upsert("1"), read("1")] {
        let refused = several.driver.execute_operation(&operation, &options).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable);
        assert!(refused.diagnostics().unwrap().attempts().is_empty(), "{refused}");
        assert!(!refused.may_have_been_applied());
    }
    let items = several.account.account().counters().into_iter();
    let items: Vec<_> = items.filter(|row| row.resource == Some(ResourceType::Document)).collect();
    assert!(items.is_empty(), "{items:?}");
    several.driver.execute_operation(&upsert("1"), &OperationOptions::default()).await.unwrap();
}

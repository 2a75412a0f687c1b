//! Slow attempts and the hedges that join them, as the application and the account see it. On a paused clock.

use std::time::Duration;

use bytes::Bytes;
use sidereal_driver::options::{AvailabilityOptions, CosmosClientOptions, HedgingThreshold, Ratio};
use sidereal_driver::{
    CosmosOperation, CosmosResponse, Error, ErrorKind, OperationOptions, Precondition,
};
use sidereal_emulator::{AccountOptions, FaultEffect, Operation};
use sidereal_protocol::{Etag, RegionName};

use crate::three_regions::{
    LATENCY, ThreeRegions, contexts, order, orders, read, read_of, regions, unavailable, upsert,
    upsert_of,
};

const MS: Duration = Duration::from_millis(1);
const THRESHOLD: Duration = Duration::from_millis(100);

fn slow(wait: Duration) -> FaultEffect {
    FaultEffect::DelayBefore { wait }
}

/// Reads prefer UK South; what takes longer than a tenth of a second is hedged.
async fn hedging(account: AccountOptions) -> ThreeRegions {
    with_budget(account, AvailabilityOptions::default()).await
}

/// Hedges writes too.
async fn hedging_writes(account: AccountOptions) -> ThreeRegions {
    with_budget(account, AvailabilityOptions::default().with_hedge_writes(true)).await
}

async fn with_budget(account: AccountOptions, availability: AvailabilityOptions) -> ThreeRegions {
    let mut options = CosmosClientOptions::default();
    options.regions.preferred_regions = Some(vec![RegionName::from("UK South")]);
    options.availability = availability.with_hedging_threshold(HedgingThreshold::Static(THRESHOLD));
    let stack = ThreeRegions::with(account, options).await;
    stack.driver.container(&orders()).await.unwrap();
    stack
}

fn elapsed(outcome: &Result<CosmosResponse, Error>) -> Duration {
    match outcome {
        Ok(response) => response.diagnostics().elapsed(),
        Err(error) => error.diagnostics().unwrap().elapsed(),
    }
}

#[tokio::test(start_paused = true)]
async fn a_slow_read_is_joined_by_another_region_and_the_first_answer_counts() {
    let stack = hedging(AccountOptions::default()).await;
    stack.execute(&read("1")).await.unwrap();
    stack.inject("UK South", Operation::Read, slow(500 * MS), None);
    let found = stack.execute(&read("1")).await;
    assert_eq!(regions(&found), ["UK South", "West US"]);
    assert_eq!(contexts(&found), ["initial", "hedging"]);
    let took = elapsed(&found);
    assert!(took >= THRESHOLD && took <= THRESHOLD + 3 * LATENCY, "{took:?}");
    let diagnostics = found.unwrap().diagnostics().clone();
    let loser = &diagnostics.attempts()[0];
    assert_eq!(loser.elapsed(), None, "it was cancelled");
    assert_eq!(loser.decision.unwrap().reason(), "another region answered first");
    let text = diagnostics.to_string();
    assert!(text.contains("hedging at ") && text.contains("left while"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_read_that_is_fast_enough_is_alone() {
    let stack = hedging(AccountOptions::default()).await;
    stack.inject("UK South", Operation::Read, slow(80 * MS), None);
    assert_eq!(contexts(&stack.execute(&read("1")).await), ["initial"]);
}

#[tokio::test(start_paused = true)]
async fn the_first_attempt_wins_if_it_answers_first_after_all() {
    let stack = hedging(AccountOptions::default()).await;
    stack.inject("UK South", Operation::Read, slow(120 * MS), None);
    stack.inject("West US", Operation::Read, slow(500 * MS), None);
    let found = stack.execute(&read("1")).await;
    assert_eq!(contexts(&found), ["initial", "hedging"]);
    let diagnostics = found.unwrap().diagnostics().clone();
    assert!(diagnostics.attempts()[0].elapsed().is_some());
    assert_eq!(diagnostics.attempts()[1].elapsed(), None);
}

#[tokio::test(start_paused = true)]
async fn a_failed_leg_waits_for_the_other_before_the_operation_moves_on() {
    let stack = hedging(AccountOptions::default()).await;
    stack.inject("UK South", Operation::Read, slow(300 * MS), None);
    stack.inject("West US", Operation::Read, unavailable(), None);
    let found = stack.execute(&read("1")).await;
    assert_eq!(regions(&found), ["UK South", "West US"], "the slow one answers");
    assert!(elapsed(&found) >= 300 * MS);
    found.unwrap();

    let mut options = CosmosClientOptions::default();
    options.regions.preferred_regions = Some(vec![RegionName::from("UK South")]);
    options.availability =
        AvailabilityOptions::default().with_hedging_threshold(HedgingThreshold::Static(THRESHOLD));
    options.connection.request_timeout = Some(300 * MS);
    let stack = ThreeRegions::with(AccountOptions::default(), options).await;
    stack.inject("UK South", Operation::Read, FaultEffect::Hang, None);
    stack.inject("West US", Operation::Read, unavailable(), None);
    let found = stack.execute(&read("1")).await;
    assert_eq!(regions(&found), ["UK South", "West US", "UK South", "East US"]);
    found.unwrap();
}

#[tokio::test(start_paused = true)]
async fn hedges_end_with_their_budget() {
    let availability = AvailabilityOptions::default()
        .with_hedging_budget_ratio(Ratio::constant(0.0))
        .with_hedging_budget_burst(2u32);
    let stack = with_budget(AccountOptions::default(), availability).await;
    stack.inject("UK South", Operation::Read, slow(500 * MS), None);
    let mut hedged = 0;
    for _ in 0..6 {
        let found = stack.execute(&read("1")).await;
        hedged += usize::from(contexts(&found).contains(&"hedging"));
        found.unwrap();
    }
    assert_eq!(hedged, 2);
}

#[tokio::test(start_paused = true)]
async fn a_slow_region_never_adds_more_load_than_the_budget() {
    let mut options = CosmosClientOptions::default();
    options.regions.preferred_regions = Some(vec![RegionName::from("UK South")]);
    options.availability =
        AvailabilityOptions::default().with_hedging_threshold(HedgingThreshold::Static(THRESHOLD));
    // The breaker would move the partition: what is shown is the budget alone.
    options.retry.disable_partition_level_failover = Some(true);
    let stack = ThreeRegions::with(AccountOptions::default(), options).await;
    stack.inject("UK South", Operation::Read, slow(300 * MS), None);
    let before = stack.items_seen_in("West US") + stack.items_seen_in("East US");
    for _ in 0..30 {
        stack.execute_all(&vec![read("1"); 10]).await;
    }
    let added = stack.items_seen_in("West US") + stack.items_seen_in("East US") - before;
    assert!((30..=41).contains(&added), "{added} hedges for 300 reads");
}

#[tokio::test(start_paused = true)]
async fn hedging_is_switched_off_by_the_call_the_settings_and_the_account() {
    let stack = hedging(AccountOptions::default()).await;
    stack.inject("UK South", Operation::Read, slow(500 * MS), None);
    let off = AvailabilityOptions::default().with_hedging_enabled(false);
    let options = OperationOptions::default().with_availability(off.clone());
    let alone = stack.driver.execute_operation(&read("1"), &options).await;
    assert_eq!(contexts(&alone), ["initial"]);
    assert_eq!(contexts(&stack.execute(&read("1")).await), ["initial", "hedging"]);

    let stack = with_budget(AccountOptions::default(), off).await;
    stack.inject("UK South", Operation::Read, slow(500 * MS), None);
    assert_eq!(contexts(&stack.execute(&read("1")).await), ["initial"]);

    let suppressed = AccountOptions { hedging_suppressed: true, ..AccountOptions::default() };
    let stack = hedging(suppressed).await;
    stack.inject("UK South", Operation::Read, slow(500 * MS), None);
    assert_eq!(contexts(&stack.execute(&read("1")).await), ["initial"]);
}

#[tokio::test(start_paused = true)]
async fn an_excluded_region_is_not_hedged_to() {
    let stack = hedging(AccountOptions::default()).await;
    stack.inject("UK South", Operation::Read, slow(500 * MS), None);
    let request = sidereal_driver::options::RequestOptions::default()
        .with_excluded_regions(["West US", "East US"]);
    let options = OperationOptions::default().with_request(request);
    let alone = stack.driver.execute_operation(&read("1"), &options).await;
    assert_eq!(contexts(&alone), ["initial"]);
}

#[tokio::test(start_paused = true)]
async fn writes_are_hedged_where_every_region_takes_them_and_twice_does_no_harm() {
    let single = hedging(AccountOptions::default()).await;
    single.inject("West US", Operation::Upsert, slow(500 * MS), None);
    assert_eq!(contexts(&single.execute(&upsert("2")).await), ["initial"]);

    let multi = AccountOptions { multi_write: true, ..AccountOptions::default() };
    let reads_alone = hedging(multi.clone()).await;
    reads_alone.inject("UK South", Operation::Upsert, slow(500 * MS), None);
    assert_eq!(contexts(&reads_alone.execute(&upsert("2")).await), ["initial"]);

    let stack = hedging_writes(multi).await;
    for operation in [Operation::Upsert, Operation::Patch, Operation::Replace] {
        stack.inject("UK South", operation, slow(500 * MS), None);
    }
    assert_eq!(contexts(&stack.execute(&upsert("2")).await), ["initial", "hedging"]);
    let increment = Bytes::from_static(br#"{"operations":[{"op":"incr","path":"/n","value":1}]}"#);
    let patch = CosmosOperation::patch_item(&orders(), "contoso".into(), "1", increment).unwrap();
    assert_eq!(contexts(&stack.execute(&patch).await), ["initial"], "it would count twice");
    let etag = stack.execute(&read("1")).await.unwrap().headers().etag().unwrap();
    let key = || "contoso".into();
    let replace = CosmosOperation::replace_item(&orders(), key(), "1", order("1")).unwrap();
    let conditional = replace.clone().with_precondition(Precondition::IfMatch(etag));
    let outcome = stack.execute(&conditional).await;
    assert_eq!(contexts(&outcome), ["initial"], "it would refuse itself");
    assert_eq!(contexts(&stack.execute(&replace).await), ["initial", "hedging"]);
    let stale = Precondition::IfMatch(Etag::new("\"stale\"").unwrap());
    let refused = stack.execute(&replace.with_precondition(stale)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PreconditionFailed);
}

/// A hedge that met what the slow attempt had created was reported as somebody else's item.
#[tokio::test(start_paused = true)]
async fn a_create_that_is_hedged_does_not_conflict_with_itself() {
    let multi = AccountOptions { multi_write: true, ..AccountOptions::default() };
    let stack = hedging_writes(multi).await;
    // Created at once, and replicated before its response arrives.
    stack.inject("UK South", Operation::Create, FaultEffect::DelayAfter { wait: 400 * MS }, None);
    let create = CosmosOperation::create_item(&orders(), "contoso".into(), order("7")).unwrap();
    let made = stack.execute(&create).await;
    assert_eq!(contexts(&made), ["initial", "hedging"]);
    assert_eq!(made.unwrap().status().code(), 201);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_has_not_arrived_never_wins() {
    let mut options = CosmosClientOptions::default();
    options.regions.preferred_regions = Some(vec!["West US".into(), "East US".into()]);
    options.availability =
        AvailabilityOptions::default().with_hedging_threshold(HedgingThreshold::Static(THRESHOLD));
    let stack = ThreeRegions::with(AccountOptions::default(), options).await;
    let east = RegionName::from("East US");
    stack.account.account().pause_replication(&east, true).unwrap();
    stack.execute(&upsert("2")).await.unwrap();
    stack.inject("West US", Operation::Read, slow(400 * MS), None);
    let found = stack.execute(&read("2")).await;
    assert_eq!(regions(&found), ["West US", "East US"]);
    assert!(elapsed(&found) >= 400 * MS);
    found.unwrap();
}

#[tokio::test(start_paused = true)]
async fn hedges_that_win_again_and_again_move_the_partition() {
    let account = AccountOptions { partitions: Some(4), ..AccountOptions::default() };
    let ample = AvailabilityOptions::default().with_hedging_budget_burst(100u32);
    let stack = with_budget(account, ample).await;
    let (slow_one, other) = (stack.customer_in("1").await, stack.customer_in("2").await);
    for customer in [&slow_one, &other] {
        stack.execute(&upsert_of(customer, "1")).await.unwrap();
    }
    stack.inject_in_range("UK South", "1", Operation::Read, slow(500 * MS));
    let mut hedged = 0;
    while contexts(&stack.execute(&read_of(&slow_one, "1")).await) == ["initial", "hedging"] {
        hedged += 1;
        assert!(hedged < 100, "it never moves");
    }
    // Five wins are a failure, and more than two failures open the circuit.
    assert_eq!(hedged, 15);
    assert_eq!(regions(&stack.execute(&read_of(&slow_one, "1")).await), ["West US"]);
    assert_eq!(regions(&stack.execute(&read_of(&other, "1")).await), ["UK South"]);
}

/// Slow answers that no budget was left to hedge reset the count, so a slow partition never moved.
#[tokio::test(start_paused = true)]
async fn a_slow_partition_moves_although_few_of_its_reads_can_be_hedged() {
    let stack = hedging(AccountOptions { partitions: Some(4), ..AccountOptions::default() }).await;
    let customer = stack.customer_in("1").await;
    stack.execute(&upsert_of(&customer, "1")).await.unwrap();
    stack.inject_in_range("UK South", "1", Operation::Read, slow(500 * MS));
    let reads = vec![read_of(&customer, "1"); 20];
    let mut rounds = 0;
    while regions(&stack.execute(&read_of(&customer, "1")).await)[0] == "UK South" {
        stack.execute_all(&reads).await;
        rounds += 1;
        assert!(rounds < 20, "it never moves");
    }
    // A burst of ten, then a tenth of the reads: fifteen hedges are won within a hundred reads.
    assert!(rounds <= 5, "{rounds} rounds of twenty reads");
}

/// A partition that is slow now and then does not move.
#[tokio::test(start_paused = true)]
async fn an_answer_in_time_begins_the_count_of_hedges_anew() {
    let ample = AvailabilityOptions::default().with_hedging_budget_burst(1_000u32);
    let stack = with_budget(AccountOptions::default(), ample).await;
    for _ in 0..20 {
        stack.inject("UK South", Operation::Read, slow(500 * MS), Some(4));
        for _ in 0..4 {
            assert_eq!(contexts(&stack.execute(&read("1")).await), ["initial", "hedging"]);
        }
        assert_eq!(regions(&stack.execute(&read("1")).await), ["UK South"]);
        stack.account.account().clear_faults();
    }
    let mut options = CosmosClientOptions::default();
    options.regions.preferred_regions = Some(vec![RegionName::from("UK South")]);
    options.availability = AvailabilityOptions::default()
        .with_hedging_threshold(HedgingThreshold::Static(THRESHOLD))
        .with_hedging_budget_burst(1_000u32);
    options.partition_failover.consecutive_hedge_win_threshold = Some(2);
    let stack = ThreeRegions::with(AccountOptions::default(), options).await;
    stack.driver.container(&orders()).await.unwrap();
    stack.inject("UK South", Operation::Read, slow(500 * MS), None);
    for _ in 0..6 {
        assert_eq!(contexts(&stack.execute(&read("1")).await), ["initial", "hedging"]);
    }
    assert_eq!(regions(&stack.execute(&read("1")).await), ["West US"], "three times two");
}

#[tokio::test(start_paused = true)]
async fn the_threshold_follows_the_latencies_of_the_last_minute() {
    let stack = ThreeRegions::preferring("UK South").await;
    stack.driver.container(&orders()).await.unwrap();
    stack.inject("UK South", Operation::Read, slow(800 * MS), Some(1));
    assert_eq!(
        contexts(&stack.execute(&read("1")).await),
        ["initial"],
        "a second, until more is known"
    );
    for _ in 0..120 {
        stack.execute(&read("1")).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    stack.inject("UK South", Operation::Read, slow(800 * MS), Some(1));
    let found = stack.execute(&read("1")).await;
    assert_eq!(contexts(&found), ["initial", "hedging"]);
    let took = elapsed(&found);
    assert!(took >= HedgingThreshold::FLOOR && took < 100 * MS, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn queries_feeds_and_metadata_are_hedged_too() {
    use sidereal_protocol::{OperationType, RequestPath, ResourceLink};
    let stack = hedging(AccountOptions::default()).await;
    stack.inject("UK South", Operation::Query, slow(500 * MS), None);
    let query = Bytes::from_static(br#"{"query":"SELECT * FROM c"}"#);
    let query = CosmosOperation::query_items(&orders(), query).unwrap();
    let query = query.with_partition_key("contoso".into());
    assert_eq!(contexts(&stack.execute(&query).await), ["initial", "hedging"]);
    let container = ResourceLink::container("store", "orders").unwrap();
    let metadata = CosmosOperation::new(OperationType::Read, RequestPath::of(container));
    let rule = sidereal_emulator::FaultRule {
        condition: sidereal_emulator::FaultCondition {
            region: Some(RegionName::from("UK South")),
            metadata: Some(true),
            ..Default::default()
        },
        ..sidereal_emulator::FaultRule::new(slow(500 * MS))
    };
    stack.account.account().add_fault(rule).unwrap();
    assert_eq!(contexts(&stack.execute(&metadata).await), ["initial", "hedging"]);
}

/// Slow writes were counted with the reads of their partition, and reads in time began the count again.
#[tokio::test(start_paused = true)]
async fn slow_writes_leave_their_region_apart_from_reads() {
    let account =
        AccountOptions { multi_write: true, partitions: Some(4), ..AccountOptions::default() };
    let stack = hedging(account).await;
    let customer = stack.customer_in("1").await;
    stack.inject_in_range("UK South", "1", Operation::Upsert, slow(500 * MS));
    let mut slow_ones = 0;
    while regions(&stack.execute(&upsert_of(&customer, "1")).await) == ["UK South"] {
        slow_ones += 1;
        assert!(slow_ones < 100, "they never move");
        assert_eq!(regions(&stack.execute(&read_of(&customer, "1")).await), ["UK South"]);
    }
    // Five of them are a failure, and more than five failures open the circuit.
    assert_eq!(slow_ones, 30);
    assert_eq!(regions(&stack.execute(&read_of(&customer, "1")).await), ["UK South"]);
}

/// A tenth of the reads of one partition hang: none fails, and the partition moves.
#[tokio::test(start_paused = true)]
async fn a_gray_partition_moves() {
    let stack = hedging(AccountOptions { partitions: Some(4), ..AccountOptions::default() }).await;
    let customer = stack.customer_in("1").await;
    stack.execute(&upsert_of(&customer, "1")).await.unwrap();
    let mut reads = 0;
    loop {
        let rule = stack.inject_in_range("UK South", "1", Operation::Read, FaultEffect::Hang);
        stack.execute(&read_of(&customer, "1")).await.unwrap();
        stack.account.account().remove_fault(&rule);
        for _ in 0..9 {
            stack.execute(&read_of(&customer, "1")).await.unwrap();
        }
        reads += 10;
        assert!(reads < 2_000, "it never moves");
        if regions(&stack.execute(&read_of(&customer, "1")).await) == ["West US"] {
            break;
        }
    }
}

//! Writes that may have been applied, and which of them are sent again. On a paused clock.

use std::time::Duration;

use bytes::Bytes;
use sidereal_driver::options::{
    AmbiguousWriteRetry, AvailabilityOptions, CosmosClientOptions, HedgingThreshold,
};
use sidereal_driver::{
    CosmosOperation, CosmosResponse, Error, ErrorKind, OperationOptions, Precondition,
};
use sidereal_emulator::{AccountOptions, FaultEffect, Operation};
use sidereal_protocol::Etag;

use crate::three_regions::{ThreeRegions, contexts, orders, read, regions, upsert};

const MS: Duration = Duration::from_millis(1);

/// A driver that repeats after a back-off of 75 to 100 ms: time for another writer in between.
async fn stack_with(retry: Option<AmbiguousWriteRetry>, multi_write: bool) -> ThreeRegions {
    let mut options = CosmosClientOptions::default();
    options.availability.max_connection_retry_count = Some(0);
    options.availability.retry_ambiguous_writes = retry;
    ThreeRegions::new(multi_write, options).await
}

fn numbered(n: u32) -> Bytes {
    Bytes::from(format!(r#"{{"id":"1","customer":"contoso","n":{n}}}"#))
}

fn replace(n: u32) -> CosmosOperation {
    CosmosOperation::replace_item(&orders(), "contoso".into(), "1", numbered(n)).unwrap()
}

fn delete() -> CosmosOperation {
    CosmosOperation::delete_item(&orders(), "contoso".into(), "1").unwrap()
}

fn create(n: u32) -> CosmosOperation {
    CosmosOperation::create_item(&orders(), "contoso".into(), numbered(n)).unwrap()
}

fn in_version(operation: CosmosOperation, etag: &Etag) -> CosmosOperation {
    operation.with_precondition(Precondition::IfMatch(etag.clone()))
}

/// The value of the item, if there is one.
async fn value(stack: &ThreeRegions) -> Option<u64> {
    let found = stack.execute(&read("1")).await.ok()?;
    let item = String::from_utf8(found.body().to_vec()).unwrap();
    let (_, number) = item.split_once(r#""n":"#)?;
    number.split([',', '}']).next()?.trim().parse().ok()
}

async fn etag(stack: &ThreeRegions) -> Etag {
    stack.execute(&read("1")).await.unwrap().headers().etag().unwrap()
}

/// One writer whose write is applied and whose answer is lost, and another one that changes the item before the first
/// writes again.
async fn with_another_writer(
    stack: &ThreeRegions,
    kind: Operation,
    first: CosmosOperation,
    second: impl AsyncFnOnce(),
) -> Result<CosmosResponse, Error> {
    stack.inject("West US", kind, FaultEffect::ResetAfter, Some(1));
    let meanwhile = async {
        // After the answer was lost, before the back-off ends.
        tokio::time::sleep(20 * MS).await;
        second().await;
    };
    tokio::join!(stack.execute(&first), meanwhile).0
}

#[tokio::test(start_paused = true)]
async fn idempotent_writes_are_repeated_and_can_undo_another_writer_s_work() {
    let stack = stack_with(None, false).await;
    let replaced = with_another_writer(&stack, Operation::Replace, replace(1), async || {
        let second = in_version(replace(2), &etag(&stack).await);
        stack.execute(&second).await.unwrap();
    });
    replaced.await.unwrap();
    assert_eq!(value(&stack).await, Some(1), "the scenario that the documentation tells");
}

#[tokio::test(start_paused = true)]
async fn a_narrower_setting_leaves_what_another_writer_was_told_it_wrote() {
    for retry in [AmbiguousWriteRetry::Conditional, AmbiguousWriteRetry::Never] {
        let stack = stack_with(Some(retry), false).await;
        let replaced = with_another_writer(&stack, Operation::Replace, replace(1), async || {
            let second = in_version(replace(2), &etag(&stack).await);
            stack.execute(&second).await.unwrap();
        });
        assert!(replaced.await.unwrap_err().may_have_been_applied());
        assert_eq!(value(&stack).await, Some(2));
        let deleted = with_another_writer(&stack, Operation::Delete, delete(), async || {
            stack.execute(&create(3)).await.unwrap();
        });
        assert!(deleted.await.unwrap_err().may_have_been_applied());
        assert_eq!(value(&stack).await, Some(3));
        stack.execute(&delete()).await.unwrap();
        let created = with_another_writer(&stack, Operation::Create, create(4), async || {
            stack.execute(&delete()).await.unwrap();
        });
        assert!(created.await.unwrap_err().may_have_been_applied());
        assert_eq!(value(&stack).await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_conditional_write_is_repeated_and_refuses_itself_once_it_was_applied() {
    let stack = stack_with(Some(AmbiguousWriteRetry::Conditional), false).await;
    let first = in_version(replace(1), &etag(&stack).await);
    let replaced = with_another_writer(&stack, Operation::Replace, first, async || {
        let second = in_version(replace(2), &etag(&stack).await);
        stack.execute(&second).await.unwrap();
    });
    let refused = replaced.await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::PreconditionFailed);
    assert!(refused.may_have_been_applied(), "the refusal may be about its own effect");
    assert_eq!(value(&stack).await, Some(2));
    // Lost before it was applied: the repetition is what applies it.
    let first = in_version(replace(3), &etag(&stack).await);
    stack.inject("West US", Operation::Replace, FaultEffect::ResetBefore, Some(1));
    assert_eq!(contexts(&stack.execute(&first).await).len(), 2);
    assert_eq!(value(&stack).await, Some(3));
}

/// A condition is judged by the replica of the region that is asked, and others may not have heard of the write yet.
#[tokio::test(start_paused = true)]
async fn a_conditional_write_of_a_multi_write_account_is_repeated_where_it_was() {
    let stack = stack_with(Some(AmbiguousWriteRetry::Conditional), true).await;
    let first = in_version(replace(1), &etag(&stack).await);
    stack.inject("West US", Operation::Replace, FaultEffect::ResetAfter, Some(2));
    let refused = stack.execute(&first).await;
    assert_eq!(regions(&refused), ["West US"; 3]);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::PreconditionFailed);

    let idempotent = stack_with(None, true).await;
    idempotent.inject("West US", Operation::Replace, FaultEffect::ResetAfter, Some(1));
    assert_eq!(regions(&idempotent.execute(&replace(1)).await), ["West US", "East US"]);
}

#[tokio::test(start_paused = true)]
async fn what_certainly_did_not_happen_is_repeated_under_every_setting() {
    let stack = stack_with(Some(AmbiguousWriteRetry::Never), false).await;
    let refused = FaultEffect::Answer { status: 503, sub_status: 0, retry_after: None };
    stack.inject("West US", Operation::Upsert, refused, Some(2));
    assert_eq!(contexts(&stack.execute(&upsert("2")).await), ["initial", "retry", "retry"]);
}

#[tokio::test(start_paused = true)]
async fn one_call_can_narrow_what_is_repeated() {
    let stack = stack_with(None, false).await;
    stack.inject("West US", Operation::Upsert, FaultEffect::ResetAfter, Some(1));
    let never =
        AvailabilityOptions::default().with_retry_ambiguous_writes(AmbiguousWriteRetry::Never);
    let options = OperationOptions::default().with_availability(never);
    let lost = stack.driver.execute_operation(&upsert("2"), &options).await;
    assert_eq!(contexts(&lost), ["initial"]);
    assert!(lost.unwrap_err().may_have_been_applied());
}

/// A client that wrote 1 and then 2 ended with 1: the slow first attempt was applied after its hedge had won.
#[tokio::test(start_paused = true)]
async fn writes_of_one_client_take_effect_in_their_order() {
    let threshold = HedgingThreshold::Static(100 * MS);
    let availability = AvailabilityOptions::default().with_hedging_threshold(threshold);
    let options = CosmosClientOptions { availability, ..CosmosClientOptions::default() };
    let account = AccountOptions { multi_write: true, ..AccountOptions::default() };
    let stack = ThreeRegions::with(account, options).await;
    let slow = FaultEffect::DelayBefore { wait: 400 * MS };
    stack.inject("West US", Operation::Upsert, slow, Some(1));
    for n in [1, 2] {
        let write = CosmosOperation::upsert_item(&orders(), "contoso".into(), numbered(n));
        let written = stack.execute(&write.unwrap()).await;
        assert_eq!(contexts(&written), ["initial"]);
        written.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(value(&stack).await, Some(2));
}

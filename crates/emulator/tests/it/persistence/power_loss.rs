//! Random writes, splits and region changes, and a loss of power at a random moment: afterwards everything is
//! there that was answered, and of what was not, all or nothing.

use std::sync::Arc;
use std::time::Duration;

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};
use sidereal_emulator::{Account, AccountOptions, ManualClock, Timestamp, WriteRegionChange};

use super::disk::Disk;
use super::twin::{batch, delete, difference, everything, write};
use crate::common::{DOCS, Fixture};

const REGIONS: [&str; 3] = ["West US", "East US", "North Europe"];

#[derive(Clone, Debug)]
enum Event {
    Write(usize, u8),
    Delete(usize, u8),
    Batch(usize, u8),
    /// Brings the region's replica up to what is due.
    Read(usize),
    Wait(u64),
    Delay(usize, u64),
    Pause(usize, bool),
    Split,
    Merge,
    Move(usize),
    Fail(usize),
}

fn event() -> impl Strategy<Value = Event> {
    let (region, id) = (0..REGIONS.len(), 0..6_u8);
    prop_oneof![
        10 => (region.clone(), id.clone()).prop_map(|(region, id)| Event::Write(region, id)),
        4 => (region.clone(), id.clone()).prop_map(|(region, id)| Event::Delete(region, id)),
        4 => (region.clone(), id).prop_map(|(region, id)| Event::Batch(region, id)),
        3 => region.clone().prop_map(Event::Read),
        3 => (0..200_u64).prop_map(Event::Wait),
        1 => (region.clone(), 0..300_u64).prop_map(|(region, delay)| Event::Delay(region, delay)),
        1 => (region.clone(), any::<bool>()).prop_map(|(region, paused)| Event::Pause(region, paused)),
        1 => Just(Event::Split),
        1 => Just(Event::Merge),
        1 => region.clone().prop_map(Event::Move),
        1 => region.prop_map(Event::Fail),
    ]
}

fn options(clock: &Arc<ManualClock>, multi_write: bool, regions: usize) -> AccountOptions {
    AccountOptions {
        clock: clock.clone(),
        regions: REGIONS[..regions].iter().map(|name| (*name).into()).collect(),
        multi_write,
        ..AccountOptions::default()
    }
}

/// The ids of the ranges of `db/c`.
fn ranges(fixture: &Fixture) -> Vec<String> {
    let path = "/dbs/db/colls/c/pkranges";
    let answer = fixture.send(http::Method::GET, path, &[], Value::Null).json();
    let ranges = answer["PartitionKeyRanges"].as_array().unwrap().clone();
    ranges.iter().map(|range| range["id"].as_str().unwrap().to_owned()).collect()
}

/// Does what an event says; the status of a write, or 0.
fn happen(fixture: &Fixture, event: &Event, n: u64, regions: usize) -> u16 {
    let name = |region: usize| REGIONS[region % regions];
    match *event {
        Event::Write(region, id) => write(fixture, name(region), &id.to_string(), n),
        Event::Delete(region, id) => delete(fixture, name(region), &id.to_string()),
        Event::Batch(region, id) => {
            batch(fixture, name(region), [&id.to_string(), &(id + 1).to_string()], n)
        }
        Event::Read(region) => {
            let headers = [("x-ms-documentdb-query-enablecrosspartition", "true")];
            let read =
                fixture.send_in(name(region), http::Method::GET, DOCS, &headers, Value::Null);
            read.expect("an online region").status
        }
        // Both accounts share a clock, which was moved already.
        Event::Wait(_) => 0,
        Event::Delay(region, millis) => {
            let delay = Duration::from_millis(millis);
            fixture.account.set_replication_delay(&name(region).into(), delay).unwrap();
            0
        }
        Event::Pause(region, paused) => {
            fixture.account.pause_replication(&name(region).into(), paused).unwrap();
            0
        }
        Event::Split => {
            let ids = ranges(fixture);
            if ids.len() < 3 {
                fixture.account.split_range("db", "c", &ids[0], Duration::ZERO).unwrap();
            }
            0
        }
        Event::Merge => {
            if let [left, right, ..] = ranges(fixture).as_slice() {
                // Refused where the two are written in different regions.
                let _ = fixture.account.merge_ranges("db", "c", left, right, Duration::ZERO);
            }
            0
        }
        Event::Move(region) => {
            let range = &ranges(fixture)[0];
            fixture.account.move_partition("db", "c", range, Some(&name(region).into())).unwrap();
            0
        }
        Event::Fail(region) => {
            let change = WriteRegionChange::Forced;
            fixture.account.change_write_region(&name(region).into(), change).unwrap();
            0
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn what_was_answered_is_there_after_a_loss_of_power(
        events in vec(event(), 1..40),
        regions in prop_oneof![Just(1_usize), Just(3)],
        multi_write: bool,
        // Room for two commits between checkpoints, for some, and for all.
        log_bytes in prop_oneof![Just(16_usize << 10), Just(64 << 10), Just(1 << 20)],
        power in prop_oneof![Just(None), (0..300_u32).prop_map(Some)],
        power_while_starting in prop_oneof![Just(None), (0..40_u32).prop_map(Some)],
        sectors in vec(any::<bool>(), 1..64),
    ) {
        let multi_write = multi_write && regions > 1;
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
        let disk = Disk::default();
        let account = disk.open(options(&clock, multi_write, regions), log_bytes).unwrap();
        let kept = Fixture { account: Arc::new(account), clock: clock.clone() };
        let in_memory = Account::new(options(&clock, multi_write, regions));
        let twin = Fixture { account: Arc::new(in_memory), clock: clock.clone() };
        for fixture in [&kept, &twin] {
            fixture.create_container(json!({}));
        }
        for fixture in [&kept, &twin] {
            for region in &REGIONS[..regions] {
                fixture.account.set_replication_delay(&(*region).into(), Duration::from_millis(50)).unwrap();
            }
        }
        if let Some(actions) = power {
            disk.fail_after(actions);
        }
        let mut unanswered = None;
        for (n, event) in (1_u64..).zip(&events) {
            if let Event::Wait(millis) = event {
                clock.advance(Duration::from_millis(*millis));
            }
            let status = happen(&kept, event, n, regions);
            // A control operation that could not be stored tells with the next request, and a checkpoint after it
            // that failed, with the one after that.
            let mut statuses = (0..2).map(|_| kept.send(http::Method::GET, "/dbs", &[], Value::Null).status);
            let failed = statuses.any(|status| status == 500);
            if failed && (status == 500 || status == 0) {
                unanswered = Some((n, event));
                break;
            }
            // Also where the checkpoint after it failed: what was answered is in the log.
            prop_assert_eq!(status, happen(&twin, event, n, regions));
            if failed {
                break;
            }
        }
        let mut sectors = sectors.iter().cycle();
        let mut found = disk.after_power_loss(|| *sectors.next().unwrap());
        drop(kept);
        if let Some(actions) = power_while_starting {
            found.fail_after(actions);
            // It may be there before the power goes.
            let _ = found.open(options(&clock, multi_write, regions), log_bytes);
            found = found.after_power_loss(|| *sectors.next().unwrap());
        }
        let account = found.open(options(&clock, multi_write, regions), log_bytes).unwrap();
        let restarted = Fixture { account: Arc::new(account), clock: clock.clone() };
        let names = &REGIONS[..regions];
        let restored = everything(&restarted, names);
        let expected = everything(&twin, names);
        if let Some(difference) = difference(&restored, &expected) {
            // Of what was not answered, all may be there.
            let Some((n, event)) = unanswered else {
                return Err(TestCaseError::fail(difference));
            };
            happen(&twin, event, n, regions);
            same(&restored, &everything(&twin, names))?;
        }
        // And it goes on as if nothing had been.
        for (n, id) in [(1_000, "0"), (1_001, "new")] {
            prop_assert_eq!(write(&restarted, names[0], id, n), write(&twin, names[0], id, n));
        }
        same(&everything(&restarted, names), &everything(&twin, names))?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_log_whose_creation_lost_power_is_created_again(
        actions in 0..20_u32,
        sectors in vec(any::<bool>(), 1..64),
    ) {
        let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
        let disk = Disk::default();
        // The database alone is created.
        disk.set_full_for_log(true);
        disk.open(options(&clock, false, 1), 64 << 10).unwrap_err();
        disk.set_full_for_log(false);
        disk.fail_after(actions);
        let _ = disk.open(options(&clock, false, 1), 64 << 10); // Fails, unless it needs fewer actions.
        let mut sectors = sectors.iter().cycle();
        let found = disk.after_power_loss(|| *sectors.next().unwrap());
        let account = found.open(options(&clock, false, 1), 64 << 10).unwrap();
        let fixture = Fixture { account: Arc::new(account), clock };
        fixture.create_container(json!({}));
        prop_assert_eq!(write(&fixture, REGIONS[0], "1", 1), 201);
    }
}

fn same(one: &Value, other: &Value) -> Result<(), TestCaseError> {
    difference(one, other).map_or(Ok(()), |difference| Err(TestCaseError::fail(difference)))
}

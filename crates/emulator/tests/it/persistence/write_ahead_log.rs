//! The write-ahead log: what is refused of it, what is replayed, and what happens when it cannot be written.

use std::fs;
use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};
use sidereal_emulator::{
    Account, AccountOptions, DataDirectoryError, Emulator, ManualClock, Timestamp,
};

use super::directory::Directory;
use super::disk::Disk;
use super::twin::write;
use crate::common::{Client, DOCS, Fixture, KEY};

const REGION: &str = "South Central US";
const LOG: &str = "account.log";
const DATABASE: &str = "account.redb";
/// Frames begin at multiples of this.
const BLOCK: usize = 4096;
/// Room for eight commits on a disk in memory, with a checkpoint after four.
const LOG_BYTES: usize = 8 * BLOCK;

fn fixture(account: Account) -> Fixture {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
    Fixture { account: Arc::new(account), clock }
}

fn options() -> AccountOptions {
    let clock = Arc::new(ManualClock::new(Timestamp::from_millis(1_700_000_000_000)));
    AccountOptions { clock, ..AccountOptions::default() }
}

fn open(directory: &Directory) -> Result<Fixture, DataDirectoryError> {
    Account::open(options(), directory.path()).map(fixture)
}

/// An account with a container and so many items of it, ended without a shutdown; where each item's frame begins.
fn written(directory: &Directory, items: u64) -> Vec<usize> {
    let fixture = open(directory).unwrap();
    fixture.create_container(json!({}));
    let write = |n: u64| {
        assert_eq!(write(&fixture, REGION, &n.to_string(), n), 201);
        frames(directory) - BLOCK
    };
    (0..items).map(write).collect()
}

/// Where the frames of the log end.
fn frames(directory: &Directory) -> usize {
    let log = fs::read(directory.path().join(LOG)).unwrap();
    log.chunks(BLOCK).rposition(|block| block.iter().any(|byte| *byte != 0)).unwrap() * BLOCK
        + BLOCK
}

fn change_log(directory: &Directory, change: impl FnOnce(&mut Vec<u8>)) {
    let path = directory.path().join(LOG);
    let mut log = fs::read(&path).unwrap();
    change(&mut log);
    fs::write(path, log).unwrap();
}

fn status_of(fixture: &Fixture, n: u64) -> u16 {
    let path = format!("{DOCS}/{n}");
    fixture.send(Method::GET, &path, &[(KEY, r#"["a"]"#)], Value::Null).status
}

fn refusal(directory: &Directory) -> String {
    let refused = open(directory).err().expect("a damaged directory");
    assert!(matches!(refused, DataDirectoryError::Damaged { .. }), "{refused}");
    refused.to_string()
}

#[test]
fn what_only_the_log_holds_is_there_after_a_start() {
    let directory = Directory::new();
    written(&directory, 5);
    let again = open(&directory).unwrap();
    assert!((0..5).all(|n| status_of(&again, n) == 200));
}

#[tokio::test]
async fn after_a_shutdown_nothing_is_left_to_replay() {
    let directory = Directory::new();
    let client = Client::with(Emulator::builder().data_dir(directory.path())).await;
    client.create_container(json!({ "id": "c", "partitionKey": { "paths": ["/pk"] } })).await;
    assert_eq!(client.create(json!({ "id": "0", "pk": "a" })).await.status, 201);
    client.emulator.shutdown().await;
    change_log(&directory, |log| log.fill(0));
    assert_eq!(status_of(&open(&directory).unwrap(), 0), 200);
}

#[test]
fn a_torn_last_frame_is_dropped() {
    let directory = Directory::new();
    let frames = written(&directory, 3);
    change_log(&directory, |log| log[frames[2] + 100] ^= 1);
    let again = open(&directory).unwrap();
    assert_eq!([0, 1, 2].map(|n| status_of(&again, n)), [200, 200, 404]);
    // And what is written in its place stays.
    assert_eq!(write(&again, REGION, "3", 3), 201);
    drop(again);
    let again = open(&directory).unwrap();
    assert_eq!([2, 3].map(|n| status_of(&again, n)), [404, 200]);
}

#[test]
fn a_damaged_frame_before_others_is_refused_with_its_number() {
    let directory = Directory::new();
    let frames = written(&directory, 3);
    change_log(&directory, |log| log[frames[1] + 100] ^= 1);
    let refused = refusal(&directory);
    assert!(
        refused.contains("of the write-ahead log, which later ones follow, cannot be read"),
        "{refused}"
    );
}

#[test]
fn a_log_that_is_missing_or_cut_is_refused() {
    let directory = Directory::new();
    let frames = written(&directory, 2);
    change_log(&directory, |log| log.truncate(frames[1]));
    let refused = refusal(&directory);
    assert!(refused.contains(&format!("of which {} bytes are left", frames[1])), "{refused}");
    fs::remove_file(directory.path().join(LOG)).unwrap();
    let refused = refusal(&directory);
    assert!(refused.contains("account.log"), "{refused}");
}

#[test]
fn the_log_of_another_account_is_refused() {
    let [one, other] = [Directory::new(), Directory::new()];
    written(&one, 1);
    written(&other, 1);
    fs::copy(other.path().join(LOG), one.path().join(LOG)).unwrap();
    let refused = refusal(&one);
    assert!(refused.contains("another account's"), "{refused}");
}

#[test]
fn a_database_older_than_its_log_is_refused() {
    let directory = Directory::new();
    written(&directory, 1);
    let copy = directory.path().join("copy");
    fs::copy(directory.path().join(DATABASE), &copy).unwrap();
    // A start is a checkpoint, and what is written after it belongs to that.
    assert_eq!(write(&open(&directory).unwrap(), REGION, "1", 1), 201);
    fs::rename(copy, directory.path().join(DATABASE)).unwrap();
    let refused = refusal(&directory);
    assert!(refused.contains("newer than the rest"), "{refused}");
}

#[test]
fn a_directory_without_a_log_is_upgraded() {
    let directory = Directory::new();
    written(&directory, 2);
    drop(open(&directory).unwrap());
    // What the format before had: the same records, and no log.
    let table = redb::TableDefinition::<&[u8], &[u8]>::new("records");
    let file = redb::Database::open(directory.path().join(DATABASE)).unwrap();
    let transaction = file.begin_write().unwrap();
    {
        let mut table = transaction.open_table(table).unwrap();
        table.insert(&[0_u8][..], &[1_u8][..]).unwrap();
        table.remove(&[11_u8][..]).unwrap().unwrap();
    }
    transaction.commit().unwrap();
    drop(file);
    fs::remove_file(directory.path().join(LOG)).unwrap();
    let upgraded = open(&directory).unwrap();
    assert_eq!([0, 1].map(|n| status_of(&upgraded, n)), [200, 200]);
    assert_eq!(write(&upgraded, REGION, "2", 2), 201);
    drop(upgraded);
    assert_eq!(status_of(&open(&directory).unwrap(), 2), 200);
}

/// The kernel reports a failed `fdatasync` once and takes the pages for clean: one that is repeated succeeds for
/// data that is lost.
#[test]
fn a_failed_sync_is_not_repeated_and_ends_the_writes() {
    let disk = Disk::default();
    let account = fixture(disk.open(options(), LOG_BYTES).unwrap());
    account.create_container(json!({}));
    assert_eq!(write(&account, REGION, "1", 1), 201);
    disk.fail_next_sync_of_log();
    assert_eq!(write(&account, REGION, "2", 2), 500);
    let syncs = disk.syncs_of_log();
    assert_eq!(write(&account, REGION, "3", 3), 500);
    assert_eq!(status_of(&account, 1), 500);
    assert_eq!(disk.syncs_of_log(), syncs);
    drop(account);
    let found = disk.after_power_loss(|| false);
    let again = fixture(found.open(options(), LOG_BYTES).unwrap());
    assert_eq!([1, 2, 3].map(|n| status_of(&again, n)), [200, 404, 404]);
}

#[test]
fn a_disk_too_full_for_a_log_is_refused_with_a_sentence() {
    let disk = Disk::default();
    // The database is there, and the log has no room beside it.
    disk.set_full_for_log(true);
    let refused = disk.open(options(), LOG_BYTES).unwrap_err();
    assert!(matches!(refused, DataDirectoryError::Unwritable { .. }), "{refused}");
    assert!(refused.to_string().contains("free space"), "{refused}");
    disk.set_full_for_log(false);
    assert!(disk.open(options(), LOG_BYTES).is_ok());
}

#[test]
fn a_disk_that_is_full_at_a_checkpoint_ends_the_writes_and_loses_none() {
    let disk = Disk::default();
    let account = fixture(disk.open(options(), LOG_BYTES).unwrap());
    account.create_container(json!({}));
    disk.set_full_for_database(true);
    let write = |n: u64| {
        let item = json!({ "id": n.to_string(), "pk": "a", "filler": "x".repeat(3000) });
        account.send(Method::POST, DOCS, &[(KEY, r#"["a"]"#)], item).status
    };
    // Until the database has no page left.
    let answered = (0..10_000).take_while(|n| write(*n) == 201).count() as u64;
    assert!((5..10_000).contains(&answered), "{answered}");
    assert_eq!(write(20_000), 500);
    drop(account);
    let found = disk.after_power_loss(|| true);
    let again = fixture(found.open(options(), LOG_BYTES).unwrap());
    assert!((0..answered).all(|n| status_of(&again, n) == 200));
    assert_eq!(status_of(&again, 20_000), 404);
}

#[test]
fn a_commit_larger_than_the_log_is_kept_too() {
    let disk = Disk::default();
    let account = fixture(disk.open(options(), LOG_BYTES).unwrap());
    account.create_container(json!({}));
    assert_eq!(write(&account, REGION, "0", 0), 201);
    let item = json!({ "id": "1", "pk": "a", "filler": "x".repeat(2 * LOG_BYTES) });
    let created = account.send(Method::POST, DOCS, &[(KEY, r#"["a"]"#)], item);
    assert_eq!(created.status, 201);
    assert_eq!(write(&account, REGION, "2", 2), 201);
    drop(account);
    let found = disk.after_power_loss(|| false);
    let again = fixture(found.open(options(), LOG_BYTES).unwrap());
    assert_eq!([0, 1, 2].map(|n| status_of(&again, n)), [200, 200, 200]);
}

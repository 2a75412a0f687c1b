//! The data directory: what it refuses, and that an account behind sockets comes back from it.

use std::path::{Path, PathBuf};

use http::Method;
use serde_json::{Value, json};
use sidereal_emulator::{Account, AccountOptions, DataDirectoryError, Emulator};

use crate::common::{CROSS, Client, DOCS, KEY};

/// A directory of a test's own, removed with it.
pub(super) struct Directory(PathBuf);

impl Directory {
    pub(super) fn new() -> Self {
        Self(std::env::temp_dir().join(format!("sidereal-data-{}", uuid::Uuid::new_v4())))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Of a test that failed early there may be nothing to remove.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn three_regions() -> AccountOptions {
    let regions = ["West US", "East US", "North Europe"].map(Into::into).to_vec();
    AccountOptions { regions, ..AccountOptions::default() }
}

#[test]
fn a_second_account_on_the_same_directory_is_refused() {
    let directory = Directory::new();
    let _first = Account::open(AccountOptions::default(), directory.path()).unwrap();
    let refused = Account::open(AccountOptions::default(), directory.path()).unwrap_err();
    assert!(matches!(refused, DataDirectoryError::InUse { .. }), "{refused}");
    assert!(refused.to_string().contains("in use by another process"), "{refused}");
}

/// A database whose creation was cut short was refused as none, until somebody removed it.
#[test]
fn a_start_that_was_cut_short_is_in_nobodys_way() {
    let directory = Directory::new();
    std::fs::create_dir_all(directory.path()).unwrap();
    std::fs::write(directory.path().join("account.redb.cut-short"), [0; 100]).unwrap();
    drop(Account::open(AccountOptions::default(), directory.path()).unwrap());
    let names = std::fs::read_dir(directory.path()).unwrap();
    let mut names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["account.log", "account.redb", "account.redb.cut-short"]);
}

#[test]
fn a_kept_account_keeps_its_regions_and_refuses_others() {
    let directory = Directory::new();
    drop(Account::open(three_regions(), directory.path()).unwrap());
    let again = Account::open(AccountOptions::default(), directory.path()).unwrap();
    assert_eq!(again.region_names().len(), 3);
    drop(again);
    let other = AccountOptions { multi_write: true, ..three_regions() };
    let refused = Account::open(other, directory.path()).unwrap_err().to_string();
    assert!(refused.contains("West US, East US, North Europe"), "{refused}");
}

#[test]
fn a_directory_of_another_format_is_refused_with_both_numbers() {
    let directory = Directory::new();
    drop(Account::open(AccountOptions::default(), directory.path()).unwrap());
    let table = redb::TableDefinition::<&[u8], &[u8]>::new("records");
    let file = redb::Database::open(directory.path().join("account.redb")).unwrap();
    let transaction = file.begin_write().unwrap();
    transaction.open_table(table).unwrap().insert(&[0_u8][..], &[77_u8][..]).unwrap();
    transaction.commit().unwrap();
    drop(file);
    let refused = Account::open(AccountOptions::default(), directory.path()).unwrap_err();
    assert!(matches!(refused, DataDirectoryError::OtherFormat { found: 77, .. }), "{refused}");
    assert!(refused.to_string().contains("reads format 2"), "{refused}");
}

#[test]
fn a_file_that_is_no_account_is_refused() {
    let directory = Directory::new();
    std::fs::create_dir_all(directory.path()).unwrap();
    std::fs::write(directory.path().join("account.redb"), "not a database".repeat(1000)).unwrap();
    let refused = Account::open(AccountOptions::default(), directory.path()).unwrap_err();
    assert!(refused.to_string().contains("cannot be used"), "{refused}");
}

async fn start(directory: &Directory) -> Client {
    Client::with(Emulator::builder().partitions(2).data_dir(directory.path())).await
}

#[tokio::test]
async fn an_emulator_that_is_stopped_and_started_has_everything_again() {
    let directory = Directory::new();
    let client = start(&directory).await;
    client
        .create_container(json!({
            "id": "c",
            "partitionKey": { "paths": ["/pk"], "kind": "Hash", "version": 2 },
            "uniqueKeyPolicy": { "uniqueKeys": [{ "paths": ["/email"] }] },
            "defaultTtl": -1,
        }))
        .await;
    for n in 0..20 {
        let item = json!({ "id": n.to_string(), "pk": format!("p{}", n % 3), "email": n, "n": n });
        assert_eq!(client.create(item).await.status, 201);
    }
    let removed =
        client.send(Method::DELETE, &format!("{DOCS}/7"), &[(KEY, r#"["p1"]"#)], Value::Null).await;
    assert_eq!(removed.status, 204);
    let before = client.query("SELECT * FROM c", &[CROSS]).await.rows();
    let read = client.read("5", "p2").await;
    let collections = client.get("/dbs/db/colls", &[]).await.json();
    client.emulator.shutdown().await;

    let client = start(&directory).await;
    assert_eq!(client.query("SELECT * FROM c", &[CROSS]).await.rows(), before);
    assert_eq!(client.get("/dbs/db/colls", &[]).await.json(), collections);
    let again = client.read("5", "p2").await;
    for header in ["etag", "x-ms-session-token", "lsn"] {
        assert_eq!(again.header(header), read.header(header), "{header}");
    }
    // Unique keys hold, RIDs go on where they were.
    let taken = client.create(json!({ "id": "new", "pk": "p0", "email": 3 })).await;
    assert_eq!(taken.status, 409);
    let new = client.create(json!({ "id": "new", "pk": "p0", "email": 100 })).await.json();
    assert!(before.iter().all(|item| item["_rid"] != new["_rid"]));
    client.emulator.shutdown().await;
}

#[tokio::test]
async fn what_was_deleted_stays_deleted() {
    let directory = Directory::new();
    let client = start(&directory).await;
    let container = json!({ "id": "c", "partitionKey": { "paths": ["/pk"] } });
    client.create_container(container.clone()).await;
    assert_eq!(client.create(json!({ "id": "1", "pk": "a" })).await.status, 201);
    assert_eq!(client.send(Method::DELETE, "/dbs/db/colls/c", &[], Value::Null).await.status, 204);
    client.create_container(container).await;
    client.emulator.shutdown().await;

    let client = start(&directory).await;
    assert_eq!(client.read("1", "a").await.status, 404);
    assert_eq!(client.send(Method::DELETE, "/dbs/db", &[], Value::Null).await.status, 204);
    client.emulator.shutdown().await;

    let client = start(&directory).await;
    assert_eq!(client.get("/dbs/db", &[]).await.status, 404);
    assert_eq!(client.get("/offers", &[]).await.json()["_count"], 0);
    client.emulator.shutdown().await;
}

//! `sidereal orch` against a container that a runtime of duroxide works on, and one that none does.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use duroxide::providers::Provider;
use duroxide::runtime::Runtime;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::{ActivityContext, Client, OrchestrationContext, OrchestrationRegistry};
use serde_json::{Value, json};
use sidereal::CosmosClient;
use sidereal_duroxide::{CosmosDBProvider, CosmosDBProviderConfig};
use tokio::runtime::Builder;

use crate::account::Account;

/// A runtime that has completed a parent with a child and an activity, and has one that waits for an event.
struct Worked {
    account: Account,
    tokio: tokio::runtime::Runtime,
    runtime: Arc<Runtime>,
    client: Client,
    provider: Arc<CosmosDBProvider>,
}

impl Worked {
    fn start() -> Self {
        let account = Account::start(&[]);
        let tokio = Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let (runtime, client, provider) = tokio.block_on(run(&account));
        Self { account, tokio, runtime, client, provider }
    }

    fn end(self) {
        self.tokio.block_on(async {
            self.runtime.shutdown(Some(1_000)).await;
            self.provider.shutdown().await;
        });
    }
}

fn connect(account: &Account) -> CosmosClient {
    let emulator = &account.emulator;
    let key = sidereal::CosmosCredential::key(emulator.fact("key")).unwrap();
    CosmosClient::new(emulator.fact("http_endpoint"), key, None).unwrap()
}

async fn run(account: &Account) -> (Arc<Runtime>, Client, Arc<CosmosDBProvider>) {
    let config = CosmosDBProviderConfig::with_client(connect(account));
    let provider = Arc::new(CosmosDBProvider::new(config).await.unwrap());
    let activities = ActivityRegistry::builder()
        .register("Greet", async |_: ActivityContext, name: String| Ok(format!("hello {name}")))
        .build();
    let orchestrations = OrchestrationRegistry::builder()
        .register("Child", async |context: OrchestrationContext, input: String| {
            context.schedule_activity("Greet", input).await
        })
        .register("Parent", async |context: OrchestrationContext, input: String| {
            context.schedule_sub_orchestration("Child", input).await
        })
        .register("Waits", async |context: OrchestrationContext, _: String| {
            Ok(context.schedule_wait("go").await)
        })
        .build();
    let store = Arc::clone(&provider) as Arc<dyn Provider>;
    let runtime = Runtime::start_with_store(Arc::clone(&store), activities, orchestrations).await;
    let client = Client::new(store);
    client.start_orchestration("parent", "Parent", "ada").await.unwrap();
    client.start_orchestration("waiting", "Waits", "").await.unwrap();
    wait(&client, "parent").await;
    (runtime, client, provider)
}

async fn wait(client: &Client, instance: &str) {
    client.wait_for_orchestration(instance, Duration::from_secs(30)).await.unwrap();
}

#[test]
fn instances_are_listed_shown_and_told_by_their_histories() {
    let worked = Worked::start();
    let account = &worked.account;
    let completed = account.tells(&["orch", "list", "--status", "completed"]);
    assert_eq!(completed.len(), 2, "{completed:?}");
    let parents = account.tells(&["orch", "list", "--orchestration", "Parent"]);
    assert_eq!((parents.len(), &parents[0]["instance"]), (1, &"parent".into()));
    assert_eq!(account.tells(&["orch", "list", "--limit", "1"]).len(), 1);
    let table = account.says(&["orch", "list", "--id-prefix", "wait", "--output", "table"]);
    assert!(table.starts_with("INSTANCE") && table.contains("Running"), "{table}");
    let shown = &account.tells(&["orch", "show", "parent"])[0];
    assert_eq!((&shown["status"], &shown["output"]), (&"Completed".into(), &"hello ada".into()));
    assert_eq!(shown["executions"], 1);
    assert_eq!(shown["lastExecutions"][0]["status"], "Completed");
    let events = account.tells(&["orch", "history", "parent"]);
    assert_eq!(events[0]["type"], "OrchestrationStarted");
    assert_eq!(events.last().unwrap()["type"], "OrchestrationCompleted");
    let table = account.says(&["orch", "history", "parent", "-o", "table"]);
    assert!(table.contains("SubOrchestrationCompleted"), "{table}");
    let tree = account.says(&["orch", "tree", "parent", "-o", "table"]);
    assert!(tree.lines().any(|line| line.starts_with("└ ") && line.contains("Child")), "{tree}");
    let metrics = &account.tells(&["orch", "metrics"])[0];
    assert_eq!((&metrics["instances"], &metrics["completed"]), (&3.into(), &2.into()));
    worked.end();
}

#[test]
fn instances_are_started_told_cancelled_and_deleted() {
    let worked = Worked::start();
    let account = &worked.account;
    assert!(account.says(&["orch", "start", "Parent", "second", "bob"]).contains("second"));
    worked.tokio.block_on(wait(&worked.client, "second"));
    assert!(account.refuses(4, &["orch", "start", "Parent", "second"]).contains("already"));
    assert!(account.refuses(4, &["orch", "delete", "waiting", "--yes"]).contains("--force"));
    account.says(&["orch", "raise", "waiting", "go", "now"]);
    worked.tokio.block_on(wait(&worked.client, "waiting"));
    assert_eq!(account.tells(&["orch", "show", "waiting"])[0]["output"], "now");
    assert!(account.refuses(4, &["orch", "cancel", "waiting"]).contains("has ended"));
    account.says(&["orch", "start", "Waits", "third"]);
    let is_there = || async {
        while worked.client.get_instance_info("third").await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    worked.tokio.block_on(is_there());
    account.says(&["orch", "cancel", "third", "--reason", "enough"]);
    worked.tokio.block_on(wait(&worked.client, "third"));
    assert_eq!(account.tells(&["orch", "show", "third"])[0]["status"], "Failed");
    let child = account.tells(&["orch", "tree", "parent"])[1]["instance"].clone();
    let said = account.refuses(4, &["orch", "delete", child.as_str().unwrap(), "--yes"]);
    assert!(said.contains("sub-orchestration"), "{said}");
    let said = account.says(&["orch", "delete", "parent", "third", "--yes"]);
    assert!(said.contains("parent: 2 instances"), "{said}");
    let (status, said, refused) =
        account.given(&["orch", "delete", "second", "nobody", "--yes"], "");
    assert_eq!(status, Some(8), "{refused}");
    assert!(said.contains("second: 2 instances") && refused.contains("1 of 2"), "{refused}");
    account.says(&["orch", "delete", "--completed-before", "0s", "--yes"]);
    assert!(account.tells(&["orch", "list"]).is_empty());
    worked.end();
}

/// A message to an instance, as its sender has left it.
fn undeliverable(id: &str, created_at: u64) -> Value {
    let payload = r#"{"ExternalRaised":{"instance":"waiting","name":"go","data":"late"}}"#;
    json!({
        "id": id, "instanceId": "parent", "type": "outbox_intent", "targetInstanceId": "waiting",
        "targetDocumentType": "orch_queue", "payload": payload, "visibleAt": created_at,
        "idempotencyKey": id, "status": "undeliverable", "createdAt": created_at, "attemptCount": 1,
        "lastAttemptAt": created_at, "lastError": "413",
    })
}

#[test]
fn undeliverable_messages_are_listed_and_delivered_again() {
    let worked = Worked::start();
    let account = &worked.account;
    assert!(account.says(&["orch", "retry-undeliverable"]).contains("No message"));
    let now = SystemTime::UNIX_EPOCH.elapsed().unwrap().as_millis() as u64;
    let store = async {
        let container = connect(account).database("duroxide").container("duroxide");
        for document in [undeliverable("intent:old", 1_000), undeliverable("intent:young", now)] {
            container.create_item("parent", &document, None).await.unwrap();
        }
    };
    worked.tokio.block_on(store);
    let line = ["orch", "retry-undeliverable", "--dry-run"];
    let listed = account.tells(&line);
    assert_eq!(listed.len(), 2, "{listed:?}");
    assert!(listed.iter().all(|it| it["to"] == "waiting" && it["error"] == "413"), "{listed:?}");
    assert_eq!(listed.iter().filter(|it| it["tooOld"] == true).count(), 1, "{listed:?}");
    let table = account.says(&[&line[..], &["-o", "table"]].concat());
    assert!(table.starts_with("FROM") && table.contains("1970-01-01"), "{table}");
    assert!(account.refuses(2, &["orch", "retry-undeliverable"]).contains("--yes"));
    let said = account.says(&["orch", "retry-undeliverable", "--yes"]);
    assert!(said.contains("1 messages are pending") && said.contains("7 days"), "{said}");
    worked.tokio.block_on(wait(&worked.client, "waiting"));
    assert_eq!(account.tells(&["orch", "show", "waiting"])[0]["output"], "late");
    worked.end();
}

#[test]
fn a_missing_container_and_one_without_orchestrations_are_refused() {
    let account = Account::with_orders();
    let said = account.refuses(3, &["orch", "list"]);
    assert!(said.contains("duroxide/duroxide") && said.contains("--container"), "{said}");
    let said = account.refuses(7, &["orch", "list", "--container", "shop/orders"]);
    assert!(said.contains("no container of orchestrations"), "{said}");
    assert!(account.refuses(2, &["orch", "list", "--status", "Sleeping"]).contains("Completed"));
    assert!(account.refuses(2, &["orch", "list", "--limit", "0"]).contains("1..=100000"));
    assert!(account.refuses(2, &["orch", "delete"]).contains("INSTANCES"));
    let worked = Worked::start();
    for action in [&["show"][..], &["history"], &["tree"], &["cancel"], &["raise"]] {
        let event: &[&str] = if action == ["raise"] { &["go"] } else { &[] };
        let line = [&["orch"], action, &["nobody"], event].concat();
        let said = worked.account.refuses(3, &line);
        assert!(said.contains("no instance nobody") && said.contains("orch list"), "{said}");
    }
    let said = worked.account.refuses(3, &["orch", "history", "parent", "--execution", "7"]);
    assert!(said.contains("Execution 7"), "{said}");
    assert!(worked.account.refuses(2, &["orch", "prune", "parent"]).contains("--keep-last"));
    assert!(worked.account.refuses(2, &["orch", "delete", "parent"]).contains("--yes"));
    assert!(
        worked
            .account
            .says(&["orch", "prune", "parent", "--keep-last", "1"])
            .contains("0 executions")
    );
    worked.end();
}

//! `sidereal chaos` against `sidereal emulator`, both as processes.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::account::{Account, command, refuses};

/// No answer is waited for longer than this; it is far beyond what any takes.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A running emulator with two regions; killed when dropped.
struct Emulator {
    process: Child,
    directory: PathBuf,
    endpoint: String,
}

impl Emulator {
    fn start(arguments: &[&str]) -> Self {
        let directory =
            std::env::temp_dir().join(format!("sidereal-chaos-test-{}", uuid::Uuid::new_v4()));
        let mut process = Command::new(env!("CARGO_BIN_EXE_sidereal"))
            .args(["emulator", "--port", "0", "--json", "--regions", "West US,East US"])
            .args(arguments)
            .env("XDG_STATE_HOME", &directory)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let facts: Value = serde_json::from_str(&line).unwrap();
        Self { process, directory, endpoint: facts["http_endpoint"].as_str().unwrap().to_owned() }
    }

    fn chaos(&self, arguments: &[&str]) -> Output {
        Command::new(env!("CARGO_BIN_EXE_sidereal"))
            .args(["chaos", "--endpoint", &self.endpoint])
            .args(arguments)
            .output()
            .unwrap()
    }

    /// The output of an action.
    fn says(&self, arguments: &[&str]) -> String {
        let Output { status, stdout, stderr } = self.chaos(arguments);
        assert!(status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&stderr));
        String::from_utf8(stdout).unwrap()
    }

    /// The output of an action as JSON.
    fn tells(&self, arguments: &[&str]) -> Value {
        let said = self.says(&[arguments, &["--json"]].concat());
        serde_json::from_str(&said).unwrap()
    }

    /// Why an action fails.
    fn refuses(&self, arguments: &[&str]) -> String {
        let Output { status, stderr, .. } = self.chaos(arguments);
        assert!(!status.success(), "{arguments:?}");
        String::from_utf8(stderr).unwrap()
    }

    /// The first line of the answer to a probe.
    fn probe(&self) -> String {
        let address = self.endpoint.trim_start_matches("http://").trim_end_matches('/');
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        write!(stream, "GET /probe HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer.lines().next().unwrap().to_owned()
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.process.kill(); // It may have ended by itself.
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.directory); // Best effort: the system empties its own.
    }
}

#[test]
fn regions_go_offline_come_back_lag_and_leave() {
    let emulator = Emulator::start(&[]);
    let listed = emulator.says(&["regions"]);
    assert!(listed.starts_with("REGION") && listed.lines().count() == 3, "{listed}");
    assert!(emulator.says(&["offline", "East US"]).contains("offline"));
    assert!(!emulator.says(&["online", "eastus"]).contains("offline"));
    assert!(emulator.says(&["replication", "pause", "East US"]).contains("paused"));
    assert!(!emulator.says(&["replication", "resume", "East US"]).contains("paused"));
    assert!(emulator.says(&["replication", "delay", "East US", "250ms"]).contains("250 ms behind"));
    assert!(emulator.says(&["write-region", "East US", "--forced"]).contains("none was lost"));
    assert!(emulator.says(&["remove", "West US"]).contains("removed"));
    let regions = emulator.tells(&["regions"]);
    assert_eq!(regions["regions"][1]["accepts_writes"], true);
}

#[test]
fn a_graceful_change_takes_the_times_it_is_given() {
    let emulator = Emulator::start(&[]);
    let quick = ["write-region", "East US", "--announcement", "0ms", "--overlap", "0ms"];
    assert_eq!(emulator.tells(&quick), json!({ "lost_writes": [] }));
    assert_eq!(emulator.tells(&["regions"])["regions"][1]["accepts_writes"], true);
}

#[test]
fn faults_are_added_listed_and_removed() {
    let emulator = Emulator::start(&[]);
    let add = ["fault", "add", "--status", "503/21008", "--hits", "1", "--region", "West US"];
    assert!(emulator.says(&[&add[..], &["--name", "mine"]].concat()).contains("mine"));
    assert!(emulator.probe().contains("503"));
    assert!(emulator.probe().contains("200"));
    let listed = emulator.says(&["fault", "list"]);
    assert!(listed.contains("sub_status=21008") && listed.contains("region=West US"), "{listed}");
    let report = &emulator.tells(&["fault", "list"])["faults"][0];
    assert_eq!((&report["matches"], &report["hits"]), (&json!(2), &json!(1)));
    assert!(emulator.says(&["fault", "remove", "mine"]).contains('1'));
    emulator.says(&["fault", "add", "--hang", "--operation", "Query"]);
    assert_eq!(emulator.tells(&["fault", "clear"]), json!({ "removed": 1 }));
    assert!(emulator.says(&["fault", "list"]).contains("no fault rules"));
}

#[test]
fn counters_are_shown_and_reset() {
    let emulator = Emulator::start(&[]);
    emulator.says(&["counters", "--reset"]);
    emulator.probe();
    let shown = emulator.says(&["counters"]);
    assert!(shown.starts_with("REGION") && shown.contains("West US"), "{shown}");
    assert_eq!(emulator.tells(&["counters", "--reset"])["counters"][0]["requests"], 1);
    assert!(emulator.says(&["counters"]).contains("Nothing was asked"));
}

#[test]
fn failures_are_sentences_that_say_what_to_change() {
    let emulator = Emulator::start(&["--key", "c2VjcmV0"]);
    assert!(emulator.refuses(&["regions"]).contains("--key"));
    let key = ["--key", "c2VjcmV0"];
    let refused = |arguments: &[&str]| emulator.refuses(&[arguments, &key].concat());
    assert!(refused(&["remove", "Mars"]).contains("West US, East US"));
    assert!(refused(&["split", "db/c", "0"]).contains("db/c"));
    assert!(refused(&["merge", "db/c", "0", "1"]).contains("db/c"));
    assert!(refused(&["move-partition", "c", "0"]).contains("database/container"));
    assert!(refused(&["fault", "add"]).contains("--status"));
    assert!(refused(&["fault", "remove", "none"]).contains("none"));
    let malformed = emulator.refuses(&["regions", "--key", "half-a-secret?"]);
    assert!(malformed.contains("base64") && !malformed.contains("half-a-secret"), "{malformed}");
    let tls = emulator.refuses(&["regions", "--endpoint", "https://127.0.0.1:1"]);
    assert!(tls.contains("http://127.0.0.1:1"), "{tls}");
    let nobody = emulator.refuses(&["regions", "--endpoint", "http://127.0.0.1:1"]);
    assert!(nobody.contains("sidereal emulator") && nobody.contains("--endpoint"), "{nobody}");
}

/// `offline Mars` on an account of one region used to say that Mars had no port.
#[test]
fn what_is_not_there_is_told_with_what_is() {
    let account = Account::with_orders();
    let refuses = |arguments: &[&str]| {
        let endpoint = account.emulator.fact("http_endpoint");
        refuses(7, &mut command(&[&["chaos", "--endpoint", endpoint], arguments].concat()))
    };
    for action in [
        &["offline"][..],
        &["online"],
        &["remove"],
        &["replication", "pause"],
        &["replication", "resume"],
        &["write-region"],
        &["move-partition", "shop/orders", "0"],
    ] {
        let said = refuses(&[action, &["Mars"]].concat());
        assert!(said.contains("no region Mars; it has South Central US"), "{action:?}: {said}");
    }
    assert!(refuses(&["replication", "delay", "Mars", "1s"]).contains("South Central US"));
    for action in [
        &["split", "shop/orders", "7"][..],
        &["merge", "shop/orders", "0", "7"],
        &["move-partition", "shop/orders", "7"],
    ] {
        let said = refuses(action);
        assert!(said.contains("no partition range 7; it has 0, 1"), "{action:?}: {said}");
    }
    for action in [&["split", "shop/none", "0"][..], &["move-partition", "none/orders", "0"]] {
        assert!(refuses(action).contains("there are shop/orders"), "{action:?}");
    }
}

#[test]
fn a_rule_that_could_never_match_and_an_only_region_are_refused() {
    let account = Account::start(&[]);
    let refuses = |arguments: &[&str]| {
        let endpoint = account.emulator.fact("http_endpoint");
        refuses(7, &mut command(&[&["chaos", "--endpoint", endpoint], arguments].concat()))
    };
    let said = refuses(&["fault", "add", "--hang", "--region", "Mars"]);
    assert!(said.contains("it has South Central US"), "{said}");
    assert!(
        refuses(&["fault", "add", "--hang", "--container", "orders"])
            .contains("database/container")
    );
    assert!(refuses(&["offline", "South Central US"]).contains("several regions"));
}

/// `sidereal chaos counters | head -1` used to end with an error about a broken pipe.
#[cfg(unix)]
#[test]
fn a_reader_that_closes_the_pipe_ends_the_command_quietly() {
    let emulator = Emulator::start(&[]);
    let mut command = Command::new(env!("CARGO_BIN_EXE_sidereal"))
        .args(["chaos", "--endpoint", &emulator.endpoint, "regions"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Closed before anything is written, so that the first write fails whatever its size.
    drop(command.stdout.take());
    let Output { status, stderr, .. } = command.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(stderr).unwrap(), "");
    assert_eq!(status.code(), Some(141), "as a shell reports SIGPIPE");
}

//! An emulator and commands that work on its account, for the tests of those commands; and how the account is chosen.

use std::fs;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::emulator::Directory;
use crate::process::Running;

/// A running emulator; ended when dropped.
pub(crate) struct Account {
    pub(crate) emulator: Running,
    pub(crate) directory: Directory,
}

impl Account {
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let directory = Directory::new();
        let emulator = Running::start(directory.path(), arguments);
        Self { emulator, directory }
    }

    /// With a database `shop` and a container `orders` in it, partitioned by `/customer`.
    pub(crate) fn with_orders() -> Self {
        let account = Self::start(&["--partitions", "2"]);
        account.says(&["db", "create", "shop"]);
        account.says(&["container", "create", "shop/orders", "--partition-key", "/customer"]);
        account
    }

    /// The command, in an environment that names this account and nothing else.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = command(arguments);
        command.env("XDG_STATE_HOME", self.directory.path());
        command.env("COSMOSDB_ENDPOINT", self.emulator.fact("endpoint"));
        command
    }

    /// The output of a command.
    pub(crate) fn says(&self, arguments: &[&str]) -> String {
        says(&mut self.command(arguments))
    }

    /// The lines of JSON that a command prints.
    pub(crate) fn tells(&self, arguments: &[&str]) -> Vec<Value> {
        let said = self.says(arguments);
        said.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The output of a command that is given this text, on standard output and standard error.
    pub(crate) fn given(&self, arguments: &[&str], text: &str) -> (Option<i32>, String, String) {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        process.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
        let Output { status, stdout, stderr } = process.wait_with_output().unwrap();
        (status.code(), String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    }

    /// Why a command fails, with this status.
    pub(crate) fn refuses(&self, status: i32, arguments: &[&str]) -> String {
        refuses(status, &mut self.command(arguments))
    }
}

/// The command, in an environment that names no account.
pub(crate) fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sidereal"));
    command.args(arguments).stdin(Stdio::null());
    let about_accounts =
        |name: &str| name.starts_with("COSMOS") || name.starts_with("AZURE_COSMOS");
    for (name, _) in std::env::vars() {
        if about_accounts(&name) || name == "SIDEREAL_EMULATOR_CERTIFICATE" {
            command.env_remove(name);
        }
    }
    command
}

pub(crate) fn says(command: &mut Command) -> String {
    let Output { status, stdout, stderr } = command.output().unwrap();
    assert!(status.success(), "{command:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

pub(crate) fn refuses(status: i32, command: &mut Command) -> String {
    let Output { status: ended, stdout, stderr } = command.output().unwrap();
    let said = String::from_utf8(stderr).unwrap();
    assert_eq!(ended.code(), Some(status), "{command:?}: {said}");
    assert_eq!(String::from_utf8(stdout).unwrap(), "", "{command:?}");
    assert!(said.starts_with("error: ") && !said.contains("panicked"), "{command:?}: {said}");
    said
}

#[test]
fn an_account_is_found_by_variables_by_flags_and_by_a_connection_string() {
    let account = Account::start(&["--key", "c2VjcmV0"]);
    let state = account.directory.path();
    let (https, http) = (account.emulator.fact("endpoint"), account.emulator.fact("http_endpoint"));
    let list = || {
        let mut command = command(&["db", "list"]);
        command.env("XDG_STATE_HOME", state);
        command
    };
    says(list().env("COSMOSDB_ENDPOINT", https).env("COSMOSDB_KEY", "c2VjcmV0"));
    says(list().env("AZURE_COSMOS_ENDPOINT", http).env("AZURE_COSMOS_KEY", "c2VjcmV0"));
    let both = account.emulator.fact("connection_string");
    says(list().env("COSMOSDB_CONNECTION_STRING", both));
    let file = state.join("key");
    fs::write(&file, "c2VjcmV0\n").unwrap();
    says(list().args(["--endpoint", https, "--key-file"]).arg(&file));
    let wrong = refuses(5, list().args(["--endpoint", https]));
    assert!(wrong.contains("COSMOSDB_KEY") && wrong.contains("--key-file"), "{wrong}");
}

#[test]
fn a_certificate_is_verified_unless_the_emulator_s_owner_says_otherwise() {
    let account = Account::start(&[]);
    let empty = Directory::new();
    let list = || {
        let mut command = command(&["db", "list", "--timeout", "5s", "--endpoint"]);
        command.arg(account.emulator.fact("endpoint")).env("XDG_STATE_HOME", empty.path());
        command
    };
    let said = refuses(6, &mut list());
    assert!(said.contains("certificate"), "{said}");
    says(list().arg("--accept-invalid-certs"));
    says(list().args(["--trust", account.emulator.fact("certificate")]));
    says(list().env("SIDEREAL_EMULATOR_CERTIFICATE", account.emulator.fact("certificate")));
    let service =
        ["db", "list", "--accept-invalid-certs", "--endpoint", "https://a.documents.azure.com"];
    let said = refuses(2, command(&service).env("COSMOSDB_KEY", "c2VjcmV0"));
    assert!(said.contains("--trust"), "{said}");
}

#[test]
fn a_key_is_asked_for_at_a_terminal_alone_and_never_repeated() {
    let elsewhere = ["db", "list", "--endpoint", "https://contoso.documents.azure.com"];
    let said = refuses(5, &mut command(&elsewhere));
    assert!(said.contains("there is no key") && said.contains("--key-file"), "{said}");
    let said = refuses(7, command(&elsewhere).env("COSMOSDB_KEY", "half-a-secret?"));
    assert!(said.contains("base64") && !said.contains("half-a-secret"), "{said}");
    let text = "AccountEndpoint=https://contoso.documents.azure.com;AccountKey=half-a-secret?";
    let said = refuses(7, command(&["db", "list"]).env("COSMOSDB_CONNECTION_STRING", text));
    assert!(!said.contains("half-a-secret"), "{said}");
    let said = refuses(7, command(&elsewhere).args(["--key-file", "/nowhere/key"]));
    assert!(said.contains("/nowhere/key"), "{said}");
}

#[test]
fn an_account_that_does_not_answer_is_told_with_the_way_out() {
    let said = refuses(6, &mut command(&["db", "list", "--endpoint", "http://127.0.0.1:1"]));
    assert!(said.contains("sidereal emulator") && said.contains("--endpoint"), "{said}");
    let said = refuses(7, &mut command(&["db", "list", "--endpoint", "nonsense"]));
    assert!(said.contains("https://HOST/"), "{said}");
}

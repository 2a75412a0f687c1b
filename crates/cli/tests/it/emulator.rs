//! `sidereal emulator` as a process: what it prints, what it answers, how it ends.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::Duration;

use crate::process::{Running, sidereal};

/// No answer is waited for longer than this; it is far beyond what any takes.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A directory of its own, removed at the end.
pub(crate) struct Directory(PathBuf);

impl Directory {
    pub(crate) fn new() -> Self {
        Self(std::env::temp_dir().join(format!("sidereal-cli-test-{}", uuid::Uuid::new_v4())))
    }
}

impl Directory {
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0); // Best effort: the system empties its own.
    }
}

/// The emulator's answer to `GET /probe` in cleartext.
fn probe(emulator: &Running) -> String {
    let address = emulator.fact("endpoint").trim_start_matches("https://").trim_end_matches('/');
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    write!(stream, "GET /probe HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

pub(crate) fn fails(state: &Path, arguments: &[&str]) -> String {
    let Output { status, stderr, .. } = sidereal(state, arguments).output().unwrap();
    assert!(!status.success());
    String::from_utf8(stderr).unwrap()
}

#[test]
fn the_first_line_says_where_the_account_is_and_the_port_answers() {
    let directory = Directory::new();
    let emulator = Running::start(&directory.0, &[]);
    assert!(probe(&emulator).starts_with("HTTP/1.1 200 "));
    let (endpoint, key) = (emulator.fact("endpoint"), emulator.fact("key"));
    assert_eq!(
        emulator.fact("connection_string"),
        format!("AccountEndpoint={endpoint};AccountKey={key};")
    );
    assert_eq!(emulator.facts["regions"][0]["endpoint"], endpoint);
    assert!(emulator.facts["regions"][0]["name"].is_string());
    let pem = fs::read_to_string(emulator.fact("certificate")).unwrap();
    assert!(pem.starts_with("-----BEGIN CERTIFICATE-----"), "{pem}");
}

#[cfg(unix)]
#[test]
fn interrupt_and_terminate_end_it_with_success() {
    let directory = Directory::new();
    for signal in ["-INT", "-TERM"] {
        let emulator = Running::start(&directory.0, &[]);
        assert_eq!(emulator.end_with(signal), Some(0), "{signal}");
    }
}

#[test]
fn the_certificate_is_the_same_at_the_next_start() {
    let directory = Directory::new();
    let at = directory.0.join("elsewhere");
    let read = |emulator: Running| fs::read_to_string(emulator.fact("certificate")).unwrap();
    let first = read(Running::start(&directory.0, &["--certificate-dir", at.to_str().unwrap()]));
    let second = read(Running::start(&directory.0, &["--certificate-dir", at.to_str().unwrap()]));
    assert_eq!(first, second);
}

#[test]
fn the_key_is_the_one_that_was_given() {
    let directory = Directory::new();
    let emulator = Running::start(&directory.0, &["--key", "c2VjcmV0"]);
    assert_eq!(emulator.fact("key"), "c2VjcmV0");
}

#[test]
fn without_json_the_same_is_said_to_people() {
    let directory = Directory::new();
    let mut process =
        sidereal(&directory.0, &["--port", "0"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map(Result::unwrap);
    let end = lines.find(|line| line.contains("CosmosClient(\"http://127.0.0.1:"));
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(end.is_some());
}

#[test]
fn bad_arguments_say_what_to_write() {
    let directory = Directory::new();
    let said = fails(&directory.0, &["--consistency", "Weak"]);
    assert!(said.contains("Weak") && said.contains("BoundedStaleness"), "{said}");
    let said = fails(&directory.0, &["--key", "half-a-secret?"]);
    assert!(said.contains("base64"), "{said}");
    assert!(!said.contains("half-a-secret"), "a malformed key is a secret too: {said}");
    let said = fails(&directory.0, &["--partitions", "0", "--port", "0"]);
    assert!(said.contains("from 1 to"), "{said}");
}

#[test]
fn a_port_in_use_is_named_with_the_way_out() {
    let directory = Directory::new();
    let emulator = Running::start(&directory.0, &[]);
    let port = emulator.fact("endpoint").rsplit(':').next().unwrap().trim_end_matches('/');
    let said = fails(&directory.0, &["--port", port]);
    assert!(said.contains(&format!("port {port} is in use")), "{said}");
    assert!(said.contains("--port 0"), "{said}");
}

#[cfg(unix)]
#[test]
fn an_emulator_that_cannot_say_where_it_is_ends_quietly() {
    let directory = Directory::new();
    let mut command = sidereal(&directory.0, &["--port", "0", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(command.stdout.take());
    let Output { status, stderr, .. } = command.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(stderr).unwrap(), "");
    assert_eq!(status.code(), Some(141), "as a shell reports SIGPIPE");
}

#[test]
fn grease_takes_a_seed_and_names_of_latitudes() {
    let directory = Directory::new();
    let greased = |arguments: &[&str]| {
        let emulator = Running::start(&directory.0, &[&["--grease", "7"], arguments].concat());
        let answers = (0..20).map(|_| probe(&emulator));
        answers.filter(|it| it.contains("x-ms-cosmos-greased")).count()
    };
    let with = greased(&["--grease-only", "unknown-headers"]);
    assert!((1..20).contains(&with), "{with} of 20");
    assert_eq!(greased(&["--grease-only", "certain", "--grease-without", "unknown-headers"]), 0);
    let refused = fails(&directory.0, &["--grease", "7", "--grease-only", "short"]);
    assert!(refused.contains("short-pages"), "{refused}");
}

//! `sidereal emulator` as a process, for tests and benchmarks.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::wire::Connection;

/// A running emulator; killed when dropped.
pub(crate) struct Running {
    process: Child,
    pub(crate) facts: Value,
}

impl Running {
    pub(crate) fn start(directory: &Path, arguments: &[&str]) -> Self {
        let mut process = sidereal(directory, &["--port", "0", "--json"])
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { process, facts: serde_json::from_str(&line).unwrap() }
    }

    pub(crate) fn fact(&self, name: &str) -> &str {
        self.facts[name].as_str().unwrap()
    }

    /// Connects in cleartext.
    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.fact("http_endpoint"), self.fact("key"))
    }

    /// Connects in cleartext to the endpoint of a region.
    pub(crate) fn connect_to(&self, region: usize) -> Connection {
        let endpoint = self.facts["regions"][region]["endpoint"].as_str().unwrap();
        Connection::open(&endpoint.replace("https:", "http:"), self.fact("key"))
    }

    /// The memory that it takes, as Linux tells it.
    pub(crate) fn resident_megabytes(&self) -> f64 {
        let text = fs::read_to_string(format!("/proc/{}/statm", self.process.id())).unwrap();
        let pages: f64 = text.split(' ').nth(1).unwrap().parse().unwrap();
        pages * 4096.0 / 1e6
    }

    /// Sends it a signal and waits for its end; the status that it ended with.
    pub(crate) fn end_with(mut self, signal: &str) -> Option<i32> {
        let process = self.process.id().to_string();
        assert!(Command::new("kill").args([signal, &process]).status().unwrap().success());
        self.process.wait().unwrap().code()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.process.kill(); // It may have ended already.
        let _ = self.process.wait();
    }
}

/// The command, with a state directory of its own.
pub(crate) fn sidereal(state: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sidereal"));
    command.arg("emulator").args(arguments).env("XDG_STATE_HOME", state);
    command
}

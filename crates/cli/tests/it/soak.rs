//! `sidereal soak` as a process: its counts, its failures, and the end of its children.

use std::process::{Child, Output, Stdio};

use serde_json::Value;

use crate::account::{command, refuses};
use crate::emulator::Directory;

/// The options of every run here: few processes, small texts, and short locks.
const SMALL: [&str; 10] =
    ["--seed", "1", "--workers", "2", "--rate", "4", "--payload", "4KB", "--lock", "4s"];

/// No kills.
const CALM: [&str; 4] = ["--kill-every", "0s", "--emulator-kill-every", "0s"];

fn soak(directory: &Directory, arguments: &[&str]) -> Child {
    let mut command = command(&["soak"]);
    command.args(SMALL).args(arguments).arg("--data-dir").arg(directory.path());
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The exit status, the facts, and standard error.
fn ended(child: Child) -> (Option<i32>, Value, String) {
    let Output { status, stdout, stderr } = child.wait_with_output().unwrap();
    let printed = serde_json::from_slice(&stdout).unwrap_or_default();
    (status.code(), printed, String::from_utf8(stderr).unwrap())
}

#[test]
fn nothing_is_lost_or_doubled_while_workers_and_the_account_are_killed() {
    let directory = Directory::new();
    let kills = ["--kill-every", "700ms", "--emulator-kill-every", "2500ms"];
    let (status, told, said) =
        ended(soak(&directory, &[&["--duration", "3s"], &kills[..]].concat()));
    assert_eq!(status, Some(0), "{told}: {said}");
    assert!(told["workerKills"].as_u64() >= Some(3), "{told}");
    assert!(told["emulatorKills"].as_u64() >= Some(1), "{told}");
    assert!(told["orchestrations"].as_u64() > Some(5), "{told}");
    assert!(told["instances"].as_u64() > told["orchestrations"].as_u64(), "{told}");
    assert_eq!((&told["violations"], &told["seed"]), (&0.into(), &1.into()), "{told}");
    assert!(said.starts_with("seed 1, in "), "{said}");
}

#[test]
fn a_run_that_breaks_its_promise_says_where_and_keeps_everything() {
    let directory = Directory::new();
    let short = ["--duration", "400ms", "--tail", "0s"];
    let (status, told, said) = ended(soak(&directory, &[&CALM[..], &short].concat()));
    assert_eq!(status, Some(8), "{said}");
    assert!(told["violations"].as_u64() > Some(0), "{told}");
    assert!(said.contains("\nended: -: not everything had ended 0s after the last kill"), "{said}");
    let kept = directory.path().canonicalize().unwrap();
    assert!(
        said.contains(&format!("hint: data and logs are kept in {}", kept.display())),
        "{said}"
    );
    for file in ["violations.txt", "emulator.log", "worker-0-0.log", "data"] {
        assert!(kept.join(file).exists(), "{file}");
    }
}

/// The processes whose log is in a directory.
#[cfg(target_os = "linux")]
fn processes(directory: &Directory) -> usize {
    let Ok(directory) = directory.path().canonicalize() else { return 0 };
    let of = |entry: std::fs::DirEntry| std::fs::read_link(entry.path().join("fd/2")).ok();
    let logs = std::fs::read_dir("/proc").unwrap().filter_map(|entry| of(entry.ok()?));
    logs.filter(|log| log.starts_with(&directory)).count()
}

#[cfg(target_os = "linux")]
fn wait_for(directory: &Directory, count: usize) {
    let began = std::time::Instant::now();
    while processes(directory) != count {
        assert!(began.elapsed().as_secs() < 20, "{} processes", processes(directory));
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn children_end_with_the_command_also_if_that_is_killed() {
    for (signal, status) in [("-INT", Some(1)), ("-KILL", None)] {
        let directory = Directory::new();
        let child = soak(&directory, &CALM);
        // The emulator and two workers.
        wait_for(&directory, 3);
        let id = child.id().to_string();
        let mut kill = std::process::Command::new("kill");
        assert!(kill.args([signal, &id]).status().unwrap().success());
        let (ended, _, said) = ended(child);
        assert_eq!(ended, status, "{said}");
        assert!(status.is_none() || said.contains("interrupted: nothing was checked"), "{said}");
        wait_for(&directory, 0);
    }
}

#[test]
fn arguments_that_mean_nothing_are_refused() {
    let directory = Directory::new();
    std::fs::create_dir_all(directory.path().join("something")).unwrap();
    let full = directory.path().to_str().unwrap();
    for (line, expected) in [
        (&["--kill-every", "1ms"][..], "at least 100ms"),
        (&["--emulator-kill-every", "1ms"], "at least 100ms"),
        (&["--lock", "1s"], "at least 2s"),
        (&["--payload", "1 GB"], "64KB"),
        (&["--payload", "17MB"], "at most"),
        (&["--workers", "0"], "1..=64"),
        (&["--duration", "0s"], "more than 0s"),
        (&["--data-dir", full], "is not empty"),
    ] {
        let said = refuses(2, &mut command(&[&["soak"], line].concat()));
        assert!(said.contains(expected), "{line:?}: {said}");
    }
    let said = refuses(2, &mut command(&["soak-worker", "worker-0-0"]));
    assert!(said.contains("COSMOSDB_") && said.contains("sidereal soak"), "{said}");
}

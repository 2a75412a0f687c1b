//! `sidereal demo` as a process: phases, verdict, exit status, report.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::emulator::Directory;

/// The phases, in their order.
const PHASES: [&str; 7] = [
    "baseline",
    "partition sick",
    "partition back",
    "region slow",
    "region fast again",
    "write region down",
    "write region back",
];

fn demo(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sidereal"));
    command.arg("demo").args(arguments).stdin(Stdio::null());
    // What a developer has set must not change what is tested.
    for variable in ["RUST_LOG", "NO_COLOR"] {
        command.env_remove(variable);
    }
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Short runs of several seeds side by side: they mostly wait.
fn runs(directory: &Path) -> Vec<(PathBuf, Output)> {
    std::fs::create_dir_all(directory).unwrap();
    let start = |(seed, regions): (&str, &str)| {
        let report = directory.join(format!("{seed}.html"));
        let path = report.to_str().unwrap();
        let arguments = [
            "--seed",
            seed,
            "--duration",
            "6s",
            "--rate",
            "6",
            "--regions",
            regions,
            "--report",
            path,
        ];
        let mut command = demo(&arguments);
        (report.clone(), command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    };
    let started: Vec<_> =
        [("1", "3"), ("2", "UK South,<Japan> East"), ("3", "3")].into_iter().map(start).collect();
    let end = |(report, process): (PathBuf, std::process::Child)| {
        (report, process.wait_with_output().unwrap())
    };
    started.into_iter().map(end).collect()
}

#[test]
fn every_seed_shows_every_phase_and_ends_with_exactly_once_and_a_report() {
    let directory = Directory::new();
    for (report, output) in runs(directory.path()) {
        let (said, errors) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{said}\n{errors}");
        assert_eq!(errors, "");
        let (saw, counted) = said.split_once("What the service counted").unwrap();
        for table in [saw.split_once("What the application saw").unwrap().1, counted] {
            let phases = PHASES.map(|phase| table.find(&format!("\n  {phase} ")).unwrap());
            assert!(phases.is_sorted(), "{table}");
        }
        assert!(said.contains("graceful change of the write region"), "{said}");
        assert!(said.contains("orchestrations completed exactly once"), "{said}");
        assert!(said.contains("Lost, as the service lists them"), "{said}");
        assert!(!said.contains('\u{1b}'), "a pipe gets plain text");
        is_well_formed(&std::fs::read_to_string(report).unwrap());
    }
}

/// Whether a report is one page with its charts, balanced, and with nothing to load.
fn is_well_formed(page: &str) {
    for id in ["traffic", "reads", "writes", "reactions", "charge"] {
        assert!(page.contains(&format!("<svg id=\"{id}\"")), "{id}");
    }
    for element in ["svg", "table", "figure", "section", "title", "desc", "main", "style"] {
        let opened = page.matches(&format!("<{element}")).count();
        assert_eq!(opened, page.matches(&format!("</{element}>")).count(), "{element}");
        assert!(opened > 0, "{element}");
    }
    for absent in ["<script", "http:", "https:", "url(", "@import", "NaN", "inf\"", "<Japan>"] {
        assert!(!page.contains(absent), "{absent}");
    }
    assert!(page.contains("Exactly once") && page.contains("prefers-color-scheme: dark"));
}

#[test]
fn bad_arguments_get_a_sentence_before_anything_is_started() {
    for (arguments, said) in [
        (&["--regions", "1"][..], "expected 2 or more"),
        (&["--regions", "West US,West US"], "named twice"),
        (&["--duration", "1s"], "from 4s to 300s"),
        (&["--duration", "soon"], "such as 20ms or 2s"),
        (&["--rate", "0"], "not in 1..=100"),
        (&["--seed", "x"], "invalid digit"),
        (
            &["--report", "/nowhere/at/all.html"],
            "the report /nowhere/at/all.html cannot be written",
        ),
    ] {
        let Output { status, stdout, stderr } = demo(arguments).output().unwrap();
        assert!(!status.success(), "{arguments:?}");
        assert!(text(&stderr).contains(said), "{arguments:?}: {}", text(&stderr));
        assert_eq!(text(&stdout), "", "{arguments:?}");
    }
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_it_at_once_and_says_that_nothing_was_checked() {
    use std::io::{BufRead, BufReader};

    let mut process = demo(&["--duration", "300s"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("An account with 3 regions"), "{line}");
    let id = process.id().to_string();
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let Output { status, stderr, .. } = process.wait_with_output().unwrap();
    assert_eq!(status.code(), Some(1));
    assert!(text(&stderr).contains("interrupted"), "{}", text(&stderr));
}

//! The architecture's promises hold in the sources: who may import whom, modules in layers, plain English.

mod imports;
mod layers;
mod rules;
mod tidy;

use std::fs;
use std::path::{Path, PathBuf};

use imports::{module_of, named_paths};
use layers::{Knot, Modules};
use rules::{RULES, Rule};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The sources below a file or folder, tests left out: they may know anything.
fn sources(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_file() {
        found.push(path.to_path_buf());
        return;
    }
    let entries = fs::read_dir(path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    for entry in entries {
        let path = entry.unwrap().path();
        let is_tests = path.file_stem().is_some_and(|stem| stem == "tests");
        let is_source = path.is_dir() || path.extension().is_some_and(|it| it == "rs");
        if is_source && !is_tests {
            sources(&path, found);
        }
    }
}

/// Whether a path is another, or below it.
fn is_below(path: &str, ancestor: &str) -> bool {
    path.strip_prefix(ancestor).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// The paths of a source that a rule forbids.
fn violations(rule: &Rule, source: &str, module: &[String]) -> Vec<String> {
    let is_own = |path: &str| {
        let module = path.strip_prefix("crate::").and_then(|path| path.split("::").next());
        module.is_none_or(|module| rule.only_own.contains(&module))
    };
    named_paths(source, module)
        .into_iter()
        .filter(|path| {
            rule.forbidden.iter().any(|forbidden| is_below(path, forbidden))
                || (!rule.only_own.is_empty() && !is_own(path))
        })
        .collect()
}

fn check(rule: &Rule, problems: &mut Vec<String>) {
    let root = repository();
    let except: Vec<PathBuf> = rule.except.iter().map(|path| root.join(path)).collect();
    for path in rule.files {
        let mut files = Vec::new();
        sources(&root.join(path), &mut files);
        files.retain(|file| !except.iter().any(|except| file.starts_with(except)));
        assert!(!files.is_empty(), "the rule on {path} binds no file");
        for file in files {
            let shown = file.strip_prefix(&root).unwrap().display().to_string();
            let below = shown.split_once("/src/").map_or("", |(_, below)| below);
            let source = fs::read_to_string(&file).unwrap();
            for found in violations(rule, &source, &module_of(Path::new(below))) {
                problems.push(format!("{shown} names {found}: {}", rule.invariant));
            }
        }
    }
}

#[test]
fn nothing_imports_what_the_architecture_forbids() {
    let mut problems = Vec::new();
    RULES.iter().for_each(|rule| check(rule, &mut problems));
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn every_rule_is_an_invariant_of_the_architecture() {
    let text = fs::read_to_string(repository().join("ARCHITECTURE.md")).unwrap();
    // Sentences are wrapped where lines end.
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for rule in RULES {
        assert!(text.contains(rule.invariant), "ARCHITECTURE.md does not say: {}", rule.invariant);
    }
}

#[test]
fn a_forbidden_import_is_found_however_it_is_written() {
    let store = RULES.iter().find(|rule| rule.invariant.starts_with("`store/`")).unwrap();
    let module = ["crate", "store", "item"].map(str::to_owned);
    for source in [
        "use http::StatusCode;",
        "use {std::fmt, http::{HeaderMap, StatusCode}};",
        "fn f() -> http::StatusCode { todo() }",
        "fn f() { debug!(\"{}\", tokio::runtime::Handle::current()); }",
    ] {
        assert!(!violations(store, source, &module).is_empty(), "{source}");
    }
    let allowed = "use serde_json::Value; mod http_like; #[cfg(test)] mod tests { use http::Uri; }";
    assert!(violations(store, allowed, &module).is_empty());

    let server = RULES.iter().find(|rule| rule.invariant.starts_with("`server/`")).unwrap();
    let module = ["crate", "server", "exchange"].map(str::to_owned);
    assert!(!violations(server, "use super::super::store::Catalog;", &module).is_empty());
    assert!(violations(server, "use super::limits::Limits;", &module).is_empty());
}

/// The largest number of files that may import each other.
const MAX_KNOT: usize = 2;

/// Crates whose modules are not in layers yet.
const NOT_YET_LAYERED: &[&str] = &[];

/// The folders of the crates.
fn crates() -> Vec<String> {
    let folders = fs::read_dir(repository().join("crates")).unwrap();
    let names = folders.map(|it| it.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn modules_are_layers() {
    let mut problems = Vec::new();
    for name in crates() {
        let modules = Modules::read(&repository().join("crates").join(&name).join("src"));
        let circles = modules.circles();
        let knots: Vec<Knot> = modules.knots();
        let large = knots.iter().filter(|knot| knot.members.len() > MAX_KNOT);
        let circles = circles.iter().map(|knot| format!("{name}: modules in a circle: {knot}"));
        let found: Vec<String> =
            circles.chain(large.map(|knot| format!("{name}: files in a knot: {knot}"))).collect();
        match (NOT_YET_LAYERED.contains(&name.as_str()), found.is_empty()) {
            (false, _) => problems.extend(found),
            (true, true) => problems.push(format!("{name} is clean: take it off NOT_YET_LAYERED")),
            (true, false) => {}
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// A table that sends its reader to a file that is gone is worse than none.
#[test]
fn every_file_of_the_behaviour_table_exists() {
    let text = fs::read_to_string(repository().join("ARCHITECTURE.md")).unwrap();
    let (_, table) = text.split_once("## Where to find it").unwrap();
    let table = table.split("\n## ").next().unwrap();
    let named: Vec<&str> = table
        .lines()
        .filter(|line| line.starts_with('|'))
        .flat_map(|row| row.split('`').skip(1).step_by(2))
        .collect();
    assert!(named.len() >= 30, "{named:?}");
    for file in named {
        assert!(
            repository().join(file).is_file(),
            "{file} is gone: name the file that took its place"
        );
    }
}

/// Bounds that are spread over files are found by nobody who wants to know what a client may do.
#[test]
fn every_bound_of_the_server_is_in_its_limits() {
    let mut files = Vec::new();
    let server = repository().join("crates/emulator/src/server");
    sources(&server, &mut files);
    files.retain(|file| !file.ends_with("limits.rs"));
    for file in files {
        let source = fs::read_to_string(&file).unwrap();
        let bound = source.lines().find(|line| {
            let line = line.trim_start();
            let constant = line
                .split_once("const ")
                .filter(|(before, _)| before.is_empty() || before.starts_with("pub"));
            let kind = constant.and_then(|(_, rest)| rest.split_once(": ")).map(|(_, kind)| kind);
            // A byte of a protocol is no bound; counts, sizes and times are.
            kind.is_some_and(|kind| {
                ["usize", "u32", "u64", "Duration"].iter().any(|it| kind.starts_with(it))
            })
        });
        assert_eq!(bound, None, "{} has a bound of its own", file.display());
    }
}

//! `docs/specifications.md` tells the truth: every path and every test it names exists.

use std::fs;
use std::path::{Path, PathBuf};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A row of a table: its section, and the text between backticks of the other two cells.
struct Row {
    section: String,
    where_it_lives: String,
    shown_by: String,
}

fn rows(text: &str) -> Vec<Row> {
    text.lines()
        .filter(|line| line.starts_with("| ") && !line.starts_with("| section "))
        .map(|line| {
            // A section's title may hold an escaped bar, which does not separate cells.
            let line = line.replace("\\|", "/");
            let cells: Vec<&str> = line.split('|').map(str::trim).collect();
            assert_eq!(cells.len(), 5, "a row has three cells: {line}");
            Row {
                section: cells[1].to_owned(),
                where_it_lives: cells[2].to_owned(),
                shown_by: cells[3].to_owned(),
            }
        })
        .collect()
}

/// The references of a cell: what stands between backticks.
fn references(cell: &str) -> Vec<&str> {
    cell.split('`').skip(1).step_by(2).collect()
}

/// The problem of a reference, if it has one: a path, or a path and the name of a test in it.
fn problem_with(reference: &str) -> Option<String> {
    let (path, test) = match reference.split_once("::") {
        Some((path, test)) => (path, Some(test)),
        None => (reference, None),
    };
    let file = repository().join(path);
    if !file.exists() {
        return Some(format!("{path} does not exist"));
    }
    let test = test?;
    let source = fs::read_to_string(&file).expect("a source file that exists can be read");
    // The modules of the validation suite are tests that a macro defines.
    let defined = source.contains(&format!("fn {test}("))
        || source.contains(&format!("validations! {{ {test}:"));
    (!defined).then(|| format!("{path} has no test {test}"))
}

/// A setting without a test that sees it from outside does not exist.
#[test]
fn every_setting_is_documented_with_a_test_that_exists() {
    let text = fs::read_to_string(repository().join("docs/settings.md"))
        .expect("docs/settings.md is part of the repository");
    let mut problems = Vec::new();
    for setting in sidereal_driver::options::OptionLayers::default().settings() {
        let begin = format!("| `{}` |", setting.name);
        let Some(row) = text.lines().find(|line| line.starts_with(&begin)) else {
            problems.push(format!("{} is not in docs/settings.md", setting.name));
            continue;
        };
        if !row.contains(&format!("| {} |", setting.description)) {
            problems
                .push(format!("{} is described otherwise: {}", setting.name, setting.description));
        }
        let shown_by = row.trim_end_matches(" |").rsplit(" | ").next().unwrap_or_default();
        let proofs = references(shown_by);
        if !proofs.iter().any(|proof| proof.contains("::")) {
            problems.push(format!("{} names no test", setting.name));
        }
        let wrong = proofs.into_iter().filter_map(problem_with);
        problems.extend(wrong.map(|it| format!("{}: {it}", setting.name)));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn every_path_and_test_named_in_the_specifications_exists() {
    let text = fs::read_to_string(repository().join("docs/specifications.md"))
        .expect("docs/specifications.md is part of the repository");
    let rows = rows(&text);
    assert!(rows.len() > 100, "the tables were not found: {} rows", rows.len());

    let mut problems = Vec::new();
    for row in &rows {
        let locations = references(&row.where_it_lives);
        let proofs = references(&row.shown_by);
        let unbuilt = ["not built", "nothing to build"].contains(&row.where_it_lives.as_str());
        if !unbuilt && (locations.is_empty() || proofs.is_empty()) {
            problems.push(format!("{}: says neither where nor by what it is shown", row.section));
        }
        let all = locations.into_iter().chain(proofs);
        problems.extend(all.filter_map(problem_with).map(|it| format!("{}: {it}", row.section)));
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

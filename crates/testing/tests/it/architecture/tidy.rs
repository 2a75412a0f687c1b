//! Plain English: turns of phrase that are hard to read or to search for do not come back.
//!
//! Sources and tests of every crate are searched for patterns that have a plainer form (the hints below say which).
//! What is still there is counted for each crate, and the count can only go down.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use super::repository;

/// How many findings each crate still has; a crate that is not listed has none.
const CEILINGS: &[(&str, usize)] = &[];

/// Places where a pattern is the right word: a file, and a part of the line.
const ALLOWED: &[(&str, &str)] = &[];

/// The longest name that a test may have, in characters.
const MAX_TEST_NAME: usize = 70;

/// Beginnings of a doc comment's first line, and what to write instead.
const SUMMARIES: &[(&str, &str)] = &[
    ("What ", "begin with the noun, or with what the item does"),
    ("The same", "name the item, then how it differs"),
];

/// Words and phrases, and what to write instead.
const PHRASES: &[(&str, &str)] = &[
    ("there is none (", "name the error and when it is returned"),
    ("is none", "say what it is not: \"is malformed\", \"does not exist\""),
    ("are none", "say what they are not"),
    ("is no `", "\"does not deserialize as\", \"is not a\""),
    ("whoever", "name the caller, the task or the client"),
    ("anew", "\"again\""),
    ("in so many", "\"explicitly\", or the number"),
];

/// A place in the sources that a reader would stumble over.
#[derive(Debug)]
struct Finding {
    file: String,
    line: usize,
    text: String,
    hint: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, line, text, hint } = self;
        write!(f, "{file}:{line}: {text} [{hint}]")
    }
}

/// The findings of one source.
fn findings(file: &str, source: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let (mut follows_doc, mut is_test) = (false, false);
    for (number, line) in source.lines().enumerate() {
        let line = line.trim();
        let is_allowed =
            ALLOWED.iter().any(|(path, part)| file.ends_with(path) && line.contains(part));
        let mut add = |hint: String| {
            if !is_allowed {
                let text = line.to_owned();
                found.push(Finding { file: file.to_owned(), line: number + 1, text, hint });
            }
        };
        let doc =
            line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim_start);
        if let Some(doc) = doc.filter(|_| !follows_doc) {
            let hits = SUMMARIES.iter().filter(|(summary, _)| doc.starts_with(summary));
            hits.for_each(|(summary, hint)| add(format!("\"{}\": {hint}", summary.trim())));
        }
        follows_doc = doc.is_some();
        let lower = line.to_ascii_lowercase();
        let hits = PHRASES.iter().filter(|(phrase, _)| contains_phrase(&lower, phrase));
        hits.for_each(|(phrase, hint)| add(format!("\"{phrase}\": {hint}")));
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        if is_test && let Some(name) = function_name(line) {
            is_test = false;
            if name.chars().count() > MAX_TEST_NAME {
                add(format!("a test's name has at most {MAX_TEST_NAME} characters"));
            }
        }
    }
    found
}

/// Whether a phrase stands in a line as whole words.
fn contains_phrase(line: &str, phrase: &str) -> bool {
    let is_word = |it: char| it.is_alphanumeric() || it == '_';
    line.match_indices(phrase).any(|(at, _)| {
        // "There is none" is how the language says that a thing does not exist.
        if phrase.ends_with("none") && line[..at].ends_with("there ") {
            return false;
        }
        let before = line[..at].chars().next_back();
        let after = line[at + phrase.len()..].chars().next();
        let ends_in_word = phrase.ends_with(is_word);
        !(before.is_some_and(is_word) || (ends_in_word && after.is_some_and(is_word)))
    })
}

/// The name of the function that a line declares.
fn function_name(line: &str) -> Option<&str> {
    let (_, rest) = line.split_once("fn ")?;
    rest.split(['(', '<']).next()
}

/// Every source below a folder, tests included.
fn all_sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            all_sources(&path, found);
        } else if path.extension().is_some_and(|it| it == "rs") && !path.ends_with("tidy.rs") {
            found.push(path);
        }
    }
}

/// The findings of a crate's sources and tests.
fn findings_of_crate(name: &str) -> Vec<Finding> {
    let folder = repository().join("crates").join(name);
    let mut files = Vec::new();
    ["src", "tests"].iter().for_each(|part| all_sources(&folder.join(part), &mut files));
    files.sort();
    let each = files.iter().flat_map(|file| {
        let shown = format!("crates/{name}/{}", file.strip_prefix(&folder).unwrap().display());
        findings(&shown, &fs::read_to_string(file).unwrap())
    });
    each.collect()
}

#[test]
fn the_sources_are_in_plain_english() {
    let mut problems = Vec::new();
    for name in super::crates() {
        let ceiling = CEILINGS.iter().find(|(it, _)| *it == name).map_or(0, |(_, count)| *count);
        let found = findings_of_crate(&name);
        let count = found.len();
        if count > ceiling {
            let listed = found.iter().map(|it| format!("\n  {it}")).collect::<String>();
            problems.push(format!("{name}: {count} findings, at most {ceiling} allowed:{listed}"));
        }
        if count < ceiling {
            problems
                .push(format!("{name}: lower its ceiling in CEILINGS from {ceiling} to {count}"));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

#[test]
fn a_hard_phrase_is_found_where_it_stands_and_only_there() {
    let lines = |source: &str| -> Vec<usize> {
        findings("x.rs", source).iter().map(|finding| finding.line).collect()
    };
    assert_eq!(lines("/// What a request came to.\nfn f() {}"), [1]);
    assert_eq!(lines("//! The same, with a limit."), [1]);
    assert_eq!(lines("/// A request.\n/// What follows is not its first line."), [0; 0]);
    assert_eq!(lines("// The link is none."), [1]);
    assert_eq!(lines("// There is none (`NotFound`)."), [1]);
    assert_eq!(lines("// Where there is none, the default."), [0; 0]);
    assert_eq!(lines("x(\"the row is no `T`\")"), [1]);
    assert_eq!(lines("// Whoever asks; read anew; told in so many words."), [1, 1, 1]);
    assert_eq!(lines("// The list is nonempty; CREATED_ANEW; `anewly`."), [0; 0]);
    let long = "a".repeat(71);
    assert_eq!(lines(&format!("#[test]\nfn {long}() {{}}")), [2]);
    assert_eq!(lines(&format!("#[tokio::test(start_paused = true)]\nasync fn {long}() {{}}")), [2]);
    assert_eq!(lines(&format!("fn {long}() {{}}")), [0; 0]);
}

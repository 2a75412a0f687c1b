//! Misuse of the derive does not compile, and the message says what to write instead.
//!
//! Every `wrong_*.rs` in `cases/` is compiled and its errors are compared with the `.stderr` beside it;
//! `UPDATE_EXPECTED=1` rewrites those files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::compiler::Compiler;

/// Relative to the package, which is where tests run: error messages repeat the path as it was given.
const CASES: &str = "tests/it/cases";

#[test]
fn misuse_is_a_compile_error_that_says_what_to_write() {
    let compiler = Compiler::of_this_build();
    let update = std::env::var_os("UPDATE_EXPECTED").is_some();
    let cases = misused();
    assert!(cases.len() >= 6, "the cases are in {CASES}: {cases:?}");
    for case in cases {
        let errors = compiler.check(&case).expect_err("misuse compiled");
        let expected = case.with_extension("stderr");
        if update {
            fs::write(&expected, &errors).unwrap();
        }
        let expected = fs::read_to_string(&expected).unwrap_or_default();
        assert_eq!(errors.trim_end(), expected.trim_end(), "{}:\n{errors}", case.display());
    }
}

#[test]
fn correct_use_compiles_and_runs() {
    let compiler = Compiler::of_this_build();
    compiler.run(&Path::new(CASES).join("correct_use.rs")).unwrap_or_else(|why| panic!("{why}"));
}

fn misused() -> Vec<PathBuf> {
    let mut cases: Vec<PathBuf> = fs::read_dir(CASES)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "rs"))
        .filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("wrong_"))
        .collect();
    cases.sort();
    cases
}

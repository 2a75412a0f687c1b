//! Misuse of the derive does not compile, and the message says what to write instead.

#[test]
fn misuse_is_a_compile_error_that_says_what_to_write() {
    let cases = trybuild::TestCases::new();
    cases.pass("tests/misuse/correct_use.rs");
    cases.compile_fail("tests/misuse/wrong_*.rs");
}

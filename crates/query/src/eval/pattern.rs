//! `LIKE` patterns and regular expressions.
//!
//! What a finite automaton can match is matched by the `regex` crate, in time linear in the text.
//! Look-around and back-references need backtracking (`fancy-regex`), which is exponential in the worst
//! case, so its steps are bounded.

use regex::{Regex, RegexBuilder};

use crate::error::EvalError;
use crate::limits::{MAX_REGEX_BACKTRACKING, MAX_REGEX_SIZE};

/// A compiled pattern.
#[derive(Debug)]
pub(crate) enum Pattern {
    /// Linear in the text whatever the pattern.
    Automaton(Regex),
    /// With look-around or back-references; boxed, because few queries have one.
    Backtracking(Box<fancy_regex::Regex>),
}

impl Pattern {
    pub(crate) fn is_match(&self, text: &str) -> Result<bool, EvalError> {
        match self {
            Self::Automaton(regex) => Ok(regex.is_match(text)),
            // The only runtime error is that the bound on backtracking was passed.
            Self::Backtracking(regex) => regex
                .is_match(text)
                .map_err(|_| EvalError::RegexBacktracking(MAX_REGEX_BACKTRACKING)),
        }
    }
}

/// Compiles a `LIKE` pattern: `%` any text, `_` any character, `[a-f]` and `[^a-f]` one of a set.
///
/// None if the pattern is too large to compile.
pub(crate) fn like(pattern: &str, escape: Option<char>) -> Option<Pattern> {
    let mut source = String::with_capacity(pattern.len() + 8);
    source.push_str(r"\A(?s:");
    let mut rest = pattern.chars();
    while let Some(next) = rest.next() {
        match next {
            c if Some(c) == escape => push_literal(&mut source, rest.next().unwrap_or(c)),
            '%' => source.push_str(".*"),
            '_' => source.push('.'),
            '[' => match set(rest.as_str(), escape) {
                Some((class, used)) => {
                    source.push_str(&class);
                    rest = rest.as_str()[used..].chars();
                }
                // An unfinished set is plain text.
                None => push_literal(&mut source, '['),
            },
            c => push_literal(&mut source, c),
        }
    }
    source.push_str(r")\z");
    RegexBuilder::new(&source).size_limit(MAX_REGEX_SIZE).build().ok().map(Pattern::Automaton)
}

/// Compiles a regular expression with the flags of `RegexMatch`: `m`, `s`, `i`, `x`.
///
/// None if the pattern or a flag is not valid or the result too large.
pub(crate) fn regex(pattern: &str, flags: &str) -> Option<Pattern> {
    if !flags.chars().all(|flag| matches!(flag, 'm' | 's' | 'i' | 'x')) {
        return None;
    }
    // Flags inside the pattern mean the same to both engines; a line break ends a trailing comment.
    let source = match flags.contains('x') {
        _ if flags.is_empty() => pattern.to_owned(),
        true => format!("(?{flags}:{pattern}\n)"),
        false => format!("(?{flags}:{pattern})"),
    };
    let automaton = RegexBuilder::new(&source).size_limit(MAX_REGEX_SIZE).build();
    match automaton {
        Ok(regex) => Some(Pattern::Automaton(regex)),
        // Too large for one engine is too large for the other.
        Err(regex::Error::CompiledTooBig(_)) => None,
        Err(_) => fancy_regex::RegexBuilder::new(&source)
            .backtrack_limit(MAX_REGEX_BACKTRACKING)
            .delegate_size_limit(MAX_REGEX_SIZE)
            .build()
            .ok()
            .map(|regex| Pattern::Backtracking(Box::new(regex))),
    }
}

/// Reads the set that `text` starts with (after its `[`), giving a regular-expression class and
/// the bytes used.
fn set(text: &str, escape: Option<char>) -> Option<(String, usize)> {
    let (negated, body) = match text.strip_prefix('^') {
        Some(body) => (true, body),
        None => (false, text),
    };
    let mut members = Vec::new();
    let mut chars = body.char_indices();
    let end = loop {
        match chars.next()? {
            (at, ']') => break at,
            (_, c) if Some(c) == escape => members.push((chars.next()?.1, false)),
            (_, c) => members.push((c, true)),
        }
    };
    if members.is_empty() {
        return None;
    }
    let mut class = String::from(if negated { "[^" } else { "[" });
    let mut i = 0;
    while i < members.len() {
        let low = members[i].0;
        match members.get(i + 1..i + 3) {
            Some(&[('-', true), (high, _)]) if low <= high => {
                class.push_str(&format!("{}-{}", class_member(low), class_member(high)));
                i += 3;
            }
            _ => {
                class.push_str(&class_member(low));
                i += 1;
            }
        }
    }
    class.push(']');
    Some((class, usize::from(negated) + end + 1))
}

fn class_member(c: char) -> String {
    format!("\\u{{{:X}}}", u32::from(c))
}

fn push_literal(source: &mut String, c: char) {
    source.push_str(&regex::escape(c.encode_utf8(&mut [0; 4])));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wildcards_sets_and_escapes_match_as_documented() {
        type Case<'a> = (&'a str, Option<char>, &'a [&'a str], &'a [&'a str]);
        let cases: &[Case<'_>] = &[
            ("abc", None, &["abc"], &["ab", "abcd", "ABC"]),
            ("a%", None, &["a", "abc", "a\nb"], &["ba", ""]),
            ("%b%", None, &["b", "abc"], &["ac"]),
            ("_b_", None, &["abc", "🚀b\n"], &["bc", "abcd"]),
            ("[a-c]x", None, &["ax", "cx"], &["dx", "-x"]),
            ("[^a-c]x", None, &["dx"], &["ax", "x"]),
            ("[a-]x", None, &["ax", "-x"], &["bx"]),
            ("[]x", None, &["[]x"], &["x"]),
            ("[ab", None, &["[ab"], &["a"]),
            ("50!%", Some('!'), &["50%"], &["50", "500"]),
            ("a!_b", Some('!'), &["a_b"], &["axb"]),
            ("a!", Some('!'), &["a!"], &["a"]),
            ("[!]]x", Some('!'), &["]x"], &["!x"]),
            ("a.c\\", None, &["a.c\\"], &["abc\\"]),
            ("", None, &[""], &["a"]),
        ];
        for (pattern, escape, yes, no) in cases {
            let compiled = like(pattern, *escape).unwrap();
            for text in *yes {
                assert!(compiled.is_match(text).unwrap(), "{text:?} LIKE {pattern:?}");
            }
            for text in *no {
                assert!(!compiled.is_match(text).unwrap(), "{text:?} NOT LIKE {pattern:?}");
            }
        }
    }

    #[test]
    fn a_regular_expression_too_large_to_compile_is_refused() {
        assert!(regex("(?:(?:a{100}){100}){100}", "").is_none());
        assert!(regex("(", "").is_none());
        assert!(regex("a", "g").is_none());
        assert!(regex("A b", "ix").unwrap().is_match("ab").unwrap());
        assert!(regex("a # comment", "x").unwrap().is_match("a").unwrap());
    }

    #[test]
    fn look_around_and_back_references_match() {
        for (pattern, flags, yes, no) in [
            (r"^(?=.*\d)(?=.*[a-z]).{6,}$", "", "abc123", "abcdef"),
            (r"\b(\w+) \1\b", "", "the the end", "the end"),
            (r"(?<!un)happy", "i", "Happy", "unhappy"),
            (r"^a(?!b)", "m", "x\nac", "x\nab"),
        ] {
            let compiled = regex(pattern, flags).unwrap();
            assert!(compiled.is_match(yes).unwrap(), "{pattern} {yes}");
            assert!(!compiled.is_match(no).unwrap(), "{pattern} {no}");
        }
    }

    /// Without a bound this one match would take minutes.
    #[test]
    fn catastrophic_backtracking_is_an_error() {
        let compiled = regex(r"^(?=(a+)+$)(a|a)*\1b$", "").unwrap();
        let text = "a".repeat(64);
        assert_eq!(
            compiled.is_match(&text),
            Err(EvalError::RegexBacktracking(MAX_REGEX_BACKTRACKING))
        );
    }
}

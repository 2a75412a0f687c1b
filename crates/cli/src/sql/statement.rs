//! Text to statements: lines are collected until a semicolon ends one. No input or output is here.

/// No statement is longer; the service takes 512 KB.
const MAX_STATEMENT_BYTES: usize = 1024 * 1024;

/// The meaning of one line of input.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// A whole query.
    Query(String),
    /// A command of the prompt, without its backslash.
    Command(String),
}

/// Lines of a statement that is not over yet.
#[derive(Debug, Default)]
pub(super) struct StatementReader {
    pending: String,
}

impl StatementReader {
    /// Whether a statement has begun and is not over.
    pub(super) fn is_within_statement(&self) -> bool {
        !self.pending.trim().is_empty()
    }

    /// Gives up a statement that has begun.
    pub(super) fn clear(&mut self) {
        self.pending.clear();
    }

    /// Takes a line: the statements that it completes. A command is a line of its own.
    pub(super) fn take(&mut self, line: &str) -> Result<Vec<Step>, String> {
        if !self.is_within_statement()
            && let Some(command) = line.trim().strip_prefix('\\')
        {
            return Ok(vec![Step::Command(command.trim().to_owned())]);
        }
        if self.pending.len() + line.len() > MAX_STATEMENT_BYTES {
            self.clear();
            return Err(format!("a statement is longer than {MAX_STATEMENT_BYTES} bytes"));
        }
        self.pending.push_str(line);
        self.pending.push('\n');
        let mut steps = Vec::new();
        while let Some(end) = end_of_statement(&self.pending) {
            let rest = self.pending.split_off(end + 1);
            let whole = std::mem::replace(&mut self.pending, rest);
            steps.extend(query(&whole[..end]));
        }
        Ok(steps)
    }

    /// The statement that the end of the text ends.
    pub(super) fn finish(&mut self) -> Option<Step> {
        query(&std::mem::take(&mut self.pending))
    }
}

fn query(text: &str) -> Option<Step> {
    let text = text.trim();
    (!text.is_empty()).then(|| Step::Query(text.to_owned()))
}

/// Where the first semicolon is that is neither in a string nor in a comment.
fn end_of_statement(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        at += match rest[0] {
            b';' => return Some(at),
            quote @ (b'\'' | b'"') => string_length(rest, quote),
            b'-' if rest.starts_with(b"--") => comment_length(rest, b"\n"),
            b'/' if rest.starts_with(b"/*") => comment_length(rest, b"*/"),
            _ => 1,
        };
    }
    None
}

/// The length of a string with its quotes; all that is left where it is not closed.
fn string_length(text: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 1,
            it if it == quote => return at + 1,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// The length of a comment, whose two bytes of opening are not looked at again: `/*/` closes nothing.
fn comment_length(text: &[u8], end: &[u8]) -> usize {
    let found = text[2..].windows(end.len()).position(|window| window == end);
    found.map_or(text.len(), |position| 2 + position + end.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queries(lines: &[&str]) -> Vec<String> {
        let mut reader = StatementReader::default();
        let steps = lines.iter().flat_map(|line| reader.take(line).unwrap()).collect::<Vec<_>>();
        let steps = steps.into_iter().chain(reader.finish());
        steps
            .map(|step| match step {
                Step::Query(text) => text,
                Step::Command(text) => format!("\\{text}"),
            })
            .collect()
    }

    #[test]
    fn a_statement_goes_over_lines_until_its_semicolon() {
        assert_eq!(queries(&["SELECT *", "FROM c;"]), ["SELECT *\nFROM c"]);
        assert_eq!(
            queries(&["SELECT 1; SELECT 2;", ";", "SELECT 3"]),
            ["SELECT 1", "SELECT 2", "SELECT 3"]
        );
        assert_eq!(queries(&["", "  "]), Vec::<String>::new());
    }

    #[test]
    fn a_semicolon_in_a_string_or_a_comment_ends_nothing() {
        for text in [
            r#"SELECT "a;b" FROM c"#,
            "SELECT 'it;s' FROM c",
            r#"SELECT "a\";b" FROM c"#,
            "SELECT 1 -- one; two\nFROM c",
            "SELECT 1 /* one; two */ FROM c",
            "SELECT 1 /*/ one; */ FROM c",
        ] {
            assert_eq!(queries(&[&format!("{text};")]), [text]);
        }
    }

    #[test]
    fn a_line_with_a_backslash_is_a_command_unless_a_statement_has_begun() {
        assert_eq!(queries(&["\\use a/b", "SELECT", "\\help;"]), ["\\use a/b", "SELECT\n\\help"]);
    }

    #[test]
    fn a_statement_without_an_end_is_bounded() {
        let mut reader = StatementReader::default();
        let long = "x".repeat(MAX_STATEMENT_BYTES);
        assert_eq!(reader.take(&long), Ok(vec![]));
        assert!(reader.take("more").is_err());
        assert!(!reader.is_within_statement());
    }

    #[test]
    fn a_statement_that_has_begun_can_be_given_up() {
        let mut reader = StatementReader::default();
        reader.take("SELECT").unwrap();
        assert!(reader.is_within_statement());
        reader.clear();
        assert_eq!(reader.finish(), None);
    }
}

//! Reading a few members of a document from its text, without building the rest of it.
//!
//! A query looks at a handful of a document's members. Skipping the others in the text is several times as fast
//! as parsing them, and so nobody has to keep documents parsed.

use serde_json::{Map, Value};

use crate::document::parse_document;

/// The members of a document that are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DocumentMembers {
    /// All of them: the document itself is looked at.
    All,
    /// Those with these names.
    Named(Vec<Box<str>>),
}

impl DocumentMembers {
    /// Adds a member.
    pub(crate) fn insert(&mut self, name: &str) {
        if let Self::Named(names) = self
            && !names.iter().any(|known| **known == *name)
        {
            names.push(name.into());
        }
    }

    /// Parses these members of a document.
    ///
    /// The text is one that was printed from a parsed document: no name occurs twice in it.
    ///
    /// # Errors
    ///
    /// The text is not JSON; only what is parsed is checked.
    pub fn parse(&self, text: &[u8]) -> serde_json::Result<Value> {
        let Self::Named(names) = self else { return parse_document(text) };
        let mut found = Map::new();
        if names.is_empty() && text.first() == Some(&b'{') {
            return Ok(Value::Object(found));
        }
        let Some(mut members) = Scanner::of_object(text) else { return parse_document(text) };
        while let Some((name, value)) = members.next_member() {
            if let Some(name) = names.iter().find(|known| is_name(name, known)) {
                found.insert(name.to_string(), serde_json::from_slice(value)?);
                // What follows need not be looked at.
                if found.len() == names.len() {
                    return Ok(Value::Object(found));
                }
            }
        }
        match members.at_end() {
            true => Ok(Value::Object(found)),
            // Text that the scanner does not understand is left to the parser.
            false => parse_document(text),
        }
    }
}

/// Parses the value at the end of a path of names; `None` where there is none, or the text is not JSON.
pub fn parse_at(text: &[u8], path: &[impl AsRef<str>]) -> Option<Value> {
    let Some((name, rest)) = path.split_first() else { return serde_json::from_slice(text).ok() };
    let mut members = Scanner::of_object(text)?;
    while let Some((found, value)) = members.next_member() {
        if is_name(found, name.as_ref()) {
            return parse_at(value, rest);
        }
    }
    None
}

/// Whether a name as it is written, without its quotes, is `name`.
fn is_name(written: &[u8], name: &str) -> bool {
    if written == name.as_bytes() {
        // A backslash in a name is written with another one: this is an escape that reads otherwise.
        return !written.contains(&b'\\');
    }
    // Rare: only names with quotes, backslashes or control characters are escaped.
    written.contains(&b'\\') && {
        let quoted = [b"\"", written, b"\""].concat();
        serde_json::from_slice::<String>(&quoted).is_ok_and(|unescaped| unescaped == name)
    }
}

/// Steps through the members of an object by skipping over their values.
struct Scanner<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Scanner<'t> {
    fn of_object(text: &'t [u8]) -> Option<Self> {
        (text.first() == Some(&b'{')).then_some(Self { text, at: 1 })
    }

    /// Whether the object was read to its end.
    fn at_end(&self) -> bool {
        self.text.get(self.at..) == Some(b"}")
    }

    /// The next name, without quotes and with its escapes, and the text of its value.
    fn next_member(&mut self) -> Option<(&'t [u8], &'t [u8])> {
        if self.peek()? == b',' {
            self.at += 1;
        }
        if self.peek()? != b'"' {
            return None;
        }
        let name = self.skip_string()?;
        if self.peek()? != b':' {
            return None;
        }
        self.at += 1;
        let begin = self.at;
        self.skip_value()?;
        Some((name, self.text.get(begin..self.at)?))
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Skips a string, which begins here, and returns what is between its quotes.
    fn skip_string(&mut self) -> Option<&'t [u8]> {
        let begin = self.at + 1;
        let mut at = begin;
        loop {
            let rest = self.text.get(at..)?;
            at += rest.iter().position(|byte| matches!(byte, b'"' | b'\\'))?;
            if self.text[at] == b'"' {
                self.at = at + 1;
                return self.text.get(begin..at);
            }
            at += 2; // The backslash and what it escapes.
        }
    }

    fn skip_value(&mut self) -> Option<()> {
        match self.peek()? {
            b'"' => self.skip_string().map(drop),
            b'{' | b'[' => self.skip_nested(),
            _ => {
                let rest = self.text.get(self.at..)?;
                let length = rest.iter().position(|byte| matches!(byte, b',' | b'}' | b']'))?;
                self.at += length;
                (length > 0).then_some(())
            }
        }
    }

    fn skip_nested(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.peek()? {
                b'"' => {
                    self.skip_string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn named(names: &[&str]) -> DocumentMembers {
        DocumentMembers::Named(names.iter().map(|&name| name.into()).collect())
    }

    #[test]
    fn the_named_members_are_parsed_and_no_others() {
        let document = json!({
            "id": "1", "a": {"b": [1, {"c": "}]\""}]}, "": 0, "q\"\\\n": true, "n": -1.5e300, "z": null,
        });
        let text = document.to_string();
        for names in [&["a"][..], &["n", "z"], &["q\"\\\n", ""], &["missing"], &[]] {
            let parsed = named(names).parse(text.as_bytes()).unwrap();
            let mut expected = document.clone();
            expected.as_object_mut().unwrap().retain(|name, _| names.contains(&name.as_str()));
            assert_eq!(parsed, expected, "{names:?}");
        }
        assert_eq!(DocumentMembers::All.parse(text.as_bytes()).unwrap(), document);
        assert_eq!(parse_at(text.as_bytes(), &["a", "b"]), Some(json!([1, {"c": "}]\""}])));
        assert_eq!(parse_at(text.as_bytes(), &["a", "x"]), None);
        assert_eq!(parse_at(text.as_bytes(), &["id", "x"]), None);
    }

    #[test]
    fn a_name_that_only_looks_like_an_escape_is_another_name() {
        let text = json!({ "a\n": 1, "a\\n": 2 }).to_string();
        assert_eq!(parse_at(text.as_bytes(), &["a\n"]), Some(json!(1)));
        assert_eq!(parse_at(text.as_bytes(), &["a\\n"]), Some(json!(2)));
    }

    #[test]
    fn text_that_the_scanner_does_not_understand_is_left_to_the_parser() {
        let spaced = br#" { "a" : 1 , "b" : [ 2 ] } "#;
        assert_eq!(named(&["b"]).parse(spaced).unwrap()["b"], json!([2]));
        for malformed in ["", "{", "{\"a\"", "{\"a\":", "{\"a\":1", "{\"a\":\"", "{\"a\":[}"] {
            assert!(named(&["b"]).parse(malformed.as_bytes()).is_err(), "{malformed}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text: String, name: String) {
            let _ = named(&[&name]).parse(text.as_bytes());
            let object = json!({ &text: [&name, {&name: &text}], &name: 1 });
            let printed = object.to_string();
            let parsed = named(&[&name]).parse(printed.as_bytes()).unwrap();
            prop_assert_eq!(&parsed[&name], &object[&name]);
        }
    }
}

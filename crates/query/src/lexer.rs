//! Text to tokens.
//!
//! A token is a kind and a span; what it means (the value of a string, of a number) is worked out
//! by the parser when it wants to know. Comments and white space vanish here.

use serde_json::Number;

use crate::error::{SyntaxError, SyntaxErrorKind};
use crate::value::number_of;

/// Splits the text into tokens, the last of which is [`Kind::End`].
pub(crate) fn tokenize(text: &str) -> Result<Vec<Token>, SyntaxError> {
    let mut lexer = Lexer { text, bytes: text.as_bytes(), at: 0 };
    // Queries average about one token for every five characters.
    let mut tokens = Vec::with_capacity(text.len() / 5 + 2);
    loop {
        let token = lexer.next()?;
        tokens.push(token);
        if token.kind == Kind::End {
            return Ok(tokens);
        }
    }
}

/// Where a client puts its resume filter in a rewritten `ORDER BY` query.
pub(crate) const RESUME_FILTER: &str = "{documentdb-formattableorderbyquery-filter}";

/// A piece of text and what it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) start: usize,
    pub(crate) end: usize,
}

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    End,
    Identifier,
    Keyword(Keyword),
    Parameter,
    Number,
    String,
    ResumeFilter,
    Symbol(Symbol),
}

macro_rules! keywords {
    ($($variant:ident $text:literal,)*) => {
        /// A reserved word, in any case.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Keyword {
            $($variant,)*
        }

        impl Keyword {
            pub(crate) fn text(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }

            fn of(word: &str) -> Option<Self> {
                // No keyword is longer, and most identifiers are told apart by this alone.
                if word.len() > 9 || word.len() < 2 {
                    return None;
                }
                match word.as_bytes()[0].to_ascii_uppercase() {
                    $(first if first == $text.as_bytes()[0] && word.eq_ignore_ascii_case($text) => {
                        Some(Self::$variant)
                    })*
                    _ => None,
                }
            }
        }
    };
}

keywords! {
    And "AND",
    Array "ARRAY",
    As "AS",
    Asc "ASC",
    Between "BETWEEN",
    By "BY",
    Desc "DESC",
    Distinct "DISTINCT",
    Escape "ESCAPE",
    Exists "EXISTS",
    False "FALSE",
    From "FROM",
    Group "GROUP",
    In "IN",
    Join "JOIN",
    Like "LIKE",
    Limit "LIMIT",
    Not "NOT",
    Null "NULL",
    Offset "OFFSET",
    Or "OR",
    Order "ORDER",
    Rank "RANK",
    Select "SELECT",
    Top "TOP",
    True "TRUE",
    Undefined "UNDEFINED",
    Value "VALUE",
    Where "WHERE",
}

macro_rules! symbols {
    ($($variant:ident $text:literal,)*) => {
        /// Punctuation and operators.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Symbol {
            $($variant,)*
        }

        impl Symbol {
            pub(crate) fn text(self) -> &'static str {
                match self {
                    $(Self::$variant => $text,)*
                }
            }
        }
    };
}

symbols! {
    Ampersand "&",
    Asterisk "*",
    Caret "^",
    CloseBrace "}",
    CloseBracket "]",
    CloseParen ")",
    Colon ":",
    Comma ",",
    Dot ".",
    Equal "=",
    Greater ">",
    GreaterOrEqual ">=",
    Less "<",
    LessOrEqual "<=",
    Minus "-",
    NotEqual "!=",
    OpenBrace "{",
    OpenBracket "[",
    OpenParen "(",
    Percent "%",
    Pipe "|",
    PipePipe "||",
    Plus "+",
    Question "?",
    QuestionQuestion "??",
    ShiftLeft "<<",
    ShiftRight ">>",
    ShiftRightUnsigned ">>>",
    Slash "/",
    Tilde "~",
}

struct Lexer<'t> {
    text: &'t str,
    bytes: &'t [u8],
    at: usize,
}

impl Lexer<'_> {
    fn next(&mut self) -> Result<Token, SyntaxError> {
        self.skip_blank()?;
        let start = self.at;
        let Some(&byte) = self.bytes.get(start) else {
            return Ok(Token { kind: Kind::End, start, end: start });
        };
        let kind = match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'_' => self.word(),
            b'0'..=b'9' => self.number(),
            b'.' if self.peek(1).is_some_and(|next| next.is_ascii_digit()) => self.number(),
            b'"' | b'\'' => self.string(byte)?,
            b'@' => self.parameter()?,
            b'{' if self.text[start..].starts_with(RESUME_FILTER) => {
                self.at += RESUME_FILTER.len();
                Kind::ResumeFilter
            }
            128.. if self.char_is_alphabetic() => self.word(),
            _ => self.symbol()?,
        };
        Ok(Token { kind, start, end: self.at })
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    fn char_is_alphabetic(&self) -> bool {
        self.text[self.at..].chars().next().is_some_and(char::is_alphabetic)
    }

    fn skip_blank(&mut self) -> Result<(), SyntaxError> {
        loop {
            match (self.peek(0), self.peek(1)) {
                (Some(b' ' | b'\t' | b'\r' | b'\n'), _) => self.at += 1,
                (Some(b'-'), Some(b'-')) => {
                    let rest = &self.bytes[self.at..];
                    let line = rest.iter().position(|&b| b == b'\n');
                    self.at += line.unwrap_or(rest.len());
                }
                (Some(b'/'), Some(b'*')) => {
                    let Some(length) = self.text[self.at + 2..].find("*/") else {
                        return Err(self.bad(self.text.len(), "the end of a comment, '*/'"));
                    };
                    self.at += length + 4;
                }
                (Some(0xC2 | 0xE2 | 0xE3 | 0xEF), _) => {
                    let next = self.text[self.at..].chars().next();
                    match next.filter(|c| c.is_whitespace() || *c == '\u{FEFF}') {
                        Some(blank) => self.at += blank.len_utf8(),
                        None => return Ok(()),
                    }
                }
                _ => return Ok(()),
            }
        }
    }

    fn word(&mut self) -> Kind {
        let start = self.at;
        self.at += word_length(&self.text[start..]);
        Keyword::of(&self.text[start..self.at]).map_or(Kind::Identifier, Kind::Keyword)
    }

    fn parameter(&mut self) -> Result<Kind, SyntaxError> {
        let length = word_length(&self.text[self.at + 1..]);
        if length == 0 {
            return Err(self.bad(self.at + 1, "a parameter name after '@'"));
        }
        self.at += 1 + length;
        Ok(Kind::Parameter)
    }

    fn number(&mut self) -> Kind {
        let is_hex = self.peek(0) == Some(b'0') && matches!(self.peek(1), Some(b'x' | b'X'));
        if is_hex && self.peek(2).is_some_and(|b| b.is_ascii_hexdigit()) {
            self.at += 2;
            while self.peek(0).is_some_and(|b| b.is_ascii_hexdigit()) {
                self.at += 1;
            }
            return Kind::Number;
        }
        self.digits();
        if self.peek(0) == Some(b'.') && self.peek(1).is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
            self.digits();
        }
        if let Some(b'e' | b'E') = self.peek(0) {
            let signed = usize::from(matches!(self.peek(1), Some(b'+' | b'-')));
            if self.peek(1 + signed).is_some_and(|b| b.is_ascii_digit()) {
                self.at += 1 + signed;
                self.digits();
            }
        }
        Kind::Number
    }

    fn digits(&mut self) {
        while self.peek(0).is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
        }
    }

    fn string(&mut self, quote: u8) -> Result<Kind, SyntaxError> {
        let mut at = self.at + 1;
        loop {
            match self.bytes.get(at) {
                None => return Err(self.bad(self.text.len(), "the end of a string")),
                Some(b'\\') => at += 2,
                Some(&byte) if byte == quote => break,
                Some(_) => at += 1,
            }
        }
        self.at = at + 1;
        Ok(Kind::String)
    }

    fn symbol(&mut self) -> Result<Kind, SyntaxError> {
        let (symbol, length) = match (self.bytes[self.at], self.peek(1), self.peek(2)) {
            (b'>', Some(b'>'), Some(b'>')) => (Symbol::ShiftRightUnsigned, 3),
            (b'>', Some(b'>'), _) => (Symbol::ShiftRight, 2),
            (b'>', Some(b'='), _) => (Symbol::GreaterOrEqual, 2),
            (b'>', ..) => (Symbol::Greater, 1),
            (b'<', Some(b'<'), _) => (Symbol::ShiftLeft, 2),
            (b'<', Some(b'='), _) => (Symbol::LessOrEqual, 2),
            (b'<', Some(b'>'), _) | (b'!', Some(b'='), _) => (Symbol::NotEqual, 2),
            (b'<', ..) => (Symbol::Less, 1),
            (b'=', ..) => (Symbol::Equal, 1),
            (b'|', Some(b'|'), _) => (Symbol::PipePipe, 2),
            (b'|', ..) => (Symbol::Pipe, 1),
            (b'?', Some(b'?'), _) => (Symbol::QuestionQuestion, 2),
            (b'?', ..) => (Symbol::Question, 1),
            (b'&', ..) => (Symbol::Ampersand, 1),
            (b'*', ..) => (Symbol::Asterisk, 1),
            (b'^', ..) => (Symbol::Caret, 1),
            (b'}', ..) => (Symbol::CloseBrace, 1),
            (b']', ..) => (Symbol::CloseBracket, 1),
            (b')', ..) => (Symbol::CloseParen, 1),
            (b':', ..) => (Symbol::Colon, 1),
            (b',', ..) => (Symbol::Comma, 1),
            (b'.', ..) => (Symbol::Dot, 1),
            (b'-', ..) => (Symbol::Minus, 1),
            (b'{', ..) => (Symbol::OpenBrace, 1),
            (b'[', ..) => (Symbol::OpenBracket, 1),
            (b'(', ..) => (Symbol::OpenParen, 1),
            (b'%', ..) => (Symbol::Percent, 1),
            (b'+', ..) => (Symbol::Plus, 1),
            (b'/', ..) => (Symbol::Slash, 1),
            (b'~', ..) => (Symbol::Tilde, 1),
            _ => {
                let length = self.text[self.at..].chars().next().map_or(1, char::len_utf8);
                return Err(self.bad(self.at + length, "a token of the query language"));
            }
        };
        self.at += length;
        Ok(Kind::Symbol(symbol))
    }

    fn bad(&self, end: usize, expected: &str) -> SyntaxError {
        bad_token(self.text, self.at, end, expected)
    }
}

/// How many bytes of `text` belong to the word it starts with.
fn word_length(text: &str) -> usize {
    let ascii = text.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
    if text.as_bytes().get(ascii).is_none_or(u8::is_ascii) {
        return ascii;
    }
    text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())
}

/// Whether text is one identifier and nothing else.
pub(crate) fn is_identifier(text: &str) -> bool {
    let starts = text.starts_with(|c: char| c.is_alphabetic() || c == '_');
    starts && word_length(text) == text.len() && Keyword::of(text).is_none()
}

/// The value of a string token, quotes included in `raw`.
pub(crate) fn string_value(text: &str, token: Token) -> Result<String, SyntaxError> {
    let raw = &text[token.start + 1..token.end - 1];
    let mut value = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some(at) = rest.find('\\') {
        value.push_str(&rest[..at]);
        let (decoded, used) = escape(&rest[at..]).ok_or_else(|| {
            bad_token(text, token.start, token.end, "a known escape sequence after '\\'")
        })?;
        value.push(decoded);
        rest = &rest[at + used..];
    }
    value.push_str(rest);
    Ok(value)
}

/// Decodes the escape that `text` starts with, giving the character and the bytes it took.
fn escape(text: &str) -> Option<(char, usize)> {
    let decoded = match text.as_bytes().get(1)? {
        b'"' => '"',
        b'\'' => '\'',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{C}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return unicode_escape(text),
        _ => return None,
    };
    Some((decoded, 2))
}

/// Decodes `\uXXXX`, or two of them that form a surrogate pair.
fn unicode_escape(text: &str) -> Option<(char, usize)> {
    let unit = |at: usize| {
        let digits = text.get(at + 2..at + 6)?;
        let hex = digits.bytes().all(|b| b.is_ascii_hexdigit());
        if !hex || !text[at..].starts_with("\\u") {
            return None;
        }
        u16::from_str_radix(digits, 16).ok()
    };
    let high = unit(0)?;
    if let Some(plain) = char::from_u32(high.into()) {
        return Some((plain, 6));
    }
    let pair = text.is_char_boundary(6).then(|| unit(6)).flatten().map(|low| [high, low]);
    let decoded = pair.and_then(|units| char::decode_utf16(units).next()?.ok());
    // A lone surrogate is not valid in a Rust string; U+FFFD replaces it, as in WTF-8 decoders.
    Some(decoded.map_or((char::REPLACEMENT_CHARACTER, 6), |whole| (whole, 12)))
}

/// The value of a number token, decimal or hexadecimal: the nearest double, as every number of the
/// language is one.
pub(crate) fn number_value(text: &str, token: Token) -> Result<Number, SyntaxError> {
    let digits = &text[token.start..token.end];
    let double = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) => Some(hex_value(hex)),
        None => digits.parse::<f64>().ok(),
    };
    double
        .and_then(number_of)
        .ok_or_else(|| bad_token(text, token.start, token.end, "a number in the range of a double"))
}

/// Digits beyond the 53 bits of a double are rounded one by one, which only the last of them could
/// tell from rounding once.
fn hex_value(digits: &str) -> f64 {
    digits
        .chars()
        .filter_map(|digit| digit.to_digit(16))
        .fold(0.0, |value, digit| value * 16.0 + f64::from(digit))
}

fn bad_token(text: &str, start: usize, end: usize, expected: &str) -> SyntaxError {
    SyntaxError {
        start,
        end,
        near: excerpt(&text[start..end]),
        expected: expected.to_owned(),
        kind: SyntaxErrorKind::BadToken,
    }
}

/// Enough of the text to recognise it by.
pub(crate) fn excerpt(text: &str) -> String {
    const LONGEST: usize = 64;
    text.chars().take(LONGEST).collect()
}

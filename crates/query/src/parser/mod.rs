//! Tokens to syntax tree: clauses here, expressions in `expression.rs`.
//!
//! Recursive descent over clauses, precedence climbing over operators. The depth of the tree is
//! counted while it is built, so that whatever recurses over it later has a bounded stack.

mod expression;
#[cfg(test)]
mod tests;

use crate::error::{SyntaxError, SyntaxErrorKind};
use crate::lexer::{Keyword, Kind, Symbol, Token, excerpt, string_value, tokenize};
use crate::limits::{MAX_DEPTH, MAX_JOINS, MAX_TEXT_LENGTH};
use crate::tree::{
    Collection, Count, Direction, Expr, From, Literal, OrderBy, OrderKey, Projection, Query,
    Select, SelectItem, Source, Step, Window,
};

/// Reads a query.
///
/// # Errors
///
/// Where the text is not Cosmos SQL, with the position and what was expected there.
pub fn parse(text: &str) -> Result<Query, SyntaxError> {
    let mut parser = Parser::new(text)?;
    let (query, _) = parser.query()?;
    parser.end()?;
    Ok(query)
}

/// Reads a condition, `FROM c WHERE …`, as the query that selects what satisfies it.
pub(crate) fn parse_condition(text: &str) -> Result<Query, SyntaxError> {
    let mut parser = Parser::new(text)?;
    if !parser.at_keyword(Keyword::From) {
        return Err(parser.unexpected("FROM"));
    }
    let truth = Expr::Literal(Literal::Bool(true));
    let select = Select { distinct: false, top: None, projection: Projection::Value(truth) };
    let from = parser.from()?;
    let filter = parser.filter()?;
    parser.end()?;
    Ok(Query { select, from, filter, group_by: Vec::new(), order_by: None, window: None })
}

/// A position in the tokens of a text.
struct Parser<'t> {
    text: &'t str,
    tokens: Vec<Token>,
    at: usize,
    /// How many expressions and queries enclose the current token.
    depth: usize,
    /// Height of the highest expression of the query being read.
    tallest: usize,
}

type Parsed<T> = Result<T, SyntaxError>;

impl<'t> Parser<'t> {
    fn new(text: &'t str) -> Parsed<Self> {
        if text.len() > MAX_TEXT_LENGTH {
            return Err(SyntaxError {
                start: 0,
                end: text.len(),
                near: String::new(),
                expected: format!("a text of at most {MAX_TEXT_LENGTH} bytes"),
                kind: SyntaxErrorKind::TooLarge,
            });
        }
        Ok(Self { text, tokens: tokenize(text)?, at: 0, depth: 0, tallest: 0 })
    }

    /// A query and its height.
    fn query(&mut self) -> Parsed<(Query, usize)> {
        let around = std::mem::take(&mut self.tallest);
        let query = self.clauses()?;
        let height = std::mem::replace(&mut self.tallest, around);
        Ok((query, height))
    }

    fn clauses(&mut self) -> Parsed<Query> {
        self.deeper(|parser| {
            let select = parser.select()?;
            let from = parser.from()?;
            let filter = parser.filter()?;
            let group_by = parser.group_by()?;
            let order_by = parser.order_by()?;
            let window = parser.window()?;
            Ok(Query { select, from, filter, group_by, order_by, window })
        })
    }

    fn select(&mut self) -> Parsed<Select> {
        self.expect_keyword(Keyword::Select)?;
        let distinct = self.accept_keyword(Keyword::Distinct);
        let top = match self.accept_keyword(Keyword::Top) {
            true => Some(self.count()?),
            false => None,
        };
        let projection = if self.accept_keyword(Keyword::Value) {
            Projection::Value(self.expression()?)
        } else if self.accept(Symbol::Asterisk) {
            Projection::All
        } else {
            Projection::List(self.list(Self::select_item)?)
        };
        Ok(Select { distinct, top, projection })
    }

    fn select_item(&mut self) -> Parsed<SelectItem> {
        let expression = self.expression()?;
        let alias = self.alias()?;
        Ok(SelectItem { expression, alias })
    }

    /// `[AS] name`, if there is one.
    fn alias(&mut self) -> Parsed<Option<String>> {
        if self.accept_keyword(Keyword::As) {
            return self.any_word("an alias").map(Some);
        }
        match self.kind() {
            Kind::Identifier => Ok(Some(self.take_text())),
            _ => Ok(None),
        }
    }

    fn from(&mut self) -> Parsed<Option<From>> {
        if !self.accept_keyword(Keyword::From) {
            return Ok(None);
        }
        let source = self.source()?;
        let mut joins = Vec::new();
        while self.accept_keyword(Keyword::Join) {
            if joins.len() == MAX_JOINS {
                return Err(self.too_large(format!("at most {MAX_JOINS} JOINs")));
            }
            joins.push(self.source()?);
        }
        Ok(Some(From { source, joins }))
    }

    fn source(&mut self) -> Parsed<Source> {
        if self.kind() == Kind::Identifier && self.kind_after() == Kind::Keyword(Keyword::In) {
            let alias = self.take_text();
            self.at += 1;
            let collection = self.collection()?;
            return Ok(Source::Elements { alias, collection });
        }
        let collection = self.collection()?;
        let alias = self.alias()?;
        Ok(Source::Collection { collection, alias })
    }

    fn collection(&mut self) -> Parsed<Collection> {
        if self.accept(Symbol::OpenParen) {
            let (query, height) = self.query()?;
            self.expect(Symbol::CloseParen)?;
            self.note_height(height + 1)?;
            return Ok(Collection::Subquery(Box::new(query)));
        }
        let root = self.identifier("a container, a path or a sub-query")?;
        let mut steps = Vec::new();
        loop {
            if self.accept(Symbol::Dot) {
                steps.push(Step::Name(self.property_name()?));
            } else if self.accept(Symbol::OpenBracket) {
                steps.push(self.bracketed_step()?);
                self.expect(Symbol::CloseBracket)?;
            } else {
                return Ok(Collection::Path { root, steps });
            }
        }
    }

    fn bracketed_step(&mut self) -> Parsed<Step> {
        let token = self.token();
        match token.kind {
            Kind::String => {
                self.at += 1;
                string_value(self.text, token).map(Step::Name)
            }
            Kind::Number => self.whole_number().map(Step::Index),
            _ => Err(self.unexpected("a property name in quotes or an array index")),
        }
    }

    fn filter(&mut self) -> Parsed<Option<Expr>> {
        match self.accept_keyword(Keyword::Where) {
            true => self.expression().map(Some),
            false => Ok(None),
        }
    }

    fn group_by(&mut self) -> Parsed<Vec<Expr>> {
        if !self.accept_keyword(Keyword::Group) {
            return Ok(Vec::new());
        }
        self.expect_keyword(Keyword::By)?;
        self.list(Self::expression)
    }

    fn order_by(&mut self) -> Parsed<Option<OrderBy>> {
        if !self.accept_keyword(Keyword::Order) {
            return Ok(None);
        }
        self.expect_keyword(Keyword::By)?;
        if self.accept_keyword(Keyword::Rank) {
            return self.expression().map(OrderBy::Rank).map(Some);
        }
        self.list(Self::order_key).map(OrderBy::Keys).map(Some)
    }

    fn order_key(&mut self) -> Parsed<OrderKey> {
        let expression = self.expression()?;
        let direction = if self.accept_keyword(Keyword::Desc) {
            Direction::Descending
        } else {
            self.accept_keyword(Keyword::Asc);
            Direction::Ascending
        };
        Ok(OrderKey { expression, direction })
    }

    fn window(&mut self) -> Parsed<Option<Window>> {
        if !self.accept_keyword(Keyword::Offset) {
            return Ok(None);
        }
        let offset = self.count()?;
        self.expect_keyword(Keyword::Limit)?;
        let limit = self.count()?;
        Ok(Some(Window { offset, limit }))
    }

    fn count(&mut self) -> Parsed<Count> {
        match self.kind() {
            Kind::Parameter => Ok(Count::Parameter(self.take_text())),
            Kind::Number => self.whole_number().map(Count::Number),
            _ => Err(self.unexpected("a number of rows or a parameter")),
        }
    }

    fn whole_number(&mut self) -> Parsed<u64> {
        let token = self.token();
        let whole = self.text[token.start..token.end].parse().ok();
        let whole = whole.filter(|&count: &u64| i64::try_from(count).is_ok());
        let whole = whole.ok_or_else(|| self.unexpected("a whole number"))?;
        self.at += 1;
        Ok(whole)
    }

    fn end(&mut self) -> Parsed<()> {
        match self.kind() {
            Kind::End => Ok(()),
            _ => Err(self.unexpected("the end of the query")),
        }
    }

    // What every rule above is made of.

    /// One or more of `item`, with commas between.
    fn list<T>(&mut self, item: fn(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.accept(Symbol::Comma) {
            items.push(item(self)?);
        }
        Ok(items)
    }

    /// Remembers that the query being read holds something this high.
    fn note_height(&mut self, height: usize) -> Parsed<()> {
        if height > MAX_DEPTH {
            return Err(self.too_deep());
        }
        self.tallest = self.tallest.max(height);
        Ok(())
    }

    /// Runs `rule` one level further down.
    fn deeper<T>(&mut self, rule: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth == MAX_DEPTH {
            return Err(self.too_deep());
        }
        self.depth += 1;
        let result = rule(self);
        self.depth -= 1;
        result
    }

    fn token(&self) -> Token {
        self.tokens[self.at]
    }

    fn kind(&self) -> Kind {
        self.token().kind
    }

    /// The kind of the token after the current one.
    fn kind_after(&self) -> Kind {
        self.tokens.get(self.at + 1).map_or(Kind::End, |token| token.kind)
    }

    fn at_keyword(&self, keyword: Keyword) -> bool {
        self.kind() == Kind::Keyword(keyword)
    }

    fn accept(&mut self, symbol: Symbol) -> bool {
        self.accept_kind(Kind::Symbol(symbol))
    }

    fn accept_keyword(&mut self, keyword: Keyword) -> bool {
        self.accept_kind(Kind::Keyword(keyword))
    }

    fn accept_kind(&mut self, kind: Kind) -> bool {
        let accepted = self.kind() == kind;
        self.at += usize::from(accepted);
        accepted
    }

    fn expect(&mut self, symbol: Symbol) -> Parsed<()> {
        match self.accept(symbol) {
            true => Ok(()),
            false => Err(self.unexpected(&format!("'{}'", symbol.text()))),
        }
    }

    fn expect_keyword(&mut self, keyword: Keyword) -> Parsed<()> {
        match self.accept_keyword(keyword) {
            true => Ok(()),
            false => Err(self.unexpected(keyword.text())),
        }
    }

    fn identifier(&mut self, expected: &str) -> Parsed<String> {
        match self.kind() {
            Kind::Identifier => Ok(self.take_text()),
            _ => Err(self.unexpected(expected)),
        }
    }

    /// The name after a dot. A reserved word is no name there: `c["order"]`, not `c.order`, as in the
    /// service. `RANK` is reserved in `ORDER BY RANK` alone.
    fn property_name(&mut self) -> Parsed<String> {
        match self.kind() {
            Kind::Identifier | Kind::Keyword(Keyword::Rank) => Ok(self.take_text()),
            Kind::Keyword(_) => Err(self.unexpected(
                "a property name; a reserved word goes in brackets and quotes, as in c[\"order\"]",
            )),
            _ => Err(self.unexpected("a property name")),
        }
    }

    /// A word where nothing but a name can stand, so that reserved words need no quotes.
    fn any_word(&mut self, expected: &str) -> Parsed<String> {
        match self.kind() {
            Kind::Identifier | Kind::Keyword(_) => Ok(self.take_text()),
            _ => Err(self.unexpected(expected)),
        }
    }

    fn take_text(&mut self) -> String {
        let token = self.token();
        self.at += 1;
        self.text[token.start..token.end].to_owned()
    }

    fn unexpected(&self, expected: &str) -> SyntaxError {
        self.error(expected.to_owned(), SyntaxErrorKind::Unexpected)
    }

    fn too_deep(&self) -> SyntaxError {
        self.too_large(format!("at most {MAX_DEPTH} levels of nesting"))
    }

    fn too_large(&self, expected: String) -> SyntaxError {
        self.error(expected, SyntaxErrorKind::TooLarge)
    }

    fn error(&self, expected: String, kind: SyntaxErrorKind) -> SyntaxError {
        let Token { start, end, .. } = self.token();
        SyntaxError { start, end, near: excerpt(&self.text[start..end]), expected, kind }
    }
}

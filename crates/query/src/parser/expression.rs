//! Expressions: precedence climbing over operators, descent into everything with brackets.
//!
//! Every rule gives the expression and its height. A chain of left-associative operators is read in
//! a loop yet makes a deep tree, so the height is checked as well as the recursion.

use super::{Parsed, Parser};
use crate::lexer::{Keyword, Kind, Symbol, number_value, string_value};
use crate::limits::MAX_DEPTH;
use crate::tree::{BinaryOp, Expr, Literal, Precedence, Spelled, UnaryOp};

/// An expression and how many levels it has.
struct Grown {
    expression: Expr,
    height: usize,
}

impl Grown {
    fn leaf(expression: Expr) -> Self {
        Self { expression, height: 1 }
    }
}

impl Parser<'_> {
    pub(super) fn expression(&mut self) -> Parsed<Expr> {
        let grown = self.climb(Precedence::Conditional)?;
        self.note_height(grown.height)?;
        Ok(grown.expression)
    }

    /// Reads an expression made of operators that bind at least as tightly as `loosest`.
    fn climb(&mut self, loosest: Precedence) -> Parsed<Grown> {
        self.deeper(|parser| {
            let mut left = parser.unary()?;
            loop {
                let Some((operator, precedence)) = parser.operator() else { return Ok(left) };
                if precedence < loosest {
                    return Ok(left);
                }
                left = parser.operation(left, operator, precedence)?;
            }
        })
    }

    /// The operator at the current token.
    fn operator(&self) -> Option<(Operator, Precedence)> {
        let operator = match self.kind() {
            Kind::Keyword(Keyword::And) => return Some((Operator::And, Precedence::And)),
            Kind::Keyword(Keyword::Or) => return Some((Operator::Or, Precedence::Or)),
            Kind::Keyword(Keyword::In | Keyword::Between | Keyword::Like) => {
                return Some((Operator::Membership, Precedence::Membership));
            }
            Kind::Keyword(Keyword::Not) => match self.kind_after() {
                Kind::Keyword(Keyword::In | Keyword::Between | Keyword::Like) => {
                    return Some((Operator::Membership, Precedence::Membership));
                }
                _ => return None,
            },
            Kind::Symbol(Symbol::Question) => {
                return Some((Operator::Conditional, Precedence::Conditional));
            }
            Kind::Symbol(symbol) => binary_operator(symbol)?,
            _ => return None,
        };
        Some((Operator::Binary(operator), operator.precedence()))
    }

    /// Reads what follows `left` of the operation that starts at the current token.
    fn operation(&mut self, left: Grown, operator: Operator, at: Precedence) -> Parsed<Grown> {
        match operator {
            Operator::Binary(op) => {
                self.at += 1;
                let right = self.climb(at.tighter())?;
                let height = left.height.max(right.height);
                let operands = (Box::new(left.expression), Box::new(right.expression));
                self.grow(height, Expr::Binary(op, operands.0, operands.1))
            }
            Operator::And => self.chain(left, Keyword::And, at, Expr::And),
            Operator::Or => self.chain(left, Keyword::Or, at, Expr::Or),
            Operator::Conditional => self.conditional(left),
            Operator::Membership => self.membership(left),
        }
    }

    fn chain(
        &mut self,
        left: Grown,
        keyword: Keyword,
        at: Precedence,
        node: fn(Vec<Expr>) -> Expr,
    ) -> Parsed<Grown> {
        let mut height = left.height;
        let mut terms = vec![left.expression];
        while self.accept_keyword(keyword) {
            let term = self.climb(at.tighter())?;
            height = height.max(term.height);
            terms.push(term.expression);
        }
        self.grow(height, node(terms))
    }

    fn conditional(&mut self, condition: Grown) -> Parsed<Grown> {
        self.expect(Symbol::Question)?;
        let yes = self.climb(Precedence::Conditional)?;
        self.expect(Symbol::Colon)?;
        let no = self.climb(Precedence::Conditional)?;
        let height = condition.height.max(yes.height).max(no.height);
        let operands = [condition.expression, yes.expression, no.expression];
        self.grow(height, Expr::Conditional(Box::new(operands)))
    }

    /// `[NOT] IN (…)`, `[NOT] BETWEEN … AND …`, `[NOT] LIKE … [ESCAPE …]`
    fn membership(&mut self, left: Grown) -> Parsed<Grown> {
        let negated = self.accept_keyword(Keyword::Not);
        let operand = Precedence::Membership.tighter();
        if self.accept_keyword(Keyword::In) {
            self.expect(Symbol::OpenParen)?;
            let (list, height) = self.expressions()?;
            self.expect(Symbol::CloseParen)?;
            let value = Box::new(left.expression);
            return self.grow(left.height.max(height), Expr::In { negated, value, list });
        }
        if self.accept_keyword(Keyword::Between) {
            let low = self.climb(operand)?;
            self.expect_keyword(Keyword::And)?;
            let high = self.climb(operand)?;
            let height = left.height.max(low.height).max(high.height);
            let operands = Box::new([left.expression, low.expression, high.expression]);
            return self.grow(height, Expr::Between { negated, operands });
        }
        self.expect_keyword(Keyword::Like)?;
        let pattern = self.climb(operand)?;
        let escape = match self.accept_keyword(Keyword::Escape) {
            true => Some(self.string("the escape character in quotes")?),
            false => None,
        };
        let height = left.height.max(pattern.height);
        let operands = Box::new([left.expression, pattern.expression]);
        self.grow(height, Expr::Like { negated, operands, escape })
    }

    fn unary(&mut self) -> Parsed<Grown> {
        let op = match self.kind() {
            Kind::Keyword(Keyword::Not) => UnaryOp::Not,
            Kind::Symbol(Symbol::Minus) => UnaryOp::Minus,
            Kind::Symbol(Symbol::Plus) => UnaryOp::Plus,
            Kind::Symbol(Symbol::Tilde) => UnaryOp::BitNot,
            _ => return self.postfix(),
        };
        self.at += 1;
        let operand = self.deeper(Self::unary)?;
        self.grow(operand.height, Expr::Unary(op, Box::new(operand.expression)))
    }

    /// A primary expression and the `.name`s and `[index]`es after it.
    fn postfix(&mut self) -> Parsed<Grown> {
        let mut base = self.primary()?;
        loop {
            let height = base.height;
            let object = Box::new(base.expression);
            if self.accept(Symbol::Dot) {
                let name = self.property_name()?;
                base = self.grow(height, Expr::Property(object, name))?;
            } else if self.accept(Symbol::OpenBracket) {
                let index = self.climb(Precedence::Conditional)?;
                self.expect(Symbol::CloseBracket)?;
                base = match index.expression {
                    Expr::Literal(Literal::String(name)) => {
                        self.grow(height, Expr::Property(object, name.into_value()))?
                    }
                    expression => {
                        let height = height.max(index.height);
                        self.grow(height, Expr::Index(object, Box::new(expression)))?
                    }
                };
            } else {
                return Ok(Grown { expression: *object, height });
            }
        }
    }

    fn primary(&mut self) -> Parsed<Grown> {
        let token = self.token();
        match token.kind {
            Kind::Identifier => return self.name_or_call(),
            Kind::Keyword(keyword) => return self.keyword_expression(keyword),
            Kind::Symbol(Symbol::OpenParen) => return self.parenthesised(),
            Kind::Symbol(Symbol::OpenBracket) => return self.array(),
            Kind::Symbol(Symbol::OpenBrace) => return self.object(),
            Kind::End | Kind::Symbol(_) => return Err(self.unexpected("an expression")),
            Kind::Parameter | Kind::Number | Kind::String | Kind::ResumeFilter => self.at += 1,
        }
        let expression = match token.kind {
            Kind::Parameter => Expr::Parameter(self.text[token.start..token.end].to_owned()),
            Kind::Number => Expr::Literal(Literal::Number(Spelled::new(
                number_value(self.text, token)?,
                &self.text[token.start..token.end],
            ))),
            Kind::String => Expr::Literal(Literal::String(Spelled::new(
                string_value(self.text, token)?,
                &self.text[token.start..token.end],
            ))),
            _ => Expr::ResumeFilter,
        };
        Ok(Grown::leaf(expression))
    }

    fn keyword_expression(&mut self, keyword: Keyword) -> Parsed<Grown> {
        let literal = match keyword {
            Keyword::True => Literal::Bool(true),
            Keyword::False => Literal::Bool(false),
            Keyword::Null => Literal::Null,
            Keyword::Undefined => Literal::Undefined,
            Keyword::Exists => return self.over_query(Expr::Exists),
            Keyword::Array => return self.over_query(Expr::ArrayOf),
            _ => return Err(self.unexpected("an expression")),
        };
        self.at += 1;
        Ok(Grown::leaf(Expr::Literal(literal)))
    }

    /// `EXISTS(SELECT …)`, `ARRAY(SELECT …)`
    fn over_query(&mut self, node: fn(Box<crate::tree::Query>) -> Expr) -> Parsed<Grown> {
        self.at += 1;
        self.expect(Symbol::OpenParen)?;
        let (query, height) = self.query()?;
        self.expect(Symbol::CloseParen)?;
        self.grow(height, node(Box::new(query)))
    }

    fn parenthesised(&mut self) -> Parsed<Grown> {
        self.expect(Symbol::OpenParen)?;
        let inner = if self.at_keyword(Keyword::Select) {
            let (query, height) = self.query()?;
            self.grow(height, Expr::Subquery(Box::new(query)))?
        } else {
            self.climb(Precedence::Conditional)?
        };
        self.expect(Symbol::CloseParen)?;
        Ok(inner)
    }

    fn name_or_call(&mut self) -> Parsed<Grown> {
        let name = self.take_text();
        let user_defined = name.eq_ignore_ascii_case("udf")
            && self.kind() == Kind::Symbol(Symbol::Dot)
            && self.tokens.get(self.at + 2).map(|token| token.kind)
                == Some(Kind::Symbol(Symbol::OpenParen));
        if user_defined {
            self.at += 1;
            let name = self.any_word("the name of a user-defined function")?;
            let (arguments, height) = self.arguments()?;
            return self.grow(height, Expr::UserCall { name, arguments });
        }
        if self.kind() != Kind::Symbol(Symbol::OpenParen) {
            return Ok(Grown::leaf(Expr::Identifier(name)));
        }
        let (arguments, height) = self.arguments()?;
        self.grow(height, Expr::Call { name, arguments })
    }

    fn arguments(&mut self) -> Parsed<(Vec<Expr>, usize)> {
        self.expect(Symbol::OpenParen)?;
        if self.accept(Symbol::CloseParen) {
            return Ok((Vec::new(), 0));
        }
        let arguments = self.expressions()?;
        self.expect(Symbol::CloseParen)?;
        Ok(arguments)
    }

    fn array(&mut self) -> Parsed<Grown> {
        self.expect(Symbol::OpenBracket)?;
        if self.accept(Symbol::CloseBracket) {
            return Ok(Grown::leaf(Expr::Array(Vec::new())));
        }
        let (items, height) = self.expressions()?;
        self.expect(Symbol::CloseBracket)?;
        self.grow(height, Expr::Array(items))
    }

    fn object(&mut self) -> Parsed<Grown> {
        self.expect(Symbol::OpenBrace)?;
        let mut members = Vec::new();
        let mut height = 0;
        if !self.accept(Symbol::CloseBrace) {
            loop {
                let name = match self.kind() {
                    Kind::String => self.string("a property name")?,
                    _ => self.any_word("a property name or '}'")?,
                };
                self.expect(Symbol::Colon)?;
                let value = self.climb(Precedence::Conditional)?;
                height = height.max(value.height);
                members.push((name, value.expression));
                if !self.accept(Symbol::Comma) {
                    break;
                }
            }
            self.expect(Symbol::CloseBrace)?;
        }
        self.grow(height, Expr::Object(members))
    }

    /// One or more expressions with commas between, and the height of the highest.
    fn expressions(&mut self) -> Parsed<(Vec<Expr>, usize)> {
        let mut height = 0;
        let mut expressions = Vec::new();
        loop {
            let next = self.climb(Precedence::Conditional)?;
            height = height.max(next.height);
            expressions.push(next.expression);
            if !self.accept(Symbol::Comma) {
                return Ok((expressions, height));
            }
        }
    }

    fn string(&mut self, expected: &str) -> Parsed<String> {
        let token = self.token();
        if token.kind != Kind::String {
            return Err(self.unexpected(expected));
        }
        self.at += 1;
        string_value(self.text, token)
    }

    /// Puts `expression` on top of operands of the given height.
    fn grow(&self, operands: usize, expression: Expr) -> Parsed<Grown> {
        if operands >= MAX_DEPTH {
            return Err(self.too_deep());
        }
        Ok(Grown { expression, height: operands + 1 })
    }
}

#[derive(Clone, Copy)]
enum Operator {
    Binary(BinaryOp),
    And,
    Or,
    Conditional,
    Membership,
}

fn binary_operator(symbol: Symbol) -> Option<BinaryOp> {
    Some(match symbol {
        Symbol::QuestionQuestion => BinaryOp::Coalesce,
        Symbol::PipePipe => BinaryOp::Concat,
        Symbol::Pipe => BinaryOp::BitOr,
        Symbol::Caret => BinaryOp::BitXor,
        Symbol::Ampersand => BinaryOp::BitAnd,
        Symbol::Equal => BinaryOp::Equal,
        Symbol::NotEqual => BinaryOp::NotEqual,
        Symbol::Less => BinaryOp::Less,
        Symbol::LessOrEqual => BinaryOp::LessOrEqual,
        Symbol::Greater => BinaryOp::Greater,
        Symbol::GreaterOrEqual => BinaryOp::GreaterOrEqual,
        Symbol::ShiftLeft => BinaryOp::ShiftLeft,
        Symbol::ShiftRight => BinaryOp::ShiftRight,
        Symbol::ShiftRightUnsigned => BinaryOp::ShiftRightUnsigned,
        Symbol::Plus => BinaryOp::Add,
        Symbol::Minus => BinaryOp::Subtract,
        Symbol::Asterisk => BinaryOp::Multiply,
        Symbol::Slash => BinaryOp::Divide,
        Symbol::Percent => BinaryOp::Modulo,
        _ => return None,
    })
}

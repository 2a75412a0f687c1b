//! Tree to text, in the layout of the service's rewritten queries: one clause a line.
//!
//! Parentheses appear only where the tree needs them, so parsing the text gives the tree again.

use std::fmt::{self, Display, Formatter, Write};

use crate::lexer::{RESUME_FILTER, is_identifier};
use crate::tree::{
    Collection, Count, Direction, Expr, From, Literal, OrderBy, OrderKey, Precedence, Projection,
    Query, Select, SelectItem, Source, Step, UnaryOp, Window,
};

impl Display for Query {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.select.fmt(f)?;
        if let Some(from) = &self.from {
            write!(f, "\n{from}")?;
        }
        if let Some(filter) = &self.filter {
            write!(f, "\nWHERE {filter}")?;
        }
        if !self.group_by.is_empty() {
            f.write_str("\nGROUP BY ")?;
            separated(f, &self.group_by)?;
        }
        match &self.order_by {
            None => {}
            Some(OrderBy::Rank(expression)) => write!(f, "\nORDER BY RANK {expression}")?,
            Some(OrderBy::Keys(keys)) => {
                f.write_str("\nORDER BY ")?;
                separated(f, keys)?;
            }
        }
        match &self.window {
            None => Ok(()),
            Some(Window { offset, limit }) => write!(f, "\nOFFSET {offset} LIMIT {limit}"),
        }
    }
}

impl Display for Select {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("SELECT ")?;
        if self.distinct {
            f.write_str("DISTINCT ")?;
        }
        if let Some(top) = &self.top {
            write!(f, "TOP {top} ")?;
        }
        match &self.projection {
            Projection::All => f.write_char('*'),
            Projection::Value(expression) => write!(f, "VALUE {expression}"),
            Projection::List(items) => separated(f, items),
        }
    }
}

impl Display for SelectItem {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.expression.fmt(f)?;
        match &self.alias {
            Some(alias) => write!(f, " AS {alias}"),
            None => Ok(()),
        }
    }
}

impl Display for Count {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Parameter(name) => f.write_str(name),
        }
    }
}

impl Display for From {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "FROM {}", self.source)?;
        self.joins.iter().try_for_each(|join| write!(f, "\nJOIN {join}"))
    }
}

impl Display for Source {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Elements { alias, collection } => write!(f, "{alias} IN {collection}"),
            Self::Collection { collection, alias: Some(alias) } => {
                write!(f, "{collection} AS {alias}")
            }
            Self::Collection { collection, alias: None } => collection.fmt(f),
        }
    }
}

impl Display for Collection {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Subquery(query) => write!(f, "({query})"),
            Self::Path { root, steps } => {
                f.write_str(root)?;
                steps.iter().try_for_each(|step| match step {
                    Step::Name(name) => property(f, name),
                    Step::Index(index) => write!(f, "[{index}]"),
                })
            }
        }
    }
}

impl Display for OrderKey {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let direction = match self.direction {
            Direction::Ascending => "ASC",
            Direction::Descending => "DESC",
        };
        write!(f, "{} {direction}", self.expression)
    }
}

impl Display for Expr {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Literal(literal) => literal.fmt(f),
            Self::Parameter(name) | Self::Identifier(name) => f.write_str(name),
            Self::Property(base, name) => {
                operand(f, base, Precedence::Primary)?;
                property(f, name)
            }
            Self::Index(base, index) => {
                operand(f, base, Precedence::Primary)?;
                write!(f, "[{index}]")
            }
            Self::Unary(op, inner) => unary(f, *op, inner),
            Self::Binary(op, left, right) => {
                operand(f, left, op.precedence())?;
                write!(f, " {} ", op.symbol())?;
                operand(f, right, op.precedence().tighter())
            }
            Self::And(terms) => chain(f, terms, " AND ", Precedence::And),
            Self::Or(terms) => chain(f, terms, " OR ", Precedence::Or),
            Self::Conditional(operands) => {
                operand(f, &operands[0], Precedence::Coalesce)?;
                write!(f, " ? {} : {}", operands[1], operands[2])
            }
            Self::Between { .. } | Self::In { .. } | Self::Like { .. } => membership(f, self),
            Self::Call { name, arguments } => call(f, name, arguments),
            Self::UserCall { name, arguments } => {
                f.write_str("udf.")?;
                call(f, name, arguments)
            }
            Self::Array(items) => {
                f.write_char('[')?;
                separated(f, items)?;
                f.write_char(']')
            }
            Self::Object(members) => object(f, members),
            Self::Exists(query) => write!(f, "EXISTS({query})"),
            Self::ArrayOf(query) => write!(f, "ARRAY({query})"),
            Self::Subquery(query) => write!(f, "({query})"),
            // A client substitutes text here, which may hold an OR.
            Self::ResumeFilter => write!(f, "({RESUME_FILTER})"),
        }
    }
}

impl Display for Literal {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Undefined => f.write_str("undefined"),
            Self::Null => f.write_str("null"),
            Self::Bool(value) => value.fmt(f),
            // As the caller wrote it: servers differ in the quotes and escapes that they understand.
            Self::Number(number) => match number.text() {
                Some(text) => f.write_str(text),
                None => number.fmt(f),
            },
            Self::String(string) => match string.text() {
                Some(text) => f.write_str(text),
                None => quoted(f, string),
            },
        }
    }
}

/// Writes an operand, in parentheses if it binds more loosely than its context allows.
fn operand(f: &mut Formatter<'_>, expression: &Expr, loosest: Precedence) -> fmt::Result {
    if expression.precedence() < loosest { write!(f, "({expression})") } else { expression.fmt(f) }
}

fn unary(f: &mut Formatter<'_>, op: UnaryOp, inner: &Expr) -> fmt::Result {
    // The blank keeps `- -x` from becoming a comment.
    f.write_str(match op {
        UnaryOp::Not => "NOT ",
        UnaryOp::Minus if matches!(inner, Expr::Unary(..)) => "- ",
        UnaryOp::Minus => "-",
        UnaryOp::Plus => "+",
        UnaryOp::BitNot => "~",
    })?;
    operand(f, inner, Precedence::Unary)
}

fn chain(
    f: &mut Formatter<'_>,
    terms: &[Expr],
    between: &str,
    precedence: Precedence,
) -> fmt::Result {
    for (i, term) in terms.iter().enumerate() {
        if i > 0 {
            f.write_str(between)?;
        }
        operand(f, term, precedence.tighter())?;
    }
    Ok(())
}

fn membership(f: &mut Formatter<'_>, expression: &Expr) -> fmt::Result {
    let inside = Precedence::Membership.tighter();
    let not = |negated: &bool| if *negated { " NOT" } else { "" };
    match expression {
        Expr::Between { negated, operands } => {
            operand(f, &operands[0], inside)?;
            write!(f, "{} BETWEEN ", not(negated))?;
            operand(f, &operands[1], inside)?;
            f.write_str(" AND ")?;
            operand(f, &operands[2], inside)
        }
        Expr::In { negated, value, list } => {
            operand(f, value, inside)?;
            write!(f, "{} IN (", not(negated))?;
            separated(f, list)?;
            f.write_char(')')
        }
        Expr::Like { negated, operands, escape } => {
            operand(f, &operands[0], inside)?;
            write!(f, "{} LIKE ", not(negated))?;
            operand(f, &operands[1], inside)?;
            let Some(escape) = escape else { return Ok(()) };
            f.write_str(" ESCAPE ")?;
            quoted(f, escape)
        }
        _ => unreachable!("only membership operators come here"),
    }
}

fn call(f: &mut Formatter<'_>, name: &str, arguments: &[Expr]) -> fmt::Result {
    write!(f, "{name}(")?;
    separated(f, arguments)?;
    f.write_char(')')
}

fn object(f: &mut Formatter<'_>, members: &[(String, Expr)]) -> fmt::Result {
    f.write_char('{')?;
    for (i, (name, value)) in members.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        quoted(f, name)?;
        write!(f, ": {value}")?;
    }
    f.write_char('}')
}

fn separated<T: Display>(f: &mut Formatter<'_>, items: &[T]) -> fmt::Result {
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            f.write_str(", ")?;
        }
        item.fmt(f)?;
    }
    Ok(())
}

/// `.name` if that reads back as the same name, else `["name"]`.
fn property(f: &mut Formatter<'_>, name: &str) -> fmt::Result {
    if is_identifier(name) {
        f.write_char('.')?;
        return f.write_str(name);
    }
    f.write_char('[')?;
    quoted(f, name)?;
    f.write_char(']')
}

fn quoted(f: &mut Formatter<'_>, text: &str) -> fmt::Result {
    let plain = |byte: u8| byte >= b' ' && byte != b'"' && byte != b'\\';
    if text.bytes().all(plain) {
        f.write_char('"')?;
        f.write_str(text)?;
        return f.write_char('"');
    }
    let json = serde_json::to_string(text).map_err(|_| fmt::Error)?;
    f.write_str(&json)
}

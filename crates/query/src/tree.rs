//! The syntax tree: what the text says, before any name is resolved.
//!
//! The tree keeps no positions and no spelling: parsing what its `Display` writes gives the same
//! tree again. Chains of `AND` and of `OR` are flat lists, for generated filters with
//! thousands of terms are common and must not nest.

use std::ops::Deref;

use serde_json::Number;

/// A query, or a sub-query.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// `SELECT …`
    pub select: Select,
    /// `FROM …`
    pub from: Option<From>,
    /// `WHERE …`
    pub filter: Option<Expr>,
    /// `GROUP BY …`, empty if there is none.
    pub group_by: Vec<Expr>,
    /// `ORDER BY …`
    pub order_by: Option<OrderBy>,
    /// `OFFSET … LIMIT …`
    pub window: Option<Window>,
}

/// The `SELECT` clause.
#[derive(Clone, Debug, PartialEq)]
pub struct Select {
    /// `DISTINCT`
    pub distinct: bool,
    /// `TOP n`
    pub top: Option<Count>,
    /// The expression of each row.
    pub projection: Projection,
}

/// The expressions of each row.
#[derive(Clone, Debug, PartialEq)]
pub enum Projection {
    /// `*`
    All,
    /// `VALUE expression`
    Value(Expr),
    /// `expression [AS alias], …`
    List(Vec<SelectItem>),
}

/// One member of a select list.
#[derive(Clone, Debug, PartialEq)]
pub struct SelectItem {
    /// The value.
    pub expression: Expr,
    /// Its name, if the text gives one.
    pub alias: Option<String>,
}

/// A number of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Count {
    /// Written out.
    Number(u64),
    /// A parameter, with its `@`.
    Parameter(String),
}

/// `OFFSET … LIMIT …`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// Rows left out.
    pub offset: Count,
    /// Rows given after that.
    pub limit: Count,
}

/// The `FROM` clause: one source and what is joined to it.
#[derive(Clone, Debug, PartialEq)]
pub struct From {
    /// The first source.
    pub source: Source,
    /// `JOIN …`, in order.
    pub joins: Vec<Source>,
}

/// Where rows come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// `collection [AS alias]`: each value of the collection.
    Collection {
        /// The values.
        collection: Collection,
        /// The name they are bound to.
        alias: Option<String>,
    },
    /// `alias IN collection`: each element of each array of the collection.
    Elements {
        /// The name each element is bound to.
        alias: String,
        /// The arrays.
        collection: Collection,
    },
}

/// The values a source reads.
#[derive(Clone, Debug, PartialEq)]
pub enum Collection {
    /// `c`, `c.children`, `c["children"][0]`
    Path {
        /// The container, or an alias from further out.
        root: String,
        /// The way down from there.
        steps: Vec<Step>,
    },
    /// `(SELECT …)`
    Subquery(Box<Query>),
}

/// One step of a path in `FROM`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// `.name` or `["name"]`
    Name(String),
    /// `[3]`
    Index(u64),
}

/// The `ORDER BY` clause.
#[derive(Clone, Debug, PartialEq)]
pub enum OrderBy {
    /// `expression [ASC|DESC], …`
    Keys(Vec<OrderKey>),
    /// `RANK expression`
    Rank(Expr),
}

/// One sort key.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderKey {
    /// The value that is compared.
    pub expression: Expr,
    /// Which way.
    pub direction: Direction,
}

/// A sort direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Smallest first.
    Ascending,
    /// Largest first.
    Descending,
}

/// A scalar expression.
#[derive(Clone, Debug, PartialEq)]
pub enum Expr {
    /// A constant.
    Literal(Literal),
    /// `@name`
    Parameter(String),
    /// An alias.
    Identifier(String),
    /// `base.name` or `base["name"]`
    Property(Box<Expr>, String),
    /// `base[index]`, the index being anything but a constant string.
    Index(Box<Expr>, Box<Expr>),
    /// `-x`, `NOT x`, …
    Unary(UnaryOp, Box<Expr>),
    /// `x + y`, `x = y`, …
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `x AND y AND …`, at least two terms.
    And(Vec<Expr>),
    /// `x OR y OR …`, at least two terms.
    Or(Vec<Expr>),
    /// `condition ? yes : no`
    Conditional(Box<[Expr; 3]>),
    /// `value [NOT] BETWEEN low AND high`
    Between {
        /// Whether `NOT` was there.
        negated: bool,
        /// Value, low bound, high bound.
        operands: Box<[Expr; 3]>,
    },
    /// `value [NOT] IN (list)`
    In {
        /// Whether `NOT` was there.
        negated: bool,
        /// The value looked for.
        value: Box<Expr>,
        /// Where it is looked for.
        list: Vec<Expr>,
    },
    /// `value [NOT] LIKE pattern [ESCAPE 'c']`
    Like {
        /// Whether `NOT` was there.
        negated: bool,
        /// The text and the pattern.
        operands: Box<[Expr; 2]>,
        /// The escape, as written.
        escape: Option<String>,
    },
    /// `name(arguments)`
    Call {
        /// The function, as written.
        name: String,
        /// Its arguments.
        arguments: Vec<Expr>,
    },
    /// `udf.name(arguments)`
    UserCall {
        /// The function, as written.
        name: String,
        /// Its arguments.
        arguments: Vec<Expr>,
    },
    /// `[x, y, …]`
    Array(Vec<Expr>),
    /// `{"name": x, …}`
    Object(Vec<(String, Expr)>),
    /// `EXISTS(SELECT …)`
    Exists(Box<Query>),
    /// `ARRAY(SELECT …)`
    ArrayOf(Box<Query>),
    /// `(SELECT …)`
    Subquery(Box<Query>),
    /// The placeholder in a rewritten `ORDER BY` query for a client's resume filter; true until it
    /// is substituted.
    ResumeFilter,
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `undefined`
    Undefined,
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number, never negative.
    Number(Spelled<Number>),
    /// Text.
    String(Spelled<String>),
}

/// The value of a literal with the text that it was written as, which is what it is printed as. Two are equal if their
/// values are.
#[derive(Clone, Debug)]
pub struct Spelled<T> {
    value: T,
    text: Option<Box<str>>,
}

impl<T> Spelled<T> {
    /// A value that was written as `text`, quotes included.
    pub(crate) fn new(value: T, text: &str) -> Self {
        Self { value, text: Some(text.into()) }
    }

    /// The text that it was written as; none of a value that was not read from a query.
    pub(crate) fn text(&self) -> Option<&str> {
        self.text.as_deref()
    }

    /// The value.
    pub fn into_value(self) -> T {
        self.value
    }
}

impl<T> std::convert::From<T> for Spelled<T> {
    fn from(value: T) -> Self {
        Self { value, text: None }
    }
}

impl<T> Deref for Spelled<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: PartialEq> PartialEq for Spelled<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

/// An operator before its operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnaryOp {
    /// `NOT`
    Not,
    /// `-`
    Minus,
    /// `+`
    Plus,
    /// `~`
    BitNot,
}

/// An operator between two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryOp {
    /// `??`
    Coalesce,
    /// `||`
    Concat,
    /// `|`
    BitOr,
    /// `^`
    BitXor,
    /// `&`
    BitAnd,
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
    /// `<<`
    ShiftLeft,
    /// `>>`
    ShiftRight,
    /// `>>>`
    ShiftRightUnsigned,
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`
    Divide,
    /// `%`
    Modulo,
}

/// How tightly an expression holds together, loosest first.
///
/// The parser climbs these levels and the printer decides by them where parentheses are needed, so
/// the two cannot disagree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Precedence {
    Conditional,
    Coalesce,
    Or,
    And,
    /// `IN`, `BETWEEN` and `LIKE`, which do not chain.
    Membership,
    Concat,
    BitOr,
    BitXor,
    BitAnd,
    Equality,
    Relational,
    Shift,
    Additive,
    Multiplicative,
    Unary,
    Primary,
}

impl Precedence {
    /// The next tighter level: where the right operand of a left-associative operator starts.
    pub(crate) fn tighter(self) -> Self {
        match self {
            Self::Conditional => Self::Coalesce,
            Self::Coalesce => Self::Or,
            Self::Or => Self::And,
            Self::And => Self::Membership,
            Self::Membership => Self::Concat,
            Self::Concat => Self::BitOr,
            Self::BitOr => Self::BitXor,
            Self::BitXor => Self::BitAnd,
            Self::BitAnd => Self::Equality,
            Self::Equality => Self::Relational,
            Self::Relational => Self::Shift,
            Self::Shift => Self::Additive,
            Self::Additive => Self::Multiplicative,
            Self::Multiplicative => Self::Unary,
            Self::Unary | Self::Primary => Self::Primary,
        }
    }
}

impl BinaryOp {
    pub(crate) fn precedence(self) -> Precedence {
        match self {
            Self::Coalesce => Precedence::Coalesce,
            Self::Concat => Precedence::Concat,
            Self::BitOr => Precedence::BitOr,
            Self::BitXor => Precedence::BitXor,
            Self::BitAnd => Precedence::BitAnd,
            Self::Equal | Self::NotEqual => Precedence::Equality,
            Self::Less | Self::LessOrEqual | Self::Greater | Self::GreaterOrEqual => {
                Precedence::Relational
            }
            Self::ShiftLeft | Self::ShiftRight | Self::ShiftRightUnsigned => Precedence::Shift,
            Self::Add | Self::Subtract => Precedence::Additive,
            Self::Multiply | Self::Divide | Self::Modulo => Precedence::Multiplicative,
        }
    }

    pub(crate) fn symbol(self) -> &'static str {
        match self {
            Self::Coalesce => "??",
            Self::Concat => "||",
            Self::BitOr => "|",
            Self::BitXor => "^",
            Self::BitAnd => "&",
            Self::Equal => "=",
            Self::NotEqual => "!=",
            Self::Less => "<",
            Self::LessOrEqual => "<=",
            Self::Greater => ">",
            Self::GreaterOrEqual => ">=",
            Self::ShiftLeft => "<<",
            Self::ShiftRight => ">>",
            Self::ShiftRightUnsigned => ">>>",
            Self::Add => "+",
            Self::Subtract => "-",
            Self::Multiply => "*",
            Self::Divide => "/",
            Self::Modulo => "%",
        }
    }
}

impl Expr {
    pub(crate) fn precedence(&self) -> Precedence {
        match self {
            Self::Conditional(_) => Precedence::Conditional,
            Self::Or(_) => Precedence::Or,
            Self::And(_) => Precedence::And,
            Self::Between { .. } | Self::In { .. } | Self::Like { .. } => Precedence::Membership,
            Self::Binary(op, ..) => op.precedence(),
            Self::Unary(..) => Precedence::Unary,
            _ => Precedence::Primary,
        }
    }

    /// The name a select list gives this expression when the text gives none.
    pub(crate) fn natural_name(&self) -> Option<&str> {
        match self {
            Self::Identifier(name) | Self::Property(_, name) => Some(name),
            _ => None,
        }
    }

    /// `self.name`
    pub(crate) fn property(self, name: &str) -> Self {
        Self::Property(Box::new(self), name.to_owned())
    }

    /// `name(arguments)`
    pub(crate) fn call(name: &str, arguments: Vec<Self>) -> Self {
        Self::Call { name: name.to_owned(), arguments }
    }
}

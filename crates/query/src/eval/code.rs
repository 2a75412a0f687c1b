//! The compiled form: every name resolved to a slot, every constant bound, every function found.
//!
//! A frame is one flat array of values. Slot 0 holds the document; each alias of each `FROM`,
//! sub-queries included, has a slot of its own, so an inner query reads an outer alias as cheaply
//! as its own.

use std::collections::HashSet;

use serde_json::Value;
use sidereal_protocol::AggregateType;

use super::pattern::Pattern;
use crate::functions::Function;
use crate::tree::{BinaryOp, Direction, UnaryOp};

/// The slot that holds the document.
pub(crate) const DOCUMENT: usize = 0;

/// A compiled expression.
#[derive(Debug)]
pub(crate) enum Code {
    Undefined,
    Constant(Value),
    /// A slot and the constant steps down from it.
    Path(usize, Box<[StepCode]>),
    Property(Box<Code>, Box<str>),
    Index(Box<Code>, Box<Code>),
    Unary(UnaryOp, Box<Code>),
    Binary(BinaryOp, Box<Code>, Box<Code>),
    And(Box<[Code]>),
    Or(Box<[Code]>),
    Conditional(Box<[Code; 3]>),
    Between(bool, Box<[Code; 3]>),
    In(bool, Box<Code>, Box<[Code]>),
    /// Membership in a list of constants, by their identity.
    InSet(bool, Box<Code>, HashSet<Vec<u8>>),
    Like(bool, Box<Code>, Matcher),
    RegexMatch(Box<Code>, Matcher),
    Call(&'static Function, Box<[Code]>),
    Array(Box<[Code]>),
    Object(Box<[(Box<str>, Code)]>),
    Exists(Box<Block>),
    ArrayOf(Box<Block>),
    Subquery(Box<Block>),
    /// The value of a `GROUP BY` expression for the group being projected.
    GroupKey(usize),
    /// The result of an aggregate for the group being projected.
    Aggregate(usize),
}

/// One constant step down a path.
#[derive(Debug)]
pub(crate) enum StepCode {
    Name(Box<str>),
    Index(usize),
}

/// The pattern that text is matched against: compiled with the query if it is constant, per row otherwise.
#[derive(Debug)]
pub(crate) enum Matcher {
    Constant(Pattern),
    /// A constant that is no text: nothing matches, nothing fails to.
    Never,
    Like {
        pattern: Box<Code>,
        escape: Option<char>,
    },
    Regex {
        pattern: Box<Code>,
        flags: Option<Box<Code>>,
    },
}

/// A compiled query or sub-query.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) sources: Vec<SourceCode>,
    pub(crate) filter: Option<Code>,
    pub(crate) grouping: Option<Grouping>,
    pub(crate) projection: ProjectionCode,
    pub(crate) distinct: bool,
    pub(crate) order: Vec<(Code, Direction)>,
    pub(crate) window: RowWindow,
}

/// Where a slot's values come from.
#[derive(Debug)]
pub(crate) struct SourceCode {
    pub(crate) slot: usize,
    pub(crate) collection: CollectionCode,
    /// Whether the slot takes the elements of arrays rather than the values themselves.
    pub(crate) elements: bool,
}

#[derive(Debug)]
pub(crate) enum CollectionCode {
    Value(Code),
    Block(Box<Block>),
}

/// The grouping keys and aggregates of a query.
#[derive(Debug)]
pub(crate) struct Grouping {
    pub(crate) keys: Vec<Code>,
    pub(crate) aggregates: Vec<AggregateCode>,
}

#[derive(Debug)]
pub(crate) struct AggregateCode {
    pub(crate) kind: AggregateType,
    pub(crate) argument: Code,
}

#[derive(Debug)]
pub(crate) enum ProjectionCode {
    /// The row is the value; an undefined one is left out.
    Value(Code),
    /// The row is an object; undefined members are left out.
    Object(Box<[(Box<str>, Code)]>),
}

/// Which of the rows are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RowWindow {
    pub(crate) skip: u64,
    pub(crate) take: Option<u64>,
}

impl Block {
    /// Whether rows can be given one by one as documents arrive.
    pub(crate) fn streams(&self) -> bool {
        self.grouping.is_none() && self.order.is_empty()
    }

    /// Whether one document can give several rows.
    pub(crate) fn has_loops(&self) -> bool {
        let single = |source: &SourceCode| {
            !source.elements && matches!(source.collection, CollectionCode::Value(_))
        };
        !self.sources.iter().all(single)
    }
}

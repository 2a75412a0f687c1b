//! Errors by stage: reading the text, giving it meaning, running it, planning it.
//!
//! Each type is a value to match on; `Display` is prose. [`ServiceError`] renders the first two in
//! the shape the service answers with, so a server needs no second wording.

use serde::Serialize;
use thiserror::Error;

/// The text is not Cosmos SQL.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("syntax error at {start}..{end} near '{near}': expected {expected}")]
pub struct SyntaxError {
    /// Byte offset of the first character of the offending text.
    pub start: usize,
    /// Byte offset just past the offending text.
    pub end: usize,
    /// The offending text, empty at the end of the query.
    pub near: String,
    /// The tokens that would have been accepted instead.
    pub expected: String,
    /// Which rule of the language was broken.
    pub kind: SyntaxErrorKind,
}

/// Families of syntax errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SyntaxErrorKind {
    /// An unexpected token.
    Unexpected,
    /// Text that is no token: a stray character, an unfinished string, a number out of range.
    BadToken,
    /// A bound of [`crate::limits`] was passed.
    TooLarge,
}

impl SyntaxError {
    /// The service's response for this error.
    pub fn to_service_error(&self) -> ServiceError {
        let message = match self.kind {
            SyntaxErrorKind::Unexpected | SyntaxErrorKind::BadToken if self.near.is_empty() => {
                "Syntax error, unexpected end of query.".to_owned()
            }
            SyntaxErrorKind::Unexpected | SyntaxErrorKind::BadToken => {
                format!("Syntax error, incorrect syntax near '{}'.", self.near)
            }
            SyntaxErrorKind::TooLarge => {
                format!("The query exceeds a limit: {}.", self.expected)
            }
        };
        let location = Location { start: self.start, end: self.end };
        ServiceError::new("SC1001", message, Some(location))
    }
}

/// The text is well formed but means nothing.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompileError {
    /// A name that no `FROM` introduces.
    #[error("Identifier '{0}' could not be resolved.")]
    UnknownIdentifier(String),
    /// A parameter without a value.
    #[error("The query parameter '{0}' was not supplied.")]
    MissingParameter(String),
    /// No built-in function has this name.
    #[error("'{0}' is not a recognized built-in function name.")]
    UnknownFunction(String),
    /// A function of the language that this evaluator does not have.
    #[error("The function '{0}' is not available here yet.")]
    UnavailableFunction(String),
    /// A user-defined function; there is no runtime for them.
    #[error("The user-defined function 'udf.{0}' cannot be called: there is no script runtime.")]
    UserDefinedFunction(String),
    /// Too few or too many arguments.
    #[error("The {name} function requires {expected}, {given} given.")]
    ArgumentCount {
        /// The function.
        name: String,
        /// How many it takes, in words.
        expected: String,
        /// How many there were.
        given: usize,
    },
    /// An aggregate where none may stand.
    #[error("Cannot perform an aggregate function in {0}.")]
    MisplacedAggregate(&'static str),
    /// A projected expression that is neither grouped nor aggregated.
    #[error(
        "'{0}' is invalid in the select list because it is not contained in either an aggregate \
         function or the GROUP BY clause."
    )]
    NotGrouped(String),
    /// `SELECT *` needs exactly one source.
    #[error("'SELECT *' is only valid with a single input set.")]
    AmbiguousStar,
    /// `SELECT *` needs a source.
    #[error("'SELECT *' is not valid if FROM clause is omitted.")]
    StarWithoutFrom,
    /// Two sources with one name.
    #[error("The input alias '{0}' is specified more than once in the FROM clause.")]
    DuplicateAlias(String),
    /// Clauses the service does not combine.
    #[error("{0}")]
    Unsupported(&'static str),
    /// `TOP`, `OFFSET` or `LIMIT` with something else than a whole number of rows.
    #[error("The {0} value must be a non-negative whole number.")]
    BadCount(&'static str),
    /// A constant regular expression that does not compile.
    #[error("The regular expression '{0}' is not valid.")]
    BadRegex(String),
    /// A `LIKE` escape that is not one character.
    #[error("The ESCAPE of a LIKE must be a single character.")]
    BadEscape,
}

impl CompileError {
    /// The service's response for this error.
    pub fn to_service_error(&self) -> ServiceError {
        let code = match self {
            Self::UnknownIdentifier(_) => "SC2001",
            Self::UnknownFunction(_)
            | Self::UnavailableFunction(_)
            | Self::UserDefinedFunction(_) => "SC2005",
            Self::ArgumentCount { .. } => "SC2008",
            Self::MissingParameter(_) => "SC2010",
            Self::AmbiguousStar | Self::StarWithoutFrom => "SC2040",
            Self::BadCount(_) => "SC2060",
            Self::MisplacedAggregate(_) => "SC2200",
            Self::NotGrouped(_) => "SC2102",
            Self::DuplicateAlias(_) => "SC2011",
            Self::Unsupported(_) | Self::BadRegex(_) | Self::BadEscape => "SC3051",
        };
        ServiceError::new(code, self.to_string(), None)
    }
}

/// A query that does not compile: parsing or name resolution rejected it.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum QueryError {
    /// The text is not Cosmos SQL.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// The text is well formed but means nothing.
    #[error(transparent)]
    Compile(#[from] CompileError),
}

impl QueryError {
    /// The service's response for this error.
    pub fn to_service_error(&self) -> ServiceError {
        match self {
            Self::Syntax(error) => error.to_service_error(),
            Self::Compile(error) => error.to_service_error(),
        }
    }
}

/// An evaluation that failed: it passed one of its [`Limits`](crate::Limits), or the data do not fit
/// the query.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum EvalError {
    /// A function or operator would build too large a value.
    #[error("{function} would build a value larger than {limit} bytes")]
    ValueTooLarge {
        /// The function or operator.
        function: &'static str,
        /// The bound it passed.
        limit: usize,
    },
    /// One row needed too much work.
    #[error("evaluating one row took more than {0} steps")]
    TooManySteps(u64),
    /// A query that cannot be divided into pages needed too much work.
    #[error(
        "the query took more than {0} steps before it could give a row: narrow its filter, or leave out what \
         needs every document first"
    )]
    RunTooLong(u64),
    /// The evaluation was cancelled: its result is not wanted any more.
    #[error("the query was cancelled")]
    Cancelled,
    /// A scalar subquery gave several rows.
    #[error("The cardinality of a scalar subquery result set cannot be greater than one.")]
    ScalarSubqueryRows,
    /// A regular expression with look-around or back-references backtracked too much.
    #[error("RegexMatch took more than {0} backtracking steps on one text")]
    RegexBacktracking(usize),
    /// A query that cannot stream held too many rows.
    #[error("the query holds more than {0} rows")]
    TooManyRows(usize),
    /// A query that cannot stream held too large rows.
    #[error(
        "the query holds rows of more than {0} bytes: narrow its filter, or select less of each document"
    )]
    TooManyBytes(usize),
}

/// Why there is no plan.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlanError {
    /// The query itself is wrong.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The caller cannot run what the plan would ask of it.
    #[error(
        "Query contains the following features, which the calling client does not support: \
         {}. To resolve this issue upgrade the client.", .0.join(", ")
    )]
    UnsupportedFeatures(Vec<&'static str>),
    /// A shape that cannot be split over partitions.
    #[error("{0}")]
    NotPartitionable(&'static str),
}

impl PlanError {
    /// The service's response for this error.
    pub fn to_service_error(&self) -> ServiceError {
        match self {
            Self::Query(error) => error.to_service_error(),
            Self::UnsupportedFeatures(_) | Self::NotPartitionable(_) => {
                ServiceError::new("SC3000", self.to_string(), None)
            }
        }
    }
}

impl From<SyntaxError> for PlanError {
    fn from(error: SyntaxError) -> Self {
        Self::Query(error.into())
    }
}

impl From<CompileError> for PlanError {
    fn from(error: CompileError) -> Self {
        Self::Query(error.into())
    }
}

/// The error body of the service: `{"errors":[{"severity":"Error",…}]}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ServiceError {
    errors: Vec<Entry>,
}

impl ServiceError {
    fn new(code: &'static str, message: String, location: Option<Location>) -> Self {
        Self { errors: vec![Entry { severity: "Error", location, code, message }] }
    }

    /// The body as JSON text.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("strings and numbers always serialise")
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Entry {
    severity: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    location: Option<Location>,
    code: &'static str,
    message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
struct Location {
    start: usize,
    end: usize,
}

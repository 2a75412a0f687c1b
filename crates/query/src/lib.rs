//! Cosmos SQL: the query language of Azure Cosmos DB, from text to rows.
//!
//! - [`parse`] reads text into a [`tree`]; `Display` writes a tree back as text.
//! - [`Program`] is a query ready to run over the documents of one partition, [`Condition`] a
//!   filter on a single document.
//! - [`plan()`](plan::plan) says how a query that spans partitions is split up and merged.
//! - [`Merge`](merge::Merge) merges the partitions' results.
//! - [`order`] compares values of any types.
//!
//! ```
//! use serde_json::json;
//! use sidereal_query::{Context, Parameters, Program, parse};
//!
//! let query = parse("SELECT c.id FROM c WHERE c.price < @limit ORDER BY c.price")?;
//! let parameters = Parameters::from([("@limit".to_owned(), json!(10))]);
//! let program = Program::new(&query, &parameters)?;
//!
//! let documents = [json!({"id": "b", "price": 9}), json!({"id": "a", "price": 4}), json!({"id": "c"})];
//! let rows = program.run(&documents, &Context::new(0, 0))?;
//! assert_eq!(rows, [json!({"id": "a"}), json!({"id": "b"})]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Everything is pure: the time, random numbers and limits come in with a [`Context`], documents
//! come in by reference, and nothing is read or written on the side.

mod aggregate;
mod context;
mod document;
mod error;
mod eval;
mod functions;
mod lexer;
pub mod limits;
mod members;
pub mod merge;
mod meter;
pub mod order;
mod parser;
pub mod plan;
mod print;
pub mod tree;
mod value;

pub use context::{Context, Signal};
pub use document::parse_document;
pub use error::{
    CompileError, EvalError, PlanError, QueryError, ServiceError, SyntaxError, SyntaxErrorKind,
};
pub use eval::{Condition, Counters, Flow, Parameters, Program, Progress, Row, Run, Shape, Taken};
pub use limits::Limits;
pub use members::{DocumentMembers, parse_at};
pub use parser::parse;
pub use plan::{
    Features, IndexCondition, IndexPath, KeyRange, OrderPath, index_condition, partition_keys,
    plan, plan_within_partition,
};
pub use tree::Query;
pub use value::round_numbers;

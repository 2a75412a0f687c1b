//! A condition on one document: the `FROM c WHERE …` of a conditional patch.

use serde_json::Value;

use super::compile::Parameters;
use super::program::Program;
use crate::context::Context;
use crate::error::{EvalError, QueryError};
use crate::parser::parse_condition;

/// A condition that a document satisfies or does not.
#[derive(Debug)]
pub struct Condition(Program);

impl Condition {
    /// Reads a condition of the form `FROM c WHERE …`.
    ///
    /// # Errors
    ///
    /// If the text is not a condition or means nothing.
    pub fn parse(text: &str) -> Result<Self, QueryError> {
        let query = parse_condition(text)?;
        Ok(Self(Program::new(&query, &Parameters::new())?))
    }

    /// Whether the document satisfies the condition; undefined counts as no.
    ///
    /// # Errors
    ///
    /// If a limit of the context is passed.
    pub fn matches(&self, document: &Value, context: &Context) -> Result<bool, EvalError> {
        self.0.accepts(document, context)
    }
}

//! Operations of requests, as dispatch, fault rules and counters name them.
//!
//! The words are those of the protocol, with one more: a change feed is told from the reading of a feed,
//! since the two fail and cost differently.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "&'static str", try_from = "String")]
#[non_exhaustive]
pub enum Operation {
    /// Create a resource that must not exist.
    Create,
    /// Read one resource; the account is one.
    Read,
    /// List resources.
    ReadFeed,
    /// Follow the changes of a container.
    ChangeFeed,
    /// Run a query.
    Query,
    /// Ask for the plan of a query.
    QueryPlan,
    /// Run a batch.
    Batch,
    /// Create or replace.
    Upsert,
    /// Replace a resource that must exist.
    Replace,
    /// Change parts of an item.
    Patch,
    /// Delete a resource, or all items of a partition key.
    Delete,
    /// Anything else: a probe, or a verb that no resource has.
    Other,
}

impl Operation {
    /// Every operation with its word.
    const WORDS: [(Self, &'static str); 12] = [
        (Self::Create, "Create"),
        (Self::Read, "Read"),
        (Self::ReadFeed, "ReadFeed"),
        (Self::ChangeFeed, "ChangeFeed"),
        (Self::Query, "Query"),
        (Self::QueryPlan, "QueryPlan"),
        (Self::Batch, "Batch"),
        (Self::Upsert, "Upsert"),
        (Self::Replace, "Replace"),
        (Self::Patch, "Patch"),
        (Self::Delete, "Delete"),
        (Self::Other, "Other"),
    ];

    /// The operation's word.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        let found = Self::WORDS.iter().find(|(operation, _)| *operation == self);
        found.map_or("Other", |(_, word)| word)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.as_str())
    }
}

impl From<Operation> for &'static str {
    fn from(operation: Operation) -> Self {
        operation.as_str()
    }
}

/// A word that is no operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownOperation(String);

impl fmt::Display for UnknownOperation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = Operation::WORDS.map(|(_, word)| word).join(", ");
        write!(formatter, "\"{}\" is not an operation: expected one of {words}", self.0)
    }
}

impl std::error::Error for UnknownOperation {}

impl FromStr for Operation {
    type Err = UnknownOperation;

    fn from_str(text: &str) -> Result<Self, UnknownOperation> {
        let found = Self::WORDS.iter().find(|(_, word)| word.eq_ignore_ascii_case(text.trim()));
        found.map(|(operation, _)| *operation).ok_or_else(|| UnknownOperation(text.to_owned()))
    }
}

impl TryFrom<String> for Operation {
    type Error = UnknownOperation;

    fn try_from(text: String) -> Result<Self, UnknownOperation> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_in_any_case_and_a_wrong_one_names_the_right_ones() {
        assert_eq!("queryplan".parse(), Ok(Operation::QueryPlan));
        for (operation, word) in Operation::WORDS {
            assert_eq!((operation.as_str(), word.parse()), (word, Ok(operation)));
        }
        let said = "Write".parse::<Operation>().unwrap_err().to_string();
        assert!(said.contains("\"Write\"") && said.contains("Upsert"), "{said}");
    }
}

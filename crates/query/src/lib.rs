//! Cosmos SQL.

//! The Cosmos DB wire vocabulary.

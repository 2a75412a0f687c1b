//! What administrators ask for: lists, metrics, deletion, pruning.

mod deletion;
mod inspection;
mod pruning;

//! Time limits and constraints of sending one request.

use std::time::{Duration, Instant};

/// Time limits and constraints of sending one request.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendTerms {
    /// The end of the operation: a request that has no answer by then fails, and one that has a stream
    /// counts against its shard.
    pub deadline: Option<Instant>,
    /// The longest that the request may take once it has a stream, and the longest that it waits for one
    /// where no other request is answered meanwhile.
    pub timeout: Option<Duration>,
    /// The bytes of its body, for the bound on the memory of waiting requests.
    pub body_bytes: usize,
    /// From when on the request counts as slow: dropped later, say as the loser of a hedge, it counts
    /// against its shard too.
    pub slow_after: Option<Instant>,
    /// The shard that the request failed on before; another is used if there is or can be one.
    pub avoided_shard: Option<u64>,
}

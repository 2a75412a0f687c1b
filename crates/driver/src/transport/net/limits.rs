//! Bounds on responses.

/// The most bytes a response may have; the service's pages are far below.
pub(super) const MAX_RESPONSE_BYTES: usize = 64 * 1024 * 1024;

/// The most bytes the head of a response may have. A session token has an entry for each partition range, so
/// the head grows with a container.
pub(super) const MAX_HEAD_BYTES: u32 = 128 * 1024;

//! Limits of the server on what a client may cost: every bound by name, with its reason.
//!
//! The bounds that a test shortens are fields of [`Limits`]; the rest are constants.

use std::time::Duration;

/// Connections that the kernel completes before they are accepted (the backlog of `listen`): a burst of
/// clients is not refused while the accept loop is busy.
pub(super) const ACCEPT_BACKLOG: u32 = 1024;

/// The pause after a failed accept: the process is out of file descriptors (`EMFILE`), and a connection has
/// to end before the next one can be accepted. Without it the loop would spin.
pub(super) const ACCEPT_PAUSE: Duration = Duration::from_millis(20);

/// Headers that an HTTP/1.1 request may have; SDKs send some thirty.
pub(super) const MAX_HEADERS: usize = 256;

/// How long the graceful close of an idle connection may take.
pub(super) const CLOSE_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the first half of a body has to be written before its connection is reset. A reset discards what
/// is in the socket's send buffer.
pub(super) const FLUSH_BEFORE_RESET: Duration = Duration::from_millis(20);

/// Shorter bodies are sent as they are, not in gzip: what they would lose is less than the headers of the coding.
pub(super) const MIN_GZIP_BYTES: usize = 1024;

/// Longer ones are compressed on a thread that no other request waits for: a megabyte takes some ten milliseconds.
pub(super) const MAX_INLINE_GZIP_BYTES: usize = 32 * 1024;

/// HTTP/2 streams that one connection may have open, as the service allows them.
const MAX_CONCURRENT_STREAMS: u32 = 20;

/// Connections open at once; more wait in the backlog.
const MAX_CONNECTIONS: usize = 1024;

/// All headers of a request together. Continuations and session tokens travel as headers, so there is
/// room for several of the largest.
const MAX_HEADER_BYTES: u32 = 64 * 1024;

/// The body of an ordinary request: an item of 2 MiB, and room for the account to refuse the larger one
/// by its own rule.
const MAX_BODY_BYTES: usize = (2 * 1024 + 256) * 1024;

/// The body of a batch: bulk clients fill theirs by the count of operations.
const MAX_BATCH_BODY_BYTES: usize = (4 * 1024 + 256) * 1024;

/// How much of a body that is too large is read and thrown away, so that the client is done sending
/// when the refusal reaches it.
const MAX_DISCARDED_BYTES: usize = 64 * 1024 * 1024;

/// From the first byte of a TLS connection to the end of its handshake.
const TLS_HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// From the connection to its first complete request head.
const FIRST_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a connection stays open with nothing in flight. A request head that is not complete and an
/// response that is not read count as nothing in flight (slow loris).
const IDLE_TIMEOUT: Duration = Duration::from_secs(300);

/// From a request's head to the end of its body.
const BODY_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a shutdown waits for requests in flight.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);

/// The bounds of one server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    pub(crate) max_connections: usize,
    pub(crate) max_concurrent_streams: u32,
    pub(crate) max_header_bytes: u32,
    pub(crate) max_body_bytes: usize,
    pub(crate) max_batch_body_bytes: usize,
    pub(crate) max_discarded_bytes: usize,
    pub(crate) tls_handshake: Duration,
    pub(crate) first_request: Duration,
    pub(crate) idle: Duration,
    pub(crate) body: Duration,
    pub(crate) shutdown: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_connections: MAX_CONNECTIONS,
            max_concurrent_streams: MAX_CONCURRENT_STREAMS,
            max_header_bytes: MAX_HEADER_BYTES,
            max_body_bytes: MAX_BODY_BYTES,
            max_batch_body_bytes: MAX_BATCH_BODY_BYTES,
            max_discarded_bytes: MAX_DISCARDED_BYTES,
            tls_handshake: TLS_HANDSHAKE_TIMEOUT,
            first_request: FIRST_REQUEST_TIMEOUT,
            idle: IDLE_TIMEOUT,
            body: BODY_TIMEOUT,
            shutdown: SHUTDOWN_TIMEOUT,
        }
    }
}

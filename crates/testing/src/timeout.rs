//! How long a test waits before it has failed.

use std::future::Future;
use std::time::Duration;

/// Far longer than anything here takes on a busy machine, far shorter than a build is given.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Waits for `future`, and fails the test on timeout.
///
/// # Panics
///
/// The future was not done within [`TEST_TIMEOUT`]; the message names `what` was waited for.
pub async fn within_timeout<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(TEST_TIMEOUT, future).await {
        Ok(value) => value,
        Err(_) => panic!("timed out after {TEST_TIMEOUT:?} waiting for {what}"),
    }
}

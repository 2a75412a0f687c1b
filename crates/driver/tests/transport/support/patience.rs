//! How long the support waits before it calls a test failed.

use std::future::Future;
use std::time::Duration;

/// Far longer than anything here takes on a busy machine, far shorter than a build is given.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Waits for `future`, and fails the test when it does not come.
pub(crate) async fn patiently<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited {PATIENCE:?} in vain for {what}"),
    }
}

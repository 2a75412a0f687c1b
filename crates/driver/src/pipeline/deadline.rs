//! Waiting up to a moment that may not be set.

use std::time::Instant;

/// Waits for a future up to the deadline; `false` if the deadline came first.
pub(super) async fn completes_before(
    deadline: Option<Instant>,
    future: impl Future<Output = ()>,
) -> bool {
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline.into(), future).await.is_ok(),
        None => {
            future.await;
            true
        }
    }
}

/// The earlier of two deadlines, either of which may be absent.
pub(super) fn min_deadline(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Sleeps until a moment; without one, for ever.
pub(super) async fn sleep_until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

//! Waiting up to a moment that may not be set.

use std::time::Instant;

/// Waits for something until the deadline; says whether it came.
pub(super) async fn within(deadline: Option<Instant>, something: impl Future<Output = ()>) -> bool {
    match deadline {
        Some(deadline) => tokio::time::timeout_at(deadline.into(), something).await.is_ok(),
        None => {
            something.await;
            true
        }
    }
}

pub(super) fn earlier(one: Option<Instant>, other: Option<Instant>) -> Option<Instant> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

/// Waits until a moment; without one, for ever.
pub(super) async fn until(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

//! The application's handler, kept from doing harm: its errors, panics and hangs are values.

use std::error::Error as StdError;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use sidereal_protocol::EffectivePartitionKeyRange;
use tokio::task::JoinSet;

use crate::FeedRange;
use crate::query::fetch::RawRows;

/// Why a handler could not handle changes: any error.
pub type HandlerError = Box<dyn StdError + Send + Sync>;

/// Changes that a handler is given: of one range, oldest first.
///
/// They are given again until they are handled: a handler has to bear seeing a change more than once.
#[derive(Debug)]
pub struct Changes<T> {
    items: Vec<T>,
    range: EffectivePartitionKeyRange,
    attempt: u32,
}

impl<T> Changes<T> {
    /// The items as they are after their changes.
    #[must_use]
    pub fn items(&self) -> &[T] {
        &self.items
    }

    /// The items, taken.
    #[must_use]
    pub fn into_items(self) -> Vec<T> {
        self.items
    }

    /// The part of the container that they are of.
    #[must_use]
    pub fn feed_range(&self) -> FeedRange {
        FeedRange(self.range.clone())
    }

    /// How often this worker has given these changes to the handler, this time included.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }
}

/// Changes before they are decoded.
pub(super) struct RawChanges {
    pub(super) rows: RawRows,
    pub(super) range: EffectivePartitionKeyRange,
    pub(super) attempt: u32,
}

type Handling = Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send>>;

/// A handler, whatever type it takes.
#[derive(Clone)]
pub(super) struct Handler(Arc<dyn Fn(RawChanges) -> Handling + Send + Sync>);

impl Handler {
    pub(super) fn new<T, H, F, E>(handler: H) -> Self
    where
        T: DeserializeOwned + Send + 'static,
        H: Fn(Changes<T>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<(), E>> + Send + 'static,
        E: Into<HandlerError>,
    {
        let handler = Arc::new(handler);
        Self(Arc::new(move |raw: RawChanges| {
            let handler = Arc::clone(&handler);
            Box::pin(async move {
                let RawChanges { rows, range, attempt } = raw;
                let items = (0..rows.len()).filter_map(|at| rows.decode(at));
                let items = items.collect::<crate::Result<Vec<T>>>()?;
                handler(Changes { items, range, attempt }).await.map_err(Into::into)
            })
        }))
    }

    /// Lets it handle changes, in a task of its own: a panic ends the task and nothing else. Dropping the future ends
    /// the handler at its next `.await`.
    pub(super) async fn handle(&self, raw: RawChanges, timeout: Duration) -> Result<(), String> {
        let (handler, mut task) = (self.clone(), JoinSet::new());
        // The closure is called in the task too: it may panic before it has a future.
        task.spawn(async move { (handler.0)(raw).await });
        match tokio::time::timeout(timeout, task.join_next()).await {
            Ok(Some(Ok(Ok(())))) => Ok(()),
            Ok(Some(Ok(Err(error)))) => Err(error.to_string()),
            Ok(Some(Err(error))) => Err(format!("the handler panicked: {}", panic_text(error))),
            Ok(None) => Err("the handler's task is gone".to_owned()),
            Err(_) => Err(format!("the handler did not end within {timeout:?}")),
        }
    }
}

impl fmt::Debug for Handler {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Handler")
    }
}

fn panic_text(error: tokio::task::JoinError) -> String {
    let Ok(panic) = error.try_into_panic() else { return "its task was cancelled".to_owned() };
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

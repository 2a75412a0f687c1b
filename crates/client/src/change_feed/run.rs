//! Reading a change feed: its items one by one or page by page.

use serde::de::DeserializeOwned;

use super::engine::Engine;
use super::{ChangeFeed, ChangePageStream, ChangeStream};

impl ChangeFeed {
    /// Reads the feed: items one by one, as they are after their changes.
    pub fn items<T: DeserializeOwned>(&self) -> ChangeStream<T> {
        ChangeStream::new(Engine::new(self.clone()))
    }

    /// Reads the feed page by page, with where the next one begins.
    ///
    /// The last page before the end has no items and says that the reader has caught up.
    ///
    /// ```no_run
    /// # async fn follow(orders: sidereal::ContainerClient) -> sidereal::Result<()> {
    /// let mut pages = orders.change_feed().pages::<serde_json::Value>();
    /// let mut bookmark = None;
    /// while let Some(page) = pages.next().await {
    ///     let page = page?;
    ///     println!("{} changes for {} RU", page.items().len(), page.request_charge());
    ///     // Keep it as text; the feed can be read from there tomorrow.
    ///     bookmark = Some(page.continuation().to_string());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn pages<T: DeserializeOwned>(&self) -> ChangePageStream<T> {
        ChangePageStream::new(Engine::new(self.clone()))
    }
}

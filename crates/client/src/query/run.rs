//! Running a query: its rows one by one or page by page, or its plan alone.

use serde::de::DeserializeOwned;

use super::engine::Engine;
use super::{ItemStream, PageStream, Query, QueryPlan};
use crate::Result;

impl Query {
    /// Runs the query: its rows, one by one.
    pub fn items<T: DeserializeOwned>(&self) -> ItemStream<T> {
        ItemStream::new(Engine::new(self.clone(), true))
    }

    /// Runs the query: its rows page by page, with what each page cost and where the next one begins.
    ///
    /// ```no_run
    /// # async fn show(orders: sidereal::ContainerClient) -> sidereal::Result<()> {
    /// let query = orders.query("SELECT VALUE c.id FROM c ORDER BY c.total").with_page_size(20);
    /// if let Some(page) = query.pages::<String>().next().await {
    ///     let page = page?;
    ///     println!("{:?} for {} RU", page.items(), page.request_charge());
    ///     // Keep it as text; the next page can be read from there tomorrow.
    ///     let bookmark = page.continuation()?.map(|token| token.to_string());
    ///     if let Some(bookmark) = bookmark {
    ///         let mut rest = query.with_continuation(bookmark.parse()?).pages::<String>();
    ///         let second = rest.next().await;
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn pages<T: DeserializeOwned>(&self) -> PageStream<T> {
        PageStream::new(Engine::new(self.clone(), false))
    }

    /// Runs the query as far as its first row: the value of an aggregate, or an item of which there is one.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidResponse`](crate::ErrorKind::InvalidResponse) if the first row does not deserialize as `T`; otherwise the error of
    /// the query.
    pub async fn first<T: DeserializeOwned>(&self) -> Result<Option<T>> {
        self.items().next().await.transpose()
    }

    /// Says how the query is divided over partition ranges, without running it.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest) if the query is wrong; [`ErrorKind::NotFound`](crate::ErrorKind::NotFound) if the
    /// container does not exist.
    pub async fn explain(&self) -> Result<QueryPlan> {
        Engine::new(self.clone(), false).explain().await
    }
}

//! Queries over databases and containers themselves.

use sidereal_driver::options::{QueryContainersOptions, QueryDatabasesOptions};
use sidereal_protocol::{
    ContainerProperties, DatabaseProperties, RequestPath, ResourceLink, ResourceType,
};

use super::FeedStream;
use crate::{CosmosClient, DatabaseClient};

impl CosmosClient {
    /// The account's databases that a query selects: `SELECT * FROM c` selects them all.
    ///
    /// A query that is wrong, like any other failure, is told when the stream is read.
    ///
    /// ```no_run
    /// # async fn list(client: sidereal::CosmosClient) -> sidereal::Result<()> {
    /// let mut databases = client.query_databases("SELECT * FROM c", None);
    /// while let Some(database) = databases.next().await {
    ///     println!("{}", database?.id);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn query_databases(
        &self,
        text: &str,
        options: Option<QueryDatabasesOptions<'_>>,
    ) -> FeedStream<DatabaseProperties> {
        let path = RequestPath::feed(ResourceLink::ACCOUNT, ResourceType::Database);
        let options = options.unwrap_or_default().method_options;
        FeedStream::of_query(self.driver(), path.map_err(Into::into), text, options)
    }
}

impl DatabaseClient {
    /// The database's containers that a query selects: `SELECT * FROM c` selects them all.
    ///
    /// A query that is wrong, like any other failure, is told when the stream is read.
    ///
    /// ```no_run
    /// # async fn list(store: sidereal::DatabaseClient) -> sidereal::Result<()> {
    /// let containers = store.query_containers("SELECT * FROM c WHERE c.id != 'leases'", None);
    /// for container in containers.collect().await? {
    ///     println!("{} by {}", container.id, container.partition_key);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn query_containers(
        &self,
        text: &str,
        options: Option<QueryContainersOptions<'_>>,
    ) -> FeedStream<ContainerProperties> {
        let path = self
            .link()
            .and_then(|link| Ok(RequestPath::feed(link, ResourceType::DocumentCollection)?));
        let options = options.unwrap_or_default().method_options;
        FeedStream::of_query(self.driver(), path, text, options)
    }
}

//! The client of an account.

use std::sync::Arc;

use bytes::Bytes;
use sidereal_driver::options::{CosmosClientOptions, CreateDatabaseOptions, ReadDatabaseOptions};
use sidereal_driver::{CosmosDriver, CosmosOperation};
use sidereal_protocol::{
    AccountProperties, ConnectionString, DatabaseProperties, OperationType, RequestPath,
    ResourceLink, ResourceType,
};

use super::throughput::with_throughput;
use super::{CosmosClientBuilder, DatabaseClient};
use crate::call::{execute, resource_options};
use crate::{CosmosCredential, Error, ErrorKind, Response, Result};

/// The client of an account. Clones share its connections and what it knows of the account.
///
/// ```no_run
/// use sidereal::prelude::*;
///
/// # async fn connect() -> sidereal::Result<()> {
/// let key = CosmosCredential::key("c2VjcmV0")?;
/// let client = CosmosClient::new("https://contoso.documents.azure.com/", key, None)?;
/// let orders = client.database("store").container("orders");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct CosmosClient {
    driver: Arc<CosmosDriver>,
}

impl CosmosClient {
    /// The client of the account at an endpoint. Nothing is sent yet.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest) if the endpoint is not a URL, a setting or an environment variable is
    /// invalid, or the caller is not in a tokio runtime.
    pub fn new(
        endpoint: impl AsRef<str>,
        credential: impl Into<CosmosCredential>,
        options: Option<CosmosClientOptions>,
    ) -> Result<Self> {
        let builder = Self::builder(endpoint, credential);
        builder.options(options.unwrap_or_default()).build()
    }

    /// A client with more to say than endpoint, credential and options: a runtime shared with other clients,
    /// roots to trust.
    ///
    /// ```no_run
    /// # async fn example(key: sidereal::CosmosCredential) -> sidereal::Result<()> {
    /// let builder = sidereal::CosmosClient::builder("https://contoso.documents.azure.com/", key);
    /// let client = builder.trust_pem_file("our-root.pem")?.build()?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder(
        endpoint: impl AsRef<str>,
        credential: impl Into<CosmosCredential>,
    ) -> CosmosClientBuilder {
        CosmosClientBuilder::new(endpoint.as_ref().to_owned(), credential.into())
    }

    /// The client of the account that a connection string names, as the portal shows it.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> sidereal::Result<()> {
    /// use sidereal::CosmosClient;
    ///
    /// let text = "AccountEndpoint=https://contoso.documents.azure.com/;AccountKey=c2VjcmV0;";
    /// let client = CosmosClient::from_connection_string(text, None)?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`](crate::ErrorKind::InvalidRequest) if the text is not a connection string, and the errors of
    /// [`new`](Self::new).
    pub fn from_connection_string(
        text: &str,
        options: Option<CosmosClientOptions>,
    ) -> Result<Self> {
        let parsed: ConnectionString = text.parse()?;
        Self::new(parsed.endpoint().to_string(), parsed.key().clone(), options)
    }

    pub(super) fn over(driver: CosmosDriver) -> Self {
        Self { driver: Arc::new(driver) }
    }

    /// The driver below, for what the client has no word for.
    #[must_use]
    pub fn driver(&self) -> &Arc<CosmosDriver> {
        &self.driver
    }

    /// The client of a database of this account.
    ///
    /// ```no_run
    /// # async fn example(client: sidereal::CosmosClient) -> sidereal::Result<()> {
    /// let store = client.database("store");
    /// assert_eq!(store.id(), "store");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn database(&self, id: &str) -> DatabaseClient {
        DatabaseClient::new(Arc::clone(&self.driver), id)
    }

    /// Reads what the account is: its regions, its consistency.
    ///
    /// ```no_run
    /// # async fn example(client: sidereal::CosmosClient) -> sidereal::Result<()> {
    /// let account = client.read_account().await?.into_properties()?;
    /// println!("writes go to {:?}", account.write_region());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Unauthorized`](crate::ErrorKind::Unauthorized) if the credential is refused;
    /// [`ErrorKind::Unavailable`](crate::ErrorKind::Unavailable) if no region answers.
    pub async fn read_account(&self) -> Result<Response<AccountProperties>> {
        let path = RequestPath::of(ResourceLink::ACCOUNT);
        let read = CosmosOperation::new(OperationType::Read, path);
        execute(&self.driver, &read, &Default::default()).await
    }

    /// Creates a database; there must be none of its id.
    ///
    /// ```no_run
    /// # async fn example(client: sidereal::CosmosClient) -> sidereal::Result<()> {
    /// let database = client.create_database("store", None).await?.into_properties()?;
    /// println!("{}", database.id);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Conflict`] if a database of this id exists; [`ErrorKind::InvalidRequest`] if the id is not valid.
    pub async fn create_database(
        &self,
        id: &str,
        options: Option<CreateDatabaseOptions<'_>>,
    ) -> Result<Response<DatabaseProperties>> {
        // Refused here, where the sentence can say what an id may be.
        ResourceLink::database(id)?;
        let options = options.unwrap_or_default();
        let path = RequestPath::feed(ResourceLink::ACCOUNT, ResourceType::Database)?;
        let body = serde_json::json!({ "id": id }).to_string();
        let create = CosmosOperation::new(OperationType::Create, path).with_body(Bytes::from(body));
        let create = with_throughput(create, options.throughput)?;
        execute(&self.driver, &create, &resource_options(Some(options))).await
    }

    /// Creates a database unless there is one of its id, which stays as it is.
    ///
    /// ```no_run
    /// # async fn example(client: sidereal::CosmosClient) -> sidereal::Result<()> {
    /// let response = client.create_database_if_not_exists("store", None).await?;
    /// println!("created now: {}", response.status().code() == 201);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidRequest`] if the id is not valid; otherwise the error of the read or of the creation.
    pub async fn create_database_if_not_exists(
        &self,
        id: &str,
        options: Option<CreateDatabaseOptions<'_>>,
    ) -> Result<Response<DatabaseProperties>> {
        let options = options.unwrap_or_default();
        let database = self.database(id);
        let read = || {
            let method_options = options.method_options.clone();
            database.read(Some(ReadDatabaseOptions { method_options }))
        };
        match read().await {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            found => return found,
        }
        match self.create_database(id, Some(options.clone())).await {
            // Somebody else was faster.
            Err(error) if error.kind() == ErrorKind::Conflict => read().await,
            created => created,
        }
    }
}

/// A request that cannot be made with what was configured.
pub(super) fn configuration(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    let message = error.to_string();
    Error::caused_by(ErrorKind::InvalidRequest, message, error)
}

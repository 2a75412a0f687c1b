//! The driver of one account.

use std::sync::Arc;

use crate::options::{
    AvailabilityOptions, ClientMethodOptions, CosmosClientOptions, OptionLayers, RequestOptions,
};
use crate::pipeline::{OperationPipeline, RoutingDecision, execute_operation_pipeline};
use crate::runtime::Plane;
use crate::transport::{
    AuthorizationPolicy, CosmosHeadersPolicy, Credential, Endpoint, InvalidProxy, TransportPipeline,
};
use crate::{CosmosDriverRuntime, CosmosOperation, CosmosResponse, Error};

/// Executes operations on one account, at its endpoint.
///
/// ```no_run
/// # async fn read() -> Result<(), Box<dyn std::error::Error>> {
/// use sidereal_driver::transport::Credential;
/// use sidereal_driver::{CosmosDriver, CosmosDriverRuntime, CosmosOperation};
/// use sidereal_protocol::{AccountKey, OperationType, PartitionKey, RequestPath, ResourceLink};
///
/// let runtime = CosmosDriverRuntime::builder().build()?;
/// let key = AccountKey::from_base64("c2VjcmV0")?;
/// let endpoint = "https://contoso.documents.azure.com/".parse()?;
/// let driver = CosmosDriver::new(runtime, endpoint, Credential::Key(key), Default::default())?;
///
/// let item = ResourceLink::container("store", "orders")?.item("4711")?;
/// let read = CosmosOperation::new(OperationType::Read, RequestPath::of(item))
///     .with_partition_key(PartitionKey::from("contoso"));
/// let answer = driver.execute_operation(&read, &Default::default()).await?;
/// println!("{}", answer.diagnostics());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct CosmosDriver {
    /// Kept also so that connections and their care live as long as their driver.
    runtime: Arc<CosmosDriverRuntime>,
    options: OptionLayers,
    endpoint: Endpoint,
    data: TransportPipeline,
    metadata: TransportPipeline,
}

/// What one operation asks for beside itself.
#[derive(Clone, Debug, Default)]
pub struct OperationOptions<'a> {
    /// Deadline, activity id, cancellation.
    pub method_options: ClientMethodOptions<'a>,
    /// What the request asks of the service.
    pub request: RequestOptions,
    /// How far the operation goes to get a response.
    pub availability: AvailabilityOptions,
}

impl CosmosDriver {
    /// The driver of the account at an endpoint. Nothing is connected yet.
    ///
    /// # Errors
    ///
    /// The account's options allow a proxy, and the environment names one that cannot be used.
    pub fn new(
        runtime: Arc<CosmosDriverRuntime>,
        endpoint: Endpoint,
        credential: Credential,
        account: CosmosClientOptions,
    ) -> Result<Self, InvalidProxy> {
        let account = Arc::new(account);
        let options = runtime.layers(Arc::clone(&account));
        let planes = runtime.planes_for(&options, &account)?;
        let auth = Arc::new(AuthorizationPolicy::new(credential, &runtime.spawner()));
        let headers = Arc::new(CosmosHeadersPolicy::new(&options, runtime.clock()));
        let pipeline = |plane: Plane| {
            TransportPipeline::new(
                Arc::clone(&headers),
                Arc::clone(&auth),
                plane.transport,
                plane.request_timeout,
                runtime.clock().clone(),
            )
        };
        let (data, metadata) = (pipeline(planes.data), pipeline(planes.metadata));
        Ok(Self { runtime, options, endpoint, data, metadata })
    }

    /// Executes an operation to its end: a response of success, or an error that says why not and
    /// whether it may have been applied.
    ///
    /// Dropping the future cancels the operation.
    ///
    /// # Errors
    ///
    /// The service refused, no response came, time ran out, or the caller cancelled.
    pub async fn execute_operation(
        &self,
        operation: &CosmosOperation,
        options: &OperationOptions<'_>,
    ) -> Result<CosmosResponse, Error> {
        // Metadata has its own connections: its long timeout must not hold up data, nor a burst of data
        // keep the account from being read.
        let transport = match operation.path().kind().is_metadata() {
            true => &self.metadata,
            false => &self.data,
        };
        let pipeline = OperationPipeline {
            transport,
            routing: RoutingDecision { endpoint: self.endpoint.clone(), region: None },
            options: &self.options,
            request: &options.request,
            availability: &options.availability,
            method: &options.method_options,
            clock: self.runtime.clock(),
        };
        execute_operation_pipeline(operation, &pipeline).await
    }
}

//! The driver of one account.

use std::sync::Arc;

use crate::options::{
    AvailabilityOptions, ClientMethodOptions, CosmosClientOptions, ItemWriteOptions, OptionLayers,
    RequestOptions, validate,
};
use crate::pipeline::{OperationPipeline, execute_operation_pipeline};
use crate::routing::{AccountMetadataCache, LocationStateStore, RegionPreference};
use crate::runtime::{DriverError, Plane};
use crate::session::SessionContainer;
use crate::system::BackgroundTaskManager;
use crate::transport::{
    AuthorizationPolicy, CosmosHeadersPolicy, Credential, Endpoint, TransportPipeline,
};
use crate::{CosmosDriverRuntime, CosmosOperation, CosmosResponse, Error};

/// Executes operations on one account, in whichever of its regions serves them.
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
    locations: Arc<LocationStateStore>,
    account: Arc<AccountMetadataCache>,
    sessions: SessionContainer,
    data: TransportPipeline,
    metadata: Arc<TransportPipeline>,
    /// Whether operations are traced.
    is_traced: bool,
    /// What only this driver needs done; it ends with the driver.
    _tasks: BackgroundTaskManager,
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
    /// What a write of an item asks for. Of it, reads take the session token.
    pub write: ItemWriteOptions,
}

impl<'a> OperationOptions<'a> {
    /// The same options with a deadline, an activity id or a way to cancel.
    #[must_use]
    pub fn with_method_options(mut self, method_options: ClientMethodOptions<'a>) -> Self {
        self.method_options = method_options;
        self
    }

    /// The same options with others for what the request asks of the service.
    #[must_use]
    pub fn with_request(mut self, request: RequestOptions) -> Self {
        self.request = request;
        self
    }

    /// The same options with others for how far the operation goes.
    #[must_use]
    pub fn with_availability(mut self, availability: AvailabilityOptions) -> Self {
        self.availability = availability;
        self
    }

    /// The same options with others for a write.
    #[must_use]
    pub fn with_write(mut self, write: ItemWriteOptions) -> Self {
        self.write = write;
        self
    }
}

impl CosmosDriver {
    /// The driver of the account at an endpoint. Nothing is connected yet: the account is read when the first
    /// operation needs it.
    ///
    /// # Errors
    ///
    /// A setting cannot work, or the account's options allow a proxy, and the environment names one that cannot
    /// be used.
    pub fn new(
        runtime: Arc<CosmosDriverRuntime>,
        endpoint: Endpoint,
        credential: Credential,
        account: CosmosClientOptions,
    ) -> Result<Self, DriverError> {
        let account = Arc::new(account);
        let options = runtime.layers(Arc::clone(&account));
        validate(&options).map_err(DriverError::Configuration)?;
        let tasks = runtime.task_scope();
        let planes = runtime.planes_for(&options, &account, &tasks).map_err(DriverError::Proxy)?;
        let auth = Arc::new(AuthorizationPolicy::new(credential, &tasks.spawner()));
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
        let pools =
            vec![Arc::clone(&planes.data.transport), Arc::clone(&planes.metadata.transport)];
        let (data, metadata) = (pipeline(planes.data), Arc::new(pipeline(planes.metadata)));
        let locations = Arc::new(LocationStateStore::new(
            endpoint,
            region_preference(&options),
            options.partition_failover().endpoint_unavailable_duration(),
        ));
        let account = AccountMetadataCache::new(
            Arc::clone(&locations),
            Arc::clone(&metadata),
            pools,
            custom_endpoints(&options),
            &options,
            runtime.clock().clone(),
        );
        account.start(&tasks.spawner());
        let is_traced = options.client_options().tracing_enabled();
        let sessions = SessionContainer::default();
        Ok(Self {
            runtime,
            options,
            locations,
            account,
            sessions,
            data,
            metadata,
            is_traced,
            _tasks: tasks,
        })
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
            true => &*self.metadata,
            false => &self.data,
        };
        let pipeline = OperationPipeline {
            transport,
            locations: &self.locations,
            account: &self.account,
            sessions: &self.sessions,
            options: &self.options,
            request: &options.request,
            availability: &options.availability,
            write: &options.write,
            is_traced: self.is_traced,
            method: &options.method_options,
            clock: self.runtime.clock(),
        };
        execute_operation_pipeline(operation, &pipeline).await
    }
}

fn region_preference(options: &OptionLayers) -> RegionPreference {
    let regions = options.regions();
    RegionPreference {
        preferred: regions.preferred_regions().cloned().unwrap_or_default(),
        application_region: regions.application_region().cloned(),
    }
}

fn custom_endpoints(options: &OptionLayers) -> Vec<Endpoint> {
    let account = options.account();
    let texts = account.custom_endpoints().into_iter().flatten();
    // Those that are none were refused by the validation.
    texts.filter_map(|text| text.parse().ok()).collect()
}

//! The driver of one account.

use std::sync::Arc;

use sidereal_protocol::ResourceLink;

use crate::driver_core::CoreParts;
use crate::exchange::Endpoint;
use crate::operation_executor::OperationExecutor;
use crate::options::{
    AmbiguousWriteRetry, AvailabilityOptions, CosmosClientOptions, ItemWriteOptions, OptionLayers,
    validate,
};
use crate::planes::Plane;
use crate::routing::{
    AccountMetadataCache, ContainerMetadata, LocationPolicy, LocationStateStore,
    PartitionFailoverConfig, RegionPreference, Stale, WriteGate,
};
use crate::runtime::DriverError;
use crate::system::{BackgroundTaskManager, Clock, TaskSpawner};
use crate::transport::{
    AnswerTimes, AuthorizationOptions, AuthorizationPolicy, CosmosHeadersPolicy, Credential,
    TransportPipeline,
};
use crate::{CosmosDriverRuntime, CosmosOperation, CosmosResponse, Error, OperationOptions};

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
    executor: Arc<OperationExecutor>,
    /// The background tasks of this driver; they end with it.
    _tasks: BackgroundTaskManager,
    /// Counts the driver for as long as it lives.
    #[cfg(feature = "otel")]
    _instance: Option<crate::telemetry::ActiveInstance>,
}

impl CosmosDriver {
    /// The driver of the account at an endpoint. Nothing is connected yet: the account is read when the first
    /// operation needs it.
    ///
    /// # Errors
    ///
    /// [`DriverError::Configuration`] if a setting is invalid; [`DriverError::Proxy`] if the account's options allow a
    /// proxy, and the one that the environment names cannot be used.
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
        let auth = Arc::new(AuthorizationPolicy::new(
            credential,
            AuthorizationOptions::from(&options),
            &tasks.spawner(),
        ));
        let headers = Arc::new(CosmosHeadersPolicy::new(&options, runtime.clock()));
        let answers = Arc::new(AnswerTimes::new(Clock::now()));
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
        let (data, metadata) = (
            Arc::new(pipeline(planes.data).telling(Arc::clone(&answers))),
            Arc::new(pipeline(planes.metadata)),
        );
        #[cfg(feature = "otel")]
        let instance = runtime.count_instance(&endpoint);
        let policy = location_policy(endpoint.clone(), &options);
        let locations = Arc::new(LocationStateStore::new(
            endpoint,
            region_preference(&options),
            PartitionFailoverConfig::of(&options).with_jitter(runtime.clock().random()),
        ));
        let write_gate = WriteGate::new(runtime.clock().clone(), tasks.spawner());
        let account = AccountMetadataCache::new(
            Arc::clone(&locations),
            Arc::clone(&metadata),
            Arc::clone(&write_gate),
            pools,
            policy,
            &options,
            runtime.clock().clone(),
        );
        account.start(&tasks.spawner());
        start_sweeping(&locations, &tasks.spawner());
        let tasks_of_core = tasks.spawner();
        let executor = OperationExecutor::new(Arc::clone(&data), metadata, |reader| CoreParts {
            runtime,
            options,
            locations,
            account,
            write_gate,
            answers,
            data,
            reader,
            tasks: tasks_of_core,
        });
        Ok(Self {
            executor,
            _tasks: tasks,
            #[cfg(feature = "otel")]
            _instance: instance,
        })
    }

    /// Executes an operation to its end: a response of success, or an error that says why not and
    /// whether it may have been applied.
    ///
    /// Dropping the future cancels the operation.
    ///
    /// # Errors
    ///
    /// [`ErrorKind`](crate::ErrorKind): that of the service's status ([`of_status`](crate::ErrorKind::of_status)),
    /// `Unavailable` if no response came, `DeadlineExceeded` if time ran out, `Cancelled` by the caller,
    /// `Overloaded` if too many requests wait for a connection, and `InvalidRequest` if nothing could be sent.
    pub async fn execute_operation(
        &self,
        operation: &CosmosOperation,
        options: &OperationOptions<'_>,
    ) -> Result<CosmosResponse, Error> {
        self.executor.execute(operation, options).await
    }

    /// Which writes of a call are sent again after an attempt that may have been applied: for callers that send an
    /// operation again by themselves.
    #[must_use]
    pub fn ambiguous_write_retry(&self, call: &AvailabilityOptions) -> AmbiguousWriteRetry {
        self.executor.core.options.availability(call).retry_ambiguous_writes()
    }

    /// Whether the writes of a call are answered with their items: for batches, whose operations say it one by one.
    #[must_use]
    pub fn content_response_on_write(&self, call: &ItemWriteOptions) -> bool {
        self.executor.core.options.write(call).content_response_on_write()
    }

    /// The metadata of a container: its identity, partition key and partition ranges. It is read
    /// first if it is not known, and may be out of date if it is: see
    /// [`refresh_container`](Self::refresh_container).
    ///
    /// # Errors
    ///
    /// `ErrorKind::InvalidRequest` if the link does not name a container, else as
    /// [`execute_operation`](Self::execute_operation): the container could not be read.
    pub async fn container(
        &self,
        container: &ResourceLink,
    ) -> Result<Arc<ContainerMetadata>, Arc<Error>> {
        self.executor.core.containers.resolved(&container.as_str().into()).await
    }

    /// The cached metadata of a container, if it has been read: sends nothing and does not wait.
    #[must_use]
    pub fn known_container(&self, container: &ResourceLink) -> Option<Arc<ContainerMetadata>> {
        self.executor.core.containers.known(container.as_str())
    }

    /// Refreshes the partition ranges of a container, and returns its metadata.
    ///
    /// # Errors
    ///
    /// As [`container`](Self::container).
    pub async fn refresh_container(
        &self,
        container: &ResourceLink,
    ) -> Result<Arc<ContainerMetadata>, Arc<Error>> {
        let container: Arc<str> = container.as_str().into();
        self.executor.core.containers.refreshed(&container, Stale::Ranges, None).await;
        self.executor.core.containers.resolved(&container).await
    }
}

/// Drops what is kept of partitions that nothing asks about any more, now and then.
fn start_sweeping(locations: &Arc<LocationStateStore>, tasks: &TaskSpawner) {
    let (weak, spawner) = (Arc::downgrade(locations), tasks.clone());
    let interval = locations.config().settings.failback_sweep_interval;
    tasks.spawn("partition-sweep", async move {
        loop {
            tokio::select! {
                biased; // The shutdown first: nothing is swept that is dropped.
                () = spawner.shutdown_requested() => return,
                () = tokio::time::sleep(interval) => {}
            }
            // Weak between sweeps: the task must not keep the store alive.
            let Some(store) = weak.upgrade() else { return };
            store.sweep(Clock::now());
        }
    });
}

fn region_preference(options: &OptionLayers) -> RegionPreference {
    let regions = options.regions();
    if !options.account().endpoint_discovery() {
        return RegionPreference::default(); // There is nothing to choose from.
    }
    RegionPreference {
        preferred: regions.preferred_regions().cloned().unwrap_or_default(),
        application_region: regions.application_region().cloned(),
    }
}

fn location_policy(endpoint: Endpoint, options: &OptionLayers) -> LocationPolicy {
    let (account, client) = (options.account(), options.client_options());
    let texts = account.custom_endpoints().into_iter().flatten();
    LocationPolicy {
        endpoint,
        // Those that cannot be parsed were refused by the validation.
        custom_endpoints: texts.filter_map(|text| text.parse().ok()).collect(),
        is_discovery_enabled: account.endpoint_discovery(),
        emulator_hosts: client.emulator_hosts().cloned().unwrap_or_default(),
        location_hosts: account.location_hosts().cloned().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::routing::{CosmosEndpoint, LocationEffect, Partition, Traffic};

    /// A store whose sweep runs, and a partition that has failed once.
    #[tokio::test(start_paused = true)]
    async fn the_sweep_runs_at_the_interval_of_the_settings_and_ends_with_its_store() {
        let mut options = CosmosClientOptions::default();
        options.partition_failover.failback_sweep_interval = Some(Duration::from_secs(10));
        options.partition_failover.counter_reset_window = Some(Duration::from_secs(1));
        let layers = OptionLayers::new(Arc::default(), Arc::default(), Arc::new(options));
        let global: Endpoint = "https://contoso.documents.azure.com".parse().unwrap();
        let config = PartitionFailoverConfig::of(&layers);
        let store = Arc::new(LocationStateStore::new(global.clone(), Default::default(), config));
        let account = serde_json::json!({
            "writableLocations": [{"name": "West", "databaseAccountEndpoint": "https://w.contoso.com"}],
            "readableLocations": [
                {"name": "West", "databaseAccountEndpoint": "https://w.contoso.com"},
                {"name": "East", "databaseAccountEndpoint": "https://e.contoso.com"},
            ],
        });
        store.sync_account_properties(&serde_json::from_value(account).unwrap(), Clock::now());
        let partition = Arc::new(Partition::new("rid".into(), 0.into(), Vec::new()));
        let west = store.snapshot().account.read_endpoints()[0].clone();
        let failed = LocationEffect::MarkPartitionUnavailable {
            partition: Some(partition),
            endpoint: CosmosEndpoint::clone(&west),
            traffic: Traffic::Reads,
            is_probe: false,
        };
        store.apply(&[failed], Clock::now(), |_| 0);
        let tasks = BackgroundTaskManager::new();
        start_sweeping(&store, &tasks.spawner());
        tokio::time::sleep(Duration::from_secs(9)).await;
        assert!(!store.snapshot().partitions.is_empty());
        tokio::time::sleep(Duration::from_secs(2)).await;
        assert!(store.snapshot().partitions.is_empty());
        drop(store);
        tokio::time::sleep(Duration::from_secs(10)).await;
        assert_eq!(tasks.running(), 0);
    }
}

//! The structs of the layers, and all of them on top of each other.

use std::ffi::OsString;
use std::sync::Arc;

use super::layering::{EnvironmentReader, OptionGroup, SettingsTable};
use super::{
    AvailabilityOptions, AvailabilityOptionsView, ClientOptions, ClientOptionsView,
    ConnectionOptions, ConnectionOptionsView, CosmosAccountOptions, CosmosAccountOptionsView,
    EnvironmentError, ItemWriteOptions, ItemWriteOptionsView, PartitionFailoverOptions,
    PartitionFailoverOptionsView, RegionOptions, RegionOptionsView, RequestOptions,
    RequestOptionsView, RetryOptions, RetryOptionsView, Setting, ShardingOptions,
    ShardingOptionsView,
};

/// Defaults of the application, shared by its clients.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CosmosRuntimeOptions {
    /// Transport, user agent and tracing.
    pub client_options: ClientOptions,
    /// Timeouts and the HTTP/1.1 pool.
    pub connection: ConnectionOptions,
    /// HTTP/2 connection sharding.
    pub sharding: ShardingOptions,
    /// Where the application runs and which regions it prefers.
    pub regions: RegionOptions,
    /// Switches of partition-level failover and of session retries.
    pub retry: RetryOptions,
    /// Thresholds of the partition circuit breaker and of failback.
    pub partition_failover: PartitionFailoverOptions,
    /// Hedging, the deadline and the retry budgets.
    pub availability: AvailabilityOptions,
    /// What requests ask of the service.
    pub request: RequestOptions,
    /// Identity and endpoints.
    pub account: CosmosAccountOptions,
}

/// Options of one client.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CosmosClientOptions {
    /// Transport, user agent and tracing.
    pub client_options: ClientOptions,
    /// Timeouts and the HTTP/1.1 pool.
    pub connection: ConnectionOptions,
    /// HTTP/2 connection sharding.
    pub sharding: ShardingOptions,
    /// Where the application runs and which regions it prefers.
    pub regions: RegionOptions,
    /// Switches of partition-level failover and of session retries.
    pub retry: RetryOptions,
    /// Thresholds of the partition circuit breaker and of failback.
    pub partition_failover: PartitionFailoverOptions,
    /// Hedging, the deadline and the retry budgets.
    pub availability: AvailabilityOptions,
    /// What requests ask of the service.
    pub request: RequestOptions,
    /// Identity and endpoints.
    pub account: CosmosAccountOptions,
}

/// What the environment sets: the lowest layer of every group, also of those that only a call can set
/// otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CosmosEnvironmentOptions {
    /// The groups that a runtime and a client can set too.
    pub runtime: CosmosRuntimeOptions,
    /// What otherwise only a write can set.
    pub write: ItemWriteOptions,
}

impl CosmosEnvironmentOptions {
    /// Reads every setting that has a variable from the process environment.
    ///
    /// # Errors
    ///
    /// Every malformed variable of every group, with its value and what was expected.
    pub fn from_env() -> Result<Self, EnvironmentError> {
        Self::from_lookup(|name| std::env::var_os(name))
    }

    /// Reads every setting that has a variable through `lookup`.
    ///
    /// # Errors
    ///
    /// Every malformed variable of every group, with its value and what was expected.
    pub fn from_lookup(
        lookup: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, EnvironmentError> {
        let mut reader = EnvironmentReader::new(&lookup);
        let options = Self {
            runtime: CosmosRuntimeOptions {
                client_options: OptionGroup::read(&mut reader),
                connection: OptionGroup::read(&mut reader),
                sharding: OptionGroup::read(&mut reader),
                regions: OptionGroup::read(&mut reader),
                retry: OptionGroup::read(&mut reader),
                partition_failover: OptionGroup::read(&mut reader),
                availability: OptionGroup::read(&mut reader),
                request: OptionGroup::read(&mut reader),
                account: OptionGroup::read(&mut reader),
            },
            write: OptionGroup::read(&mut reader),
        };
        reader.finish(options)
    }
}

/// The layers below an operation, on top of each other: what a client resolves its settings through.
#[derive(Clone, Debug, Default)]
pub struct OptionLayers {
    environment: Arc<CosmosEnvironmentOptions>,
    runtime: Arc<CosmosRuntimeOptions>,
    account: Arc<CosmosClientOptions>,
}

impl OptionLayers {
    /// Puts an account's options on top of the runtime's and the environment's.
    #[must_use]
    pub fn new(
        environment: Arc<CosmosEnvironmentOptions>,
        runtime: Arc<CosmosRuntimeOptions>,
        account: Arc<CosmosClientOptions>,
    ) -> Self {
        Self { environment, runtime, account }
    }

    /// Transport, user agent and tracing.
    #[must_use]
    pub fn client_options(&self) -> ClientOptionsView<'_> {
        let (environment, runtime, account) = self.layers();
        ClientOptionsView::new(
            &environment.client_options,
            &runtime.client_options,
            &account.client_options,
        )
    }

    /// Timeouts and the HTTP/1.1 pool.
    #[must_use]
    pub fn connection(&self) -> ConnectionOptionsView<'_> {
        let (environment, runtime, account) = self.layers();
        ConnectionOptionsView::new(
            &environment.connection,
            &runtime.connection,
            &account.connection,
        )
    }

    /// HTTP/2 connection sharding.
    #[must_use]
    pub fn sharding(&self) -> ShardingOptionsView<'_> {
        let (environment, runtime, account) = self.layers();
        ShardingOptionsView::new(&environment.sharding, &runtime.sharding, &account.sharding)
    }

    /// Where the application runs and which regions it prefers.
    #[must_use]
    pub fn regions(&self) -> RegionOptionsView<'_> {
        let (environment, runtime, account) = self.layers();
        RegionOptionsView::new(&environment.regions, &runtime.regions, &account.regions)
    }

    /// Switches of partition-level failover and of session retries.
    #[must_use]
    pub fn retry(&self) -> RetryOptionsView<'_> {
        let (environment, runtime, account) = self.layers();
        RetryOptionsView::new(&environment.retry, &runtime.retry, &account.retry)
    }

    /// Thresholds of the partition circuit breaker and of failback.
    #[must_use]
    pub fn partition_failover(&self) -> PartitionFailoverOptionsView<'_> {
        let (environment, runtime, account) = self.layers();
        PartitionFailoverOptionsView::new(
            &environment.partition_failover,
            &runtime.partition_failover,
            &account.partition_failover,
        )
    }

    /// Identity and endpoints.
    #[must_use]
    pub fn account(&self) -> CosmosAccountOptionsView<'_> {
        let (environment, runtime, account) = self.layers();
        CosmosAccountOptionsView::new(&environment.account, &runtime.account, &account.account)
    }

    /// Hedging, the deadline and the retry budgets of one call.
    #[must_use]
    pub fn availability<'a>(
        &'a self,
        operation: &'a AvailabilityOptions,
    ) -> AvailabilityOptionsView<'a> {
        let (environment, runtime, account) = self.layers();
        AvailabilityOptionsView::new(
            &environment.availability,
            &runtime.availability,
            &account.availability,
            operation,
        )
    }

    /// What one call asks of the service.
    #[must_use]
    pub fn request<'a>(&'a self, operation: &'a RequestOptions) -> RequestOptionsView<'a> {
        let (environment, runtime, account) = self.layers();
        RequestOptionsView::new(&environment.request, &runtime.request, &account.request, operation)
    }

    /// What one write asks for.
    #[must_use]
    pub fn write<'a>(&'a self, operation: &'a ItemWriteOptions) -> ItemWriteOptionsView<'a> {
        ItemWriteOptionsView::new(&self.environment.write, operation)
    }

    /// Every setting of every group with its value and the layer it came from, before any call says
    /// otherwise.
    #[must_use]
    pub fn settings(&self) -> Vec<Setting> {
        let availability = AvailabilityOptions::default();
        let request = RequestOptions::default();
        let write = ItemWriteOptions::default();
        let mut table = SettingsTable::default();
        table.nested("client_options", |it| self.client_options().describe(it));
        table.nested("connection", |it| self.connection().describe(it));
        table.nested("sharding", |it| self.sharding().describe(it));
        table.nested("regions", |it| self.regions().describe(it));
        table.nested("retry", |it| self.retry().describe(it));
        table.nested("partition_failover", |it| self.partition_failover().describe(it));
        table.nested("availability", |it| self.availability(&availability).describe(it));
        table.nested("request", |it| self.request(&request).describe(it));
        table.nested("account", |it| self.account().describe(it));
        table.nested("write", |it| self.write(&write).describe(it));
        table.into_settings()
    }

    fn layers(&self) -> (&CosmosRuntimeOptions, &CosmosRuntimeOptions, &CosmosClientOptions) {
        (&self.environment.runtime, &self.runtime, &self.account)
    }
}

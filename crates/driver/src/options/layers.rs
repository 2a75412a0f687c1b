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
    /// Consistency, priority, headers and excluded regions of requests.
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
    /// Consistency, priority, headers and excluded regions of requests.
    pub request: RequestOptions,
    /// Identity and endpoints.
    pub account: CosmosAccountOptions,
}

/// Settings from environment variables: the lowest layer of every group, also of those that only a call can set
/// otherwise.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CosmosEnvironmentOptions {
    /// The groups that a runtime and a client can set too.
    pub runtime: CosmosRuntimeOptions,
    /// Settings of writes, which otherwise only a call can set.
    pub write: ItemWriteOptions,
}

impl CosmosEnvironmentOptions {
    /// Reads every setting that has a variable from the process environment.
    ///
    /// # Errors
    ///
    /// [`EnvironmentError`] with every malformed variable of every group.
    pub fn from_env() -> Result<Self, EnvironmentError> {
        Self::from_lookup(|name| std::env::var_os(name))
    }

    /// Reads every setting that has a variable through `lookup`.
    ///
    /// # Errors
    ///
    /// [`EnvironmentError`] with every malformed variable of every group.
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
///
/// They do not change any more, so they are merged once, and a call's own options are all that is looked at
/// for each operation.
#[derive(Clone, Debug)]
pub struct OptionLayers {
    environment: Arc<CosmosEnvironmentOptions>,
    runtime: Arc<CosmosRuntimeOptions>,
    account: Arc<CosmosClientOptions>,
    merged: Arc<CosmosRuntimeOptions>,
}

impl Default for OptionLayers {
    fn default() -> Self {
        Self::new(Arc::default(), Arc::default(), Arc::default())
    }
}

/// The view of a group across all three layers, where each value's layer still shows.
macro_rules! across_layers {
    ($layers:expr, $view:ident, $group:ident $(, $operation:expr)?) => {
        $view::new(
            &$layers.environment.runtime.$group,
            &$layers.runtime.$group,
            &$layers.account.$group
            $(, $operation)?
        )
    };
}

impl OptionLayers {
    /// Puts an account's options on top of the runtime's and the environment's.
    #[must_use]
    pub fn new(
        environment: Arc<CosmosEnvironmentOptions>,
        runtime: Arc<CosmosRuntimeOptions>,
        account: Arc<CosmosClientOptions>,
    ) -> Self {
        let mut layers = Self { environment, runtime, account, merged: Arc::default() };
        layers.merged = Arc::new(layers.merge());
        layers
    }

    fn merge(&self) -> CosmosRuntimeOptions {
        let (availability, request) = Default::default();
        CosmosRuntimeOptions {
            client_options: across_layers!(self, ClientOptionsView, client_options).merged(),
            connection: across_layers!(self, ConnectionOptionsView, connection).merged(),
            sharding: across_layers!(self, ShardingOptionsView, sharding).merged(),
            regions: across_layers!(self, RegionOptionsView, regions).merged(),
            retry: across_layers!(self, RetryOptionsView, retry).merged(),
            partition_failover: across_layers!(
                self,
                PartitionFailoverOptionsView,
                partition_failover
            )
            .merged(),
            availability: across_layers!(
                self,
                AvailabilityOptionsView,
                availability,
                &availability
            )
            .merged(),
            request: across_layers!(self, RequestOptionsView, request, &request).merged(),
            account: across_layers!(self, CosmosAccountOptionsView, account).merged(),
        }
    }

    /// Transport, user agent and tracing.
    #[must_use]
    pub fn client_options(&self) -> ClientOptionsView<'_> {
        ClientOptionsView::over_merged(&self.merged.client_options)
    }

    /// Timeouts and the HTTP/1.1 pool.
    #[must_use]
    pub fn connection(&self) -> ConnectionOptionsView<'_> {
        ConnectionOptionsView::over_merged(&self.merged.connection)
    }

    /// HTTP/2 connection sharding.
    #[must_use]
    pub fn sharding(&self) -> ShardingOptionsView<'_> {
        ShardingOptionsView::over_merged(&self.merged.sharding)
    }

    /// Where the application runs and which regions it prefers.
    #[must_use]
    pub fn regions(&self) -> RegionOptionsView<'_> {
        RegionOptionsView::over_merged(&self.merged.regions)
    }

    /// Switches of partition-level failover and of session retries.
    #[must_use]
    pub fn retry(&self) -> RetryOptionsView<'_> {
        RetryOptionsView::over_merged(&self.merged.retry)
    }

    /// Thresholds of the partition circuit breaker and of failback.
    #[must_use]
    pub fn partition_failover(&self) -> PartitionFailoverOptionsView<'_> {
        PartitionFailoverOptionsView::over_merged(&self.merged.partition_failover)
    }

    /// Identity and endpoints.
    #[must_use]
    pub fn account(&self) -> CosmosAccountOptionsView<'_> {
        CosmosAccountOptionsView::over_merged(&self.merged.account)
    }

    /// Hedging, the deadline and the retry budgets of one call.
    #[must_use]
    pub fn availability<'a>(
        &'a self,
        operation: &'a AvailabilityOptions,
    ) -> AvailabilityOptionsView<'a> {
        AvailabilityOptionsView::over_merged(&self.merged.availability, operation)
    }

    /// The request options of one call.
    #[must_use]
    pub fn request<'a>(&'a self, operation: &'a RequestOptions) -> RequestOptionsView<'a> {
        RequestOptionsView::over_merged(&self.merged.request, operation)
    }

    /// The write options of one call.
    #[must_use]
    pub fn write<'a>(&'a self, operation: &'a ItemWriteOptions) -> ItemWriteOptionsView<'a> {
        ItemWriteOptionsView::new(&self.environment.write, operation)
    }

    /// Every setting of every group with its value and the layer it came from, before any call says
    /// otherwise.
    #[must_use]
    pub fn settings(&self) -> Vec<Setting> {
        let (availability, request) = Default::default();
        let write = ItemWriteOptions::default();
        let mut table = SettingsTable::default();
        macro_rules! describe {
            ($view:ident, $group:ident $(, $operation:expr)?) => {
                table.nested(stringify!($group), |it| {
                    across_layers!(self, $view, $group $(, $operation)?).describe(it);
                });
            };
        }
        describe!(ClientOptionsView, client_options);
        describe!(ConnectionOptionsView, connection);
        describe!(ShardingOptionsView, sharding);
        describe!(RegionOptionsView, regions);
        describe!(RetryOptionsView, retry);
        describe!(PartitionFailoverOptionsView, partition_failover);
        describe!(AvailabilityOptionsView, availability, &availability);
        describe!(RequestOptionsView, request, &request);
        describe!(CosmosAccountOptionsView, account);
        table.nested("write", |it| self.write(&write).describe(it));
        table.into_settings()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::HeaderValue;
    use http::header::{ACCEPT, TE};

    use super::*;

    /// A value at each layer, and one that only a call sets.
    #[test]
    fn merged_layers_resolve_as_the_layers_do() {
        let mut environment = CosmosEnvironmentOptions::default();
        environment.runtime.availability.max_failover_retry_count = Some(1);
        environment.runtime.availability.max_session_retry_count = Some(1);
        environment.runtime.request.custom_headers =
            Some([(TE, HeaderValue::from_static("environment"))].into());
        let mut runtime = CosmosRuntimeOptions::default();
        runtime.availability.max_session_retry_count = Some(2);
        runtime.connection.connect_timeout = Some(Duration::from_secs(2));
        let mut account = CosmosClientOptions::default();
        account.availability.max_session_retry_count = Some(3);
        account.request.custom_headers =
            Some([(ACCEPT, HeaderValue::from_static("account"))].into());
        let layers = OptionLayers::new(Arc::new(environment), Arc::new(runtime), Arc::new(account));

        let call = AvailabilityOptions::default().with_max_connection_retry_count(4);
        let view = layers.availability(&call);
        assert_eq!(
            [
                view.max_failover_retry_count(),
                view.max_session_retry_count(),
                view.max_connection_retry_count(),
                view.max_throttle_retry_count(),
            ],
            [1, 3, 4, 9]
        );
        assert_eq!(layers.connection().connect_timeout(), Duration::from_secs(2));
        let call =
            RequestOptions::default().with_custom_headers([(TE, HeaderValue::from_static("call"))]);
        let view = layers.request(&call);
        let expected =
            [(TE, HeaderValue::from_static("call")), (ACCEPT, HeaderValue::from_static("account"))];
        assert_eq!(view.custom_headers(), expected.into());
        assert_eq!(view.each_custom_headers().count(), 2, "the merged layers and the call");
    }
}

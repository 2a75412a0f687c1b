//! The runtime that drivers of several accounts share: connections, background tasks, defaults.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;
use tokio::runtime::Handle;

use crate::options::{
    ClientOptions, CosmosClientOptions, CosmosEnvironmentOptions, CosmosRuntimeOptions,
    EnvironmentError, InvalidConfiguration, OptionLayers, validate,
};
use crate::planes::{PlaneBuilder, Planes};
use crate::system::{BackgroundTaskManager, Clock, CpuMemoryMonitor, ShutdownOutcome};
#[cfg(feature = "otel")]
use crate::telemetry::{ActiveInstance, Metrics, Spans};
use crate::transport::{HttpClientFactory, InvalidProxy, NetHttpClientFactory};

/// Connections, background tasks and default settings, shared by the drivers of an application.
///
/// One runtime has one set of connections, for data and for metadata each; accounts that set
/// connection options of their own get connections of their own. Dropping the runtime ends its
/// background tasks; [`shutdown`](Self::shutdown) waits for them.
#[derive(Debug)]
pub struct CosmosDriverRuntime {
    environment: Arc<CosmosEnvironmentOptions>,
    options: Arc<CosmosRuntimeOptions>,
    factory: Arc<dyn HttpClientFactory>,
    extra_roots: Vec<CertificateDer<'static>>,
    loopback_roots: Vec<CertificateDer<'static>>,
    planes: Planes,
    monitor: CpuMemoryMonitor,
    clock: Clock,
    tasks: BackgroundTaskManager,
    #[cfg(feature = "otel")]
    metrics: Option<Metrics>,
    #[cfg(feature = "otel")]
    spans: Option<Spans>,
}

/// Why a runtime could not be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum RuntimeError {
    /// Variables of the environment cannot be read.
    Environment(EnvironmentError),
    /// The proxy that the environment names cannot be used.
    Proxy(InvalidProxy),
    /// Settings of the environment or the runtime cannot work.
    Configuration(InvalidConfiguration),
    /// There is no tokio runtime to run on.
    NoTokioRuntime,
}

impl std::fmt::Display for RuntimeError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Environment(error) => error.fmt(formatter),
            Self::Proxy(error) => error.fmt(formatter),
            Self::Configuration(error) => error.fmt(formatter),
            Self::NoTokioRuntime => formatter.write_str(
                "there is no tokio runtime here: build the driver's runtime within one, \
                 or enter it first (`tokio::runtime::Handle::enter`)",
            ),
        }
    }
}

impl std::error::Error for RuntimeError {}

/// Why a driver could not be made.
#[derive(Debug)]
#[non_exhaustive]
pub enum DriverError {
    /// The account's options allow a proxy, and the one that the environment names cannot be used.
    Proxy(InvalidProxy),
    /// Settings of the account cannot work.
    Configuration(InvalidConfiguration),
}

impl std::fmt::Display for DriverError {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Proxy(error) => error.fmt(formatter),
            Self::Configuration(error) => error.fmt(formatter),
        }
    }
}

impl std::error::Error for DriverError {}

/// Builds a [`CosmosDriverRuntime`].
#[derive(Debug, Default)]
pub struct CosmosDriverRuntimeBuilder {
    options: CosmosRuntimeOptions,
    environment: Option<CosmosEnvironmentOptions>,
    factory: Option<Arc<dyn HttpClientFactory>>,
    extra_roots: Vec<CertificateDer<'static>>,
    loopback_roots: Vec<CertificateDer<'static>>,
    clock: Clock,
    #[cfg(feature = "otel")]
    meter: Option<opentelemetry::metrics::Meter>,
    #[cfg(feature = "otel")]
    spans: Option<Spans>,
}

impl CosmosDriverRuntimeBuilder {
    /// Defaults of the application.
    #[must_use]
    pub fn options(mut self, options: CosmosRuntimeOptions) -> Self {
        self.options = options;
        self
    }

    /// The environment's settings, instead of those of the process.
    #[must_use]
    pub fn environment(mut self, environment: CosmosEnvironmentOptions) -> Self {
        self.environment = Some(environment);
        self
    }

    /// Where HTTP clients come from, instead of our own.
    #[must_use]
    pub fn http_client_factory(mut self, factory: Arc<dyn HttpClientFactory>) -> Self {
        self.factory = Some(factory);
        self
    }

    /// A root that is trusted beside the platform's, such as an emulator's.
    #[must_use]
    pub fn trust_root(mut self, root: CertificateDer<'static>) -> Self {
        self.extra_roots.push(root);
        self
    }

    /// A root that is trusted beside the platform's for endpoints of this machine alone.
    #[must_use]
    pub fn trust_root_on_loopback(mut self, root: CertificateDer<'static>) -> Self {
        self.loopback_roots.push(root);
        self
    }

    /// Time, randomness and ids, instead of the system's: [`Clock::simulated`] makes a run repeatable.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Where metrics of operations and connections go, such as `&opentelemetry::global::meter_provider()`.
    ///
    /// Give runtimes that share a provider endpoints of their own: connections are counted by endpoint, and of two
    /// counts of one endpoint a provider keeps the last.
    #[cfg(feature = "otel")]
    #[must_use]
    pub fn meter_provider(mut self, provider: &dyn opentelemetry::metrics::MeterProvider) -> Self {
        self.meter = Some(provider.meter_with_scope(Metrics::scope()));
        self
    }

    /// Where spans of operations go, such as `&opentelemetry::global::tracer_provider()`. A span's parent is the
    /// OpenTelemetry context that is current where the operation is executed.
    #[cfg(feature = "otel")]
    #[must_use]
    pub fn tracer_provider<P>(mut self, provider: &P) -> Self
    where
        P: opentelemetry::trace::TracerProvider,
        P::Tracer: Send + Sync + 'static,
        <P::Tracer as opentelemetry::trace::Tracer>::Span: Send + Sync + 'static,
    {
        self.spans = Some(Spans::new(provider));
        self
    }

    /// Makes the runtime on the tokio runtime that runs now.
    ///
    /// # Errors
    ///
    /// [`RuntimeError::Environment`] and [`RuntimeError::Proxy`] if a variable is malformed,
    /// [`RuntimeError::Configuration`] if a setting is invalid, [`RuntimeError::NoTokioRuntime`] outside a runtime.
    pub fn build(self) -> Result<Arc<CosmosDriverRuntime>, RuntimeError> {
        let tokio = Handle::try_current().map_err(|_| RuntimeError::NoTokioRuntime)?;
        let environment = match self.environment {
            Some(environment) => environment,
            None => CosmosEnvironmentOptions::from_env().map_err(RuntimeError::Environment)?,
        };
        let (environment, options) = (Arc::new(environment), Arc::new(self.options));
        let layers =
            OptionLayers::new(Arc::clone(&environment), Arc::clone(&options), Arc::default());
        validate(&layers).map_err(RuntimeError::Configuration)?;
        let factory = self.factory.unwrap_or_else(|| Arc::new(NetHttpClientFactory::new()));
        let tasks = BackgroundTaskManager::on(tokio);
        let monitor = CpuMemoryMonitor::start(
            &self.clock,
            &tasks.spawner(),
            layers.client_options().cpu_refresh_interval(),
        );
        let builder = PlaneBuilder {
            factory: &factory,
            extra_roots: &self.extra_roots,
            loopback_roots: &self.loopback_roots,
            tasks: &tasks,
            monitor: &monitor,
            clock: &self.clock,
        };
        let planes = builder.planes(&layers).map_err(RuntimeError::Proxy)?;
        #[cfg(feature = "otel")]
        let metrics = self.meter.as_ref().map(Metrics::new);
        #[cfg(feature = "otel")]
        metrics.iter().for_each(|metrics| metrics.count_shards(&planes));
        Ok(Arc::new(CosmosDriverRuntime {
            environment,
            options,
            factory,
            extra_roots: self.extra_roots,
            loopback_roots: self.loopback_roots,
            planes,
            monitor,
            clock: self.clock,
            tasks,
            #[cfg(feature = "otel")]
            metrics,
            #[cfg(feature = "otel")]
            spans: self.spans,
        }))
    }
}

impl CosmosDriverRuntime {
    /// A runtime with settings of its own.
    #[must_use]
    pub fn builder() -> CosmosDriverRuntimeBuilder {
        CosmosDriverRuntimeBuilder::default()
    }

    /// The settings of an account on top of the runtime's and the environment's.
    #[must_use]
    pub fn layers(&self, account: Arc<CosmosClientOptions>) -> OptionLayers {
        OptionLayers::new(Arc::clone(&self.environment), Arc::clone(&self.options), account)
    }

    /// Where time, randomness and ids come from.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// How busy the machine has been.
    #[must_use]
    pub fn monitor(&self) -> &CpuMemoryMonitor {
        &self.monitor
    }

    /// The shared connections now: those for data, then those for metadata, endpoint by endpoint.
    #[cfg(feature = "internals")]
    #[must_use]
    pub fn pool_snapshots(&self) -> Vec<crate::transport::internals::PoolSnapshot> {
        let planes = [&self.planes.data, &self.planes.metadata];
        planes.into_iter().flat_map(|plane| plane.transport.snapshots()).collect()
    }

    /// Ends the background tasks, after what they do or after the grace.
    pub async fn shutdown(&self, grace: Duration) -> ShutdownOutcome {
        self.tasks.shutdown(grace).await
    }

    /// An owner for the background tasks of one driver: they end with it, and with the runtime.
    pub(crate) fn task_scope(&self) -> BackgroundTaskManager {
        self.tasks.spawner().scope()
    }

    /// The connections of an account: the shared ones, unless it set connection options itself.
    pub(crate) fn planes_for(
        &self,
        layers: &OptionLayers,
        account: &CosmosClientOptions,
        tasks: &BackgroundTaskManager,
    ) -> Result<Planes, InvalidProxy> {
        // Only what connections are made with counts; any other option can differ between accounts that
        // share them.
        let unset = CosmosClientOptions::default();
        let connecting = ClientOptions {
            user_agent_suffix: None,
            tracing_enabled: None,
            cpu_refresh_interval: None,
            slow_point_operation_threshold: None,
            slow_operation_threshold: None,
            request_charge_threshold: None,
            ..account.client_options.clone()
        };
        let is_shared = connecting == unset.client_options
            && account.connection == unset.connection
            && account.sharding == unset.sharding;
        if is_shared {
            return Ok(self.planes.clone());
        }
        let builder = PlaneBuilder {
            factory: &self.factory,
            extra_roots: &self.extra_roots,
            loopback_roots: &self.loopback_roots,
            tasks,
            monitor: &self.monitor,
            clock: &self.clock,
        };
        let planes = builder.planes(layers)?;
        #[cfg(feature = "otel")]
        self.metrics.iter().for_each(|metrics| metrics.count_shards(&planes));
        Ok(planes)
    }

    /// Counts a driver of an account, if the runtime has a meter provider.
    #[cfg(feature = "otel")]
    pub(crate) fn count_instance(
        &self,
        account: &crate::exchange::Endpoint,
    ) -> Option<ActiveInstance> {
        self.metrics.as_ref().map(|metrics| metrics.count_instance(account))
    }

    /// Measures an operation that has ended, and makes its span, if the runtime has providers for them.
    #[cfg(feature = "otel")]
    pub(crate) fn measure(
        &self,
        operation: &crate::CosmosOperation,
        outcome: &Result<crate::CosmosResponse, crate::Error>,
    ) {
        if let Some(metrics) = &self.metrics {
            metrics.ended(operation, outcome);
        }
        if let Some(spans) = &self.spans {
            spans.ended(operation, outcome, self.clock.wall());
        }
    }
}

//! The connections of a runtime or of an account: those for data, and those for metadata.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::CertificateDer;

use crate::options::OptionLayers;
use crate::system::{BackgroundTaskManager, Clock, CpuMemoryMonitor};
use crate::transport::{
    AdaptiveTransport, HttpClientConfig, HttpClientFactory, InvalidProxy, PoolContext,
    ShardingConfig,
};

/// Connections for data and for metadata, with the timeout of a request of each.
#[derive(Clone, Debug)]
pub(crate) struct Planes {
    pub(crate) data: Plane,
    pub(crate) metadata: Plane,
}

/// Connections, and how long one request over them may take.
#[derive(Clone, Debug)]
pub(crate) struct Plane {
    pub(crate) transport: Arc<AdaptiveTransport>,
    pub(crate) request_timeout: Duration,
}

/// Makes the connections of a runtime or of an account.
pub(crate) struct PlaneBuilder<'a> {
    pub(crate) factory: &'a Arc<dyn HttpClientFactory>,
    pub(crate) extra_roots: &'a [CertificateDer<'static>],
    pub(crate) loopback_roots: &'a [CertificateDer<'static>],
    pub(crate) tasks: &'a BackgroundTaskManager,
    pub(crate) monitor: &'a CpuMemoryMonitor,
    pub(crate) clock: &'a Clock,
}

impl PlaneBuilder<'_> {
    /// The connections that the settings ask for.
    pub(crate) fn planes(&self, layers: &OptionLayers) -> Result<Planes, InvalidProxy> {
        Ok(Planes {
            data: self.plane(HttpClientConfig::data_plane(layers)?, layers),
            metadata: self.plane(HttpClientConfig::metadata(layers)?, layers),
        })
    }

    fn plane(&self, mut client_config: HttpClientConfig, layers: &OptionLayers) -> Plane {
        client_config.extra_roots = self.extra_roots.to_vec();
        client_config.loopback_roots = self.loopback_roots.to_vec();
        let request_timeout = client_config.request_timeout;
        let sharding = ShardingConfig::from(layers.sharding()).for_answers_within(request_timeout);
        let transport = AdaptiveTransport::new(PoolContext {
            factory: Arc::clone(self.factory),
            client_config,
            eager_clients_per_endpoint: sharding.eager_clients(),
            sharding,
            tasks: self.tasks.spawner(),
            clock: self.clock.clone(),
        });
        // Not started only if the owner is gone, and then nothing is left to sweep.
        transport.start_sweeping(self.monitor.load());
        Plane { transport, request_timeout }
    }
}

//! The transport, as an operation uses it.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::uri::PathAndQuery;
use sidereal_driver::diagnostics::{DiagnosticsContextBuilder, ExecutionContext};
use sidereal_driver::options::{
    AvailabilityOptions, CosmosClientOptions, OptionLayers, ShardingOptions,
};
use sidereal_driver::system::internals::BackgroundTaskManager;
use sidereal_driver::system::{Clock, CpuMemoryMonitor};
use sidereal_driver::transport::internals::{
    AdaptiveTransport, AuthorizationContext, AuthorizationPolicy, Budgets, CosmosHeadersPolicy,
    HeaderList, PoolContext, RequestKind, ShardingConfig, TransportOutcome, TransportPipeline,
    TransportRequest,
};
use sidereal_driver::transport::{Credential, Endpoint, HttpClientConfig, NetHttpClientFactory};
use sidereal_protocol::{AccountKey, ResourceType};

use crate::STREAMS;
use crate::request::{BODY_BYTES, PATH, Shape, own_headers};
use crate::server::ServerProcess;

pub(crate) struct Ours {
    pipeline: TransportPipeline,
    endpoint: Endpoint,
    shape: Shape,
    path: PathAndQuery,
    own: HeaderList,
    body: Bytes,
    budgets: Budgets,
    _tasks: BackgroundTaskManager,
}

impl Ours {
    pub(crate) fn new(server: &ServerProcess, connections: usize, shape: Shape) -> Self {
        let options = options(connections);
        let mut client_config = HttpClientConfig::data_plane(&options).unwrap();
        client_config.extra_roots = vec![server.root.clone()];
        let request_timeout = client_config.request_timeout;
        let tasks = BackgroundTaskManager::new();
        let sharding = ShardingConfig::from(options.sharding());
        let transport = AdaptiveTransport::new(PoolContext {
            factory: Arc::new(NetHttpClientFactory::new()),
            client_config,
            eager_clients_per_endpoint: sharding.eager_clients(),
            sharding,
            tasks: tasks.spawner(),
            clock: Clock::system(),
        });
        let monitor =
            CpuMemoryMonitor::start(&Clock::system(), &tasks.spawner(), Duration::from_secs(5));
        transport.start_sweeping(monitor.load());
        let key = AccountKey::from_base64(
            "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw==",
        );
        let unset = AvailabilityOptions::default();
        Self {
            pipeline: TransportPipeline::new(
                CosmosHeadersPolicy::new(&options, &Clock::system()),
                AuthorizationPolicy::new(
                    Credential::Key(key.unwrap()),
                    (&options).into(),
                    &tasks.spawner(),
                ),
                transport,
                request_timeout,
                Clock::system(),
            ),
            endpoint: format!("https://localhost:{}", server.port).parse().unwrap(),
            shape,
            path: PathAndQuery::from_static(PATH),
            own: own_headers().iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            body: shape.body(),
            budgets: Budgets::new(&options.availability(&unset)),
            _tasks: tasks,
        }
    }

    pub(crate) async fn request(&self) {
        let activity_id = Clock::system().new_id();
        let now = Clock::now();
        let mut diagnostics = DiagnosticsContextBuilder::new(activity_id, now);
        let request = TransportRequest {
            method: self.shape.method(),
            endpoint: self.endpoint.clone(),
            slot: 0,
            region: None,
            partition_range: None,
            path: self.path.clone(),
            headers: self.own.clone(),
            body: self.body.clone(),
            auth_context: AuthorizationContext {
                resource_type: ResourceType::Document,
                signed_link: "dbs/store/colls/orders/docs/1234567890".into(),
            },
            activity_id,
            execution_context: ExecutionContext::Initial,
            kind: RequestKind::Read,
            deadline: Some(now + Duration::from_secs(6)),
            started: None,
            slow_after: None,
            budgets: self.budgets,
        };
        let result = self.pipeline.execute(&request, &mut diagnostics).await;
        let context = diagnostics.complete(result.outcome.status(), result.at);
        match result.outcome {
            TransportOutcome::Success(response) => assert_eq!(response.body.len(), BODY_BYTES),
            other => panic!("{other:?}\n{context}"),
        }
    }
}

fn options(connections: usize) -> OptionLayers {
    let count = |number: usize| NonZeroU32::new(u32::try_from(number).unwrap()).unwrap();
    let sharding = ShardingOptions::default()
        .with_max_streams_per_client(count(STREAMS))
        .with_max_clients_per_endpoint(count(connections));
    let account = CosmosClientOptions { sharding, ..CosmosClientOptions::default() };
    OptionLayers::new(Arc::default(), Arc::default(), Arc::new(account))
}

//! The transport as a test wants it: made over any [`HttpClientFactory`], used on both of its levels.
//!
//! [`Setup`] is what a transport is made with, [`Client`] the transport at work. [`Client::send`] goes
//! straight to the connections, [`Client::execute`] through the pipeline that signs and repeats.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{HeaderValue, Method};
use sidereal_driver::diagnostics::{
    DiagnosticsContext, DiagnosticsContextBuilder, ExecutionContext, RequestDiagnostics,
};
use sidereal_driver::options::{AvailabilityOptions, OptionLayers};
use sidereal_driver::system::Clock;
use sidereal_driver::system::internals::BackgroundTaskManager;
use sidereal_driver::transport::internals::{
    AdaptiveTransport, AuthorizationContext, AuthorizationOptions, AuthorizationPolicy, Budgets,
    CosmosHeadersPolicy, EndpointShardPool, HeaderList, PoolContext, PoolKind, PoolSnapshot,
    RequestKind, SendTerms, ShardingConfig, TransportOutcome, TransportPipeline, TransportRequest,
};
use sidereal_driver::transport::{
    Credential, Endpoint, HttpClientConfig, HttpClientFactory, HttpError, HttpRequest,
    HttpResponse, HttpVersions,
};
use sidereal_protocol::headers::names;
use sidereal_protocol::{AccountKey, ResourceType};
use tokio::task::JoinHandle;
use uuid::Uuid;

use crate::peers::Certificates;
use crate::within_timeout;

/// The key of the accounts here, as a user writes it.
pub const KEY: &str = "c2lkZXJlYWwtdGVzdC1hY2NvdW50LWtleS1zaWRlcmVhbA==";

/// How often a state that nobody announces is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(2);

/// The configuration of a transport. A test changes what it is about and leaves the rest.
#[derive(Clone)]
pub struct Setup {
    factory: Arc<dyn HttpClientFactory>,
    /// The configuration of HTTP clients.
    pub client: HttpClientConfig,
    /// How many connections share the load, and when one is evicted.
    pub sharding: ShardingConfig,
    /// How many connections are made as soon as streams run out.
    pub eager_clients_per_endpoint: u32,
    /// The credential of requests.
    pub credential: Credential,
    /// The retry budget of a throttled request.
    pub budgets: Budgets,
}

impl Setup {
    /// The defaults, without a proxy, over the given clients. Cleartext is HTTP/2.
    pub fn over(factory: Arc<dyn HttpClientFactory>) -> Self {
        let options = OptionLayers::default();
        let mut client = HttpClientConfig::data_plane(&options).unwrap();
        // The machine that runs the tests may have a proxy in its environment.
        client.proxy = None;
        client.versions = HttpVersions::Http2PriorKnowledge;
        let sharding = ShardingConfig::from(options.sharding());
        Self {
            factory,
            client,
            eager_clients_per_endpoint: sharding.eager_clients(),
            sharding,
            credential: Credential::Key(AccountKey::from_base64(KEY).unwrap()),
            budgets: Budgets::new(&options.availability(&AvailabilityOptions::default())),
        }
    }

    /// At most this many shards, made as soon as streams run out, with at most this many streams each.
    pub fn shards(mut self, most: u32, streams: u32) -> Self {
        self.sharding.max_clients_per_endpoint = most;
        self.eager_clients_per_endpoint = most;
        self.sharding.max_streams_per_client = streams;
        self.client.initial_max_streams = streams;
        self
    }

    /// Speaks what the peer chooses, and trusts the root of its certificate.
    pub fn trusting(mut self, certificates: &Certificates) -> Self {
        self.client.extra_roots.push(certificates.root_der());
        self.versions(HttpVersions::Negotiate)
    }

    /// The versions of HTTP that are offered.
    pub fn versions(mut self, versions: HttpVersions) -> Self {
        self.client.versions = versions;
        self
    }

    /// Any other change.
    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// One pool alone, whose tasks are another's.
    pub fn pool(
        self,
        url: &str,
        kind: PoolKind,
        tasks: &BackgroundTaskManager,
    ) -> Arc<EndpointShardPool> {
        EndpointShardPool::new(endpoint(url), kind, self.context(tasks))
    }

    fn context(self, tasks: &BackgroundTaskManager) -> PoolContext {
        PoolContext {
            factory: self.factory,
            client_config: self.client,
            sharding: self.sharding,
            eager_clients_per_endpoint: self.eager_clients_per_endpoint,
            tasks: tasks.spawner(),
            clock: Clock::system(),
        }
    }

    /// Puts the transport to work. Nothing is connected yet.
    pub fn start(self) -> Client {
        let tasks = BackgroundTaskManager::new();
        let (request_timeout, budgets) = (self.client.request_timeout, self.budgets);
        let authorization = AuthorizationOptions {
            emulator_hosts: self.client.emulator_hosts.clone(),
            ..AuthorizationOptions::from(&OptionLayers::default())
        };
        let auth_policy =
            AuthorizationPolicy::new(self.credential.clone(), authorization, &tasks.spawner());
        let transport = AdaptiveTransport::new(self.context(&tasks));
        let pipeline = TransportPipeline::new(
            CosmosHeadersPolicy::new(&OptionLayers::default(), &Clock::system()),
            auth_policy,
            Arc::clone(&transport),
            request_timeout,
            Clock::system(),
        );
        // No jitter: tests assert on back-offs.
        let pipeline = Arc::new(pipeline.with_jitter(|_| 0.0));
        Client { transport, pipeline, budgets, tasks }
    }
}

/// A transport at work. Its tasks end with it.
pub struct Client {
    /// The connections.
    pub transport: Arc<AdaptiveTransport>,
    /// The pipeline over them.
    pub pipeline: Arc<TransportPipeline>,
    budgets: Budgets,
    /// The owner of the background tasks.
    pub tasks: BackgroundTaskManager,
}

/// The outcome of a request at the level of connections.
pub struct Sent {
    /// The response, or why none came.
    pub outcome: Result<HttpResponse, HttpError>,
    /// The diagnostics of the attempt.
    pub diagnostics: RequestDiagnostics,
}

/// The outcome of a request at the level of the pipeline.
pub struct Executed {
    /// How the request ended.
    pub outcome: TransportOutcome,
    /// The diagnostics of all attempts.
    pub diagnostics: DiagnosticsContext,
}

impl Client {
    /// Sends a request for a path of a peer over some connection, once.
    pub fn send(&self, url: &str, path: &str) -> impl Future<Output = Sent> + Send + use<> {
        self.send_on(url, path, SendTerms::default())
    }

    /// Sends a request for a path of a peer on terms of its own, without retries.
    pub fn send_on(
        &self,
        url: &str,
        path: &str,
        terms: SendTerms,
    ) -> impl Future<Output = Sent> + Send + use<> {
        let transport = Arc::clone(&self.transport);
        let endpoint = endpoint(url);
        let uri = endpoint.uri(path.parse().unwrap());
        async move {
            let started = Instant::now();
            let context = ExecutionContext::Initial;
            let mut diagnostics = RequestDiagnostics::new(context, None, endpoint.clone(), started);
            let mut request = HttpRequest::new(Bytes::new());
            *request.uri_mut() = uri;
            let outcome = transport.send(&endpoint, &mut request, &mut diagnostics, terms).await;
            Sent { outcome, diagnostics }
        }
    }

    /// Sends a request for a path of a peer that must be answered with success.
    pub async fn get_ok(&self, url: &str, path: &str) -> HttpResponse {
        let sent = within_timeout(path, self.send(url, path)).await;
        let response = sent.outcome.unwrap();
        assert_eq!(response.status(), 200, "{path}");
        response
    }

    /// Begins a request for each path, in this order.
    pub fn begin(
        &self,
        url: &str,
        paths: impl IntoIterator<Item = String>,
    ) -> Vec<JoinHandle<Sent>> {
        paths.into_iter().map(|path| tokio::spawn(self.send(url, &path))).collect()
    }

    /// A request that may be repeated and has no deadline, for a test to change and to execute.
    pub fn read(&self, url: &str, path: &str) -> TransportRequest {
        TransportRequest {
            method: Method::GET,
            endpoint: endpoint(url),
            slot: 0,
            region: None,
            partition_range: None,
            path: path.parse().unwrap(),
            headers: HeaderList::default(),
            body: Bytes::new(),
            auth_context: AuthorizationContext {
                resource_type: ResourceType::Document,
                signed_link: path.trim_start_matches('/').into(),
            },
            activity_id: Uuid::new_v4(),
            execution_context: ExecutionContext::Initial,
            kind: RequestKind::Read,
            deadline: None,
            started: None,
            slow_after: None,
            budgets: self.budgets,
        }
    }

    /// A request with a body that must not be applied twice.
    pub fn write(&self, url: &str, path: &str, body: impl Into<Bytes>) -> TransportRequest {
        let mut request = self.read(url, path);
        request.method = Method::POST;
        request.body = body.into();
        request.kind = RequestKind::Write;
        request
    }

    /// A request to an account about a kind of resource: reads it, or with a body makes a new one, which
    /// is signed by the link of its parent. Items are those of the partition `p`.
    pub fn about(
        &self,
        url: &str,
        kind: ResourceType,
        path: &str,
        body: &'static str,
    ) -> TransportRequest {
        let mut request = self.write(url, path, body);
        let mut signed_link = path.trim_start_matches('/');
        if body.is_empty() {
            request.method = Method::GET;
        } else {
            signed_link = signed_link.rsplit_once('/').map_or("", |(parent, _)| parent);
        }
        request.auth_context =
            AuthorizationContext { resource_type: kind, signed_link: signed_link.into() };
        if kind == ResourceType::Document {
            request.headers.insert(names::PARTITION_KEY, HeaderValue::from_static(r#"["p"]"#));
        }
        request
    }

    /// Takes a request through the pipeline.
    pub fn execute(
        &self,
        request: TransportRequest,
    ) -> impl Future<Output = Executed> + Send + use<> {
        let pipeline = Arc::clone(&self.pipeline);
        async move {
            let mut diagnostics = DiagnosticsContextBuilder::new(Uuid::new_v4(), Instant::now());
            let result = pipeline.execute(&request, &mut diagnostics).await;
            let diagnostics = diagnostics.complete(result.outcome.status(), result.at);
            Executed { outcome: result.outcome, diagnostics }
        }
    }

    /// The pool of an endpoint now.
    pub fn snapshot(&self, url: &str) -> PoolSnapshot {
        self.transport.pool(&endpoint(url)).snapshot()
    }

    /// Waits until what there is to an endpoint meets the condition.
    pub async fn until(
        &self,
        url: &str,
        condition: impl Fn(&PoolSnapshot) -> bool,
    ) -> PoolSnapshot {
        let looking = async {
            loop {
                let snapshot = self.snapshot(url);
                if condition(&snapshot) {
                    return snapshot;
                }
                tokio::time::sleep(LOOK_AGAIN).await;
            }
        };
        within_timeout("a state of the pool", looking).await
    }

    /// Waits until so many requests are on connections, draining ones not counted.
    pub async fn until_inflight(&self, url: &str, count: u32) -> PoolSnapshot {
        self.until(url, |pool| inflight(pool) == count).await
    }

    /// Waits until no request is on a connection or in the queue.
    pub async fn until_idle(&self, url: &str) -> PoolSnapshot {
        self.until(url, |pool| inflight(pool) == 0 && pool.queued == 0).await
    }
}

impl Executed {
    /// The answer, which must be a success.
    pub fn body(&self) -> &Bytes {
        match &self.outcome {
            TransportOutcome::Success(response) => &response.body,
            other => panic!("expected a success, got {other:?}"),
        }
    }

    /// The error, which there must be.
    pub fn error(&self) -> &HttpError {
        match &self.outcome {
            TransportOutcome::TransportError { error, .. } => error,
            other => panic!("expected a transport error, got {other:?}"),
        }
    }
}

/// The requests that are on connections.
pub fn inflight(pool: &PoolSnapshot) -> u32 {
    pool.shards.iter().map(|shard| shard.stats.inflight).sum()
}

/// The paths `/0`, `/1` and so on.
pub fn numbered(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("/{number}"))
}

/// The endpoint at a URL.
pub fn endpoint(url: &str) -> Endpoint {
    url.parse().unwrap()
}

/// Waits for a task that must not panic.
pub async fn joined<T>(task: JoinHandle<T>) -> T {
    within_timeout("a request to end", task).await.unwrap()
}

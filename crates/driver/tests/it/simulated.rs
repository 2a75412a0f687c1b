//! The driver on a paused clock, over clients that answer by a script: no sockets, no waiting.
//!
//! The clients are those of somebody else: they answer, lose or keep a request, and write nothing into the
//! diagnostics.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use sidereal_driver::diagnostics::{Decision, RequestDiagnostics};
use sidereal_driver::options::{CosmosClientOptions, CosmosEnvironmentOptions};
use sidereal_driver::system::Clock;
use sidereal_driver::transport::{
    Credential, Endpoint, HttpClient, HttpClientConfig, HttpClientFactory, HttpError,
    HttpErrorKind, HttpFuture, HttpRequest, HttpResponse, RequestSentStatus,
};
use sidereal_driver::{
    CosmosDriver, CosmosDriverRuntime, CosmosOperation, CosmosResponse, Error, ErrorKind,
    OperationOptions, RuntimeError,
};
use sidereal_protocol::{
    AccountKey, OperationType, PartitionKey, RequestPath, ResourceLink, ResourceType,
};

/// The fate of a request.
enum Step {
    /// It is answered after a while, with a status and a retry-after.
    Answer { after: Duration, status: u16, retry_after: Option<u64> },
    /// It is sent, and its connection lost.
    Lose,
    /// It is never answered.
    Keep,
}

fn answer(after: Duration, status: u16) -> Step {
    Step::Answer { after, status, retry_after: None }
}

/// Clients that do with the n-th request what the script says; reads of the account and of its containers are
/// not counted.
struct Scripted {
    script: Arc<dyn Fn(usize) -> Step + Send + Sync>,
    clients: AtomicUsize,
    requests: Arc<AtomicUsize>,
}

impl Scripted {
    fn new(script: impl Fn(usize) -> Step + Send + Sync + 'static) -> Arc<Self> {
        let (clients, requests) = (AtomicUsize::new(0), Arc::default());
        Arc::new(Self { script: Arc::new(script), clients, requests })
    }

    fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

impl fmt::Debug for Scripted {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Scripted")
    }
}

impl HttpClientFactory for Scripted {
    fn create(&self, _: &Endpoint, _: &HttpClientConfig) -> Arc<dyn HttpClient> {
        self.clients.fetch_add(1, Ordering::SeqCst);
        Arc::new(ScriptedClient {
            script: Arc::clone(&self.script),
            requests: Arc::clone(&self.requests),
        })
    }
}

struct ScriptedClient {
    script: Arc<dyn Fn(usize) -> Step + Send + Sync>,
    requests: Arc<AtomicUsize>,
}

impl fmt::Debug for ScriptedClient {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("ScriptedClient")
    }
}

impl HttpClient for ScriptedClient {
    fn execute<'a>(
        &'a self,
        request: HttpRequest,
        _: &'a mut RequestDiagnostics,
    ) -> HttpFuture<'a, HttpResponse> {
        if request.uri().path() == "/" {
            // An account that says nothing of regions: all requests go to its one endpoint.
            return Box::pin(async { Ok(HttpResponse::new(Bytes::from_static(b"{}"))) });
        }
        if is_about_container(request.uri().path()) {
            // A container of which nothing can be known: operations do without.
            return Box::pin(async {
                Ok(http::Response::builder().status(404).body(Bytes::new()).unwrap())
            });
        }
        let step = (self.script)(self.requests.fetch_add(1, Ordering::SeqCst));
        Box::pin(async move {
            match step {
                Step::Answer { after, status, retry_after } => {
                    tokio::time::sleep(after).await;
                    let mut response = http::Response::builder().status(status);
                    if let Some(milliseconds) = retry_after {
                        response = response.header("x-ms-retry-after-ms", milliseconds);
                    }
                    Ok(response.body(Bytes::from_static(b"{}")).unwrap())
                }
                Step::Lose => Err(HttpError::new(
                    HttpErrorKind::ConnectionLost,
                    RequestSentStatus::MaybeSent,
                    "the connection was lost",
                )),
                Step::Keep => std::future::pending().await,
            }
        })
    }
}

fn is_about_container(path: &str) -> bool {
    path.ends_with("/colls/orders") || path.ends_with("/pkranges")
}

fn runtime(clients: &Arc<Scripted>, seed: u64) -> Arc<CosmosDriverRuntime> {
    CosmosDriverRuntime::builder()
        .environment(CosmosEnvironmentOptions::default())
        .http_client_factory(Arc::clone(clients) as Arc<dyn HttpClientFactory>)
        .clock(Clock::simulated(seed, UNIX_EPOCH + Duration::from_secs(1_700_000_000)))
        .build()
        .unwrap()
}

fn driver_on(runtime: &Arc<CosmosDriverRuntime>, options: CosmosClientOptions) -> CosmosDriver {
    let key = AccountKey::from_base64("c2VjcmV0").unwrap();
    let endpoint = "https://contoso.documents.azure.com/".parse().unwrap();
    CosmosDriver::new(Arc::clone(runtime), endpoint, Credential::Key(key), options).unwrap()
}

async fn execute(
    clients: &Arc<Scripted>,
    operation: &CosmosOperation,
) -> Result<CosmosResponse, Error> {
    let driver = driver_on(&runtime(clients, 7), CosmosClientOptions::default());
    driver.execute_operation(operation, &OperationOptions::default()).await
}

fn orders() -> ResourceLink {
    ResourceLink::container("store", "orders").unwrap()
}

fn read_order() -> CosmosOperation {
    let path = RequestPath::of(orders().item("1").unwrap());
    CosmosOperation::new(OperationType::Read, path)
        .with_partition_key(PartitionKey::from("contoso"))
}

/// The diagnostics of operations that meet throttling, losses and latency of every length.
fn a_run(seed: u64) -> Vec<String> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let tokio = builder.enable_all().start_paused(true).build().unwrap();
    tokio.block_on(async {
        let clients = Scripted::new(|number| match number % 7 {
            2 => Step::Answer { after: Duration::ZERO, status: 429, retry_after: None },
            4 => Step::Lose,
            5 => Step::Keep,
            _ => answer(Duration::from_millis(number as u64 * 37 % 9_000), 200),
        });
        let driver = driver_on(&runtime(&clients, seed), CosmosClientOptions::default());
        let mut told = Vec::new();
        for _ in 0..200 {
            let outcome = driver.execute_operation(&read_order(), &Default::default()).await;
            told.push(match outcome {
                Ok(response) => response.diagnostics().to_json(),
                Err(error) => error.diagnostics().unwrap().to_json(),
            });
        }
        told
    })
}

/// On a paused clock every operation met its deadline at once, and no two runs were alike.
#[test]
fn two_runs_with_the_same_seed_tell_the_same_byte_for_byte() {
    let (first, second, other) = (a_run(7), a_run(7), a_run(8));
    let difference = first.iter().zip(&second).find(|(one, two)| one != two);
    assert_eq!(difference, None);
    assert!(first.iter().zip(&other).all(|(one, two)| one != two));
    // Nothing here happens often enough in a row to spend a budget.
    let succeeded = |it: &&String| it.contains("\"status\":{\"code\":200,\"sub_status\":0");
    assert_eq!(first.iter().filter(succeeded).count(), 200);
}

/// A client that never says "sent" and times out counted as not sent: the procedure ran twice.
#[tokio::test(start_paused = true)]
async fn a_stored_procedure_runs_once_if_its_client_reports_nothing() {
    let clients = Scripted::new(|_| Step::Keep);
    let link = orders().child(ResourceType::StoredProcedure, "transfer").unwrap();
    let call = CosmosOperation::new(OperationType::Execute, RequestPath::of(link));
    let error = execute(&clients, &call).await.unwrap_err();
    assert_eq!((error.kind(), clients.requests()), (ErrorKind::Unavailable, 1));
    assert!(error.may_have_been_applied());
}

/// It was evicted after thirty seconds, although a metadata request may take sixty-five.
#[tokio::test(start_paused = true)]
async fn a_slow_answer_of_metadata_within_its_timeout_is_awaited() {
    let clients = Scripted::new(|_| answer(Duration::from_secs(45), 200));
    let path = RequestPath::of(ResourceLink::database("store").unwrap());
    let read = CosmosOperation::new(OperationType::Read, path);
    let response = execute(&clients, &read).await.unwrap();
    assert_eq!(response.diagnostics().elapsed(), Duration::from_secs(45));
    assert_eq!(clients.requests(), 1);
}

/// It said that nothing had been applied, and the caller took its own item for somebody else's.
#[tokio::test(start_paused = true)]
async fn a_lost_create_that_meets_a_conflict_may_have_been_applied() {
    let clients = Scripted::new(|number| match number {
        0 => Step::Lose,
        _ => answer(Duration::ZERO, 409),
    });
    let path = RequestPath::feed(orders(), ResourceType::Document).unwrap();
    let create = CosmosOperation::new(OperationType::Create, path)
        .with_partition_key(PartitionKey::from("contoso"))
        .with_body(Bytes::from_static(b"{\"id\":\"1\"}"));
    let error = execute(&clients, &create).await.unwrap_err();
    assert_eq!((error.kind(), clients.requests()), (ErrorKind::Conflict, 2));
    assert!(error.may_have_been_applied());
}

/// All retries were spent within a fraction of a millisecond.
#[tokio::test(start_paused = true)]
async fn throttling_that_names_no_wait_is_outlasted_by_the_back_off() {
    let recovered = Duration::from_secs(3);
    let start = Clock::now();
    let clients = Scripted::new(move |_| match Clock::now() - start < recovered {
        true => Step::Answer { after: Duration::ZERO, status: 429, retry_after: Some(0) },
        false => answer(Duration::ZERO, 200),
    });
    assert_eq!(execute(&clients, &read_order()).await.unwrap().status().code(), 200);
}

/// Every attempt at an operation had a throttle budget of its own.
#[tokio::test(start_paused = true)]
async fn a_failure_between_throttled_answers_does_not_renew_the_throttle_budget() {
    let throttled = || Step::Answer { after: Duration::ZERO, status: 429, retry_after: Some(1) };
    let clients = Scripted::new(move |number| match number {
        5 => answer(Duration::ZERO, 503),
        _ => throttled(),
    });
    let error = execute(&clients, &read_order()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Throttled);
    // Nine retries, the answer that found them spent, and the failure.
    assert_eq!(clients.requests(), 11);
    let decisions = error.diagnostics().unwrap().attempts().iter().map(|it| it.decision.unwrap());
    let reasons: Vec<_> = decisions.map(Decision::reason).collect();
    assert_eq!(reasons[5], "the partition does not serve in the region");
    assert_eq!(reasons[10], "throttled, and the retries are used up");
}

/// It was final: two concurrent writes that the service asked to repeat both failed.
#[tokio::test(start_paused = true)]
async fn a_conflict_inside_the_service_is_retried_in_place_after_back_off() {
    let clients = Scripted::new(|number| match number {
        0 | 1 => answer(Duration::ZERO, 449),
        _ => answer(Duration::ZERO, 200),
    });
    let response = execute(&clients, &read_order()).await.unwrap();
    assert_eq!(clients.requests(), 3);
    assert!(response.diagnostics().elapsed() >= Duration::from_millis(225), "100 ms, then 200 ms");
}

/// An account that set nothing but its name in the user agent got connections of its own.
#[tokio::test(start_paused = true)]
async fn a_user_agent_suffix_does_not_cost_an_account_the_shared_connections() {
    let clients = Scripted::new(|_| answer(Duration::ZERO, 200));
    let runtime = runtime(&clients, 7);
    let mut named = CosmosClientOptions::default();
    named.client_options.user_agent_suffix = Some("shop".to_owned());
    for options in [CosmosClientOptions::default(), named] {
        let driver = driver_on(&runtime, options);
        driver.execute_operation(&read_order(), &Default::default()).await.unwrap();
    }
    // One for data, and one for the account itself: metadata has connections of its own.
    assert_eq!(clients.clients.load(Ordering::SeqCst), 2);
}

/// Counts the events that tell how an operation ended.
#[derive(Clone, Default)]
struct EndedOperations(Arc<AtomicUsize>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for EndedOperations {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        let is_of_operation = event.metadata().fields().field("activity_id").is_some();
        self.0.fetch_add(usize::from(is_of_operation), Ordering::SeqCst);
    }
}

/// The setting existed and changed nothing.
#[tokio::test(start_paused = true)]
async fn operations_are_traced_unless_the_setting_says_otherwise() {
    use tracing_subscriber::layer::SubscriberExt as _;
    let ended = EndedOperations::default();
    let subscriber = tracing_subscriber::registry().with(ended.clone());
    let _guard = tracing::subscriber::set_default(subscriber);
    let clients = Scripted::new(|_| answer(Duration::ZERO, 200));
    let runtime = runtime(&clients, 7);
    for (is_traced, expected) in [(false, 0), (true, 1)] {
        let mut options = CosmosClientOptions::default();
        options.client_options.tracing_enabled = Some(is_traced);
        let driver = driver_on(&runtime, options);
        driver.execute_operation(&read_order(), &Default::default()).await.unwrap();
        assert_eq!(ended.0.load(Ordering::SeqCst), expected);
    }
}

/// The messages of events at the level of warnings that tell of an operation.
#[derive(Clone, Default)]
struct Warnings(Arc<std::sync::Mutex<Vec<String>>>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Warnings {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        struct Message<'a>(&'a mut String);
        impl tracing::field::Visit for Message<'_> {
            fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
                if field.name() == "message" {
                    *self.0 = format!("{value:?}");
                }
            }
        }
        let is_of_operation = event.metadata().fields().field("activity_id").is_some();
        if *event.metadata().level() == tracing::Level::WARN && is_of_operation {
            let mut message = String::new();
            event.record(&mut Message(&mut message));
            self.0.lock().unwrap().push(message);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn only_operations_that_fail_or_are_slow_or_expensive_are_logged_as_such() {
    use tracing_subscriber::layer::SubscriberExt as _;
    let warnings = Warnings::default();
    let _guard =
        tracing::subscriber::set_default(tracing_subscriber::registry().with(warnings.clone()));
    let clients = Scripted::new(|number| match number {
        0 => answer(Duration::from_millis(150), 200),
        1 => answer(Duration::from_millis(50), 200),
        2 => answer(Duration::ZERO, 404),
        3 => answer(Duration::ZERO, 400),
        4 => answer(Duration::from_millis(250), 200),
        5 => answer(Duration::from_millis(350), 200),
        _ => answer(Duration::ZERO, 200),
    });
    let runtime = runtime(&clients, 7);
    let mut options = CosmosClientOptions::default();
    options.client_options.slow_point_operation_threshold = Some(Duration::from_millis(100));
    options.client_options.slow_operation_threshold = Some(Duration::from_millis(300));
    let driver = driver_on(&runtime, options.clone());
    let told = |warnings: &Warnings| std::mem::take(&mut *warnings.0.lock().unwrap());
    let mut seen = Vec::new();
    let query = || {
        let container = ResourceLink::container("store", "orders").unwrap();
        CosmosOperation::query_items(&container, Bytes::from_static(b"{}")).unwrap()
    };
    for operation in [read_order(), read_order(), read_order(), read_order(), query(), query()] {
        // Whatever comes of it: what is logged is looked at.
        let _ = driver.execute_operation(&operation, &Default::default()).await;
        seen.push(told(&warnings).join(", "));
    }
    assert_eq!(seen, ["slow operation", "", "", "operation failed", "", "slow operation"]);
    options.client_options.request_charge_threshold = Some(0);
    let driver = driver_on(&runtime, options);
    driver.execute_operation(&read_order(), &Default::default()).await.unwrap();
    assert_eq!(told(&warnings), ["expensive operation"]);
}

#[tokio::test(start_paused = true)]
async fn the_machine_is_read_at_the_interval_of_the_settings() {
    let readings = |interval: Duration| async move {
        let clients = Scripted::new(|_| answer(Duration::ZERO, 200));
        let mut options = sidereal_driver::options::CosmosRuntimeOptions::default();
        options.client_options.cpu_refresh_interval = Some(interval);
        let runtime = CosmosDriverRuntime::builder()
            .environment(CosmosEnvironmentOptions::default())
            .options(options)
            .http_client_factory(clients)
            .clock(Clock::simulated(7, UNIX_EPOCH + Duration::from_secs(1_800_000_000)))
            .build()
            .unwrap();
        tokio::time::sleep(Duration::from_millis(3_500)).await;
        runtime.monitor().history().readings().len()
    };
    let (often, seldom) =
        (readings(Duration::from_secs(1)).await, readings(Duration::from_secs(3)).await);
    assert!(often > seldom, "{often} and {seldom}");
}

/// A request failed, or the driver panicked, by adding up durations.
#[tokio::test(start_paused = true)]
async fn no_duration_of_the_settings_fails_a_request() {
    let clients = Scripted::new(|number| match number % 4 {
        0 => Step::Answer { after: Duration::ZERO, status: 429, retry_after: None },
        1 => Step::Lose,
        2 => answer(Duration::ZERO, 503),
        _ => answer(Duration::ZERO, 200),
    });
    let runtime = runtime(&clients, 7);
    let mut options = CosmosClientOptions::default();
    let most = Some(Duration::MAX);
    options.connection.request_timeout = most;
    options.connection.metadata_request_timeout = most;
    options.connection.connect_timeout = most;
    options.sharding.health_check_interval = most;
    options.sharding.idle_client_timeout = most;
    options.sharding.read_hang_threshold = most;
    options.sharding.eviction_drain_timeout = most;
    options.client_options.http2_keep_alive_interval = most;
    options.client_options.http2_keep_alive_timeout = most;
    options.availability.end_to_end_timeout = most;
    options.availability.max_throttle_wait = most;
    options.partition_failover.endpoint_unavailable_duration = most;
    let driver = driver_on(&runtime, options);
    let response = driver.execute_operation(&read_order(), &Default::default()).await.unwrap();
    assert_eq!((response.status().code(), clients.requests()), (200, 4));
}

/// The first request failed instead, with an error of the system.
#[tokio::test(start_paused = true)]
async fn settings_that_cannot_work_fail_the_construction() {
    let clients = Scripted::new(|_| answer(Duration::ZERO, 200));
    let runtime = runtime(&clients, 7);
    let mut options = CosmosClientOptions::default();
    options.client_options.tcp_keepalive_interval = Some(Duration::ZERO);
    let key = AccountKey::from_base64("c2VjcmV0").unwrap();
    let endpoint = "https://contoso.documents.azure.com/".parse().unwrap();
    let error = CosmosDriver::new(runtime, endpoint, Credential::Key(key), options).unwrap_err();
    assert!(error.to_string().starts_with("tcp_keepalive_interval is 0ns"), "{error}");
}

/// Requests after a shutdown were served by the connections that were left.
#[tokio::test(start_paused = true)]
async fn after_a_shutdown_nothing_is_served() {
    let clients = Scripted::new(|_| answer(Duration::ZERO, 200));
    let runtime = runtime(&clients, 7);
    let driver = driver_on(&runtime, CosmosClientOptions::default());
    driver.execute_operation(&read_order(), &Default::default()).await.unwrap();
    let _ = runtime.shutdown(Duration::from_secs(1)).await;
    let error = driver.execute_operation(&read_order(), &Default::default()).await.unwrap_err();
    assert_eq!((error.kind(), clients.requests()), (ErrorKind::Unavailable, 1));
    assert!(!error.may_have_been_applied());
}

/// It panicked, in the constructor of the application's own type.
#[test]
fn a_runtime_outside_tokio_is_an_error_that_says_what_to_do() {
    let error = CosmosDriverRuntime::builder().build().unwrap_err();
    assert!(matches!(error, RuntimeError::NoTokioRuntime));
    assert!(error.to_string().contains("tokio"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn what_only_one_driver_needs_ends_with_it() {
    let clients = Scripted::new(|_| answer(Duration::ZERO, 200));
    let runtime = runtime(&clients, 7);
    let mut own = CosmosClientOptions::default();
    own.client_options.is_http2_allowed = Some(false);
    let driver = driver_on(&runtime, own);
    driver.execute_operation(&read_order(), &Default::default()).await.unwrap();
    drop(driver);
    // The shared sweeps and the monitor end at once when they are told; nothing of the driver is left.
    let outcome = runtime.shutdown(Duration::from_millis(1)).await;
    assert_eq!(outcome, sidereal_driver::system::ShutdownOutcome::AllEnded);
}

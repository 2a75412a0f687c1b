use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::HeaderValue;
use sidereal_protocol::CosmosStatus;
use sidereal_protocol::headers::names;
use tokio::time::timeout;

use super::*;
use crate::diagnostics::{ExecutionContext, Phase, RequestDiagnostics, RequestEventKind};
use crate::exchange::{Endpoint, HttpErrorKind, HttpProtocol, RequestSentStatus};
use crate::options::{OptionLayers, Ratio};
use crate::transport::{
    HttpClient, HttpClientConfig, HttpClientFactory, HttpFuture, HttpRequest, HttpResponse,
    StreamLimit,
};

/// A client and its factory in one: every client shares the counts.
#[derive(Debug, Default)]
struct Service {
    executed: AtomicU64,
    connected: AtomicU64,
    swept: AtomicU64,
    closed: AtomicU64,
}

impl HttpClient for Arc<Service> {
    fn execute<'a>(
        &'a self,
        _: HttpRequest,
        diagnostics: &'a mut RequestDiagnostics,
    ) -> HttpFuture<'a, HttpResponse> {
        Box::pin(async {
            diagnostics.protocol = Some(HttpProtocol::Http2);
            diagnostics.sent();
            self.executed.fetch_add(1, Ordering::Relaxed);
            diagnostics.record(RequestEventKind::ResponseHeadersReceived);
            Ok(HttpResponse::new(Bytes::from_static(b"real")))
        })
    }

    fn connect(&self) -> HttpFuture<'_, Option<HttpProtocol>> {
        self.connected.fetch_add(1, Ordering::Relaxed);
        Box::pin(async { Ok(Some(HttpProtocol::Http2)) })
    }

    fn stream_limit(&self) -> StreamLimit {
        StreamLimit::Known(20)
    }

    fn sweep(&self) {
        self.swept.fetch_add(1, Ordering::Relaxed);
    }

    fn close(&self) {
        self.closed.fetch_add(1, Ordering::Relaxed);
    }
}

#[derive(Debug)]
struct ServiceFactory(Arc<Service>);

impl HttpClientFactory for ServiceFactory {
    fn create(&self, _: &Endpoint, _: &HttpClientConfig) -> Arc<dyn HttpClient> {
        Arc::new(Arc::clone(&self.0))
    }
}

/// A service behind a fault-injecting factory.
struct Scene {
    service: Arc<Service>,
    factory: FaultInjectingHttpClientFactory,
}

impl Scene {
    fn new() -> Self {
        let service = Arc::<Service>::default();
        let real = Arc::new(ServiceFactory(Arc::clone(&service)));
        Self { service, factory: FaultInjectingHttpClientFactory::with_seed(real, 7) }
    }

    fn with(rule: FaultInjectionResult) -> Self {
        let scene = Self::new();
        scene.factory.add(FaultInjectionRule::new("rule", rule));
        scene
    }

    fn client(&self) -> Arc<dyn HttpClient> {
        self.factory.create(&endpoint(), &config())
    }

    fn executed(&self) -> u64 {
        self.service.executed.load(Ordering::Relaxed)
    }
}

fn endpoint() -> Endpoint {
    "https://contoso.com".parse().unwrap()
}

fn config() -> HttpClientConfig {
    HttpClientConfig::data_plane(&OptionLayers::default()).unwrap()
}

fn diagnostics() -> RequestDiagnostics {
    RequestDiagnostics::new(ExecutionContext::Initial, None, endpoint(), Instant::now())
}

async fn send(client: &Arc<dyn HttpClient>) -> (Outcome, RequestDiagnostics) {
    let mut diagnostics = diagnostics();
    let request = http::Request::get("https://contoso.com/dbs").body(Bytes::new()).unwrap();
    let outcome = match client.execute(request, &mut diagnostics).await {
        Ok(response) => Outcome::Answered(response.status().as_u16(), response.into_body()),
        Err(error) => Outcome::Failed(error.kind(), error.request_sent()),
    };
    (outcome, diagnostics)
}

#[derive(Debug, PartialEq)]
enum Outcome {
    Answered(u16, Bytes),
    Failed(HttpErrorKind, RequestSentStatus),
}

fn real() -> Outcome {
    Outcome::Answered(200, Bytes::from_static(b"real"))
}

#[tokio::test]
async fn without_rules_everything_goes_through() {
    let scene = Scene::new();
    let client = scene.client();
    assert_eq!(send(&client).await.0, real());
    assert_eq!(client.connect().await.unwrap(), Some(HttpProtocol::Http2));
    assert_eq!(client.stream_limit(), StreamLimit::Known(20));
    client.sweep();
    client.close();
    assert_eq!(scene.service.swept.load(Ordering::Relaxed), 1);
    assert_eq!(scene.service.connected.load(Ordering::Relaxed), 1);
    assert_eq!(scene.service.closed.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn an_injected_answer_has_status_headers_and_body_and_reaches_nobody() {
    let answer = InjectedAnswer::new(CosmosStatus::with_sub_status(429, 3200))
        .retry_after(Duration::from_millis(1_500))
        .header(names::REQUEST_CHARGE, HeaderValue::from_static("0.38"))
        .body("slow down");
    let scene = Scene::with(FaultInjectionResult::Answer(answer));
    let (client, mut diagnostics) = (scene.client(), diagnostics());
    let answered = client.execute(HttpRequest::default(), &mut diagnostics).await.unwrap();
    assert_eq!(answered.status().as_u16(), 429);
    assert_eq!(answered.headers()[names::SUB_STATUS], "3200");
    assert_eq!(answered.headers()[names::RETRY_AFTER_MS], "1500");
    assert_eq!(answered.headers()[names::REQUEST_CHARGE], "0.38");
    assert_eq!(answered.body(), "slow down");
    assert_eq!(diagnostics.phase(), Phase::ReadingBody);
    assert_eq!(scene.executed(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_injected_answer_can_take_its_time() {
    let day = Duration::from_secs(86_400);
    let answer = InjectedAnswer::new(CosmosStatus::OK).after(day);
    let scene = Scene::with(FaultInjectionResult::Answer(answer));
    let start = tokio::time::Instant::now();
    assert_eq!(send(&scene.client()).await.0, Outcome::Answered(200, Bytes::new()));
    assert_eq!(start.elapsed(), day);
}

#[tokio::test]
async fn errors_say_how_far_the_request_got() {
    let refused = FaultInjectionResult::Error {
        kind: HttpErrorKind::StreamRefused,
        delivery: Delivery::Refused,
    };
    let (lost, maybe) = (HttpErrorKind::ConnectionLost, RequestSentStatus::MaybeSent);
    let cases = [
        (
            FaultInjectionResult::connection_error(),
            (HttpErrorKind::Connect, RequestSentStatus::NotSent),
            0,
        ),
        (refused, (HttpErrorKind::StreamRefused, RequestSentStatus::NotProcessed), 0),
        (FaultInjectionResult::request_lost(), (lost, maybe), 0),
        (FaultInjectionResult::answer_lost(), (lost, maybe), 1),
    ];
    for (fault, (kind, request_sent), carried_out) in cases {
        let scene = Scene::with(fault.clone());
        let (outcome, diagnostics) = send(&scene.client()).await;
        assert_eq!(outcome, Outcome::Failed(kind, request_sent), "{fault:?}");
        assert_eq!(diagnostics.request_sent, request_sent, "{fault:?}");
        assert_eq!(scene.executed(), carried_out, "{fault:?}");
        assert_eq!(diagnostics.time_of(RequestEventKind::ResponseHeadersReceived), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_delayed_request_is_sent_after_its_delay() {
    let scene = Scene::with(FaultInjectionResult::Delay(Duration::from_secs(3)));
    let start = tokio::time::Instant::now();
    assert_eq!(send(&scene.client()).await.0, real());
    assert_eq!(start.elapsed(), Duration::from_secs(3));
}

#[tokio::test(start_paused = true)]
async fn a_hanging_request_counts_as_sent_and_ends_when_it_is_cancelled() {
    let scene = Scene::with(FaultInjectionResult::Hang);
    let (client, mut diagnostics) = (scene.client(), diagnostics());
    let hanging = client.execute(HttpRequest::default(), &mut diagnostics);
    assert!(timeout(Duration::from_secs(3_600), hanging).await.is_err());
    assert_eq!(diagnostics.request_sent, RequestSentStatus::MaybeSent);
    assert_eq!(diagnostics.phase(), Phase::AwaitingAnswer);
}

#[tokio::test(start_paused = true)]
async fn closing_the_client_ends_what_a_fault_holds() {
    let long = Duration::from_secs(3_600);
    let cases = [
        (FaultInjectionResult::Hang, RequestSentStatus::MaybeSent),
        (FaultInjectionResult::Delay(long), RequestSentStatus::NotSent),
    ];
    for (fault, request_sent) in cases {
        let client = Scene::with(fault).client();
        let (outcome, ()) = tokio::join!(send(&client), async { client.close() });
        assert_eq!(outcome.0, Outcome::Failed(HttpErrorKind::Evicted, request_sent));
    }
}

#[tokio::test(start_paused = true)]
async fn a_connection_can_fail_be_slow_or_hang() {
    let kind = HttpErrorKind::Tls;
    let scene = Scene::with(FaultInjectionResult::Connect(ConnectFault::Fail(kind)));
    let client = scene.client();
    let error = client.connect().await.unwrap_err();
    assert_eq!((error.kind(), error.request_sent()), (kind, RequestSentStatus::NotSent));
    assert_eq!(send(&client).await.0, real(), "requests are left alone");

    let hour = Duration::from_secs(3_600);
    let client = Scene::with(FaultInjectionResult::Connect(ConnectFault::Delay(hour))).client();
    let start = tokio::time::Instant::now();
    assert_eq!(client.connect().await.unwrap(), Some(HttpProtocol::Http2));
    assert_eq!(start.elapsed(), hour);

    let client = Scene::with(FaultInjectionResult::Connect(ConnectFault::Hang)).client();
    let (outcome, ()) = tokio::join!(client.connect(), async { client.close() });
    assert_eq!(outcome.unwrap_err().kind(), HttpErrorKind::Evicted);
}

#[tokio::test]
async fn clients_are_counted_by_endpoint_and_a_rule_can_name_one() {
    let scene = Scene::new();
    let second = FaultInjectionCondition::any().client(1);
    let rule = FaultInjectionRule::new("second client", FaultInjectionResult::connection_error());
    scene.factory.add(rule.when(second));
    let elsewhere: Endpoint = "https://elsewhere.com".parse().unwrap();
    let other = scene.factory.create(&elsewhere, &config());
    let clients = [scene.client(), scene.client(), scene.client()];
    let failed = Outcome::Failed(HttpErrorKind::Connect, RequestSentStatus::NotSent);
    assert_eq!(send(&clients[0]).await.0, real());
    assert_eq!(send(&clients[1]).await.0, failed);
    assert_eq!(send(&clients[2]).await.0, real());
    assert_eq!(send(&other).await.0, real());
    assert_eq!(scene.factory.clients_created(&endpoint()), 3);
    assert_eq!(scene.factory.clients_created(&elsewhere), 1);
    assert_eq!(scene.factory.clients_created(&"http://never".parse().unwrap()), 0);
}

#[tokio::test]
async fn rules_change_while_clients_run() {
    let scene = Scene::new();
    let (client, factory) = (scene.client(), &scene.factory);
    let status = |code| FaultInjectionResult::status(CosmosStatus::new(code));
    let answered = |code| Outcome::Answered(code, Bytes::new());

    let first = factory.add(FaultInjectionRule::new("first", status(503)));
    factory.add(FaultInjectionRule::new("second", status(410)));
    assert_eq!(send(&client).await.0, answered(503));
    first.disable();
    assert_eq!(send(&client).await.0, answered(410));
    assert!(factory.remove("second") && !factory.remove("second"));
    assert_eq!(send(&client).await.0, real());
    assert_eq!((factory.hits("first"), factory.hits("second")), (Some(1), None));

    factory.add(FaultInjectionRule::new("first", status(500)));
    assert_eq!(factory.rules().len(), 1, "a rule takes the place of one with its id");
    factory.replace([FaultInjectionRule::new("third", status(408))]);
    assert_eq!(send(&client).await.0, answered(408));
    factory.clear();
    assert_eq!(send(&client).await.0, real());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hit_limit_holds_under_concurrent_requests() {
    let scene = Scene::new();
    let rule = FaultInjectionRule::new("scarce", FaultInjectionResult::request_lost());
    let rule = scene.factory.add(rule.with_hit_limit(25));
    let client = scene.client();
    let tasks: Vec<_> = (0..100)
        .map(|_| {
            let client = Arc::clone(&client);
            tokio::spawn(async move { send(&client).await.0 })
        })
        .collect();
    let mut failed = 0;
    for task in tasks {
        failed += u64::from(task.await.unwrap() != real());
    }
    assert_eq!((failed, rule.hits(), scene.executed()), (25, 25, 75));
}

#[tokio::test]
async fn the_same_seed_fails_the_same_requests() {
    let failures = || async {
        let scene = Scene::new();
        let rule = FaultInjectionRule::new("some", FaultInjectionResult::connection_error());
        scene.factory.add(rule.with_probability(Ratio::constant(0.5)));
        let client = scene.client();
        let mut failures = Vec::new();
        for _ in 0..100 {
            failures.push(send(&client).await.0 != real());
        }
        failures
    };
    let first = failures().await;
    assert_eq!(first, failures().await);
    let count = first.iter().filter(|failed| **failed).count();
    assert!((30..70).contains(&count), "{count}");
}

#[tokio::test(start_paused = true)]
async fn a_rule_ends_by_the_clock() {
    let scene = Scene::new();
    let rule = FaultInjectionRule::new("outage", FaultInjectionResult::connection_error());
    scene.factory.add(rule.lasting(Duration::from_secs(60)));
    let client = scene.client();
    tokio::time::advance(Duration::from_secs(59)).await;
    assert_ne!(send(&client).await.0, real());
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(send(&client).await.0, real());
}

//! Settings, seen from outside: the header on the wire, the endpoint chosen, how often and how long. On a paused
//! clock.

use std::num::NonZero;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::HeaderMap;
use sidereal_driver::options::{
    AvailabilityOptions, ConnectionPoolOptions, CosmosClientOptions, CosmosEnvironmentOptions,
    CustomHeaders, Factor, ItemWriteOptions, OptionLayers, Ratio, RequestOptions,
};
use sidereal_driver::transport::internals::ShardingConfig;
use sidereal_driver::transport::{
    AccessTokenFuture, AccessTokenSource, Credential, HttpClientFactory, HttpVersions, TokenRequest,
};
use sidereal_driver::{
    CosmosDriver, CosmosDriverRuntime, CosmosOperation, ErrorKind, OperationOptions,
};
use sidereal_emulator::{AccountOptions, FaultEffect, Operation};
use sidereal_protocol::{
    ConsistencyLevel, Etag, IndexingDirective, PriorityLevel, ReadConsistencyStrategy, RegionName,
    SessionToken,
};
use sidereal_testing::in_process::{InProcessAccount, RecordingFactory};

use crate::three_regions::{
    REGIONS, ThreeRegions, orders, read, read_of, regions, unavailable, upsert, upsert_of,
};

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// A driver whose requests are noted.
struct Recorded {
    driver: CosmosDriver,
    recorder: Arc<RecordingFactory>,
    _account: InProcessAccount,
}

impl Recorded {
    async fn new(options: CosmosClientOptions) -> Self {
        let stack = ThreeRegions::new(false, CosmosClientOptions::default()).await;
        let recorder = RecordingFactory::before(stack.account.factory());
        let runtime = CosmosDriverRuntime::builder()
            .environment(CosmosEnvironmentOptions::default())
            .http_client_factory(Arc::clone(&recorder) as Arc<dyn HttpClientFactory>)
            .clock(stack.account.driver_clock())
            .build()
            .unwrap();
        let driver = stack.account.driver_on(runtime, options);
        Self { driver, recorder, _account: stack.account }
    }

    /// The headers of the last request about an item.
    async fn sent(&self, operation: &CosmosOperation, options: &OperationOptions<'_>) -> HeaderMap {
        // Whatever is answered: what counts is what was asked.
        let _ = self.driver.execute_operation(operation, options).await;
        self.recorder.last_about_items()
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).map(|value| value.to_str().unwrap())
}

fn write_options(write: ItemWriteOptions) -> OperationOptions<'static> {
    OperationOptions::default().with_write(write)
}

fn request_options(request: RequestOptions) -> OperationOptions<'static> {
    OperationOptions::default().with_request(request)
}

#[tokio::test(start_paused = true)]
async fn what_a_request_asks_of_the_service_is_on_the_wire() {
    let recorded = Recorded::new(CosmosClientOptions::default()).await;
    let custom: CustomHeaders =
        [("x-contoso".parse().unwrap(), "1".parse().unwrap())].into_iter().collect();
    let request = RequestOptions::default()
        .with_consistency_level(ConsistencyLevel::Eventual)
        .with_priority(PriorityLevel::Low)
        .with_throughput_bucket(3usize)
        .with_custom_headers(custom);
    let sent = recorded.sent(&read("1"), &request_options(request)).await;
    assert_eq!(text(&sent, "x-ms-consistency-level"), Some("Eventual"));
    assert_eq!(text(&sent, "x-ms-cosmos-priority-level"), Some("Low"));
    assert_eq!(text(&sent, "x-ms-cosmos-throughput-bucket"), Some("3"));
    assert_eq!(text(&sent, "x-contoso"), Some("1"));
    let strategy = RequestOptions::default()
        .with_read_consistency_strategy(ReadConsistencyStrategy::LatestCommitted);
    let sent = recorded.sent(&read("1"), &request_options(strategy)).await;
    assert_eq!(text(&sent, "x-ms-cosmos-read-consistency-strategy"), Some("LatestCommitted"));
}

#[tokio::test(start_paused = true)]
async fn what_a_write_asks_for_is_on_the_wire() {
    let recorded = Recorded::new(CosmosClientOptions::default()).await;
    let plain = recorded.sent(&upsert("1"), &OperationOptions::default()).await;
    assert_eq!(text(&plain, "prefer"), Some("return=minimal"));
    let write = ItemWriteOptions::default()
        .with_indexing_directive(IndexingDirective::Exclude)
        .with_content_response_on_write(true)
        .with_if_match_etag(Etag::new("\"1\"").unwrap())
        .with_session_token("0:-1#1".parse::<SessionToken>().unwrap())
        .with_pre_triggers(["before".to_owned()])
        .with_post_triggers(["after".to_owned()]);
    let sent = recorded.sent(&upsert("1"), &write_options(write)).await;
    assert_eq!(text(&sent, "prefer"), None);
    assert_eq!(text(&sent, "x-ms-indexing-directive"), Some("Exclude"));
    assert_eq!(text(&sent, "if-match"), Some("\"1\""));
    assert_eq!(text(&sent, "x-ms-session-token"), Some("0:-1#1"));
    assert_eq!(text(&sent, "x-ms-documentdb-pre-trigger-include"), Some("before"));
    assert_eq!(text(&sent, "x-ms-documentdb-post-trigger-include"), Some("after"));
}

#[tokio::test(start_paused = true)]
async fn the_user_agent_names_the_application() {
    let mut options = CosmosClientOptions::default();
    options.account.application_name = Some("orders".to_owned());
    options.client_options.user_agent_suffix = Some("west".to_owned());
    let recorded = Recorded::new(options).await;
    let sent = recorded.sent(&read("1"), &OperationOptions::default()).await;
    let agent = text(&sent, "user-agent").unwrap();
    assert!(agent.contains("orders") && agent.ends_with("west"), "{agent}");
}

#[tokio::test(start_paused = true)]
async fn every_setting_of_connections_reaches_the_client_that_makes_them() {
    let mut options = CosmosClientOptions::default();
    let client = &mut options.client_options;
    client.is_http2_allowed = Some(false);
    client.local_address = Some("127.0.0.2".parse().unwrap());
    client.accept_invalid_certs = Some(true);
    client.emulator_hosts = Some(["emulator".to_owned()].into());
    client.tcp_keepalive_interval = Some(7 * SECOND);
    client.http2_keep_alive_interval = Some(8 * SECOND);
    client.http2_keep_alive_timeout = Some(9 * SECOND);
    options.connection.request_timeout = Some(11 * SECOND);
    options.connection.metadata_request_timeout = Some(12 * SECOND);
    options.connection.connect_timeout = Some(13 * SECOND);
    options.connection.max_connection_age = Some(16 * SECOND);
    options.connection.connection_pool = Some(
        ConnectionPoolOptions::default()
            .with_idle_timeout(14 * SECOND)
            .with_max_connections(15usize),
    );
    let recorded = Recorded::new(options).await;
    let _ = recorded.driver.execute_operation(&read("1"), &OperationOptions::default()).await;
    let configs = recorded.recorder.configs();
    let timeouts: Vec<Duration> = configs.iter().map(|it| it.request_timeout).collect();
    assert!(timeouts.contains(&(11 * SECOND)) && timeouts.contains(&(12 * SECOND)), "{timeouts:?}");
    for config in &configs {
        assert_eq!(config.versions, HttpVersions::Http1Only);
        assert_eq!(config.local_address, Some("127.0.0.2".parse().unwrap()));
        assert!(config.accept_invalid_certs && config.emulator_hosts.contains("emulator"));
        assert_eq!(config.tcp_keepalive_interval, 7 * SECOND);
        assert_eq!(config.http2_keep_alive_interval, 8 * SECOND);
        assert_eq!(config.http2_keep_alive_timeout, 9 * SECOND);
        assert_eq!(config.connect_timeout, 13 * SECOND);
        let age = config.max_connection_age;
        assert!(age >= 16 * SECOND && age <= 32 * SECOND, "{age:?}");
        assert_eq!(config.pool_idle_timeout, 14 * SECOND);
        assert_eq!(config.pool_max_idle_per_host, 15);
    }
}

#[tokio::test]
async fn connections_start_from_the_local_address_of_the_settings() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    let runtime = CosmosDriverRuntime::builder()
        .environment(CosmosEnvironmentOptions::default())
        .build()
        .unwrap();
    let mut options = CosmosClientOptions::default();
    options.client_options.local_address = Some("127.0.0.2".parse().unwrap());
    let key = sidereal_protocol::AccountKey::from_base64("c2VjcmV0").unwrap();
    let credential = sidereal_driver::transport::Credential::Key(key);
    let driver = CosmosDriver::new(runtime, endpoint, credential, options).unwrap();
    let (operation, call) = (read("1"), OperationOptions::default());
    // The peer never answers: the connection is what is looked at.
    let from = tokio::select! {
        biased;
        accepted = listener.accept() => accepted.unwrap().1,
        _ = driver.execute_operation(&operation, &call) => panic!("nobody answers"),
    };
    assert_eq!(from.ip().to_string(), "127.0.0.2");
}

/// Only requests with a session token named the container that they were meant for.
#[tokio::test(start_paused = true)]
async fn requests_about_items_name_the_container_that_they_are_meant_for() {
    let recorded = Recorded::new(CosmosClientOptions::default()).await;
    let rid = recorded.driver.container(&orders()).await.unwrap().rid().to_owned();
    let eventual = RequestOptions::default().with_consistency_level(ConsistencyLevel::Eventual);
    for (operation, options) in [
        (upsert("1"), OperationOptions::default()),
        (read("1"), request_options(eventual)),
        (read("1"), OperationOptions::default()),
    ] {
        let sent = recorded.sent(&operation, &options).await;
        assert_eq!(text(&sent, "x-ms-cosmos-intended-collection-rid"), Some(rid.as_str()));
    }
}

/// A source of tokens that notes what it is asked for, and has none.
#[derive(Default)]
struct NoTokens(Mutex<Vec<TokenRequest>>);

impl AccessTokenSource for NoTokens {
    fn fetch<'a>(&'a self, request: &'a TokenRequest) -> AccessTokenFuture<'a> {
        self.0.lock().unwrap().push(request.clone());
        Box::pin(async { Err("there are none".into()) })
    }
}

/// Sovereign clouds could not be reached with Entra at all.
#[tokio::test(start_paused = true)]
async fn entra_tokens_are_fetched_for_the_scope_of_the_settings() {
    let stack = ThreeRegions::new(false, CosmosClientOptions::default()).await;
    let own = "https://contoso.documents.azure.cn/.default";
    for (setting, expected) in [(None, "https://cosmos.azure.com/.default"), (Some(own), own)] {
        let tokens = Arc::new(NoTokens::default());
        let credential = Credential::Entra(Arc::clone(&tokens) as Arc<dyn AccessTokenSource>);
        let mut options = CosmosClientOptions::default();
        options.account.entra_scope = setting.map(str::to_owned);
        let endpoint = "https://account.test".parse().unwrap();
        let runtime = stack.account.runtime();
        let driver = CosmosDriver::new(runtime, endpoint, credential, options).unwrap();
        driver.execute_operation(&read("1"), &OperationOptions::default()).await.unwrap_err();
        let asked = tokens.0.lock().unwrap();
        assert!(!asked.is_empty() && asked.iter().all(|it| &*it.scope == expected));
    }
}

#[test]
fn every_setting_of_sharding_reaches_the_pool() {
    let mut options = CosmosClientOptions::default();
    let sharding = &mut options.sharding;
    sharding.max_streams_per_client = NonZero::new(7);
    sharding.max_clients_per_endpoint = NonZero::new(9);
    sharding.min_clients_per_endpoint = NonZero::new(2);
    sharding.load_spread_ratio = Some(Ratio::constant(0.3));
    sharding.consecutive_failure_threshold = NonZero::new(4);
    sharding.eviction_grace_period = Some(5 * SECOND);
    sharding.eviction_drain_timeout = Some(6 * SECOND);
    sharding.idle_client_timeout = Some(7 * SECOND);
    sharding.health_check_interval = Some(8 * SECOND);
    sharding.scale_up_threshold_ratio = Some(Ratio::constant(0.4));
    sharding.recent_success_window = Some(9 * SECOND);
    sharding.read_hang_threshold = Some(10 * SECOND);
    sharding.eviction_cpu_limit = Some(Ratio::constant(0.6));
    sharding.max_queued_requests = Some(11);
    sharding.max_queued_bytes = Some(12);
    let layers = OptionLayers::new(Arc::default(), Arc::default(), Arc::new(options));
    let config = ShardingConfig::from(layers.sharding());
    let processors = std::thread::available_parallelism().unwrap().get() as u32;
    let eager = (2 * processors).clamp(2, 9);
    let expected = ShardingConfig {
        max_streams_per_client: 7,
        max_clients_per_endpoint: 9,
        min_clients_per_endpoint: 2,
        load_spread_ratio: 0.3,
        consecutive_failure_threshold: 4,
        eviction_grace_period: 5 * SECOND,
        eviction_drain_timeout: 6 * SECOND,
        idle_client_timeout: 7 * SECOND,
        health_check_interval: 8 * SECOND,
        scale_up_threshold_ratio: 0.4,
        recent_success_window: 9 * SECOND,
        read_hang_threshold: 10 * SECOND,
        eviction_cpu_limit: 0.6,
        max_queued_requests: Some(11),
        max_queued_bytes: 12,
    };
    assert_eq!(format!("{config:?}"), format!("{expected:?}"));
    assert_eq!(config.eager_clients(), eager);
}

/// The attempts and the time that a read takes that always meets the same effect.
async fn attempts(
    availability: AvailabilityOptions,
    effect: FaultEffect,
    in_regions: &[&str],
) -> (Vec<String>, Duration) {
    // A hedge has budgets of its own: what is counted here is one leg.
    let availability = availability.with_hedging_enabled(false);
    let mut options = CosmosClientOptions { availability, ..CosmosClientOptions::default() };
    options.regions.preferred_regions = Some(REGIONS.map(RegionName::from).to_vec());
    options.retry.disable_partition_level_failover = Some(true);
    let stack = ThreeRegions::with(AccountOptions::default(), options).await;
    for region in in_regions {
        stack.inject(region, Operation::Read, effect.clone(), None);
    }
    let started = tokio::time::Instant::now();
    let outcome = stack.execute(&read("1")).await;
    (regions(&outcome), started.elapsed())
}

#[tokio::test(start_paused = true)]
async fn failovers_end_with_their_budget() {
    for (count, expected) in [(0, &REGIONS[..1]), (1, &REGIONS[..2]), (2, &REGIONS[..])] {
        let availability = AvailabilityOptions::default().with_max_failover_retry_count(count);
        let (visited, _) = attempts(availability, unavailable(), &REGIONS).await;
        assert_eq!(visited, expected, "{count} retries");
    }
}

#[tokio::test(start_paused = true)]
async fn retries_over_another_connection_end_with_their_budget() {
    for (count, expected) in [(0, 1), (3, 4)] {
        let availability = AvailabilityOptions::default()
            .with_max_connection_retry_count(count)
            .with_max_failover_retry_count(0u32);
        let (visited, _) = attempts(availability, FaultEffect::ResetAfter, &REGIONS).await;
        assert_eq!(visited.len(), expected, "{count} retries");
    }
}

#[tokio::test(start_paused = true)]
async fn throttled_retries_end_with_their_number_and_their_time() {
    let throttled =
        FaultEffect::Answer { status: 429, sub_status: 3200, retry_after: Some(SECOND) };
    let few = AvailabilityOptions::default().with_max_throttle_retry_count(2u32);
    assert_eq!(attempts(few, throttled.clone(), &REGIONS).await.0.len(), 3);
    let short = AvailabilityOptions::default().with_max_throttle_wait(4 * SECOND);
    let (visited, took) = attempts(short, throttled, &REGIONS).await;
    assert!(visited.len() <= 5 && took <= 5 * SECOND, "{} in {took:?}", visited.len());
}

#[tokio::test(start_paused = true)]
async fn the_back_off_is_that_of_the_settings() {
    let retry_with = FaultEffect::Answer { status: 449, sub_status: 0, retry_after: None };
    let availability = |initial: Duration, longest: Duration, factor: f64| {
        AvailabilityOptions::default()
            .with_max_throttle_retry_count(5u32)
            .with_retry_initial_backoff(initial)
            .with_retry_max_backoff(longest)
            .with_retry_backoff_factor(Factor::try_from(factor).unwrap())
    };
    let took = |options| attempts(options, retry_with.clone(), &REGIONS);
    // Five waits; jitter takes a quarter off at most, and six round trips are 60 ms and the account's read.
    let (_, constant) = took(availability(SECOND, 60 * SECOND, 1.0)).await;
    assert!(constant >= 3 * SECOND && constant <= 6 * SECOND, "{constant:?}");
    let (_, doubling) = took(availability(SECOND, 60 * SECOND, 2.0)).await;
    assert!(doubling >= 23 * SECOND && doubling <= 32 * SECOND, "{doubling:?}");
    let (_, capped) = took(availability(SECOND, 2 * SECOND, 2.0)).await;
    assert!(capped >= 6 * SECOND && capped <= 10 * SECOND, "{capped:?}");
    let (_, quick) = took(availability(10 * MS, 60 * SECOND, 1.0)).await;
    assert!(quick <= SECOND, "{quick:?}");
}

#[tokio::test(start_paused = true)]
async fn session_retries_end_with_their_budget() {
    for (count, expected) in [(0, 1), (1, 2), (2, 3)] {
        let availability = AvailabilityOptions::default().with_max_session_retry_count(count);
        let mut options = CosmosClientOptions { availability, ..CosmosClientOptions::default() };
        options.regions.preferred_regions = Some(vec!["UK South".into(), "East US".into()]);
        let stack = ThreeRegions::with(AccountOptions::default(), options).await;
        let behind = FaultEffect::Answer { status: 404, sub_status: 1002, retry_after: None };
        for region in REGIONS {
            stack.inject(region, Operation::Read, behind.clone(), None);
        }
        let outcome = stack.execute(&read("1")).await;
        assert_eq!(regions(&outcome).len(), expected, "{count} retries");
    }
}

#[tokio::test(start_paused = true)]
async fn the_outer_twin_prefers_another_region_for_a_session_too() {
    let mut options = CosmosClientOptions::default();
    options.regions.preferred_regions = Some(vec!["East US".into(), "West US".into()]);
    options.retry.enable_remote_region_preferred_for_session_retry = Some(true);
    let stack = ThreeRegions::new(true, options).await;
    let behind = FaultEffect::Answer { status: 404, sub_status: 1002, retry_after: None };
    stack.inject("East US", Operation::Read, behind, None);
    assert_eq!(regions(&stack.execute(&read("1")).await), ["East US", "West US"]);
}

#[tokio::test(start_paused = true)]
async fn the_application_s_own_region_is_read_first() {
    let mut options = CosmosClientOptions::default();
    options.regions.application_region = Some(RegionName::from("UK South"));
    let stack = ThreeRegions::new(false, options).await;
    assert_eq!(regions(&stack.execute(&read("1")).await), ["UK South"]);
}

#[tokio::test(start_paused = true)]
async fn the_first_writes_that_fail_are_those_of_the_setting() {
    let mut options = CosmosClientOptions::default();
    options.regions.preferred_regions = Some(vec![RegionName::from("UK South")]);
    options.partition_failover.write_failure_threshold = Some(1);
    let account =
        AccountOptions { partitions: Some(4), multi_write: true, ..AccountOptions::default() };
    let stack = ThreeRegions::with(account, options).await;
    let customer = stack.customer_in("1").await;
    stack.inject_in_range("UK South", "1", Operation::Upsert, unavailable());
    for _ in 0..5 {
        stack.execute(&upsert_of(&customer, "1")).await.unwrap();
    }
    assert_eq!(stack.seen_in_range("UK South", "1"), 2);
}

/// How many of ten partitions are tried in a region whose reads fail, one after another.
async fn partitions_tried(change: impl FnOnce(&mut CosmosClientOptions), apart: Duration) -> u64 {
    let mut options = CosmosClientOptions::default();
    options.regions.preferred_regions = Some(vec![RegionName::from("UK South")]);
    change(&mut options);
    let account = AccountOptions { partitions: Some(10), ..AccountOptions::default() };
    let stack = ThreeRegions::with(account, options).await;
    let mut customers = Vec::new();
    for range in 0..10 {
        customers.push(stack.customer_in(&range.to_string()).await);
    }
    for customer in &customers {
        stack.execute(&upsert_of(customer, "1")).await.unwrap();
        stack.execute(&read_of(customer, "1")).await.unwrap();
    }
    stack.account.account().reset_counters();
    stack.inject("UK South", Operation::Read, unavailable(), None);
    for customer in &customers {
        stack.execute(&read_of(customer, "1")).await.unwrap();
        tokio::time::sleep(apart).await;
    }
    stack.items_seen_in("UK South")
}

#[tokio::test(start_paused = true)]
async fn a_region_is_left_by_the_share_and_the_window_of_the_settings() {
    assert_eq!(partitions_tried(|_| {}, Duration::ZERO).await, 5);
    let share = |options: &mut CosmosClientOptions| {
        options.partition_failover.endpoint_failure_share = Some(Ratio::constant(0.8));
    };
    assert_eq!(partitions_tried(share, Duration::ZERO).await, 8);
    // Within a second two of them fail: never enough.
    let window = |options: &mut CosmosClientOptions| {
        options.partition_failover.endpoint_failure_window = Some(SECOND);
    };
    assert_eq!(partitions_tried(window, 700 * MS).await, 10);
}

#[tokio::test(start_paused = true)]
async fn the_breaker_is_switched_off_by_its_own_setting() {
    let off = |options: &mut CosmosClientOptions| {
        options.retry.enable_partition_level_circuit_breaker = Some(false);
    };
    // The first failure is the endpoint's.
    assert_eq!(partitions_tried(off, Duration::ZERO).await, 1);
}

#[tokio::test(start_paused = true)]
async fn an_endpoint_is_probed_after_the_time_of_the_settings() {
    let mut options = CosmosClientOptions::default();
    options.regions.preferred_regions = Some(vec![RegionName::from("UK South")]);
    options.partition_failover.endpoint_unavailable_duration = Some(5 * SECOND);
    let stack = ThreeRegions::with(AccountOptions::default(), options).await;
    stack.execute(&read("1")).await.unwrap();
    stack.set_online("UK South", false);
    stack.execute(&read("1")).await.unwrap();
    stack.set_online("UK South", true);
    tokio::time::sleep(4 * SECOND).await;
    stack.execute(&read("1")).await.unwrap();
    tokio::time::sleep(500 * MS).await;
    assert_eq!(regions(&stack.execute(&read("1")).await), ["West US"]);
    tokio::time::sleep(SECOND).await;
    stack.execute(&read("1")).await.unwrap();
    tokio::time::sleep(500 * MS).await;
    assert_eq!(regions(&stack.execute(&read("1")).await), ["UK South"]);
}

#[tokio::test(start_paused = true)]
async fn drivers_that_met_one_outage_probe_at_different_times() {
    let mut options = CosmosClientOptions::default();
    options.regions.preferred_regions = Some(vec![RegionName::from("UK South")]);
    let stack = ThreeRegions::with(AccountOptions::default(), options.clone()).await;
    options.partition_failover.unavailability_jitter = Some(Ratio::constant(0.2));
    // Runtimes of this account draw the same numbers, so the drivers have one of them together.
    let runtime = stack.account.runtime();
    let drivers = [(); 8].map(|()| stack.account.driver_on(runtime.clone(), options.clone()));
    let used = async |driver: &CosmosDriver| {
        let found = driver.execute_operation(&read("1"), &OperationOptions::default()).await;
        regions(&found).pop().unwrap()
    };
    for driver in &drivers {
        used(driver).await;
    }
    stack.set_online("UK South", false);
    for driver in &drivers {
        assert_eq!(used(driver).await, "West US");
    }
    stack.set_online("UK South", true);
    let failed = tokio::time::Instant::now();
    let mut returned = std::collections::BTreeMap::new();
    while returned.len() < drivers.len() {
        for (number, driver) in drivers.iter().enumerate() {
            if used(driver).await == "UK South" {
                returned.entry(number).or_insert(failed.elapsed().as_secs());
            }
        }
        tokio::time::sleep(SECOND).await;
        assert!(failed.elapsed() < 90 * SECOND, "{returned:?}");
    }
    assert!(returned.values().all(|seconds| (47..76).contains(seconds)), "{returned:?}");
    let times: std::collections::BTreeSet<_> = returned.values().collect();
    assert!(times.len() >= 4, "{returned:?}");
}

/// A probe whose caller goes away keeps others from probing for as long as its lease.
#[tokio::test(start_paused = true)]
async fn the_lease_of_a_probe_is_that_of_the_settings() {
    let mut options = CosmosClientOptions::default();
    options.regions.preferred_regions = Some(vec![RegionName::from("UK South")]);
    options.availability = AvailabilityOptions::default().with_hedging_enabled(false);
    options.partition_failover.probe_lease = Some(3 * SECOND);
    let account = AccountOptions { partitions: Some(4), ..AccountOptions::default() };
    let stack = ThreeRegions::with(account, options).await;
    let customer = stack.customer_in("1").await;
    stack.execute(&upsert_of(&customer, "1")).await.unwrap();
    let fault = stack.inject_in_range("UK South", "1", Operation::Read, unavailable());
    for _ in 0..3 {
        stack.execute(&read_of(&customer, "1")).await.unwrap();
    }
    stack.account.account().remove_fault(&fault);
    tokio::time::sleep(5 * SECOND).await;
    let hang = stack.inject_in_range("UK South", "1", Operation::Read, FaultEffect::Hang);
    let abandoned = read_of(&customer, "1");
    let abandoned = tokio::time::timeout(100 * MS, stack.execute(&abandoned)).await;
    assert!(abandoned.is_err(), "it was the probe");
    stack.account.account().remove_fault(&hang);
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(regions(&stack.execute(&read_of(&customer, "1")).await), ["West US"]);
    tokio::time::sleep(SECOND).await;
    assert_eq!(regions(&stack.execute(&read_of(&customer, "1")).await), ["UK South"]);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_preferred_region_is_a_warning_in_the_diagnostics() {
    let stack = ThreeRegions::preferring("Mars").await;
    let found = stack.execute(&read("1")).await.unwrap();
    let warnings = found.diagnostics().warnings();
    assert_eq!(warnings.len(), 1);
    assert!(warnings[0].contains("Mars") && warnings[0].contains("West US"), "{warnings:?}");
}

#[tokio::test(start_paused = true)]
async fn the_second_gateway_is_told_of_once_and_not_used() {
    let account = AccountOptions { thin_client: true, ..AccountOptions::default() };
    let stack = ThreeRegions::with(account, CosmosClientOptions::default()).await;
    let found = stack.execute(&read("1")).await.unwrap();
    assert!(found.diagnostics().warnings()[0].contains("thin client"));
    let again = stack.execute(&read("1")).await.unwrap();
    assert!(again.diagnostics().warnings().is_empty());
}

#[tokio::test(start_paused = true)]
async fn failed_or_retried_operations_report_the_machine_s_load() {
    let stack = ThreeRegions::preferring("UK South").await;
    let usual = stack.execute(&read("1")).await.unwrap();
    assert!(usual.diagnostics().machine().is_none());
    let missing = stack.execute(&read("missing")).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
    assert!(missing.diagnostics().unwrap().machine().is_some());
    stack.inject("UK South", Operation::Read, unavailable(), Some(1));
    let retried = stack.execute(&read("1")).await.unwrap();
    assert!(retried.diagnostics().machine().is_some());
}

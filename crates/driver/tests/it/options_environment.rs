//! Settings from variables: every shape of value, every refusal, and the whole table.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use sidereal_driver::options::{
    AvailabilityOptions, CosmosClientOptions, CosmosEnvironmentOptions, CosmosRuntimeOptions,
    EnvironmentError, HedgingThreshold, Layer, OptionLayers, RequestOptions, RetryOptions, Source,
};
use sidereal_protocol::{ConsistencyLevel, PriorityLevel, RegionName};

/// Reads every group from the given variables; none of the process's own is looked at.
fn read(variables: &[(&str, &str)]) -> Result<CosmosEnvironmentOptions, EnvironmentError> {
    CosmosEnvironmentOptions::from_lookup(|name| {
        let found = variables.iter().find(|(variable, _)| *variable == name);
        found.map(|(_, value)| OsString::from(value))
    })
}

fn refusals(variables: &[(&str, &str)]) -> Vec<String> {
    let error = read(variables).expect_err("a malformed variable");
    error.malformed().iter().map(ToString::to_string).collect()
}

#[test]
fn every_shape_of_value_is_read() {
    let options = read(&[
        ("AZURE_COSMOS_CONSISTENCY_LEVEL", "session"),
        ("AZURE_COSMOS_PRIORITY", "Low"),
        ("AZURE_COSMOS_EXCLUDED_REGIONS", "West US, East US"),
        ("AZURE_COSMOS_REQUEST_TIMEOUT", "250ms"),
        ("AZURE_COSMOS_POOL_IDLE_TIMEOUT", "PT2M"),
        ("AZURE_COSMOS_CIRCUIT_BREAKER_TIMEOUT_COUNTER_RESET_WINDOW_IN_MINUTES", "3"),
        ("AZURE_COSMOS_SHARD_IDLE_TIMEOUT_SECS", "90"),
        ("AZURE_COSMOS_MAX_STREAMS_PER_CLIENT", "20"),
        ("AZURE_COSMOS_HEDGING_THRESHOLD_MS", "300"),
        ("AZURE_COSMOS_CUSTOM_ENDPOINTS", "https://a.example,https://b.example"),
        ("AZURE_COSMOS_APPLICATION_NAME", " orders "),
        ("AZURE_COSMOS_CONTENT_RESPONSE_ON_WRITE", "True"),
    ])
    .unwrap();
    let runtime = &options.runtime;
    assert_eq!(runtime.request.consistency_level, Some(ConsistencyLevel::Session));
    assert_eq!(runtime.request.priority, Some(PriorityLevel::Low));
    let excluded = vec![RegionName::from("West US"), RegionName::from("East US")];
    assert_eq!(runtime.request.excluded_regions, Some(excluded));
    assert_eq!(runtime.connection.request_timeout, Some(Duration::from_millis(250)));
    let pool = runtime.connection.connection_pool.as_ref().unwrap();
    assert_eq!(pool.idle_timeout, Some(Duration::from_secs(120)));
    assert_eq!(runtime.partition_failover.counter_reset_window, Some(Duration::from_secs(180)));
    assert_eq!(runtime.sharding.idle_client_timeout, Some(Duration::from_secs(90)));
    assert_eq!(runtime.sharding.max_streams_per_client, NonZeroU32::new(20));
    let threshold = HedgingThreshold::Static(Duration::from_millis(300));
    assert_eq!(runtime.availability.hedging_threshold, Some(threshold));
    let endpoints = ["https://a.example", "https://b.example"].map(str::to_owned);
    assert_eq!(runtime.account.custom_endpoints, Some(BTreeSet::from(endpoints)));
    assert_eq!(runtime.account.application_name.as_deref(), Some("orders"));
    assert_eq!(options.write.content_response_on_write, Some(true));
}

#[test]
fn absent_and_blank_variables_set_nothing() {
    assert_eq!(read(&[]).unwrap(), CosmosEnvironmentOptions::default());
    let blank = [("AZURE_COSMOS_REQUEST_TIMEOUT", " "), ("AZURE_COSMOS_PRIORITY", "")];
    assert_eq!(read(&blank).unwrap(), CosmosEnvironmentOptions::default());
}

#[test]
fn all_malformed_variables_of_all_groups_are_reported_together() {
    let refusals = refusals(&[
        ("AZURE_COSMOS_REQUEST_TIMEOUT", "soon"),
        ("AZURE_COSMOS_MAX_STREAMS_PER_CLIENT", "0"),
        ("AZURE_COSMOS_HEDGING_ENABLED", "yes"),
        ("AZURE_COSMOS_SHARD_LOAD_SPREAD_RATIO", "1.5"),
        ("AZURE_COSMOS_LOCAL_ADDRESS", "localhost"),
        ("AZURE_COSMOS_CONSISTENCY_LEVEL", "Certain"),
    ]);
    assert_eq!(
        refusals,
        [
            "AZURE_COSMOS_LOCAL_ADDRESS is \"localhost\"; expected another value: invalid IP address syntax",
            "AZURE_COSMOS_REQUEST_TIMEOUT is \"soon\"; expected a duration such as 250ms, 5s, 2m or PT5S",
            "AZURE_COSMOS_MAX_STREAMS_PER_CLIENT is \"0\"; expected a whole number from 1 to 4294967295",
            "AZURE_COSMOS_SHARD_LOAD_SPREAD_RATIO is \"1.5\"; expected a number from 0 to 1, such as 0.5",
            "AZURE_COSMOS_HEDGING_ENABLED is \"yes\"; expected true or false",
            "AZURE_COSMOS_CONSISTENCY_LEVEL is \"Certain\"; expected one of Strong, BoundedStaleness, \
             Session, ConsistentPrefix, Eventual",
        ]
    );
}

#[cfg(unix)]
#[test]
fn a_value_that_is_not_unicode_is_reported() {
    use std::os::unix::ffi::OsStringExt;

    let refused =
        RequestOptions::from_lookup(|_| Some(OsString::from_vec(vec![0x66, 0xff]))).unwrap_err();
    assert!(refused.to_string().contains("expected text in Unicode"), "{refused}");
}

const BREAKER: &str = "AZURE_COSMOS_PER_PARTITION_CIRCUIT_BREAKER_ENABLED";
const BREAKER_ALIAS: &str = "AZURE_COSMOS_ENABLE_PARTITION_CIRCUIT_BREAKER";

#[test]
fn an_alias_sets_the_same_setting() {
    let enabled = |variables: &[(&str, &str)]| {
        read(variables).unwrap().runtime.retry.enable_partition_level_circuit_breaker
    };
    assert_eq!(enabled(&[(BREAKER, "false")]), Some(false));
    assert_eq!(enabled(&[(BREAKER_ALIAS, "false")]), Some(false));
    assert_eq!(enabled(&[(BREAKER, "true"), (BREAKER_ALIAS, "TRUE")]), Some(true));
}

#[test]
fn aliases_that_disagree_are_an_error_naming_both() {
    assert_eq!(
        refusals(&[(BREAKER, "true"), (BREAKER_ALIAS, "false")]),
        [format!(
            "{BREAKER_ALIAS} is \"false\"; expected the same as {BREAKER}, another name of this setting; \
             set only one of the two"
        )]
    );
}

#[test]
fn one_group_can_be_read_by_itself() {
    let retry =
        RetryOptions::from_lookup(|name| (name == BREAKER).then(|| "false".into())).unwrap();
    assert_eq!(retry.enable_partition_level_circuit_breaker, Some(false));
    assert_eq!(retry.session_retry, None);
}

#[test]
fn no_two_settings_share_a_variable() {
    let mut seen = BTreeSet::new();
    for setting in OptionLayers::default().settings() {
        for variable in setting.variables {
            assert!(variable.starts_with("AZURE_COSMOS_"), "{variable}");
            assert!(seen.insert(variable), "{variable} is named twice");
        }
    }
}

#[test]
fn a_setting_is_described_in_the_words_of_its_declaration() {
    let settings = OptionLayers::default().settings();
    for setting in &settings {
        assert!(setting.description.ends_with('.'), "{}: {:?}", setting.name, setting.description);
    }
    let http2 = settings.iter().find(|it| it.name == "client_options.is_http2_allowed").unwrap();
    assert_eq!(http2.description, "Whether HTTP/2 is offered.");
}

/// Only what one call alone can know, or what has no text form, goes without a variable.
#[test]
fn every_setting_can_be_set_by_a_variable_unless_it_belongs_to_one_call() {
    let without: Vec<String> = OptionLayers::default()
        .settings()
        .into_iter()
        .filter(|setting| setting.variables.is_empty())
        .map(|setting| setting.name)
        .collect();
    assert_eq!(
        without,
        [
            "request.custom_headers",
            "write.indexing_directive",
            "write.session_token",
            "write.if_match_etag",
            "write.pre_triggers",
            "write.post_triggers",
        ]
    );
}

#[test]
fn the_table_tells_where_each_value_came_from() {
    let environment =
        read(&[("AZURE_COSMOS_PRIORITY", "Low"), ("AZURE_COSMOS_REQUEST_TIMEOUT", "1s")]);
    let mut runtime = CosmosRuntimeOptions::default();
    runtime.request.consistency_level = Some(ConsistencyLevel::Session);
    let mut account = CosmosClientOptions::default();
    account.connection.request_timeout = Some(Duration::from_secs(3));
    let layers =
        OptionLayers::new(Arc::new(environment.unwrap()), Arc::new(runtime), Arc::new(account));

    let settings = layers.settings();
    let row = |name: &str| settings.iter().find(|setting| setting.name == name).unwrap();
    let timeout = row("connection.request_timeout");
    assert_eq!(
        (timeout.value.as_deref(), &timeout.source),
        (Some("3s"), &Source::Layer(Layer::Account))
    );
    assert_eq!(row("request.priority").source, Source::Layer(Layer::Environment));
    assert_eq!(row("request.consistency_level").source, Source::Layer(Layer::Runtime));
    let pool = row("connection.connection_pool.max_connections");
    assert_eq!((pool.value.as_deref(), &pool.source), (Some("100"), &Source::Default));
    assert_eq!(row("availability.end_to_end_timeout").source, Source::Unset);
}

#[test]
fn header_values_never_appear_in_the_table() {
    let header = (HeaderName::from_static("x-api-key"), HeaderValue::from_static("hunter2"));
    let mut runtime = CosmosRuntimeOptions::default();
    runtime.request.custom_headers = Some([header].into());
    let layers = OptionLayers::new(Arc::default(), Arc::new(runtime), Arc::default());
    let text = format!("{:?}", layers.settings());
    assert!(text.contains("(redacted)"));
    assert!(!text.contains("hunter2"));
}

/// The example of the specification: each layer is built with `..Default::default()` from another
/// crate, and each setting comes from a different layer.
#[test]
fn a_call_overrides_the_runtime_and_keeps_what_it_does_not_mention() {
    let runtime = CosmosRuntimeOptions {
        request: RequestOptions {
            consistency_level: Some(ConsistencyLevel::Session),
            priority: Some(PriorityLevel::High),
            ..Default::default()
        },
        ..Default::default()
    };
    let account = CosmosClientOptions {
        request: RequestOptions { throughput_bucket: Some(5), ..Default::default() },
        ..Default::default()
    };
    let layers = OptionLayers::new(Arc::default(), Arc::new(runtime), Arc::new(account));
    let operation = RequestOptions { priority: Some(PriorityLevel::Low), ..Default::default() };

    let view = layers.request(&operation);
    assert_eq!(view.priority(), Some(PriorityLevel::Low));
    assert_eq!(view.consistency_level(), Some(ConsistencyLevel::Session));
    assert_eq!(view.throughput_bucket(), Some(5));
}

#[test]
fn the_defaults_are_those_of_the_specifications() {
    let layers = OptionLayers::default();
    let failover = layers.partition_failover();
    assert_eq!(failover.read_failure_threshold(), 2);
    assert_eq!(failover.write_failure_threshold(), 5);
    assert_eq!(failover.counter_reset_window(), Duration::from_secs(5 * 60));
    assert_eq!(failover.partition_unavailability_duration(), Duration::from_secs(5));
    assert_eq!(failover.failback_sweep_interval(), Duration::from_secs(300));
    assert!(layers.retry().enable_partition_level_circuit_breaker());

    let sharding = layers.sharding();
    assert_eq!(sharding.max_streams_per_client().get(), 16);
    assert_eq!(sharding.min_clients_per_endpoint().get(), 1);
    assert_eq!(sharding.load_spread_ratio().value(), 0.5);
    assert_eq!(sharding.consecutive_failure_threshold().get(), 5);
    assert_eq!(sharding.eviction_grace_period(), Duration::from_secs(2));
    assert_eq!(sharding.idle_client_timeout(), Duration::from_secs(60));
    assert_eq!(sharding.health_check_interval(), Duration::from_secs(10));
    assert_eq!(sharding.scale_up_threshold_ratio().value(), 0.75);
    assert_eq!(sharding.eviction_cpu_limit().value(), 0.9);
}

#[test]
fn an_operation_layer_default_is_the_declared_one() {
    let layers = OptionLayers::default();
    let operation = AvailabilityOptions::default();
    let view = layers.availability(&operation);
    assert!(view.hedging_enabled());
    assert_eq!(view.hedging_threshold(), HedgingThreshold::default());
    assert_eq!(view.end_to_end_timeout(), None);
}

//! Settings that cannot work, found when a runtime or a driver is made and not by the first request.
//!
//! Most values cannot be wrong once they exist (`values.rs`). Here is what only shows in the whole: a
//! duration of zero that would fail every request or never let a background task rest.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use sidereal_protocol::RegionName;

use super::{AvailabilityOptions, HedgingThreshold, OptionLayers, RequestOptions};
use crate::exchange::Endpoint;

/// The longest interval that the system takes for probing a silent TCP connection (`MAX_TCP_KEEPIDLE` of
/// Linux, in seconds).
const MAX_TCP_KEEPALIVE: Duration = Duration::from_secs(32_767);

/// Every setting that cannot work, each with a sentence that says what to change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidConfiguration(Vec<String>);

impl InvalidConfiguration {
    /// The sentences, one for each setting.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.0
    }
}

impl fmt::Display for InvalidConfiguration {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.join("; "))
    }
}

impl Error for InvalidConfiguration {}

/// Checks the settings of a runtime or of a driver.
pub(crate) fn validate(layers: &OptionLayers) -> Result<(), InvalidConfiguration> {
    let mut problems = Vec::new();
    check_durations(layers, &mut problems);
    check_keep_alive(layers, &mut problems);
    check_regions(layers, &mut problems);
    check_hedging(layers, &mut problems);
    check_endpoints(layers, &mut problems);
    match problems.is_empty() {
        true => Ok(()),
        false => Err(InvalidConfiguration(problems)),
    }
}

fn check_durations(layers: &OptionLayers, problems: &mut Vec<String>) {
    let (connection, client) = (layers.connection(), layers.client_options());
    let durations = [
        ("request_timeout", connection.request_timeout()),
        ("metadata_request_timeout", connection.metadata_request_timeout()),
        ("connect_timeout", connection.connect_timeout()),
        ("max_connection_age", connection.max_connection_age()),
        ("http2_keep_alive_interval", client.http2_keep_alive_interval()),
        ("http2_keep_alive_timeout", client.http2_keep_alive_timeout()),
        ("cpu_refresh_interval", client.cpu_refresh_interval()),
        ("failback_sweep_interval", layers.partition_failover().failback_sweep_interval()),
        ("health_check_interval", layers.sharding().health_check_interval()),
    ];
    for (name, duration) in durations {
        // A timeout of zero fails every request; an interval of zero never lets a task rest.
        if duration.is_zero() {
            problems
                .push(format!("{name} must be longer than zero: leave it unset for the default"));
        }
    }
}

fn check_keep_alive(layers: &OptionLayers, problems: &mut Vec<String>) {
    let interval = layers.client_options().tcp_keepalive_interval();
    // The system counts in whole seconds.
    if interval < Duration::from_secs(1) || interval > MAX_TCP_KEEPALIVE {
        problems.push(format!(
            "tcp_keepalive_interval is {interval:?}: the system takes from 1 s to {MAX_TCP_KEEPALIVE:?}"
        ));
    }
}

fn check_regions(layers: &OptionLayers, problems: &mut Vec<String>) {
    let (regions, call) = (layers.regions(), RequestOptions::default());
    let is_empty = |region: &RegionName| region.as_str().trim().is_empty();
    let any_empty = |all: Option<&Vec<RegionName>>| all.into_iter().flatten().any(is_empty);
    let named = [
        ("preferred_regions", any_empty(regions.preferred_regions())),
        ("application_region", regions.application_region().is_some_and(is_empty)),
        ("excluded_regions", any_empty(layers.request(&call).excluded_regions())),
    ];
    for (name, _) in named.into_iter().filter(|(_, is_empty)| *is_empty) {
        problems.push(format!("{name} has an empty name: name a region, such as West US 2"));
    }
}

fn check_hedging(layers: &OptionLayers, problems: &mut Vec<String>) {
    let call = AvailabilityOptions::default();
    if layers.availability(&call).hedging_threshold() == HedgingThreshold::Static(Duration::ZERO) {
        problems.push(
            "hedging_threshold of zero would send every request twice: \
             give it some milliseconds, or set hedging_enabled to false"
                .to_owned(),
        );
    }
}

fn check_endpoints(layers: &OptionLayers, problems: &mut Vec<String>) {
    for text in layers.account().custom_endpoints().into_iter().flatten() {
        if let Err(error) = text.parse::<Endpoint>() {
            problems.push(format!("custom_endpoints: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::options::CosmosClientOptions;

    fn problems(change: impl FnOnce(&mut CosmosClientOptions)) -> Vec<String> {
        let mut account = CosmosClientOptions::default();
        change(&mut account);
        let layers = OptionLayers::new(Arc::default(), Arc::default(), Arc::new(account));
        validate(&layers).map_or_else(|invalid| invalid.problems().to_vec(), |()| Vec::new())
    }

    #[test]
    fn the_defaults_are_valid() {
        assert_eq!(problems(|_| {}), [""; 0]);
    }

    #[test]
    fn each_setting_that_cannot_work_is_named_with_what_to_change() {
        let zero = Some(Duration::ZERO);
        let cases: [(&str, Vec<String>); 13] = [
            ("request_timeout", problems(|it| it.connection.request_timeout = zero)),
            (
                "metadata_request_timeout",
                problems(|it| it.connection.metadata_request_timeout = zero),
            ),
            ("connect_timeout", problems(|it| it.connection.connect_timeout = zero)),
            ("max_connection_age", problems(|it| it.connection.max_connection_age = zero)),
            (
                "http2_keep_alive_interval",
                problems(|it| it.client_options.http2_keep_alive_interval = zero),
            ),
            (
                "http2_keep_alive_timeout",
                problems(|it| it.client_options.http2_keep_alive_timeout = zero),
            ),
            ("cpu_refresh_interval", problems(|it| it.client_options.cpu_refresh_interval = zero)),
            ("health_check_interval", problems(|it| it.sharding.health_check_interval = zero)),
            (
                "tcp_keepalive_interval",
                problems(|it| it.client_options.tcp_keepalive_interval = zero),
            ),
            (
                "preferred_regions",
                problems(|it| it.regions.preferred_regions = Some(vec![" ".into()])),
            ),
            ("application_region", problems(|it| it.regions.application_region = Some("".into()))),
            (
                "hedging_threshold",
                problems(|it| {
                    it.availability.hedging_threshold =
                        Some(HedgingThreshold::Static(Duration::ZERO));
                }),
            ),
            (
                "custom_endpoints",
                problems(|it| {
                    it.account.custom_endpoints = Some(["contoso".to_owned()].into());
                }),
            ),
        ];
        for (name, found) in cases {
            let [sentence] = found.as_slice() else { panic!("{name}: {found:?}") };
            assert!(sentence.starts_with(name), "{sentence}");
        }
        let too_long = problems(|it| {
            it.client_options.tcp_keepalive_interval = Some(MAX_TCP_KEEPALIVE * 2);
        });
        assert!(too_long[0].contains("from 1 s to 32767s"), "{too_long:?}");
    }

    #[test]
    fn all_of_them_are_told_at_once() {
        let both = problems(|it| {
            it.connection.request_timeout = Some(Duration::ZERO);
            it.connection.connect_timeout = Some(Duration::ZERO);
        });
        assert_eq!(both.len(), 2);
    }
}

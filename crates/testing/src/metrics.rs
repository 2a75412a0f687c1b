//! A metric exporter of OpenTelemetry that keeps what it is given in memory.
//!
//! The SDK has one under its feature `testing`, which also brings its traces and a second version of `rand`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use opentelemetry_sdk::error::OTelSdkResult;
pub use opentelemetry_sdk::metrics::SdkMeterProvider;
use opentelemetry_sdk::metrics::data::{
    AggregatedMetrics, MetricData, ResourceMetrics, ScopeMetrics,
};
use opentelemetry_sdk::metrics::exporter::PushMetricExporter;
use opentelemetry_sdk::metrics::{PeriodicReader, Temporality};

/// The value of an instrument for one set of attributes.
#[derive(Clone, Debug)]
pub struct Point {
    /// The instrument's name.
    pub instrument: String,
    /// The instrument's unit.
    pub unit: String,
    /// By key, values as text.
    pub attributes: Vec<(String, String)>,
    /// How many values a histogram has; one for anything else.
    pub count: u64,
    /// The values added up; the value itself for anything but a histogram.
    pub sum: f64,
}

impl Point {
    /// The value of an attribute.
    #[must_use]
    pub fn attribute(&self, key: &str) -> Option<&str> {
        self.attributes.iter().find(|(it, _)| it == key).map(|(_, value)| value.as_str())
    }
}

/// The last export.
#[derive(Clone, Debug, Default)]
pub struct Exported(Arc<Mutex<Vec<Point>>>);

impl Exported {
    /// A provider that exports here, whenever it is told to.
    #[must_use]
    pub fn provider(&self) -> SdkMeterProvider {
        // Never by itself: a test says when.
        let reader = PeriodicReader::builder(self.clone()).with_interval(Duration::from_secs(3600));
        SdkMeterProvider::builder().with_reader(reader.build()).build()
    }

    /// The metrics now.
    #[must_use]
    pub fn collect(&self, provider: &SdkMeterProvider) -> Vec<Point> {
        self.0.lock().unwrap().clear();
        provider.force_flush().unwrap();
        self.0.lock().unwrap().clone()
    }
}

impl PushMetricExporter for Exported {
    async fn export(&self, metrics: &ResourceMetrics) -> OTelSdkResult {
        let all = metrics.scope_metrics().flat_map(ScopeMetrics::metrics);
        let points = all.flat_map(|metric| {
            let (instrument, unit) = (metric.name().to_owned(), metric.unit().to_owned());
            points_of(metric.data()).into_iter().map(move |(attributes, count, sum)| {
                let (instrument, unit) = (instrument.clone(), unit.clone());
                Point { instrument, unit, attributes, count, sum }
            })
        });
        *self.0.lock().unwrap() = points.collect();
        Ok(())
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }

    fn temporality(&self) -> Temporality {
        Temporality::Cumulative
    }
}

type Values = Vec<(Vec<(String, String)>, u64, f64)>;

fn points_of(data: &AggregatedMetrics) -> Values {
    match data {
        AggregatedMetrics::F64(data) => values_of(data, |value| value),
        AggregatedMetrics::U64(data) => values_of(data, |value| value as f64),
        AggregatedMetrics::I64(data) => values_of(data, |value| value as f64),
    }
}

fn values_of<T: Copy>(data: &MetricData<T>, number: impl Fn(T) -> f64) -> Values {
    match data {
        MetricData::Gauge(gauge) => {
            let points = gauge.data_points();
            points.map(|it| (text_of(it.attributes()), 1, number(it.value()))).collect()
        }
        MetricData::Sum(sum) => {
            let points = sum.data_points();
            points.map(|it| (text_of(it.attributes()), 1, number(it.value()))).collect()
        }
        MetricData::Histogram(histogram) => {
            let points = histogram.data_points();
            points.map(|it| (text_of(it.attributes()), it.count(), number(it.sum()))).collect()
        }
        MetricData::ExponentialHistogram(_) => panic!("no instrument asks for one"),
    }
}

fn text_of<'a>(
    attributes: impl Iterator<Item = &'a opentelemetry::KeyValue>,
) -> Vec<(String, String)> {
    let mut text: Vec<_> =
        attributes.map(|it| (it.key.to_string(), it.value.to_string())).collect();
    text.sort();
    text
}

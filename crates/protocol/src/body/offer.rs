//! Offers: the throughput of a database or container, as a resource of its own.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::system::SystemProperties;
use crate::error::{Error, ErrorKind, Result};
use crate::throughput::ThroughputProperties;

/// The throughput of one database or container.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Offer {
    /// The id, which is the last part of the offer's link.
    pub id: String,
    /// The `_self` link of what the throughput is for.
    #[serde(default)]
    pub resource: String,
    /// `Invalid` in version 2; a performance level in version 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer_type: Option<String>,
    /// `V2`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offer_version: Option<String>,
    /// The RID of what the throughput is for.
    #[serde(default)]
    pub offer_resource_id: String,
    /// The throughput.
    #[serde(default)]
    pub content: OfferContent,
    /// System properties, which the service adds.
    #[serde(flatten)]
    pub system: SystemProperties,
    /// Anything else the service put in.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

impl Offer {
    /// The throughput, if the offer states one.
    pub fn throughput(&self) -> Option<ThroughputProperties> {
        match (&self.content.offer_autopilot_settings, self.content.offer_throughput) {
            (Some(settings), _) => Some(settings.throughput()),
            (None, Some(throughput)) => Some(ThroughputProperties::manual(throughput)),
            (None, None) => None,
        }
    }

    /// Changes the throughput and leaves everything else as it was read.
    pub fn set_throughput(&mut self, throughput: ThroughputProperties) {
        let (manual, autopilot) = match throughput {
            ThroughputProperties::Manual { throughput } => (Some(throughput), None),
            ThroughputProperties::Autoscale { .. } => (None, AutopilotSettings::of(throughput)),
        };
        self.content.offer_throughput = manual;
        self.content.offer_autopilot_settings = autopilot;
    }
}

/// The content of an offer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct OfferContent {
    /// Request units per second; for autoscale, what is available at the moment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offer_throughput: Option<u32>,
    /// The bounds of autoscale.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offer_autopilot_settings: Option<AutopilotSettings>,
    /// Anything else the service put in.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// The bounds of autoscale; also the header of a creation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AutopilotSettings {
    /// The most request units per second.
    pub max_throughput: u32,
    /// How the maximum grows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_upgrade_policy: Option<AutoUpgradePolicy>,
    /// Anything else the service put in.
    #[serde(flatten)]
    pub other: Map<String, Value>,
}

/// How the maximum of autoscale grows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AutoUpgradePolicy {
    /// By a share of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_policy: Option<ThroughputPolicy>,
}

/// The share by which the maximum of autoscale grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ThroughputPolicy {
    /// In percent.
    pub increment_percent: u32,
}

impl AutopilotSettings {
    /// The settings of autoscale; `None` for a fixed throughput.
    pub fn of(throughput: ThroughputProperties) -> Option<Self> {
        let ThroughputProperties::Autoscale { max_throughput, increment_percent } = throughput
        else {
            return None;
        };
        let auto_upgrade_policy = increment_percent.map(|increment_percent| AutoUpgradePolicy {
            throughput_policy: Some(ThroughputPolicy { increment_percent }),
        });
        Some(Self { max_throughput, auto_upgrade_policy, other: Map::new() })
    }

    /// The throughput these settings stand for.
    pub fn throughput(&self) -> ThroughputProperties {
        let policy = self.auto_upgrade_policy.as_ref().and_then(|policy| policy.throughput_policy);
        ThroughputProperties::autoscale(
            self.max_throughput,
            policy.map(|policy| policy.increment_percent),
        )
    }

    /// The value of the header a database or container is created with.
    pub fn header_value(&self) -> String {
        // Maps with string keys and plain numbers always have a JSON form.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads the header a database or container is created with.
    pub fn from_header(text: &str) -> Result<Self> {
        serde_json::from_str(text).map_err(|error| {
            let message = format!(
                "the autoscale settings are not valid: {error}; expected {{\"maxThroughput\": 4000}}"
            );
            Error::new(ErrorKind::Throughput, message)
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn offer(content: Value) -> Offer {
        serde_json::from_value(json!({
            "id": "NwJh", "resource": "dbs/qYcAAA==/colls/qYcAAPEvJBQ=/",
                "offerType": "Invalid", "offerVersion": "V2",
            "offerResourceId": "qYcAAPEvJBQ=", "content": content, "_rid": "NwJh", "newer": 1,
        }))
        .unwrap()
    }

    #[test]
    fn an_offer_round_trips_when_its_throughput_changes() {
        let mut changed =
            offer(json!({"offerThroughput": 400, "offerIsRUPerMinuteThroughputEnabled": false}));
        assert_eq!(changed.throughput(), Some(ThroughputProperties::manual(400)));
        changed.set_throughput(ThroughputProperties::autoscale(4000, Some(10)));
        let json = serde_json::to_value(&changed).unwrap();
        assert_eq!(
            json["content"],
            json!({
                "offerIsRUPerMinuteThroughputEnabled": false,
                "offerAutopilotSettings": {"maxThroughput": 4000,
                    "autoUpgradePolicy": {"throughputPolicy": {"incrementPercent": 10}}},
            })
        );
        assert_eq!(json["newer"], 1);
        assert_eq!(serde_json::from_value::<Offer>(json).unwrap(), changed);
    }

    #[test]
    fn autoscale_goes_before_the_throughput_of_the_moment() {
        let scaled = offer(
            json!({"offerThroughput": 400, "offerAutopilotSettings": {"maxThroughput": 4000}}),
        );
        assert_eq!(scaled.throughput(), Some(ThroughputProperties::autoscale(4000, None)));
        assert_eq!(offer(json!({})).throughput(), None);
    }

    #[test]
    fn the_creation_header_reads_back() {
        let throughput = ThroughputProperties::autoscale(1000, None);
        let settings = AutopilotSettings::of(throughput).unwrap();
        assert_eq!(settings.header_value(), r#"{"maxThroughput":1000}"#);
        assert_eq!(
            AutopilotSettings::from_header(&settings.header_value()).unwrap().throughput(),
            throughput
        );
        assert!(AutopilotSettings::from_header("4000").is_err());
    }
}

//! Offers: the throughput of databases and containers.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sidereal_protocol::{Etag, Rid, ThroughputProperties};

/// The throughput of a database or container.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Offer {
    pub(crate) rid: Rid,
    /// The RID of the database or container.
    pub(crate) resource_rid: Rid,
    /// Its `_self`.
    pub(crate) resource_link: String,
    pub(crate) throughput: ThroughputProperties,
    pub(crate) etag: Etag,
    pub(crate) changed_at: u64,
}

impl Offer {
    /// The offer as clients see it.
    pub(crate) fn resource(&self) -> Value {
        let autoscale = match self.throughput {
            ThroughputProperties::Autoscale { max_throughput, increment_percent } => {
                Some((max_throughput, increment_percent))
            }
            _ => None,
        };
        let content = match autoscale {
            None => json!({
                "offerThroughput": self.throughput.ceiling(),
                "offerIsRUPerMinuteThroughputEnabled": false,
            }),
            Some((max_throughput, increment_percent)) => json!({
                // Autoscale begins at a tenth of its maximum: a rule of the service.
                "offerThroughput": max_throughput / 10,
                "offerIsRUPerMinuteThroughputEnabled": false,
                "offerAutopilotSettings": autopilot(max_throughput, increment_percent),
            }),
        };
        json!({
            "resource": self.resource_link,
            "offerType": "Invalid",
            "offerVersion": "V2",
            "offerResourceId": self.resource_rid.to_string(),
            "content": content,
            "id": self.id(),
            "_rid": self.rid.to_string(),
            "_self": format!("offers/{}/", self.rid),
            "_etag": self.etag.as_str(),
            "_ts": self.changed_at,
        })
    }

    /// The id of an offer is its RID.
    pub(crate) fn id(&self) -> String {
        self.rid.to_string()
    }
}

fn autopilot(max_throughput: u32, increment_percent: Option<u32>) -> Value {
    match increment_percent {
        None => json!({ "maxThroughput": max_throughput }),
        Some(percent) => json!({
            "maxThroughput": max_throughput,
            "autoUpgradePolicy": { "throughputPolicy": { "incrementPercent": percent } },
        }),
    }
}

//! Fault rules: when they apply and what they do. Values with their JSON, no state.

use std::num::NonZeroU64;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sidereal_protocol::{PartitionKeyRangeId, RegionName, ResourceType};

use crate::clock::Timestamp;
use crate::millis;
use crate::operation::Operation;

/// A rule that makes requests go wrong.
///
/// ```
/// use sidereal_emulator::{FaultCondition, FaultEffect, FaultRule, Operation};
///
/// let rule = FaultRule {
///     condition: FaultCondition { operation: Some(Operation::Upsert), ..Default::default() },
///     hit_limit: Some(2),
///     ..FaultRule::new(FaultEffect::ResetAfter)
/// };
/// # drop(rule);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultRule {
    /// The name of the rule; one is generated where this is empty.
    #[serde(default)]
    pub name: String,
    /// The requests that it applies to; all of them by default.
    #[serde(default)]
    pub condition: FaultCondition,
    /// The effect on these requests.
    pub effect: FaultEffect,
    /// How likely a match takes effect, from 0 to 1; always by default.
    #[serde(default = "always")]
    pub probability: f64,
    /// The seed of the random numbers that the probability is compared with: the same seed, the same hits.
    #[serde(default)]
    pub seed: u64,
    /// How often the rule takes effect at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hit_limit: Option<u64>,
    /// The first moment at which the rule applies, by the account's clock.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "millis::optional")]
    pub start: Option<Timestamp>,
    /// The first moment at which it applies no longer.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "millis::optional")]
    pub end: Option<Timestamp>,
}

impl FaultRule {
    /// A rule that applies to every request.
    #[must_use]
    pub fn new(effect: FaultEffect) -> Self {
        Self {
            name: String::new(),
            condition: FaultCondition::default(),
            effect,
            probability: always(),
            seed: 0,
            hit_limit: None,
            start: None,
            end: None,
        }
    }
}

fn always() -> f64 {
    1.0
}

/// The requests that a rule applies to; every part that is given has to hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FaultCondition {
    /// The region that the request reached.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub region: Option<RegionName>,
    /// The operation of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operation: Option<Operation>,
    /// The kind of resource that the request is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceType>,
    /// Whether the request is about the account's description of itself rather than its data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<bool>,
    /// The container, as `database/container`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// The partition range that the request is addressed to, by its id or by a whole partition key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub range: Option<PartitionKeyRangeId>,
    /// The id of the item, from the path or from the body.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub item: Option<String>,
    /// A header that the request has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub header: Option<HeaderCondition>,
    /// Which of the requests that the rest holds for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub occurrence: Option<Occurrence>,
}

/// A header that a request has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HeaderCondition {
    /// The header's name, in any case.
    pub name: String,
    /// Its value; any by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
}

/// Which of several matches a rule means, counted from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Occurrence {
    /// This one only.
    Nth(NonZeroU64),
    /// Every so many.
    Every(NonZeroU64),
}

impl Occurrence {
    /// Whether the match with this number is meant.
    #[must_use]
    pub fn includes(self, number: u64) -> bool {
        match self {
            Self::Nth(nth) => number == nth.get(),
            Self::Every(every) => number.is_multiple_of(every.get()),
        }
    }
}

/// The effect of a rule on a request.
///
/// Effects on time and on connections are carried out by [`AccountEndpoint`](crate::AccountEndpoint) and by
/// the server; [`Account::handle`](crate::Account::handle) skips delays and says what it does in place of a
/// reset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
#[non_exhaustive]
pub enum FaultEffect {
    /// The response is an error, and the request is not processed.
    Answer {
        /// The status, from 200 to 599.
        status: u16,
        /// The sub-status; none by default.
        #[serde(default)]
        sub_status: u32,
        /// How long the client is asked to wait before it tries again.
        #[serde(
            default,
            rename = "retry_after_ms",
            skip_serializing_if = "Option::is_none",
            with = "millis::optional"
        )]
        retry_after: Option<Duration>,
    },
    /// The request waits before it is processed.
    DelayBefore {
        /// How long.
        #[serde(rename = "wait_ms", with = "millis")]
        wait: Duration,
    },
    /// The request is processed, and its response waits.
    DelayAfter {
        /// How long.
        #[serde(rename = "wait_ms", with = "millis")]
        wait: Duration,
    },
    /// The connection is reset and the request is not processed. All streams of an HTTP/2 connection end with
    /// it.
    ResetBefore,
    /// The request is processed, then the connection is reset without a response: an ambiguous write.
    ResetAfter,
    /// The connection is reset in the middle of the response's body.
    ResetMidBody,
    /// The request is neither processed nor answered, until the client times out or the server stops.
    Hang,
    /// The response's body ends early, and its content length agrees: HTTP sees nothing wrong.
    TruncatedBody {
        /// How many bytes are left; half of them by default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        keep: Option<usize>,
    },
    /// The response has another body.
    WrongBody {
        /// The body; some text that is no JSON by default.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        body: Option<String>,
    },
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_smallest_rule_is_an_effect() {
        let rule: FaultRule =
            serde_json::from_value(json!({ "effect": { "kind": "hang" } })).unwrap();
        assert_eq!(rule, FaultRule::new(FaultEffect::Hang));
    }

    #[test]
    fn a_rule_is_read_as_it_was_written() {
        let rule = FaultRule {
            name: "throttle".to_owned(),
            condition: FaultCondition {
                region: Some("West US".into()),
                operation: Some(Operation::QueryPlan),
                resource: Some(ResourceType::Document),
                metadata: Some(false),
                container: Some("db/c".to_owned()),
                range: Some(PartitionKeyRangeId::from(3)),
                item: Some("1".to_owned()),
                header: Some(HeaderCondition { name: "a".to_owned(), value: None }),
                occurrence: Some(Occurrence::Every(NonZeroU64::MIN)),
            },
            probability: 0.25,
            seed: 9,
            hit_limit: Some(4),
            start: Some(Timestamp::from_millis(10)),
            end: Some(Timestamp::from_millis(20)),
            effect: FaultEffect::Answer {
                status: 429,
                sub_status: 3200,
                retry_after: Some(Duration::from_millis(5)),
            },
        };
        let written = serde_json::to_value(&rule).unwrap();
        assert_eq!(written["effect"]["retry_after_ms"], 5);
        assert_eq!(written["condition"]["occurrence"], json!({ "every": 1 }));
        assert_eq!(written["start"], 10);
        assert_eq!(serde_json::from_value::<FaultRule>(written).unwrap(), rule);
    }

    #[test]
    fn what_a_rule_does_not_have_is_refused_by_name() {
        for (rule, named) in [
            (json!({ "effect": { "kind": "hang" }, "chance": 1 }), "chance"),
            (json!({ "effect": { "kind": "burn" } }), "burn"),
            (json!({ "effect": { "kind": "delay_before", "wait": 1 } }), "wait"),
            (json!({ "effect": { "kind": "hang" }, "condition": { "zone": "1" } }), "zone"),
            (json!({ "effect": { "kind": "hang" }, "condition": { "operation": "Burn" } }), "Burn"),
        ] {
            let said = serde_json::from_value::<FaultRule>(rule).unwrap_err().to_string();
            assert!(said.contains(named), "{said}");
        }
    }
}

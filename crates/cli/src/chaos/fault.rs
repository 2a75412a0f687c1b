//! A fault rule as flags.

use std::num::NonZeroU64;
use std::time::Duration;

use clap::{ArgGroup, Args, ValueEnum};
use serde_json::Value;
use sidereal_emulator::{
    FaultCondition, FaultEffect, FaultRule, HeaderCondition, Occurrence, Operation,
};
use sidereal_protocol::{PartitionKeyRangeId, RegionName, ResourceType};

use crate::values::duration;

#[derive(Args, Debug)]
#[command(group(ArgGroup::new("effect").required(true)))]
pub(crate) struct FaultArguments {
    /// Name of the rule [default: one is generated].
    #[arg(long, default_value = "", hide_default_value = true)]
    name: String,

    /// Only requests that reach this region.
    #[arg(long, help_heading = "Condition")]
    region: Option<RegionName>,
    /// Only this operation: Create, Read, ReadFeed, ChangeFeed, Query, QueryPlan, Batch, Upsert, Replace,
    /// Patch, Delete or Other.
    #[arg(long, help_heading = "Condition")]
    operation: Option<Operation>,
    /// Only this kind of resource, such as Document or DatabaseAccount.
    #[arg(long, help_heading = "Condition")]
    resource: Option<ResourceType>,
    /// Only requests about the account's description of itself (true), or about data (false).
    #[arg(long, help_heading = "Condition", num_args = 0..=1, default_missing_value = "true")]
    metadata: Option<bool>,
    /// Only this container, as database/container.
    #[arg(long, help_heading = "Condition")]
    container: Option<String>,
    /// Only the partition range with this id.
    #[arg(long, help_heading = "Condition")]
    range: Option<PartitionKeyRangeId>,
    /// Only the item with this id.
    #[arg(long, help_heading = "Condition")]
    item: Option<String>,
    /// Only requests with this header, and this value if one is given.
    #[arg(long, help_heading = "Condition", value_name = "NAME[=VALUE]", value_parser = header)]
    header: Option<HeaderCondition>,
    /// Only the n-th of these requests.
    #[arg(long, help_heading = "Condition", value_name = "N", conflicts_with = "every")]
    nth: Option<NonZeroU64>,
    /// Only every n-th of these requests.
    #[arg(long, help_heading = "Condition", value_name = "N")]
    every: Option<NonZeroU64>,

    /// How likely a match takes effect, from 0 to 1.
    #[arg(long, help_heading = "Limits", default_value_t = 1.0)]
    probability: f64,
    /// Seed of the random numbers; the same seed gives the same hits.
    #[arg(long, help_heading = "Limits", default_value_t = 0)]
    seed: u64,
    /// How often the rule takes effect at most.
    #[arg(long, help_heading = "Limits", value_name = "N")]
    hits: Option<u64>,
    /// When the rule begins to apply, from now on.
    #[arg(long, help_heading = "Limits", value_name = "TIME", value_parser = duration)]
    after: Option<Duration>,
    /// How long the rule applies.
    #[arg(long = "for", help_heading = "Limits", value_name = "TIME", value_parser = duration)]
    lasts: Option<Duration>,

    /// Answer with this status, and sub-status, instead of processing the request.
    #[arg(long, help_heading = "Effect", group = "effect", value_name = "CODE[/SUB]", value_parser = status)]
    status: Option<(u16, u32)>,
    /// With --status: how long the client is asked to wait.
    #[arg(
        long,
        help_heading = "Effect",
        value_name = "TIME",
        value_parser = duration,
        conflicts_with_all = ["delay_before", "delay_after", "reset", "hang", "truncate", "wrong_body"],
    )]
    retry_after: Option<Duration>,
    /// Wait before processing the request.
    #[arg(long, help_heading = "Effect", group = "effect", value_name = "TIME", value_parser = duration)]
    delay_before: Option<Duration>,
    /// Wait between processing and response.
    #[arg(long, help_heading = "Effect", group = "effect", value_name = "TIME", value_parser = duration)]
    delay_after: Option<Duration>,
    /// Reset the connection before processing, after it, or in the middle of the response's body.
    #[arg(long, help_heading = "Effect", group = "effect", value_name = "WHEN")]
    reset: Option<Reset>,
    /// Neither process nor answer the request.
    #[arg(long, help_heading = "Effect", group = "effect")]
    hang: bool,
    /// Truncate the response's body to so many bytes, or to half.
    #[arg(long, help_heading = "Effect", group = "effect", value_name = "BYTES", num_args = 0..=1)]
    truncate: Option<Option<usize>>,
    /// Replace the response's body.
    #[arg(long, help_heading = "Effect", group = "effect", value_name = "TEXT", num_args = 0..=1)]
    wrong_body: Option<Option<String>>,
}

/// When a connection is reset.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Reset {
    Before,
    After,
    MidBody,
}

impl FaultArguments {
    /// The rule as the admin API takes it.
    pub(super) fn body(&self) -> Value {
        let rule = FaultRule {
            name: self.name.clone(),
            condition: self.condition(),
            probability: self.probability,
            seed: self.seed,
            hit_limit: self.hits,
            ..FaultRule::new(self.effect())
        };
        let mut body = serde_json::to_value(rule).expect("a rule has a JSON form");
        for (name, wait) in [("after_ms", self.after), ("for_ms", self.lasts)] {
            if let Some(wait) = wait {
                body[name] = millis(wait);
            }
        }
        body
    }

    fn condition(&self) -> FaultCondition {
        let nth = self.nth.map(Occurrence::Nth);
        FaultCondition {
            region: self.region.clone(),
            operation: self.operation,
            resource: self.resource,
            metadata: self.metadata,
            container: self.container.clone(),
            range: self.range.clone(),
            item: self.item.clone(),
            header: self.header.clone(),
            occurrence: nth.or(self.every.map(Occurrence::Every)),
        }
    }

    /// The one effect that was given; the group of flags lets exactly one through.
    fn effect(&self) -> FaultEffect {
        if let Some((status, sub_status)) = self.status {
            return FaultEffect::Answer { status, sub_status, retry_after: self.retry_after };
        }
        if let Some(wait) = self.delay_before {
            return FaultEffect::DelayBefore { wait };
        }
        if let Some(wait) = self.delay_after {
            return FaultEffect::DelayAfter { wait };
        }
        if let Some(keep) = self.truncate {
            return FaultEffect::TruncatedBody { keep };
        }
        if let Some(body) = &self.wrong_body {
            return FaultEffect::WrongBody { body: body.clone() };
        }
        match self.reset {
            Some(Reset::Before) => FaultEffect::ResetBefore,
            Some(Reset::After) => FaultEffect::ResetAfter,
            Some(Reset::MidBody) => FaultEffect::ResetMidBody,
            None => FaultEffect::Hang,
        }
    }
}

pub(super) fn millis(wait: Duration) -> Value {
    Value::from(u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
}

fn status(text: &str) -> Result<(u16, u32), String> {
    let (code, sub_status) = text.split_once('/').unwrap_or((text, "0"));
    let parsed = code.parse().ok().zip(sub_status.parse().ok());
    parsed.ok_or_else(|| "expected a status such as 503, or 410/1002 with a sub-status".to_owned())
}

fn header(text: &str) -> Result<HeaderCondition, String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, Some(value.to_owned())),
        None => (text, None),
    };
    match name.trim() {
        "" => Err("expected the name of a header, such as x-ms-version=2020-07-15".to_owned()),
        name => Ok(HeaderCondition { name: name.to_owned(), value }),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;

    #[derive(Parser)]
    struct Alone {
        #[command(flatten)]
        fault: FaultArguments,
    }

    fn body(flags: &[&str]) -> Result<Value, String> {
        let all = std::iter::once(&"add").chain(flags);
        let parsed = Alone::try_parse_from(all).map_err(|error| error.to_string())?;
        Ok(parsed.fault.body())
    }

    #[test]
    fn each_flag_of_an_effect_is_that_effect() {
        let cases = [
            (
                &["--status", "410/1002"][..],
                json!({ "kind": "answer", "status": 410, "sub_status": 1002 }),
            ),
            (
                &["--status", "429", "--retry-after", "50ms"],
                json!({ "kind": "answer", "status": 429, "sub_status": 0, "retry_after_ms": 50 }),
            ),
            (&["--delay-before", "1s"], json!({ "kind": "delay_before", "wait_ms": 1000 })),
            (&["--delay-after", "1s"], json!({ "kind": "delay_after", "wait_ms": 1000 })),
            (&["--reset", "before"], json!({ "kind": "reset_before" })),
            (&["--reset", "after"], json!({ "kind": "reset_after" })),
            (&["--reset", "mid-body"], json!({ "kind": "reset_mid_body" })),
            (&["--hang"], json!({ "kind": "hang" })),
            (&["--truncate"], json!({ "kind": "truncated_body" })),
            (&["--truncate", "5"], json!({ "kind": "truncated_body", "keep": 5 })),
            (&["--wrong-body", "x"], json!({ "kind": "wrong_body", "body": "x" })),
        ];
        for (flags, effect) in cases {
            assert_eq!(body(flags).unwrap()["effect"], effect, "{flags:?}");
        }
    }

    #[test]
    fn conditions_and_limits_are_passed_on() {
        let flags = "--hang --name n --region westus --operation upsert --resource Document \
                     --metadata false --container db/c --range 3 --item 1 --header a=b --every 2 \
                     --probability 0.5 --seed 7 --hits 4 --after 1s --for 2s";
        let flags: Vec<&str> = flags.split_whitespace().collect();
        let condition = json!({
            "region": "westus", "operation": "Upsert", "resource": "Document", "metadata": false,
            "container": "db/c", "range": "3", "item": "1", "header": { "name": "a", "value": "b" },
            "occurrence": { "every": 2 },
        });
        let expected = json!({
            "name": "n", "condition": condition, "effect": { "kind": "hang" }, "probability": 0.5,
            "seed": 7, "hit_limit": 4, "after_ms": 1000, "for_ms": 2000,
        });
        assert_eq!(body(&flags).unwrap(), expected);
    }

    #[test]
    fn a_rule_has_exactly_one_effect() {
        assert!(body(&[]).is_err());
        assert!(body(&["--hang", "--reset", "before"]).is_err());
        assert!(body(&["--hang", "--retry-after", "1s"]).is_err());
        assert!(body(&["--status", "many"]).unwrap_err().contains("410/1002"));
    }
}
